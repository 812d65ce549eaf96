"""Bounded records of an unbounded run: a histogram for percentiles, series for plots.

A link sees millions of packets. Percentiles come from a histogram of fixed bins, so they count
every packet; plots come from series that halve their resolution when full, keeping the peak of
what they merge, because the worst moment is the one a reader looks for.
"""

from __future__ import annotations

import math

HISTOGRAM_BIN = 0.0005
"""Seconds per histogram bin: 0.5 ms is finer than any figure that is quoted from it."""
HISTOGRAM_BINS = 60_000
"""30 s; longer waits fall into the last bin."""


class DelayHistogram:
    """Percentiles of waits in seconds to within half a millisecond, in constant memory."""

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self.count = 0
        self.maximum = 0.0

    def add(self, wait: float) -> None:
        """Count one wait, seconds."""
        index = min(HISTOGRAM_BINS, max(0, math.ceil(wait / HISTOGRAM_BIN)))
        self._bins[index] = self._bins.get(index, 0) + 1
        self.count += 1
        self.maximum = max(self.maximum, wait)

    def quantile(self, q: float) -> float | None:
        """The wait that a share `q` of all does not exceed, rounded up; None when empty."""
        if not self.count:
            return None
        rank = max(1, math.ceil(q * self.count))
        seen = 0
        for index in sorted(self._bins):
            seen += self._bins[index]
            if seen >= rank:
                return min(index * HISTOGRAM_BIN, self.maximum)
        return self.maximum


class PeakSeries:
    """(time, value) samples in order of time; at the limit neighbours merge into the larger one."""

    def __init__(self, *, limit: int = 4096) -> None:
        self._limit = limit
        self._stride = 1
        self._pending = 0
        self.points: list[tuple[float, float]] = []

    def add(self, time: float, value: float) -> None:
        """Record one sample."""
        if self._pending and value <= self.points[-1][1]:
            pass
        elif self._pending:
            self.points[-1] = (time, value)
        else:
            self.points.append((time, value))
        self._pending = (self._pending + 1) % self._stride
        if len(self.points) > self._limit:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            odd = self.points[-1:] if len(self.points) % 2 else []
            self.points = [max(pair, key=lambda p: p[1]) for pair in pairs] + odd
            self._stride *= 2
            self._pending = 0


class BinnedBytes:
    """Bytes per stretch of time, from time 0; at the limit the stretches double."""

    def __init__(self, *, width: float = 0.1, limit: int = 4096) -> None:
        self.width = width
        """Seconds per bin."""
        self._limit = limit
        self.bins: list[int] = []

    def add(self, time: float, size_bytes: int) -> None:
        """Count bytes at `time` >= 0."""
        index = int(max(0.0, time) / self.width)
        while index >= self._limit:
            even, odd = self.bins[::2], self.bins[1::2]
            odd += [0] * (len(even) - len(odd))
            self.bins = [a + b for a, b in zip(even, odd, strict=True)]
            self.width *= 2
            index = int(max(0.0, time) / self.width)
        if index >= len(self.bins):
            self.bins += [0] * (index + 1 - len(self.bins))
        self.bins[index] += size_bytes
