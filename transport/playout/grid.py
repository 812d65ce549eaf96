"""The deadline grid: when each block of sound is due.

The one idea: a deadline is the previous deadline plus the nominal period, never "now plus a
period". A loop that wakes 1 ms late each time would otherwise lose 2.9 s a minute. A stop (the
process was suspended, the machine slept) is not made up for by a burst: the deadlines that passed
are skipped whole, and the media they would have played is skipped with them.
"""

from __future__ import annotations

import math


class DeadlineGrid:
    """Deadlines `period` apart. Feed `start` once, then `take` at or after each `next`."""

    def __init__(self, period: float, *, max_overdue: float) -> None:
        self._period = period
        self._max_overdue = max_overdue
        self._origin: float | None = None
        self._taken = 0

    @property
    def next(self) -> float | None:
        """Seconds, monotonic: the next deadline; None before `start`."""
        if self._origin is None:
            return None
        return self._origin + self._taken * self._period

    def start(self, first: float) -> None:
        """Set the first deadline; all later ones follow from it."""
        self._origin = first
        self._taken = 0

    def stop(self) -> None:
        """Forget the grid; `next` is None until `start`."""
        self._origin = None
        self._taken = 0

    def overdue(self, now: float) -> float:
        """Seconds by which the next deadline has passed, 0 when it has not."""
        due = self.next
        return 0.0 if due is None else max(0.0, now - due)

    def take(self, now: float) -> tuple[float, int]:
        """The deadline now served, and how many before it were skipped.

        Deadlines up to `max_overdue` old are served one by one, so that a short hiccup loses no
        sound; past that all but the newest are skipped. Raises RuntimeError before `start`.
        """
        due = self.next
        if due is None:
            raise RuntimeError("no deadline to take: nothing has arrived yet (next_time() is None)")
        skipped = 0
        late = now - due
        if late > self._max_overdue:
            skipped = math.floor(late / self._period + 1e-9)
            due += skipped * self._period
        self._taken += skipped + 1
        return due, skipped
