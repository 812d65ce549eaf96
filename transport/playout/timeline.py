"""One continuous media timeline out of whatever capture stamps come in.

The one idea: sequence numbers say what follows what, stamps say when; where the two contradict
each other the stamps have jumped and only the *distance* between stamps and timeline is corrected.
So a sender that rewinds, leaps or restarts costs no sound, while a true gap (mute, DTX, a capture
stall) stays a gap. How they are told apart: in a true gap the arrival is late by as much as the
stamp is ahead; in a jump it is not.
"""

from __future__ import annotations

from typing import NamedTuple

_JUMP = 0.2
"""Seconds of contradiction that make a jump; below it, path delay may explain the difference."""
_LEAP = 1.0
"""Seconds of sound that missing numbers may stand for beyond the time that has passed."""
_BACKWARD_SEQUENCE = 2000
"""Objects this far behind the newest (40 s of 20 ms frames) cannot be late ones."""
_LONGEST_GAP = 10.0
"""Seconds of deliberate silence that may lie between two objects that overtook each other."""
_STRAYS = 3
"""Implausible objects in a row, consistent with each other, that mean the sender restarted."""


class Placed(NamedTuple):
    """Where an object stands on the continuous timeline."""

    end: float
    """Seconds on the timeline: end of the object's media."""
    offset: float
    """Sender's stamp minus `end`, to translate back."""
    jumped: bool
    """The stamps jumped at this object."""
    restarted: bool
    """The sender started anew: sequence numbers before this object mean nothing any more."""


class _Seen(NamedTuple):
    sequence: int
    captured: float
    arrived: float


class Timeline:
    """Feed `place` with each object as it arrives; it answers where the object stands, or None."""

    def __init__(self) -> None:
        self._newest: _Seen | None = None
        self._offset = 0.0
        self._previous: tuple[int, float] | None = None
        self._strays: list[_Seen] = []
        self.jumps = 0

    def place(
        self, sequence: int, captured: float, duration: float, *, floor: float | None, now: float
    ) -> Placed | None:
        """Place an object that arrived at `now`; `floor` is the fastest transit known so far.

        Returns None for an object that fits nowhere (a stray; three in a row are a restart).
        """
        newest = self._newest
        if newest is None:
            self._newest = _Seen(sequence, captured, now)
            return Placed(captured, 0.0, jumped=False, restarted=False)
        if sequence <= newest.sequence:
            return self._older(newest, sequence, captured, duration, now)
        step = sequence - newest.sequence
        waited = max(0.0, now - newest.arrived)
        advance = step * duration
        leapt = False
        early = floor is not None and now - (captured - self._offset) < floor - _JUMP
        if advance > waited + _LEAP and (early or captured < newest.captured + advance - _LEAP):
            # More numbers than time: they leapt, so they do not say how far to go on.
            advance = max(duration, waited)
            leapt = step > _BACKWARD_SEQUENCE
        expected = newest.captured + advance
        ahead = captured - expected
        jumped = False
        if ahead < -_JUMP or (captured <= newest.captured - duration / 2 and ahead < -duration):
            jumped = True  # rewound: no path can turn captured order around
        elif ahead > _JUMP:
            # A true gap delays the arrival as well; what the clock does not account for is a jump.
            jumped = ahead > waited + _JUMP and (floor is None or early)
        if jumped:
            self._jump(sequence, captured, expected - self._offset, floor=floor, now=now)
        self._strays.clear()
        self._newest = _Seen(sequence, captured, now)
        return Placed(captured - self._offset, self._offset, jumped=jumped, restarted=leapt)

    def _older(
        self, newest: _Seen, sequence: int, captured: float, duration: float, now: float
    ) -> Placed | None:
        behind = newest.captured - captured
        steps = newest.sequence - sequence
        offset = self._offset
        if self._previous is not None and sequence < self._previous[0]:
            offset = self._previous[1]  # from before the last jump
            behind += offset - self._offset
        least = max(-duration, (steps - 1) * duration - _JUMP)
        most = steps * duration + _LONGEST_GAP
        if steps < _BACKWARD_SEQUENCE and least < behind < most:
            return Placed(captured - offset, offset, jumped=False, restarted=False)
        return self._stray(newest, sequence, captured, duration, now)

    def _stray(
        self, newest: _Seen, sequence: int, captured: float, duration: float, now: float
    ) -> Placed | None:
        strays = self._strays
        if strays:
            steps = sequence - strays[-1].sequence
            drift = captured - strays[-1].captured - steps * duration
            if not (0 < steps <= 50 and abs(drift) < 1.0):
                strays.clear()
        strays.append(_Seen(sequence, captured, now))
        if len(strays) < _STRAYS:
            return None
        # Continue where the old timeline stood, moved by the time that has really passed.
        passed = max(duration, now - newest.arrived)
        end = newest.captured - self._offset + passed
        self._offset = captured - end
        self._previous = None
        self._newest = strays[-1]
        strays.clear()
        self.jumps += 1
        return Placed(end, self._offset, jumped=True, restarted=True)

    def _jump(
        self, sequence: int, captured: float, end: float, *, floor: float | None, now: float
    ) -> None:
        """Move the stamps' distance so that this object ends at `end` on the timeline."""
        self._previous = (sequence, self._offset)
        if floor is not None and now - end > floor + _JUMP:
            end = now - floor  # the jump came with a real pause: keep the pause
        self._offset = captured - end
        self.jumps += 1
