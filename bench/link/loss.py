"""Seeded loss: which packets of a sequence are lost.

One decision is drawn for each packet offered, before anything else happens to it. So the n-th
packet meets the same fate under every driver and every clock, whatever the queue dropped. The
arithmetic is netem's, on 32-bit draws; what is modelled is in `spec.py`.
"""

from __future__ import annotations

import random

from .chance import threshold
from .spec import FourStateLoss, GilbertElliottLoss, LossSpec, RandomLoss


class LossProcess:
    """Says of one packet after the other whether it is lost."""

    def __init__(self, spec: LossSpec | None, *, seed: int | str) -> None:
        self._bits = random.Random(seed).getrandbits
        self._bad = False
        self._state = 1
        self._decide = self._never
        if isinstance(spec, RandomLoss):
            self._p = threshold(spec.probability)
            self._decide = self._random
        elif isinstance(spec, GilbertElliottLoss):
            self._enter, self._leave = threshold(spec.enter), threshold(spec.leave)
            self._good_loss = threshold(spec.good_loss)
            self._bad_loss = threshold(spec.bad_loss)
            self._decide = self._gilbert_elliott
        elif isinstance(spec, FourStateLoss):
            self._p13, self._p31 = threshold(spec.p13), threshold(spec.p31)
            self._p32, self._p23 = threshold(spec.p32), threshold(spec.p23)
            self._p14 = threshold(spec.p14)
            self._decide = self._four_state

    def lost(self) -> bool:
        """Decide the next packet."""
        return self._decide()

    def _never(self) -> bool:
        return False

    def _random(self) -> bool:
        return self._bits(32) < self._p

    def _gilbert_elliott(self) -> bool:
        """The chain moves first; the packet meets the loss of the state it moved from."""
        moves, falls = self._bits(32), self._bits(32)
        if self._bad:
            self._bad = moves >= self._leave
            return falls < self._bad_loss
        self._bad = moves < self._enter
        return falls < self._good_loss

    def _four_state(self) -> bool:
        """States: 1 got through in a gap, 2 got through in a burst, 3 lost in a burst, 4 alone."""
        draw = self._bits(32)
        if self._state == 1:
            if draw < self._p14:
                self._state = 4
                return True
            if draw < self._p14 + self._p13:
                self._state = 3
                return True
            return False
        if self._state == 2:
            if draw < self._p23:
                self._state = 3
                return True
            return False
        if self._state == 3:
            if draw < self._p32:
                self._state = 2
                return False
            if draw < self._p32 + self._p31:
                self._state = 1
                return False
            return True
        self._state = 1
        return False


def burst_lengths(lost: list[bool]) -> list[int]:
    """The lengths of the runs of losses in a sequence, in order."""
    bursts: list[int] = []
    length = 0
    for hit in [*lost, False]:
        if hit:
            length += 1
        elif length:
            bursts.append(length)
            length = 0
    return bursts
