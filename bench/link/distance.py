"""How far apart two samples of a quantity are: the Kolmogorov-Smirnov distance."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence


def distance(a: Sequence[float], b: Sequence[float], *, tolerance: float = 0.0) -> float:
    """Kolmogorov-Smirnov distance of two sorted samples.

    With a tolerance: how far one distribution's share of values up to x exceeds the other's share
    of values up to x + tolerance, at most, either way round.
    """

    def excess(first: Sequence[float], second: Sequence[float]) -> float:
        worst = 0.0
        for place, value in enumerate(first, 1):
            share = bisect.bisect_right(second, value + tolerance) / len(second)
            worst = max(worst, place / len(first) - share)
        return worst

    if not a or not b:
        return 1.0
    return max(excess(a, b), excess(b, a))


def critical(n: int, m: int) -> float:
    """The distance that two samples of one distribution exceed in 5 % of cases."""
    return 1.36 * math.sqrt((n + m) / (n * m)) if n and m else 1.0
