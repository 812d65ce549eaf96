"""Delays counted in bounded memory, however long a session lasts."""

from __future__ import annotations

from collections import deque

BUCKET = 0.001
"""Seconds; what a summary shows is no finer."""
LONGEST = 10.0
"""Seconds; longer delays count as this."""


class DelayFigures:
    """Percentiles over all delays (1 ms steps), and the middle of the latest ones."""

    def __init__(self, *, recent: int = 50) -> None:
        self._buckets = [0] * (round(LONGEST / BUCKET) + 1)
        self._recent: deque[float] = deque(maxlen=recent)
        self.count = 0

    def add(self, seconds: float) -> None:
        """Count one delay; a clock offset that is not yet exact can make it negative: 0."""
        seconds = min(max(seconds, 0.0), LONGEST)
        self._buckets[round(seconds / BUCKET)] += 1
        self._recent.append(seconds)
        self.count += 1

    def percentile(self, percent: float) -> float | None:
        """Seconds not exceeded by `percent` (0 to 100) of the delays; None without any."""
        if self.count == 0:
            return None
        wanted, seen = self.count * percent / 100, 0
        for index, many in enumerate(self._buckets):
            seen += many
            if seen >= wanted and seen > 0:
                return index * BUCKET
        return LONGEST

    def recent(self) -> float | None:
        """The median of the latest delays in seconds; None without any."""
        return sorted(self._recent)[len(self._recent) // 2] if self._recent else None
