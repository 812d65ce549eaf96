"""How late the tick runs: a histogram of fixed size, so hours of ticks cost no memory."""

from __future__ import annotations

import numpy as np

BIN = 1e-5
BINS = 5000
"""10 µs to 50 ms; later ones count in the last bin."""


class LatenessHistogram:
    """Percentiles of a non-negative time in seconds, exact to 10 µs up to 50 ms."""

    def __init__(self) -> None:
        self._counts = np.zeros(BINS, dtype=np.int64)
        self._max = 0.0

    def add(self, seconds: float) -> None:
        """Count one value; negative ones count as zero."""
        self._counts[min(BINS - 1, max(0, int(seconds / BIN)))] += 1
        self._max = max(self._max, seconds)

    @property
    def count(self) -> int:
        """How many values were added."""
        return int(self._counts.sum())

    @property
    def maximum(self) -> float:
        """The largest value in seconds."""
        return self._max

    def percentile(self, q: float) -> float | None:
        """The value below which `q` percent lie, in seconds; None when empty."""
        total = self.count
        if total == 0:
            return None
        index = int(np.searchsorted(np.cumsum(self._counts), total * q / 100.0))
        return (min(index, BINS - 1) + 1) * BIN
