"""How unevenly objects arrive, and the delay that covers it.

The one idea: what a buffer must cover is not the typical spread but the worst of each stretch of
speech, so the model keeps the *peak* transit time of every half second and takes a quantile over
those (libwebrtc's NetEQ does the same with a forgetting histogram in 20 ms buckets; a plain window
needs no buckets, forgets for sure, and rises within two peaks). Transit times are compared in
absolute terms, so a path that becomes slower for good costs nothing once its peaks fill the window.

Three memories:
- 12 s of peaks, 90 %: the regular spread; a lone outage does not move it.
- 2.5 s of peaks, the second largest: two bad half seconds in a row raise the target at once.
- the worst sustained level of the last minutes: when trouble starts again, the level that was
  needed last time is taken at the first sign rather than learnt anew.

The floor (fastest path) is the minimum of recent half-second minima, and its slope over minutes is
the skew between the two clocks.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

_BLOCK = 0.5
"""Seconds per peak (NetEQ's resampling interval, facts measured there)."""
_PEAKS = 24
"""12 s of peaks: a rough episode is forgotten within 15 s of its end."""
_RECENT = 5
_FLOOR_BLOCKS = 10
"""5 s of minima: long enough to contain an unhindered packet on a loaded link."""
_SKEW_MINIMA = 600
"""5 min of minima for the slope."""
_MIN_SKEW_MINIMA = 60
_PATH_CHANGE = 0.02
"""Seconds: a floor that moved further than drift could is another path; the slope starts anew."""
_RECALL_HALF_LIFE = 120.0
"""Seconds for a remembered rough level to lose half."""
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

    Feed `observe` with each object once; read `floor`, `cover` and `typical_peak`. Transit times
    are arrival (local clock) minus capture end (sender's clock): only differences mean anything.
    """

    def __init__(self, *, quantile: float = 0.9) -> None:
        self._quantile = quantile
        self._blocks: deque[_Block] = deque(maxlen=_PEAKS)
        self._current: _Block | None = None
        self._minima: deque[tuple[float, float]] = deque(maxlen=_SKEW_MINIMA)
        self._sums = [0.0] * 5
        self._skew = 0.0
        self._floor = 0.0
        self._cover = 0.0
        self._typical = 0.0
        self._recall = 0.0
        self._recall_time = 0.0
        self._rough_until = -1.0
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
        """Seconds above the floor that cover the wanted share of half-second peaks."""
        return self._cover

    @property
    def typical_peak(self) -> float:
        """Seconds above the floor: the median half-second peak, long or short term."""
        return self._typical

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

    def observe(self, transit: float, *, now: float) -> None:
        """One object arrived at `now` (seconds, monotonic) after `transit` seconds."""
        if self._last is not None:
            self._jitter += (abs(transit - self._last) - self._jitter) / 16
        self._last = transit
        block = self._current
        if block is None:
            self._current = _Block(now, transit, transit)
            self._recall_time = now
        elif now - block.start >= _BLOCK:
            self._close(block, now)
            self._current = _Block(now, transit, transit)
        elif block.lowest <= transit <= block.highest:
            return
        else:
            self._current = _Block(
                block.start, min(block.lowest, transit), max(block.highest, transit)
            )
        self._update(now)

    def _close(self, block: _Block, now: float) -> None:
        self._blocks.append(block)
        if self._minima and len(self._blocks) >= 4 and self._moved(block.start):
            self._minima.clear()
            self._sums = [0.0] * 5
        self._add_minimum(block)
        # The sustained level: what three of the recent peaks needed, remembered for minutes.
        peaks = sorted((b.highest for b in list(self._blocks)[-_RECENT:]), reverse=True)
        level = peaks[min(1, len(peaks) - 1)] - self._floor
        faded = self._recall * 0.5 ** ((now - self._recall_time) / _RECALL_HALF_LIFE)
        self._recall = max(faded, level)
        self._recall_time = now

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
        self._floor = min(b.lowest + skew * (now - b.start) for b in blocks[-_FLOOR_BLOCKS:])
        peaks = [b.highest + skew * (now - b.start) for b in blocks]
        recent = sorted(peaks[-_RECENT:], reverse=True)
        peaks.sort()
        # While there are few peaks: all but the worst one.
        rank = min(int(len(peaks) * self._quantile), max(0, len(peaks) - 2))
        regular = peaks[rank]
        cover = max(regular, recent[min(1, len(recent) - 1)]) - self._floor
        usual = max(peaks[len(peaks) // 2], recent[len(recent) // 2])
        self._typical = max(0.0, usual - self._floor)
        # In absolute terms, so that a path that became slower is not covered twice.
        fallen = self._covered - _RELEASE * (now - self._updated) - self._floor
        self._updated = now
        self._cover = max(0.0, cover, fallen, self._recalled(recent[0] - self._floor, now))
        self._covered = self._floor + self._cover

    def _recalled(self, worst: float, now: float) -> float:
        """The remembered level, while there is a fresh sign of that kind of trouble."""
        level = self._recall * 0.5 ** ((now - self._recall_time) / _RECALL_HALF_LIFE)
        newest = self._current.highest - self._floor if self._current is not None else 0.0
        if level > 0.04 and newest > max(0.02, 0.3 * level) and newest > self._typical + 0.02:
            self._rough_until = now + 4.0
        return level if now < self._rough_until and worst > 0.3 * level else 0.0
