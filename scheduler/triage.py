"""Which objects are beyond help: they cost no further bytes, so that others arrive in time.

An object arrives at now + (its bytes and those ahead of it in its flow) / rate + one-way delay.
The rate is what its flow can count on: its weighted share of the link among the flows that have
something to send, or what flows of higher weight leave over, whichever is more. The estimate is
on the hopeful side (flows of equal weight are not subtracted), since giving up too early cannot
be undone, while an object kept in vain is still shed at its deadline. One that has started is
given up only when its own rest could not make it with the whole link to itself.

Looking at every object every millisecond would cost more than it saves. Each review computes when
an object could first become hopeless if nothing moved, and the flow is left alone until then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from .flow import Flow
from .types import MediaObject, ShedReason

RATES_EVERY_S = 0.005
"""Rates per flow move with arrivals over 0.5 s, so 5 ms are 1 %; at 16 flows this costs 15 µs."""

RATE_TOLERANCE = 0.95
"""A flow whose rate fell below this part of the reviewed one is reviewed at once."""


class Triage:
    """Holds what is believed of the link and judges objects by it."""

    __slots__ = ("_rated_at", "link_rate", "one_way_delay")

    def __init__(self) -> None:
        self.link_rate = 0.0
        """Bytes per second; 0 while unknown."""
        self.one_way_delay = 0.0
        """Seconds."""
        self._rated_at = -math.inf

    def set_link(self, *, rate_bps: float | None, one_way_delay: float) -> None:
        """Bits per second (None or 0: unknown) and seconds; ValueError when negative or nan."""
        rate = rate_bps or 0.0
        if not rate >= 0.0:
            raise ValueError(f"a link's rate is at least 0 bit/s, got {rate_bps!r}")
        if not 0.0 <= one_way_delay < math.inf:
            raise ValueError(f"a one-way delay is at least 0 s, got {one_way_delay!r}")
        if rate / 8.0 != self.link_rate:
            self.link_rate = rate / 8.0
            self._rated_at = -math.inf
        self.one_way_delay = one_way_delay

    def weights_moved(self) -> None:
        """A tag or a flow came or went: the rates per flow are due."""
        self._rated_at = -math.inf

    def freshen(self, flows: Mapping[int, Flow], active: Mapping[int, Flow], now: float) -> None:
        """Estimate the bytes per second that each flow can count on, when that is due."""
        if 0.0 <= now - self._rated_at < RATES_EVERY_S:
            return
        self._rated_at = now
        competing = sum(flow.share.weight for flow in active.values())
        above = 0.0  # arrival rate of all flows of strictly higher weight
        level = 0.0  # that of the flows of the present weight
        last_weight = math.inf
        for flow in sorted(flows.values(), key=_heaviest_first):
            weight = flow.share.weight
            if weight < last_weight:
                above, level, last_weight = above + level, 0.0, weight
            level += flow.arrival_rate(now)
            total = competing if flow.number in active else competing + weight
            flow.available = max(self.link_rate * weight / total, self.link_rate - above)

    def verdict(
        self, flow: Flow, obj: MediaObject, now: float, *, ahead: int = 0
    ) -> ShedReason | None:
        """Why an object with `ahead` bytes before it should be given up, or None."""
        if obj.deadline < now:
            return ShedReason.EXPIRED
        if self.link_rate > 0.0 and self._latest_start(flow, obj, ahead) < now:
            return ShedReason.HOPELESS
        return None

    def admit(self, flow: Flow, obj: MediaObject) -> None:
        """An object is about to be queued: it may be the first to become hopeless."""
        entries = flow.queue.entries
        if entries and entries[-1][0] > obj.deadline:
            flow.review_at = -math.inf  # it delays what comes after it
            return
        if not entries:
            flow.review_at, flow.reviewed_rate = math.inf, flow.available
        flow.review_at = min(flow.review_at, self._due(flow, obj, flow.queue.total_bytes))

    def due(self, flows: Iterable[Flow], now: float) -> list[Flow]:
        """The flows of which some object may have become hopeless or expired."""
        arrival = now + self.one_way_delay
        return [
            flow
            for flow in flows
            if arrival > flow.review_at
            or flow.available < flow.reviewed_rate * RATE_TOLERANCE
            or flow.reviewed_rate == 0.0 < flow.available  # the link's rate has become known
        ]

    def review(self, flow: Flow, now: float) -> list[tuple[MediaObject, ShedReason]]:
        """What to give up of a flow, in order of deadlines; sets when to look again.

        The caller sheds these with their dependents, some of which may be on the list as well.
        """
        doomed: list[tuple[MediaObject, ShedReason]] = []
        ahead = 0
        review_at = math.inf
        for _, _, obj in flow.queue.entries:
            reason = self.verdict(flow, obj, now, ahead=ahead)
            if reason is not None:
                doomed.append((obj, reason))
                continue
            review_at = min(review_at, self._due(flow, obj, ahead))
            ahead += obj.remaining
        flow.review_at = review_at
        flow.reviewed_rate = flow.available
        return doomed

    def _latest_start(self, flow: Flow, obj: MediaObject, ahead: int) -> float:
        """When (seconds) service of what is ahead of the object has to begin."""
        return self._due(flow, obj, ahead) - self.one_way_delay

    def _due(self, flow: Flow, obj: MediaObject, ahead: int) -> float:
        """The latest start without the one-way delay, which may move between reviews."""
        if self.link_rate <= 0.0:
            return obj.deadline
        if obj.sent_bytes > 0:
            return obj.deadline - obj.remaining / self.link_rate
        return obj.deadline - (ahead + obj.remaining) / flow.available


def _heaviest_first(flow: Flow) -> float:
    return -flow.share.weight
