"""Time stamps of sources, which repeat, run backward, jump or are missing, made usable.

Cameras deliver a picture twice, files have holes, clocks step. Encoders and muxers let all of it
pass without a word, and something far downstream breaks. So the rule is set at the entry:

* Pictures: strictly increasing. One that is not later than the last is dropped; one without a
  stamp gets the last one plus a nominal duration; a jump of more than `MAX_JUMP` seconds forward,
  or several backward stamps in a row, mean a new clock, which is joined on seamlessly.
* Sound: never dropped. A hole stays a hole; anything that would run backward follows on.

All of it is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_JUMP = 10.0
"""Seconds: a hole that long is taken for another clock."""
BACKWARD_IN_A_ROW = 3
"""Pictures: so many stamps running backward mean a clock that was set back."""
_JITTER = 0.06
"""Seconds by which sound stamps may differ from the count of samples (containers round them)."""


@dataclass(slots=True)
class StampCounts:
    """What had to be repaired."""

    dropped: int = 0
    """Pictures that were not later than the one before."""
    restamped: int = 0
    """Pictures or sound frames without a usable stamp."""
    rejoined: int = 0
    """Times the clock jumped and was joined on."""


class PictureStamps:
    """Feed `repair` with each picture's stamp; it says the usable one, or None to drop it."""

    def __init__(self, nominal: float, counts: StampCounts | None = None) -> None:
        if not nominal > 0:
            raise ValueError(f"a nominal duration is above 0 s, got {nominal!r}")
        self.nominal = nominal
        self.counts = counts or StampCounts()
        self._last: float | None = None
        self._offset = 0.0
        self._backward = 0

    def repair(self, time: float | None) -> float | None:
        """The strictly increasing time for a stamp in seconds (None: it has none)."""
        last = self._last
        if last is None:
            self._last = time if time is not None else 0.0
            self.counts.restamped += time is None
            return self._last
        following = last + self.nominal
        if time is None:
            self.counts.restamped += 1
            self._backward = 0
            self._last = following
            return following
        shifted = time + self._offset
        if shifted <= last:
            self._backward += 1
            if self._backward < BACKWARD_IN_A_ROW:
                self.counts.dropped += 1
                return None
            self.counts.rejoined += 1
            self._offset, shifted = following - time, following
        elif shifted - last > MAX_JUMP:
            self.counts.rejoined += 1
            self._offset, shifted = following - time, following
        self._backward = 0
        self._last = shifted
        return shifted


class SoundStamps:
    """Feed `repair` with the stamp and length of each piece of sound, in order."""

    def __init__(self, counts: StampCounts | None = None) -> None:
        self.counts = counts or StampCounts()
        self._end: float | None = None
        self._offset = 0.0

    def repair(self, time: float | None, duration: float) -> float:
        """The usable time of the first sample, never before the end of the last piece's."""
        if self._end is None:
            start = time if time is not None else 0.0
            self.counts.restamped += time is None
        elif time is None:
            start = self._end
            self.counts.restamped += 1
        else:
            start = time + self._offset
            ahead = start - self._end
            if abs(ahead) <= _JITTER:
                # The count of samples is exact where stamps are rounded; a drift still shows,
                # since it adds up to more than this in the end and is then taken as it stands.
                start = self._end
            elif ahead < 0 or ahead > MAX_JUMP:
                self.counts.rejoined += 1
                self._offset += self._end - start
                start = self._end
        self._end = start + duration
        return start
