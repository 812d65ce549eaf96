"""The base delay: what a packet takes when nothing queues.

A sliding minimum over one-way delays. Both ends' clocks differ by an unknown offset and drift by
up to some hundred ppm, and a path can become longer for good, so a minimum only counts for
`WINDOW` seconds: drift of 300 ppm moves it by 3 ms in that time, and a lengthened path is
believed after it (the same trade as RFC 6817 section 4.2 makes with its base history).
"""

from __future__ import annotations

from collections import deque

WINDOW = 10.0
"""Seconds a minimum stays valid."""
BUCKET = 0.5
"""Seconds over which one minimum is kept; bounds the memory to WINDOW / BUCKET entries."""


class BaseDelay:
    """Sliding-window minimum in buckets. Delays may be negative: clocks differ."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[float, float]] = deque()

    def add(self, delay: float, *, now: float) -> float:
        """Take one one-way delay in seconds and return the base delay."""
        if self._buckets and now - self._buckets[-1][0] < BUCKET:
            start, least = self._buckets[-1]
            self._buckets[-1] = (start, min(least, delay))
        else:
            self._buckets.append((now, delay))
        while len(self._buckets) > 1 and now - self._buckets[0][0] > WINDOW:
            self._buckets.popleft()
        return self.value

    @property
    def value(self) -> float:
        """The base delay in seconds. Raises ValueError before the first sample."""
        return min(least for _, least in self._buckets)
