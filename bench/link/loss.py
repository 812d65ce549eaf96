"""Seeded loss: which packets of a sequence are lost.

One decision is drawn for each packet offered, before anything else happens to it. So the n-th
packet meets the same fate under every driver and every clock, whatever the queue dropped.
"""

from __future__ import annotations

import random

from .spec import GilbertElliottLoss, RandomLoss


class LossProcess:
    """Says of one packet after the other whether it is lost."""

    def __init__(self, spec: RandomLoss | GilbertElliottLoss | None, *, seed: int) -> None:
        self._spec = spec
        self._draw = random.Random(seed).random
        self._bad = False

    def lost(self) -> bool:
        """Decide the next packet."""
        spec = self._spec
        if spec is None:
            return False
        if isinstance(spec, RandomLoss):
            return self._draw() < spec.probability
        threshold = spec.leave if self._bad else spec.enter
        if self._draw() < threshold:
            self._bad = not self._bad
        return self._bad
