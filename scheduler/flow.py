"""One flow: a queue, its place in the fair share, and what is known of its traffic.

A flow is what competes for the link: usually a track, or one layer of it.
"""

from __future__ import annotations

import math

from .fair_share import Share
from .object_queue import ObjectQueue
from .types import ShedReason

ARRIVAL_TIME_CONSTANT_S = 0.5
"""Memory of the arrival rate: a few video frames, so that one frame does not look like a rate,
and short enough to see a talker start."""


class Flow:
    """The state of one flow; the scheduler owns it and is the only one to change it."""

    __slots__ = (
        "_arrived",
        "_arrived_at",
        "available",
        "base",
        "importance",
        "layer",
        "max_queue_bytes",
        "max_queue_objects",
        "number",
        "queue",
        "review_at",
        "reviewed_rate",
        "sent_bytes",
        "sent_objects",
        "share",
        "shed",
        "track",
        "wasted_bytes",
    )

    def __init__(
        self,
        number: int,
        *,
        track: str,
        base: float,
        layer: int | None,
        max_queue_bytes: int,
        max_queue_objects: int,
    ) -> None:
        if not 0.0 <= base <= 1.0:
            raise ValueError(f"a flow's base importance is in [0, 1], got {base!r}")
        if max_queue_bytes < 1 or max_queue_objects < 1:
            raise ValueError(
                "a flow's queue holds at least one byte and one object, got "
                f"max_queue_bytes={max_queue_bytes}, max_queue_objects={max_queue_objects}"
            )
        self.number = number
        self.track = track
        self.layer = layer
        self.base = base
        self.max_queue_bytes = max_queue_bytes
        self.max_queue_objects = max_queue_objects
        self.queue = ObjectQueue()
        self.share = Share()
        self.importance = base
        self.available = 0.0
        """Bytes per second this flow can count on; 0 while the link's rate is unknown."""
        self.review_at = -math.inf
        """When (seconds) an object could first have become hopeless."""
        self.reviewed_rate = 0.0
        """The `available` that `review_at` was computed with."""
        self.sent_bytes = 0
        self.sent_objects = 0
        self.shed: dict[ShedReason, int] = {}
        self.wasted_bytes = 0
        """Bytes that had left of objects given up: what shedding came too late for."""
        self._arrived = 0.0
        self._arrived_at = -math.inf

    def note_arrival(self, n_bytes: int, *, now: float) -> None:
        """Count an object's bytes into the arrival rate."""
        self._arrived = self._arrived * self._kept(now) + n_bytes
        self._arrived_at = max(self._arrived_at, now)

    def arrival_rate(self, now: float) -> float:
        """Bytes per second that were queued lately (exponentially weighted)."""
        if self._arrived == 0.0:
            return 0.0
        return self._arrived * self._kept(now) / ARRIVAL_TIME_CONSTANT_S

    def _kept(self, now: float) -> float:
        age = now - self._arrived_at
        return math.exp(-age / ARRIVAL_TIME_CONSTANT_S) if age > 0.0 else 1.0
