"""One direction of a link as a pure model: packets and times in, packets out, no clock, no socket.

A packet meets, in this order: the queue of the bottleneck, its serialization, then duplication,
loss, corruption and propagation (`spec.py` has every parameter). Drivers (virtual clock, UDP
proxy, TUN) only decide what the clock is.

Drive it so: `push` each packet when it comes, ask `next_event` when to look again, `pop` what is
due. `now` never runs backwards. The link's own time starts at the first push (or at `start`), and
rate steps count from there; a model made `held` keeps its first rate until `release` says that
link time 0 is now: whatever set up before it, in whatever time, is then no part of the run.

Because a queue without management is first in, first out and nothing jumps it, everything about a
packet is known when it is pushed; what remains is to hand it out when due. With CoDel or marking
a packet is decided about when it gets to the head of the queue; then `next_event` also names such
times, at which `pop` may yield nothing.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .aqm import Waiting, make_aqm
from .bottleneck import make_server
from .path import NANO, Copy, PathChances, flip_bit
from .series import BinnedBytes, DelayHistogram, PeakSeries
from .spec import LinkSpec

PacketT = TypeVar("PacketT")


@dataclass(slots=True)
class LinkCounters:
    """What became of the packets of one direction. Bytes include the spec's overhead."""

    offered_packets: int = 0
    offered_bytes: int = 0
    through_packets: int = 0
    """Left the bottleneck and were not lost."""
    through_bytes: int = 0
    queue_dropped_packets: int = 0
    """Found the queue full, or were dropped by its management."""
    queue_dropped_bytes: int = 0
    lost_packets: int = 0
    """Taken by the loss model, after they used the link."""
    lost_bytes: int = 0
    marked_packets: int = 0
    """Got a congestion mark (ECN)."""
    duplicated_packets: int = 0
    corrupted_packets: int = 0
    overtaking_packets: int = 0
    """Were let past those before them on purpose."""
    limit_dropped_packets: int = 0
    """Found `limit_packets` under way."""


class LinkModel(Generic[PacketT]):
    """A seeded link direction for packets of any type (bytes, or bytes with their address).

    `mark` sets a congestion mark on a packet that was pushed with `ect`, `damage` flips the bit
    of a given number (modulo its length); `damage` is needed only for packets that are not bytes.
    """

    def __init__(
        self,
        spec: LinkSpec,
        seed: int = 1,
        *,
        mark: Callable[[PacketT], PacketT] | None = None,
        damage: Callable[[PacketT, int], PacketT] | None = None,
        held: bool = False,
    ) -> None:
        self.spec = spec
        self._seed = seed
        self._mark = mark
        self._damage = damage
        self._origin: float | None = None
        """The caller's clock at the first packet: times in here count from it."""
        self._zero: float | None = None if held else 0.0
        """Link time 0, counted from the origin; None while it is held."""
        self._begin_account()
        self._number = 0
        self._server = make_server(spec, held=held)
        self._aqm = make_aqm(spec.aqm)
        self._waiting: deque[Waiting[PacketT]] = deque()
        self._fates: dict[int, tuple[Copy, ...]] = {}
        self._waiting_bytes = 0
        self._leaving: deque[tuple[float, int, bool]] = deque()  # when, bytes, lost
        self._leaving_bytes = 0
        self._flying: list[tuple[float, int, PacketT]] = []
        self._flights = 0
        self._under_way: list[float] = []
        self._last_due: dict[int, float] = {}

    @property
    def started(self) -> float | None:
        """The caller's clock at link time 0; of a held link, at its first packet. None: not yet."""
        return None if self._origin is None else self._origin + (self._zero or 0.0)

    def start(self, *, now: float) -> None:
        """Let link time begin at `now`; later calls change nothing."""
        if self._origin is None:
            self._origin = now

    def release(self, *, now: float) -> None:
        """Link time 0 of a held link is `now`: rate steps, chances and counts begin here.

        What is under way stays so. A `now` that has just passed will do. Raises ValueError when
        the link was not held.
        """
        if self._zero is not None:
            raise ValueError("only a link made with held=True can be released, and once")
        self.start(now=now)
        zero = now - (self._origin or 0.0)
        self._serve(zero)
        self._zero = zero
        self._server.restart(zero)
        self._begin_account()

    def _begin_account(self) -> None:
        self.counters = LinkCounters()
        self.queue_delay = DelayHistogram()
        """Seconds each accepted packet waited before its first bit left."""
        self.queue_series = PeakSeries()
        """(link time, the same wait) over the run."""
        self.drop_series = PeakSeries(limit=1024)
        """(link time, 1.0) where the queue dropped."""
        self.through = BinnedBytes()
        """Bytes that left the bottleneck over link time."""
        self._chances = PathChances(self.spec, seed=self._seed)

    def push(
        self,
        packet: PacketT,
        *,
        now: float,
        size: int | None = None,
        ect: bool = False,
        flow: int = 0,
    ) -> bool:
        """Offer a packet; False when the queue was full. `size`: payload bytes if not `bytes`.

        `ect`: it can carry a congestion mark. `flow`: which of `flow_delays` it has; order is
        kept within a flow. A packet that meets an empty queue is always taken, however large.
        """
        if size is None:
            if not isinstance(packet, (bytes, bytearray, memoryview)):
                raise TypeError(f"a {type(packet).__name__} needs its size in bytes, pass size=")
            size = len(packet)
        self.start(now=now)
        time = now - (self._origin or 0.0)
        size += self.spec.overhead_bytes
        number = self._number
        self._number += 1
        self.counters.offered_packets += 1
        self.counters.offered_bytes += size
        copies = self._chances.draw()
        self._serve(time)
        if self._full(size, time):
            self._drop(size, time)
            return False
        ect = ect and self._mark is not None
        self._fates[number] = copies
        self._waiting.append(Waiting(packet, time, size, ect, number, flow))
        self._waiting_bytes += size
        if self._aqm is None:
            self._begin(self._server.begin(time))
        else:
            self._serve(time)
        return True

    def pop(self, *, now: float) -> list[PacketT]:
        """The packets that have reached the far end by `now`, in the order they reached it."""
        if self._origin is None:
            return []
        self._serve(now - self._origin)
        out: list[PacketT] = []
        # The sum origin + due may round below the due time it names: due there means due.
        while self._flying and self._flying[0][0] + self._origin <= now:
            out.append(heapq.heappop(self._flying)[2])
        return out

    def next_event(self) -> float | None:
        """When to look again, on the caller's clock; None when nothing is under way."""
        if self._origin is None:
            return None
        due = self._flying[0][0] if self._flying else math.inf
        if self._waiting:  # a decision about the head of a managed queue
            due = min(due, self._server.begin(self._waiting[0].arrival))
        return None if math.isinf(due) else due + self._origin

    def _full(self, size: int, time: float) -> bool:
        held = len(self._waiting) + len(self._leaving)
        packets = self.spec.queue_packets
        if packets is not None and held >= packets:
            return True
        backlog = self._waiting_bytes + self._leaving_bytes
        return held > 0 and backlog + size > self.spec.limit_bytes(self._link_time(time))

    def _link_time(self, time: float) -> float:
        return 0.0 if self._zero is None else time - self._zero

    def _drop(self, size: int, time: float) -> None:
        self.counters.queue_dropped_packets += 1
        self.counters.queue_dropped_bytes += size
        self.drop_series.add(self._link_time(time), 1.0)

    def _serve(self, time: float) -> None:
        """Serve all that begins, and count all that leaves, by a link time."""
        # A due time that went through the caller's clock may come back a rounding error early.
        time += abs(time + (self._origin or 0.0)) * 4e-16
        while self._leaving or self._waiting:
            # What leaves by then is counted before the next begins: it may begin that instant.
            while self._leaving and self._leaving[0][0] <= time:
                self._count_departure()
            if not self._waiting:
                return
            begin = self._server.begin(self._waiting[0].arrival)
            if begin > time:
                return
            self._begin(begin)

    def _count_departure(self) -> None:
        left, size, lost = self._leaving.popleft()
        self._leaving_bytes -= size
        if lost:
            self.counters.lost_packets += 1
            self.counters.lost_bytes += size
        else:
            self.counters.through_packets += 1
            self.counters.through_bytes += size
            self.through.add(self._link_time(left), size)

    def _begin(self, begin: float) -> None:
        """Take the next packet from the queue and serve it from `begin` on."""
        if self._aqm is None:
            head = self._pull()
        else:
            head = self._aqm.choose(
                self._pull,
                lambda: self._waiting_bytes,
                lambda dropped: self._drop_from_queue(dropped, begin),
                now=begin,
            )
        if head is None:
            return
        left = self._server.serve(begin, head.size)
        copies = self._fates.pop(head.fate)
        self._leaving.append((left, head.size, not copies))
        self._leaving_bytes += head.size
        if math.isfinite(begin):
            wait = max(0.0, begin - head.arrival)
            self.queue_delay.add(wait)
            self.queue_series.add(self._link_time(head.arrival), wait)
        packet = head.packet
        if head.marked and self._mark is not None:
            self.counters.marked_packets += 1
            packet = self._mark(packet)
        self.counters.duplicated_packets += len(copies) > 1
        for copy in copies:
            self._fly(packet, copy, left, head.flow)

    def _pull(self) -> Waiting[PacketT] | None:
        if not self._waiting:
            return None
        head = self._waiting.popleft()
        self._waiting_bytes -= head.size
        return head

    def _drop_from_queue(self, dropped: Waiting[PacketT], time: float) -> None:
        del self._fates[dropped.fate]
        self._drop(dropped.size, time)

    def _fly(self, packet: PacketT, copy: Copy, left: float, flow: int) -> None:
        """Let one copy propagate."""
        if math.isinf(left):  # the link has stopped for good
            return
        limit = self.spec.limit_packets
        if limit is not None:
            while self._under_way and self._under_way[0] <= left:
                heapq.heappop(self._under_way)
            if len(self._under_way) >= limit:
                self.counters.limit_dropped_packets += 1
                return
        if copy.corrupt is not None:
            self.counters.corrupted_packets += 1
            packet = self._damaged(packet, copy.corrupt)
        due = left
        if copy.overtakes:
            self.counters.overtaking_packets += 1
        else:
            delays = self.spec.flow_delays
            delay = delays[flow % len(delays)] if delays else self.spec.delay
            due += max(0.0, delay + copy.variation / NANO)
            if self.spec.jitter and not self.spec.jitter_reorders:
                due = self._last_due[flow] = max(due, self._last_due.get(flow, 0.0))
        if limit is not None:
            heapq.heappush(self._under_way, due)
        self._flights += 1
        heapq.heappush(self._flying, (due, self._flights, packet))

    def _damaged(self, packet: PacketT, position: int) -> PacketT:
        if self._damage is not None:
            return self._damage(packet, position)
        if isinstance(packet, bytes):
            return flip_bit(packet, position)  # type: ignore[return-value]  # bytes for bytes
        raise TypeError(f"to corrupt a {type(packet).__name__}, the link needs damage=")

    def stats(self, *, now: float) -> dict[str, Any]:
        """Counters and series up to `now`, JSON-safe; layout in bench/README.md."""
        started = now if self.started is None else self.started
        self._serve(now - (started if self._origin is None else self._origin))
        c, spec, queue = self.counters, self.spec, self.queue_delay
        capacity = spec.capacity_bytes(0.0, now - started)

        def milli(seconds: float | None) -> float | None:
            return None if seconds is None else round(seconds * 1e3, 3)

        return {
            "offered": {"packets": c.offered_packets, "bytes": c.offered_bytes},
            "through": {"packets": c.through_packets, "bytes": c.through_bytes},
            "dropped": {
                "queue": {"packets": c.queue_dropped_packets, "bytes": c.queue_dropped_bytes},
                "loss": {"packets": c.lost_packets, "bytes": c.lost_bytes},
                "limit": {"packets": c.limit_dropped_packets},
            },
            "marked": c.marked_packets,
            "duplicated": c.duplicated_packets,
            "corrupted": c.corrupted_packets,
            "overtaking": c.overtaking_packets,
            "delay_ms": milli(spec.delay),
            "rate_bps": [[at, rate] for at, rate in spec.rate_steps(until=now - started)],
            "capacity_bytes": round(capacity) if math.isfinite(capacity) else None,
            "queue_delay_ms": {
                "p50": milli(queue.quantile(0.50)),
                "p95": milli(queue.quantile(0.95)),
                "max": milli(queue.maximum),
            },
            "series": {
                "queue_delay_ms": [
                    [round(t, 4), round(v * 1e3, 3)] for t, v in self.queue_series.points
                ],
                "queue_drops_s": [round(t, 4) for t, _ in self.drop_series.points],
                "through_bytes": {"width_s": self.through.width, "bins": self.through.bins},
            },
        }
