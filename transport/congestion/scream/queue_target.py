"""How much queue to tolerate: more when others fill it (SCReAMv2 section 4.4).

A loss-based flow fills a deep queue whatever this end does; with a fixed low target this end would
starve. A queue that is high but steady, or loss, says that such a flow is there.
"""

from __future__ import annotations

from collections import deque

from .settings import ScreamSettings

HISTORY = 200
RECENT = 50
STEADY = 0.2
"""Variance of the normalized queue delay below which it counts as steady."""
LOSS_EVENTS = 0.002
"""Loss event rate above which a competing flow is assumed."""


class QueueTarget:
    """Keeps `value`, the queue delay target in seconds."""

    def __init__(self, settings: ScreamSettings) -> None:
        self._settings = settings
        self._history: deque[float] = deque(maxlen=HISTORY)
        self._sum = 0.0
        self._squares = 0.0
        self.value = settings.queue_target_low

    def add(self, queue_delay: float, *, loss_event_rate: float) -> None:
        """One queue delay sample per round trip, in seconds."""
        low, high = self._settings.queue_target_low, self._settings.queue_target_high
        if not self._settings.compensate_competing:
            return
        sample = queue_delay / low
        if len(self._history) == HISTORY:
            oldest = self._history[0]
            self._sum -= oldest
            self._squares -= oldest * oldest
        self._history.append(sample)
        self._sum += sample
        self._squares += sample * sample
        count = len(self._history)
        mean = self._sum / count
        variance = max(0.0, self._squares / count - mean * mean)
        recent = list(self._history)[-RECENT:]
        proposed = (sum(recent) / len(recent) + variance**0.5) * low
        if loss_event_rate > LOSS_EVENTS:
            self.value = 1.5 * proposed
        elif variance < STEADY:
            self.value = proposed
        elif proposed < low:
            self.value = max(self.value * 0.5, proposed)
        else:
            self.value *= 0.9
        self.value = max(low, min(high, self.value))
