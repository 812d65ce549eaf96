"""Pairs of session cores that share one modelled link, stepped from event to event.

Only the clock is not real: QUIC, its encryption, the scheduler and the controllers are the
product's own. Packets are as long as on a wire, but for those of the handshake: signatures differ
by some bytes each time, so these count as full, and what is measured depends on nothing random.
One thing is left: where packets are lost, aioquic repairs streams in the order of a set, by their
places in memory, so over a lossy profile equal seeds give runs that are alike and not the same.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...scheduler.types import MediaObject, ObjectId
from ...transport.core import SessionCore
from ...transport.events import Event, ObjectReceived, TrackInfo, TrackOffered
from ...transport.quic.tls import Certificate, Trust, make_certificate
from ...transport.settings import SessionSettings
from ...transport.wire import ObjectHeader
from ..link.model import LinkModel
from ..link.profile import LinkProfile

BEGIN = 100.0
"""The clock's first moment: at 0 s, "long ago" would not exist."""
SENDER, RECEIVER = ("10.0.0.1", 1000), ("10.0.0.2", 2000)
FULL_PACKET = 1200
LONG_HEADER = 0x80
"""The bit that packets of the handshake have in their first byte (RFC 9000 section 17.2)."""
STEP = 1e-9
"""Seconds by which an end's clock is on, so that due times survive rounding."""


class Packet(NamedTuple):
    """One UDP payload under way."""

    flow: int
    data: bytes


@dataclass(slots=True)
class Arrival:
    """An object that is complete at its receiver; times are the world's, seconds."""

    track: int
    index: int
    captured: float
    at: float
    size: int


@dataclass(slots=True)
class Flow:
    """One sender and its receiver."""

    number: int
    sender: SessionCore
    receiver: SessionCore | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    due: dict[bool, float | None] = field(default_factory=lambda: {True: None, False: None})
    """When each end (True: the sender) wants to be woken."""

    def core(self, *, is_sender: bool) -> SessionCore | None:
        """One end; None for a receiver that has heard nothing yet."""
        return self.sender if is_sender else self.receiver


class World:
    """A link, its flows, and calls that are due. `run` steps them."""

    def __init__(self, profile: LinkProfile, *, seed: int = 1) -> None:
        self.now = BEGIN
        self.flows: list[Flow] = []
        self.down = LinkModel[Packet](profile.down, seed)
        """From the senders."""
        self.up = LinkModel[Packet](profile.up, seed + 1)
        self.dropped: list[tuple[float, int, int]] = []
        """(time, flow, bytes) of what found the queue full."""
        self._certificate: Certificate = make_certificate()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self.down.start(now=self.now)
        self.up.start(now=self.now)

    @property
    def time(self) -> float:
        """Link time, seconds."""
        return self.now - BEGIN

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Do something at a link time."""
        heapq.heappush(self._calls, (BEGIN + time, next(self._count), call))

    def add_flow(self, settings: SessionSettings | None = None) -> Flow:
        """A sender that connects now."""
        sender = SessionCore(
            settings=settings or SessionSettings(),
            trust=Trust(fingerprint=self._certificate.fingerprint),
        )
        flow = Flow(len(self.flows), sender)
        self.flows.append(flow)
        sender.connect(RECEIVER, now=self._clock)
        self._flush(flow, is_sender=True)
        return flow

    def offer(self, flow: Flow, number: int, name: str, *, media: str, importance: float) -> None:
        """Announce a track; its receiver takes it as soon as it hears of it."""
        flow.sender.announce(TrackInfo(number, name, media, {}))
        flow.sender.scheduler.add_flow(number, track=name, base=importance)
        self._flush(flow, is_sender=True)

    def send(
        self, flow: Flow, track: int, index: int, size: int, *, deadline: float, importance: float
    ) -> None:
        """Queue one object of `size` bytes, captured now; `deadline` is seconds from now."""
        now, object_id = self._clock, ObjectId(track, 0, index)
        header = ObjectHeader(
            id=object_id,
            captured=now,
            duration=0.02,
            deadline=deadline,
            importance=importance,
            size=size,
            sequence=index,
            depends_on=(),
        )
        obj = MediaObject(
            id=object_id,
            payload=header.encode() + bytes(size),
            captured=now,
            deadline=now + deadline,
            depends_on=(),
        )
        flow.sender.send_object(obj, delivery="auto", now=now)
        self._flush(flow, is_sender=True)

    def run(self, until: float) -> None:
        """Step to a link time."""
        end = BEGIN + until
        while True:
            upcoming = min(
                self._calls[0][0] if self._calls else math.inf,
                _or_never(self.down.next_event()),
                _or_never(self.up.next_event()),
                *(_or_never(due) for flow in self.flows for due in flow.due.values()),
            )
            if upcoming > end:
                self.now = end
                return
            self.now = max(self.now, upcoming)
            while self._calls and self._calls[0][0] <= self.now:
                heapq.heappop(self._calls)[2]()
            touched = self._deliver()
            for flow in self.flows:
                for is_sender, due in flow.due.items():
                    core = flow.core(is_sender=is_sender)
                    if core is not None and due is not None and due <= self.now:
                        core.handle_timeout(now=self._clock)
                        touched.add((flow.number, is_sender))
            for number, is_sender in sorted(touched):
                self._flush(self.flows[number], is_sender=is_sender)

    @property
    def _clock(self) -> float:
        return self.now + STEP

    def _deliver(self) -> set[tuple[int, bool]]:
        touched = set()
        for number, data in self.down.pop(now=self.now):
            flow = self.flows[number]
            if flow.receiver is None:
                flow.receiver = SessionCore(
                    settings=SessionSettings(),
                    certificate=self._certificate,
                    original_destination_connection_id=data[6 : 6 + data[5]],
                )
            flow.receiver.receive(data, SENDER, now=self._clock)
            touched.add((number, False))
        for number, data in self.up.pop(now=self.now):
            self.flows[number].sender.receive(data, RECEIVER, now=self._clock)
            touched.add((number, True))
        return touched

    def _flush(self, flow: Flow, *, is_sender: bool) -> None:
        core = flow.core(is_sender=is_sender)
        if core is None:
            return
        link = self.down if is_sender else self.up
        for data, _ in core.transmit(now=self._clock):
            packet = Packet(flow.number, data)
            size = max(FULL_PACKET, len(data)) if data[0] & LONG_HEADER else len(data)
            taken = link.push(packet, now=self.now, size=size, flow=flow.number)
            if not taken and is_sender:
                self.dropped.append((self.time, flow.number, len(data)))
        for event in core.events():
            if not is_sender:
                self._on_event(flow, core, event)
        due = core.next_timeout(now=self._clock)
        flow.due[is_sender] = None if due is None else max(self.now + STEP, due - STEP)

    def _on_event(self, flow: Flow, core: SessionCore, event: Event) -> None:
        if isinstance(event, ObjectReceived):
            header = event.header
            flow.arrivals.append(
                Arrival(
                    header.id.track,
                    header.id.index,
                    header.captured - BEGIN,
                    self.time,
                    header.size,
                )
            )
        elif isinstance(event, TrackOffered):
            core.subscribe(event.track.number)


def _or_never(time: float | None) -> float:
    return math.inf if time is None else time
