"""When media of a file are due: from one absolute start, never from the last sleep.

A loop that sleeps 20 ms each time slips by its own wake-ups, three seconds a minute where each
comes 1 ms late. Here a moment of the media is due at `origin + time`, and being late once makes
nothing after it late. When the process was stopped or starved, what is overdue is not sent in a
burst: the origin moves by the time that was lost, so the stamps jump and the media go on.
"""

from __future__ import annotations

STALL = 0.1
"""Seconds of lateness that are caught up: five audio frames, which a jitter buffer takes as
jitter. More than that is lost time."""


class MediaClock:
    """Maps times of the media to times to send at, for all sources that run together."""

    def __init__(self, origin: float) -> None:
        self._origin = origin
        self.stalls = 0
        self.lost = 0.0
        """Seconds by which the media were put off in all."""

    @property
    def origin(self) -> float:
        """The local time of the media's beginning, as moved by stalls so far."""
        return self._origin

    def due(self, time: float) -> float:
        """When a moment of the media is to be sent, if nothing stalls before."""
        return self._origin + time

    def stamp(self, time: float, *, now: float) -> float:
        """The capture time of a moment that is sent now; after a stall everything moves."""
        late = now - self.due(time)
        if late > STALL:
            self.stalls += 1
            self.lost += late
            self._origin += late
        return self._origin + time


class ArrivalClock:
    """Capture times for a device: its own stamps, tied to the earliest it was ever read.

    Reading is sometimes late and never early, so the smallest difference is the true one. It may
    grow by `DRIFT` for clocks that differ, and starts anew after a gap.
    """

    DRIFT = 0.0005
    """Seconds per second: sound cards differ from the system's clock by less."""

    def __init__(self) -> None:
        self._offset: float | None = None
        self._last = 0.0

    def stamp(self, time: float, *, now: float) -> float:
        """The local time of the device's `time` (seconds), read just `now`."""
        offset = now - time
        if self._offset is None or offset - self._offset > STALL:
            self._offset = offset
        else:
            allowed = self._offset + self.DRIFT * max(0.0, now - self._last)
            self._offset = min(offset, allowed)
        self._last = now
        return time + self._offset
