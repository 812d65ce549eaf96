"""Several tracks of played-out sound become one continuous stream at 48 kHz.

Each block names the local time at which it was played. Blocks of a track follow each other
without a seam while their times say so within 10 ms; more than that is a gap (silence) or a
jump. What is older than `SETTLE` seconds is final and leaves in order, silence included, so that
the stream is as long as the time that passed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..codecs.audio_input import mix_to

RATE = 48_000
CHANNELS = 2
SETTLE = 0.3
"""Seconds after which nothing older comes: blocks are reported within 20 ms of their time."""
SEAM = 0.01
"""Seconds by which a block may be off its track's line and still be joined to it."""
LONGEST = 30.0
"""Seconds of one advance: the length of silence written in one go after a stop."""

Samples = NDArray[np.float32]


class SoundTimeline:
    """Mixes blocks by time. `start` is the local time of its first sample."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._done = 0
        """Samples that have left."""
        self._open: Samples = np.zeros((RATE, CHANNELS), np.float32)
        """What is not final yet, from `_done` on."""
        self._next: dict[str, int] = {}
        self.late = 0
        """Samples that came after their time had left."""

    @property
    def seconds(self) -> float:
        """Length of what has left."""
        return self._done / RATE

    def add(self, track: str, samples: Samples, *, played: float) -> None:
        """Mix in a block (n, channels) whose first sample was played at `played`."""
        position = round((played - self._start) * RATE)
        expected = self._next.get(track)
        if expected is not None and abs(position - expected) <= SEAM * RATE:
            position = expected
        self._next[track] = position + len(samples)
        block = mix_to(samples, CHANNELS)
        offset = position - self._done
        if offset < 0:
            self.late += min(-offset, len(block))
            block, offset = block[-offset:], 0
        if len(block) == 0 or offset > LONGEST * RATE:
            return
        self._reserve(offset + len(block))
        self._open[offset : offset + len(block)] += block

    def take(self, until: float) -> Samples:
        """What lies before the local time `until`, as (n, 2); it is final."""
        count = min(round((until - self._start) * RATE) - self._done, round(LONGEST * RATE))
        if count <= 0:
            return np.zeros((0, CHANNELS), np.float32)
        self._reserve(count)
        taken = np.clip(self._open[:count], -1.0, 1.0)
        rest = self._open[count:]
        self._open = np.zeros((max(RATE, len(rest)), CHANNELS), np.float32)
        self._open[: len(rest)] = rest
        self._done += count
        return np.asarray(taken, dtype=np.float32)

    def _reserve(self, length: int) -> None:
        if length > len(self._open):
            grown = np.zeros((length + RATE, CHANNELS), np.float32)
            grown[: len(self._open)] = self._open
            self._open = grown
