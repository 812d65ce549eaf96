"""How far the playing position stands from where it should be, and how fast it gets there.

The one idea: sound is handed out in blocks at fixed deadlines, so delay counts only in steps. A
position is judged by the deadline at which the next undecoded object is needed: has it arrived by
then, with the target to spare? Moving by less than what changes that answer is never asked for.
"""

from __future__ import annotations

import math

from . import stretch
from .sound import BLOCK, PERIOD, RATE, SoundQueue

_LEAST = stretch.MIN_LAG
"""Samples: changes below one shortest pitch period are not worth a splice."""
_STRETCH_EVERY = 0.06
"""Seconds between two stretches of speech (NetEQ: about once per 60 ms)."""
_HURRY = 0.045
"""Seconds of excess or need from which every block is stretched, similar or not."""
_QUIET_CHANGE = BLOCK // 2
"""Samples cut from or added to a quiet block at most."""
_SIMILAR = 0.8
"""Correlation of two pitch periods from which their splice is not heard as one."""
_SIMILAR_HURRY = 0.7
"""Below this, splices one after the other are heard."""
_SIMILAR_URGENT = 0.3
"""While an outage goes on the choice is between this and concealment."""
_LEAST_SPARE = 0.001
"""Seconds of hysteresis on a perfect link: keeps the delay there within a block and 5 ms."""
_EPS = 1e-6


def spare_time(
    due: float,
    *,
    queued: int,
    next_end: float,
    duration: float,
    floor: float,
    target: float,
    hysteresis: float,
) -> float:
    """Seconds the position could move ahead (above 0) or must fall back (below 0).

    At the deadline `due`, `queued` samples wait that end at `next_end` on the timeline, where the
    next object of `duration` follows; it is expected `floor` after its end, and `target` is to be
    left. Moves ahead keep `hysteresis`, or a quarter of the target when that is less.
    """
    rest = queued % BLOCK
    need_at = due + (queued // BLOCK) * PERIOD
    grain = min(duration, PERIOD)
    short = PERIOD - rest / RATE
    rounded = math.ceil(short / grain - _EPS) * grain
    free = rounded - short
    slack = need_at - (next_end + max(rounded, duration)) - floor - target
    if slack < 0.0:
        return free - math.ceil(-slack / grain - _EPS) * grain
    kept = min(hysteresis, _LEAST_SPARE + target / 4)
    return free + max(0.0, math.floor((slack - kept) / grain)) * grain


class Pacer:
    """Decides how much of a wanted change one block takes, and makes it."""

    def __init__(self, *, keep_importance: float) -> None:
        self._keep_importance = keep_importance
        self._last = -math.inf

    def allowed(self, queue: SoundQueue, wanted: int, due: float, *, urgent: bool) -> int:
        """Samples to remove (above 0) or add (below 0) now, of the `wanted` ones.

        `urgent`: an outage goes on, every block counts.
        """
        if abs(wanted) < _LEAST:
            return 0
        if queue.quiet:
            return max(-_QUIET_CHANGE, min(_QUIET_CHANGE, wanted))
        hurry = abs(wanted) > _HURRY * RATE
        if not hurry and not urgent:
            if due - self._last < _STRETCH_EVERY - _EPS:
                return 0
            if wanted > 0 and queue.importance >= self._keep_importance:
                return 0
        return max(-stretch.MAX_LAG, min(stretch.MAX_LAG, wanted))

    def stretch(
        self, queue: SoundQueue, change: int, due: float, *, hurry: int, urgent: bool
    ) -> int:
        """Remove up to `change` samples (above 0), or add about as many (below 0), at the head.

        `hurry` is how many are wanted in all. Returns by how many the queue became longer.
        """
        if abs(change) < _LEAST:
            return 0
        head = queue.head(2 * BLOCK)
        similar = _SIMILAR_HURRY if hurry > _HURRY * RATE else _SIMILAR
        if urgent:
            similar = _SIMILAR_URGENT
        if queue.quiet:
            done = stretch.cut(head, change) if change > 0 else stretch.pad(head, -change)
        elif change > 0:
            done = stretch.accelerate(head, max_change=change, min_correlation=similar)
        else:
            done = stretch.decelerate(head, min_correlation=similar)
        self._last = due  # also when nothing was similar: a search costs as much as a splice
        if done.change:
            queue.replace_head(len(head), done.samples)
        return done.change
