"""From the scheduler into packets, at the last moment.

`Outgoing` is the adapter's `PacketSource`: for each packet it asks the scheduler whose bytes
leave next and writes exactly what fits. One object is one unidirectional stream, or one DATAGRAM
when a lost one could not be repaired in time anyway. Objects that are given up halfway, and
streams whose repair would come too late, are reset.
"""

from __future__ import annotations

from collections import Counter

from ..scheduler.scheduler import Scheduler
from ..scheduler.types import MediaObject, ObjectId, Sent, Shed
from .quic.adapter import MediaQuic
from .quic.packet_room import PacketRoom
from .wire import OBJECT

MAX_LIVE_STREAMS = 200
"""Own streams open at once. A packet costs 76 µs with 100 open streams and 250 with 500
(measured on aioquic 1.7.2), so more would slow down everything."""
SHED_CODE = 0x10
"""RESET_STREAM code of an object that was given up."""
SMALLEST_PIECE = 300
"""With the congestion window nearly used up, wait rather than cut pieces below this size: the
packet's own overhead would be a tenth of it and more."""
SWEEP_INTERVAL = 0.02
"""Seconds between looks at streams that were sent and may have expired."""


class Outgoing:
    """Sends what the scheduler picks. Call `settle` after each batch of packets."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.counts: Counter[str] = Counter()
        """Objects by what became of them: sent, datagrams, streams, resets, ..."""
        self.starved = False
        """True when the last packet could not be filled for want of the peer's credit."""
        self._open: dict[int, MediaObject] = {}
        self._next_sweep = 0.0

    def wants_datagram(
        self, size: int, deadline: float, quic: MediaQuic, *, delivery: str, now: float
    ) -> bool:
        """Whether an object of `size` bytes should travel as a DATAGRAM.

        On "auto", a stream is used as long as a lost packet could still be repaired before the
        deadline: detection takes a round trip and a quarter (RFC 9002 section 6.1.2), the
        repair half of one, the packet itself another half.
        """
        if delivery == "stream":
            return False
        fits = size + 1 <= quic.datagram_limit
        if delivery == "datagram":
            if not fits:
                self.counts["datagram_fallback"] += 1
            return fits
        round_trip = quic.smoothed_rtt
        return fits and round_trip is not None and deadline - now < 2.25 * round_trip + 0.01

    # -- adapter.PacketSource

    def fill(self, packet: PacketRoom, *, now: float) -> None:
        """Write what should leave next into one packet."""
        scheduler = self.scheduler
        self.starved = False

        def fits(obj: MediaObject) -> bool:
            return packet.datagram_fits(len(obj.payload) + 1)

        while packet.room > 8:
            obj = scheduler.pick(now=now, fits=fits)
            if obj is None:
                return
            if obj.atomic:
                packet.write_datagram(bytes((OBJECT,)) + obj.payload)
                self.counts["datagrams"] += 1
                scheduler.commit(obj, len(obj.payload), now=now)
                continue
            if obj.stream_id is None and len(self._open) >= MAX_LIVE_STREAMS:
                self.starved = True
                return
            room = packet.stream_room(obj.stream_id, obj.sent_bytes)
            size = min(room, obj.remaining)
            if size <= 0:
                self.starved = packet.room > SMALLEST_PIECE
                return
            last = size == obj.remaining
            if packet.shortened and not last and size < SMALLEST_PIECE:
                return
            data = obj.payload[obj.sent_bytes : obj.sent_bytes + size]
            obj.stream_id = packet.write_stream(obj.stream_id, obj.sent_bytes, data, fin=last)
            self._open[obj.stream_id] = obj
            scheduler.commit(obj, size, now=now)

    # -- afterwards

    def settle(self, quic: MediaQuic) -> list[Shed | Sent]:
        """Reset what was given up halfway; returns what became of objects since the last call."""
        events = self.scheduler.events()
        for event in events:
            if isinstance(event, Sent):
                self.counts["sent"] += 1
                continue
            self.counts[f"shed_{event.reason.value}"] += 1
            stream_id = event.object.stream_id
            if stream_id is not None:
                self.counts["resets"] += 1
                quic.abandon_stream(stream_id, SHED_CODE)
                self._open.pop(stream_id, None)
        return events

    def on_refused(self, stream_id: int, *, now: float) -> None:
        """The peer stopped reading a stream: what is left of its object is not sent.

        aioquic has reset the stream already, and takes no more bytes for it.
        """
        self.counts["refused_by_peer"] += 1
        obj = self._open.pop(stream_id, None)
        if obj is not None and obj.remaining:
            self.scheduler.cancel(obj.id, now=now)

    def next_sweep(self) -> float | None:
        """When `sweep` should run next; None while no stream is open."""
        return self._next_sweep if self._open else None

    def sweep(
        self, quic: MediaQuic, *, now: float, one_way: float = 0.0, anyway: bool = False
    ) -> list[ObjectId]:
        """Forget delivered streams; reset those whose repair would be too late, and name them.

        A repair sent now arrives `one_way` seconds later.

        Does nothing before `next_sweep`, except with `anyway`: packets have just been lost.
        """
        if now < self._next_sweep and not anyway:
            return []
        self._next_sweep = now + SWEEP_INTERVAL
        expired = []
        for stream_id, obj in list(self._open.items()):
            if not quic.stream_is_open(stream_id):
                del self._open[stream_id]
            elif (
                now + one_way > obj.deadline
                and obj.remaining == 0
                and quic.stream_needs_repair(stream_id)
            ):
                quic.abandon_stream(stream_id, SHED_CODE)
                self.counts["repairs_abandoned"] += 1
                del self._open[stream_id]
                expired.append(obj.id)
        return expired

    @property
    def open_streams(self) -> int:
        """Own streams that are not yet wholly acknowledged."""
        return len(self._open)
