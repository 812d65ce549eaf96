"""Decoded sound that waits for its turn, and what each stretch of it is.

A small container: samples in, blocks out, with the kind, importance and sender's time of what a
block holds. Stretching replaces its head.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from .stretch import Samples

Kind = Literal["played", "repaired", "concealed", "silence", "stretched"]

RATE = 48_000
"""Samples per second everywhere in this folder: Opus's own rate."""
BLOCK = 960
"""Samples per channel in each block of output: 20 ms."""
PERIOD = BLOCK / RATE
"""Seconds per block."""


@dataclass(slots=True)
class Mark:
    """What a run of queued samples is."""

    count: int
    kind: Kind
    importance: float = 0.0
    quiet: bool = False
    """Nothing would be missed here: said by the sender, or silence made here."""
    captured: float | None = None
    """Sender's clock at the end of the run."""


class Taken(NamedTuple):
    """One block out of the queue."""

    samples: Samples
    kind: Kind
    importance: float
    captured: float | None
    concealed: int
    silent: int


class SoundQueue:
    """Samples of `channels` channels in order; `append`, then `take`."""

    def __init__(self, channels: int) -> None:
        self._empty: Samples = np.zeros((0, channels), dtype=np.float32)
        self._samples = self._empty
        self._marks: deque[Mark] = deque()

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def quiet(self) -> bool:
        """Whether the head of the queue is quiet."""
        return bool(self._marks) and self._marks[0].quiet

    @property
    def importance(self) -> float:
        """Importance of the head of the queue."""
        return self._marks[0].importance if self._marks else 0.0

    def clear(self) -> None:
        """Forget everything."""
        self._samples = self._empty
        self._marks.clear()

    def append(self, samples: Samples, mark: Mark) -> None:
        """Add a run at the end."""
        if mark.count == 0:
            return
        self._samples = np.concatenate((self._samples, samples)) if len(self) else samples
        self._marks.append(mark)

    def head(self, count: int) -> Samples:
        """The first `count` samples, or all when fewer; not to be written to."""
        return self._samples[:count]

    def replace_head(self, old: int, new: Samples) -> None:
        """Put `new` in the place of the first `old` samples; the first marks grow or shrink."""
        self._samples = np.concatenate((new, self._samples[old:]))
        change = len(new) - old
        for mark in self._marks:
            taken = max(-mark.count, change)
            mark.count += taken
            change -= taken
            if change == 0:
                break
        while self._marks and self._marks[0].count == 0:
            self._marks.popleft()

    def drop(self, count: int) -> int:
        """Throw away up to `count` samples from the head; returns how many."""
        count = min(count, len(self))
        if count:
            self.take(count)
        return count

    def take(self, count: int) -> Taken:
        """The first `count` samples (at most what is there) and what most of them are."""
        samples = self._samples[:count]
        self._samples = self._samples[count:]
        shares: dict[Kind, int] = {}
        importance = 0.0
        captured: float | None = None
        left = len(samples)
        while left > 0 and self._marks:
            mark = self._marks[0]
            used = min(mark.count, left)
            shares[mark.kind] = shares.get(mark.kind, 0) + used
            importance = max(importance, mark.importance)
            mark.count -= used
            left -= used
            if mark.captured is not None:
                captured = mark.captured - mark.count / RATE
            if mark.count == 0:
                self._marks.popleft()
        kind: Kind = max(shares, key=lambda k: shares[k]) if shares else "silence"
        return Taken(
            samples,
            kind,
            importance,
            None if kind == "silence" else captured,
            shares.get("concealed", 0),
            shares.get("silence", 0),
        )
