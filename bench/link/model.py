"""One direction of a link as a pure model: packets and times in, packets out, no clock, no socket.

A packet meets, in this order: the drop-tail queue of the bottleneck, its serialization at the rate
of the moment, loss, propagation. Because the queue is first in, first out and nothing jumps it,
everything about a packet is known when it is pushed; what remains is to hand it out when due.
A later driver (virtual clock, UDP proxy, TUN) only decides what the clock is.

Drive it so: `push` each packet when it comes, ask `next_event` when to look again, `pop` what is
due. `now` never runs backwards. The link's own time starts at the first push (or at `start`), and
rate steps count from there.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .loss import LossProcess
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
    """Found the queue full."""
    queue_dropped_bytes: int = 0
    lost_packets: int = 0
    """Taken by the loss model, after they used the link."""
    lost_bytes: int = 0


class LinkModel(Generic[PacketT]):
    """A seeded link direction for packets of any type (bytes, or bytes with their address)."""

    def __init__(self, spec: LinkSpec, seed: int = 1) -> None:
        self.spec = spec
        self.counters = LinkCounters()
        self.queue_delay = DelayHistogram()
        """Seconds each accepted packet waited before its first bit left."""
        self.queue_series = PeakSeries()
        """(link time, the same wait) over the run."""
        self.drop_series = PeakSeries(limit=1024)
        """(link time, 1.0) where the queue dropped."""
        self.through = BinnedBytes()
        """Bytes that left the bottleneck over link time."""
        self.started: float | None = None
        """The caller's clock at link time 0; None before the first packet."""
        self._loss = LossProcess(spec.loss, seed=seed)
        self._free = 0.0
        self._waiting: deque[tuple[float, int, bool]] = deque()
        self._waiting_bytes = 0
        self._flying: deque[tuple[float, PacketT]] = deque()

    def start(self, *, now: float) -> None:
        """Let link time begin at `now`; later calls change nothing."""
        if self.started is None:
            self.started = now

    def push(self, packet: PacketT, *, now: float, size: int | None = None) -> bool:
        """Offer a packet; False when the queue was full. `size`: payload bytes if not `bytes`.

        A packet that meets an empty queue is always taken, however large.
        """
        if size is None:
            if not isinstance(packet, (bytes, bytearray, memoryview)):
                raise TypeError(f"a {type(packet).__name__} needs its size in bytes, pass size=")
            size = len(packet)
        self.start(now=now)
        time = now - (self.started or 0.0)
        size += self.spec.overhead_bytes
        lost = self._loss.lost()
        self.counters.offered_packets += 1
        self.counters.offered_bytes += size
        self._serve(time)
        full = self._waiting_bytes + size > self.spec.limit_bytes(time)
        if full and self._waiting:
            self.counters.queue_dropped_packets += 1
            self.counters.queue_dropped_bytes += size
            self.drop_series.add(time, 1.0)
            return False
        begin = max(self._free, time)
        left = self.spec.finish(begin, size)
        self._free = left
        self._waiting.append((left, size, lost))
        self._waiting_bytes += size
        if math.isfinite(begin):
            self.queue_delay.add(begin - time)
            self.queue_series.add(time, begin - time)
        if not lost:
            self._flying.append((left + self.spec.delay, packet))
        return True

    def pop(self, *, now: float) -> list[PacketT]:
        """The packets that have reached the far end by `now`, in the order they were pushed."""
        if self.started is None:
            return []
        time = now - self.started
        self._serve(time)
        out: list[PacketT] = []
        # The sum started + due may round below the due time it names: due there means due.
        while self._flying and self._flying[0][0] + self.started <= now:
            out.append(self._flying.popleft()[1])
        return out

    def next_event(self) -> float | None:
        """When the next packet is due at the far end, on the caller's clock; None if none is."""
        if not self._flying or self.started is None or math.isinf(self._flying[0][0]):
            return None
        return self._flying[0][0] + self.started

    def _serve(self, time: float) -> None:
        while self._waiting and self._waiting[0][0] <= time:
            left, size, lost = self._waiting.popleft()
            self._waiting_bytes -= size
            if lost:
                self.counters.lost_packets += 1
                self.counters.lost_bytes += size
            else:
                self.counters.through_packets += 1
                self.counters.through_bytes += size
                self.through.add(left, size)

    def stats(self, *, now: float) -> dict[str, Any]:
        """Counters and series up to `now`, JSON-safe; layout in bench/README.md."""
        started = now if self.started is None else self.started
        self._serve(now - started)
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
            },
            "delay_ms": milli(spec.delay),
            "rate_bps": [[step.at, step.rate_bps] for step in spec.steps],
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
