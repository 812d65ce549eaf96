"""How unevenly objects arrive, and the delay that covers it.

The one idea: what a buffer must cover is not the typical spread but the worst of each stretch of
speech, so the model keeps the *peak* transit time of every half second and asks `cover` which delay
is worth having against those (libwebrtc's NetEQ keeps a forgetting histogram of the same peaks and
covers a fixed share of them). Transit times are compared in
absolute terms, so a path that becomes slower for good costs nothing once its peaks fill the window.

The floor (fastest path) is the minimum of recent half-second minima, and its slope over minutes is
the skew between the two clocks.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from .cover import PEAK_SECONDS, best_cover

_PEAKS = 24
"""12 s of peaks: a rough episode is forgotten within 15 s of its end."""
_RECENT = 6
_FLOOR_BLOCKS = 10
"""5 s of minima: long enough to contain an unhindered packet on a loaded link."""
_SKEW_MINIMA = 600
"""5 min of minima for the slope."""
_MIN_SKEW_MINIMA = 60
_PATH_CHANGE = 0.02
"""Seconds: a floor that moved further than drift could is another path; the slope starts anew."""
_RELEASE = 0.15
"""Seconds per second by which the cover falls at most: what stretching can follow unheard."""
_MAX_SKEW = 2000e-6
"""Crystals differ by some 100 ppm; beyond this it is not skew."""


class _Block(NamedTuple):
    start: float
    lowest: float
    highest: float


class ArrivalModel:
    """Transit times in, floor, spread and skew out.

    Feed `observe` with each object once; read `floor`, `cover` and `usual_peak`. Transit times
    are arrival (local clock) minus capture end (sender's clock): only differences mean anything.
    """

    def __init__(self, *, price: float = 10.0) -> None:
        self._price = price
        self._grid: tuple[float, float] | None = None
        self._blocks: deque[_Block] = deque(maxlen=_PEAKS)
        self._current: _Block | None = None
        self._minima: deque[tuple[float, float]] = deque(maxlen=_SKEW_MINIMA)
        self._sums = [0.0] * 5
        self._skew = 0.0
        self._floor = 0.0
        self._cover = 0.0
        self._usual = 0.0
        self._jitter = 0.0
        self._covered = -math.inf
        self._updated = 0.0
        self._last: float | None = None

    @property
    def known(self) -> bool:
        """False before the first observation."""
        return self._current is not None

    @property
    def floor(self) -> float:
        """Seconds: transit time of the fastest recent path, on mixed clocks."""
        return self._floor

    @property
    def cover(self) -> float:
        """Seconds above the floor that are worth having (see `cover`)."""
        return self._cover

    @property
    def usual_peak(self) -> float:
        """Seconds above the floor: a quarter of the half-second peaks are below it."""
        return self._usual

    @property
    def jitter(self) -> float:
        """Seconds: smoothed difference of successive transit times (RFC 3550 section 6.4.1)."""
        return self._jitter

    @property
    def skew_ppm(self) -> float:
        """How much faster the sender's clock runs than ours, in parts per million; 0 until known.

        Known after 30 s; within some 10 ppm after three minutes at 5 ms of jitter.
        """
        return -self._skew * 1e6

    def set_grid(self, first: float, step: float) -> None:
        """Which delays above the floor can be used: `first`, `first + step`… (seconds)."""
        self._grid = (first, step)

    def observe(self, transit: float, *, now: float) -> None:
        """One object arrived at `now` (seconds, monotonic) after `transit` seconds."""
        if self._last is not None:
            self._jitter += (abs(transit - self._last) - self._jitter) / 16
        self._last = transit
        block = self._current
        if block is None:
            self._current = _Block(now, transit, transit)
        elif now - block.start >= PEAK_SECONDS:
            self._close(block)
            self._current = _Block(now, transit, transit)
        elif block.lowest <= transit <= block.highest:
            return
        else:
            self._current = _Block(
                block.start, min(block.lowest, transit), max(block.highest, transit)
            )
            if self._floor <= transit <= self._floor + self._cover:
                return  # covered already; weighed when the half second is over
        self._update(now)

    def _close(self, block: _Block) -> None:
        self._blocks.append(block)
        if self._minima and len(self._blocks) >= 4 and self._moved(block.start):
            self._minima.clear()
            self._sums = [0.0] * 5
        self._add_minimum(block)

    def _moved(self, now: float) -> bool:
        """Whether the last two seconds lie beside the line through the minima."""
        count, sum_t, sum_v = self._sums[:3]
        middle = self._origin[0] + sum_t / count
        expected = self._origin[1] + sum_v / count + self._skew * (now - middle)
        recent = [b.lowest for b in list(self._blocks)[-4:]]
        return min(recent) > expected + _PATH_CHANGE or max(recent) < expected - _PATH_CHANGE

    def _add_minimum(self, block: _Block) -> None:
        if len(self._minima) == self._minima.maxlen:
            self._sum(*self._minima[0], -1.0)
        if not self._minima:
            self._origin = (block.start, block.lowest)
        self._minima.append((block.start, block.lowest))
        self._sum(block.start, block.lowest, 1.0)
        count, sum_t, sum_v, sum_tt, sum_tv = self._sums
        spread = count * sum_tt - sum_t * sum_t
        if count >= _MIN_SKEW_MINIMA and spread > 0:
            slope = (count * sum_tv - sum_t * sum_v) / spread
            self._skew = max(-_MAX_SKEW, min(_MAX_SKEW, slope))

    def _sum(self, time: float, value: float, sign: float) -> None:
        # Relative to the segment's first minimum: keeps the sums small, the fit exact.
        time -= self._origin[0]
        value -= self._origin[1]
        for i, term in enumerate((1.0, time, value, time * time, time * value)):
            self._sums[i] += sign * term

    def _update(self, now: float) -> None:
        current = self._current
        if current is None:
            return
        blocks = [*self._blocks, current]
        skew = self._skew
        # Old values are moved along the skew, so that a drifting clock does not look like spread.
        ages = now - np.array([b.start for b in blocks])
        lowest = np.array([b.lowest for b in blocks[-_FLOOR_BLOCKS:]])
        self._floor = float((lowest + skew * ages[-_FLOOR_BLOCKS:]).min())
        peaks = np.array([b.highest for b in blocks]) + skew * ages - self._floor
        # What even the calmer half seconds need is usual: covered, and no sign of an outage.
        calm = max(
            np.sort(peaks)[len(peaks) // 4], np.sort(peaks[-_RECENT:])[min(1, len(peaks) - 1)]
        )
        self._usual = max(0.0, float(calm))
        cover = best_cover(peaks, ages, price=self._price, grid=self._grid, least=self._usual)
        # In absolute terms, so that a path that became slower is not covered twice.
        fallen = self._covered - _RELEASE * (now - self._updated) - self._floor
        self._updated = now
        self._cover = max(0.0, cover, fallen)
        self._covered = self._floor + self._cover
