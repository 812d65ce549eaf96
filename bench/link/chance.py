"""Random draws as netem makes them: 32-bit integers, with memory where a correlation is asked for.

Each kind of chance (loss, jitter, duplication, …) has a stream of its own, seeded by the link's
seed and the kind's name, so that turning one on leaves the others' draws as they were.
"""

from __future__ import annotations

import random

U32 = 1 << 32


def threshold(probability: float) -> int:
    """What a 32-bit draw must stay below to be a hit; 1.0 always hits."""
    return round(probability * U32)


def stream(seed: int, kind: str) -> random.Random:
    """The random stream of one kind of chance of one link."""
    return random.Random(f"{seed}/{kind}")


class CorrelatedDraws:
    """32-bit draws of which each remembers a share `correlation` of the one before.

    As in netem the result is a weighted mean of uniform draws, so it is no longer uniform: values
    crowd around the middle. For delays that narrows the variation; for yes-or-no decisions it
    misses the probability that was set, which is why only delays may use it here.
    """

    def __init__(self, correlation: float, source: random.Random) -> None:
        self._bits = source.getrandbits
        self._share = min(U32 - 1, int(correlation * (U32 - 1)))
        self._last = self._bits(32)

    def draw(self) -> int:
        """The next value, in [0, 2^32)."""
        value = self._bits(32)
        if not self._share:
            return value
        share = self._share + 1
        self._last = (value * (U32 - share) + self._last * share) >> 32
        return self._last
