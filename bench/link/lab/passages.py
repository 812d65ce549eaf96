"""What packets that were seen at both ends of a link tell about it.

One direction: packets as they left one end and as they reached the other, matched by a key of
what no link changes in them. From that come the same figures that a link model keeps of itself
(`model.LinkModel.stats`), of any link, real ones too.

The queue's delay is the one-way delay without propagation, without the packet's own time on the
wire and without what the bare link takes; so jitter, which happens behind the queue, stays in it.
What became of a packet that did not arrive is a judgement: the queue dropped it where the link
loses nothing by itself, or where its neighbours waited about as long as the queue allows.

Feed `sent` and `arrived`, the first before the second for each packet, and call `settle` now and
then; packets are accounted in the order in which they were sent.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass
from typing import Any

from ..packets import CONGESTION_EXPERIENCED
from ..series import BinnedBytes, DelayHistogram, PeakSeries
from ..spec import UDP_IPV4_OVERHEAD, LinkSpec

PATIENCE = 30.0
"""Seconds after which a packet that has not arrived is lost: no queue in use holds so much."""
SETTLING = 2.0
"""Seconds for which a packet that arrived is remembered: a duplicate comes within."""
MOST_PENDING = 200_000
"""Packets remembered at most, about 60 MB; beyond, the oldest count as they stand."""
NEIGHBOURS = 64
"""Packets looked at behind a lost one for the next that arrived."""
FULL_PACKET = 1500


@dataclass(slots=True)
class _Packet:
    key: bytes
    sent: float
    size: int
    ecn: int
    arrived: float | None = None
    marked: bool = False


class Passages:
    """One direction's account. Times are seconds on one clock for both ends."""

    def __init__(self, spec: LinkSpec, *, base_delay: float = 0.0) -> None:
        """`base_delay`: seconds that the bare link takes by itself."""
        self._spec = spec
        self._flight = spec.delay + base_delay
        self._order: deque[_Packet] = deque()
        self._by_key: dict[bytes, list[_Packet]] = {}
        self._zero: float | None = None
        self._offered = [0, 0]
        self._through = [0, 0]
        self._queue_dropped = [0, 0]
        self._lost = [0, 0]
        self._marked = self._duplicated = self._unknown = self._overtaking = 0
        self._latest_arrival = -math.inf
        self._last_wait = 0.0
        self._waits = DelayHistogram()
        self._delays = DelayHistogram()
        self._wait_series = PeakSeries()
        self._delay_series = PeakSeries()
        self._drop_series = PeakSeries(limit=1024)
        self._through_bins = BinnedBytes()

    def start(self, at: float) -> None:
        """Link time 0: packets sent before are no part of the account."""
        self._zero = at

    def sent(self, key: bytes, *, time: float, size: int, ecn: int = 0) -> None:
        """A packet of `size` bytes from its IP header on left the one end."""
        size += self._spec.overhead_bytes - UDP_IPV4_OVERHEAD
        packet = _Packet(key, time, size, ecn)
        self._order.append(packet)
        self._by_key.setdefault(key, []).append(packet)

    def arrived(self, key: bytes, *, time: float, ecn: int = 0) -> None:
        """A packet reached the other end."""
        candidates = self._by_key.get(key, ())
        for packet in candidates:
            if packet.arrived is None:
                packet.arrived = time
                packet.marked = ecn == CONGESTION_EXPERIENCED != packet.ecn
                return
        if self._zero is not None and time >= self._zero:
            if candidates:
                self._duplicated += 1
            else:
                self._unknown += 1

    def settle(self, now: float) -> None:
        """Account for all whose fate is known by `now`; infinity: for all there are."""
        while self._order:
            packet = self._order[0]
            age = now - packet.sent
            wait = PATIENCE if packet.arrived is None else SETTLING
            if age < wait and len(self._order) <= MOST_PENDING:
                return
            self._order.popleft()
            same = self._by_key[packet.key]
            same.remove(packet)
            if not same:
                del self._by_key[packet.key]
            if self._zero is not None and packet.sent >= self._zero:
                self._account(packet, packet.sent - self._zero)

    def _account(self, packet: _Packet, at: float) -> None:
        _count(self._offered, packet)
        if packet.arrived is None:
            if self._was_queue(packet, at):
                _count(self._queue_dropped, packet)
                self._drop_series.add(at, 1.0)
            else:
                _count(self._lost, packet)
            return
        _count(self._through, packet)
        self._marked += packet.marked
        self._overtaking += packet.arrived < self._latest_arrival
        self._latest_arrival = max(self._latest_arrival, packet.arrived)
        delay = packet.arrived - packet.sent
        self._last_wait = self._wait(packet, at)
        self._waits.add(self._last_wait)
        self._wait_series.add(at, self._last_wait)
        self._delays.add(delay)
        self._delay_series.add(at, delay)
        self._through_bins.add(at + delay - self._flight, packet.size)

    def _wait(self, packet: _Packet, at: float) -> float:
        """The queue's part of the delay of a packet that arrived."""
        before_flight = (packet.arrived or packet.sent) - packet.sent - self._flight
        return max(0.0, before_flight - self._wire_time(packet.size, at + before_flight))

    def _wire_time(self, size: int, at: float) -> float:
        rate = self._rate(at)
        return 0.0 if math.isinf(rate) or rate <= 0.0 else size * 8.0 / rate

    def _rate(self, at: float) -> float:
        at = max(0.0, at)
        return self._spec.rate_at(at) if self._spec.opportunities else self._nominal(at)

    def _nominal(self, at: float) -> float:
        return self._spec.curve.nominal_rate_at(at)

    def _was_queue(self, packet: _Packet, at: float) -> bool:
        """Whether the queue is what a packet that did not arrive was lost to."""
        spec = self._spec
        if not (spec.steps or spec.opportunities):
            return False
        if spec.loss is None and not spec.corrupt:
            return True
        limit = self._wire_time(1, at) * spec.limit_bytes(at)
        if spec.queue_packets is not None:
            limit = min(limit, self._wire_time(packet.size, at) * spec.queue_packets)
        following = itertools.islice(self._order, NEIGHBOURS)
        after = next((p for p in following if p.arrived is not None), None)
        next_wait = 0.0 if after is None else self._wait(after, at)
        return max(self._last_wait, next_wait) >= limit - self._wire_time(2 * FULL_PACKET, at)

    def stats(self, *, now: float) -> dict[str, Any]:
        """The account up to `now`, laid out as a link model's, and the one-way delays."""
        length = 0.0 if self._zero is None else max(0.0, now - self._zero)
        spec = self._spec
        capacity = spec.capacity_bytes(0.0, length)
        return {
            "offered": _pair(self._offered),
            "through": _pair(self._through),
            "dropped": {
                "queue": _pair(self._queue_dropped),
                "loss": _pair(self._lost),
                "limit": {"packets": 0},
            },
            "marked": self._marked,
            "duplicated": self._duplicated,
            "corrupted": self._unknown,
            "overtaking": self._overtaking,
            "delay_ms": _milli(spec.delay),
            "rate_bps": [[at, rate] for at, rate in spec.rate_steps(until=length)],
            "capacity_bytes": round(capacity) if math.isfinite(capacity) else None,
            "queue_delay_ms": _quantiles(self._waits),
            "one_way_delay_ms": _quantiles(self._delays),
            "series": {
                "queue_delay_ms": _points(self._wait_series),
                "one_way_delay_ms": _points(self._delay_series),
                "queue_drops_s": [round(t, 4) for t, _ in self._drop_series.points],
                "through_bytes": {
                    "width_s": self._through_bins.width,
                    "bins": self._through_bins.bins,
                },
            },
        }


def _count(pair: list[int], packet: _Packet) -> None:
    pair[0] += 1
    pair[1] += packet.size


def _pair(pair: list[int]) -> dict[str, int]:
    return {"packets": pair[0], "bytes": pair[1]}


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)


def _quantiles(delays: DelayHistogram) -> dict[str, float | None]:
    return {
        "p50": _milli(delays.quantile(0.50)),
        "p95": _milli(delays.quantile(0.95)),
        "max": _milli(delays.quantile(1.0)),
    }


def _points(series: PeakSeries) -> list[list[float]]:
    return [[round(t, 4), round(v * 1e3, 3)] for t, v in series.points]
