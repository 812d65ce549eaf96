"""The controller's target, split among encoders: sound first, then what matters, then the rest.

Sound is served first because it is small and its loss is what people notice first. Among pictures
and layers the minimums come before anyone's comfort, in order of importance; what is left is
shared in proportion to the same weights that the scheduler uses for bytes, so that encoders make
about what the scheduler will let through. Whoever reaches its maximum leaves the rest to others.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .importance import weight

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RateDemand(Generic[K]):
    """What one encoder can use. Raises ValueError when a field is out of its range."""

    key: K
    """Names the encoder in the result."""
    importance: float
    """In [0, 1]."""
    minimum_bps: float
    """Bits per second below which its output is of little use."""
    maximum_bps: float
    """Bits per second above which it gains nothing; math.inf for no bound."""
    is_audio: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.importance <= 1.0:
            raise ValueError(f"importance is in [0, 1], got {self.importance!r} for {self.key!r}")
        if not 0.0 <= self.minimum_bps <= self.maximum_bps or math.isinf(self.minimum_bps):
            raise ValueError(
                "rates need 0 <= minimum_bps <= maximum_bps, got "
                f"{self.minimum_bps!r} and {self.maximum_bps!r} for {self.key!r}"
            )


def split_rate(total_bps: float, demands: Sequence[RateDemand[K]]) -> dict[K, float]:
    """Bits per second for each encoder; their sum is at most `total_bps`.

    An encoder may get less than its minimum, down to 0, when the total does not reach: it should
    then skip frames or pause. Raises ValueError for a negative or nan total or for equal keys.
    """
    if not total_bps >= 0.0:
        raise ValueError(f"a total rate is at least 0 bit/s, got {total_bps!r}")
    given: dict[K, float] = {demand.key: 0.0 for demand in demands}
    if len(given) != len(demands):
        raise ValueError("each demand needs a key of its own")
    left = total_bps
    for group in (
        [demand for demand in demands if demand.is_audio],
        [demand for demand in demands if not demand.is_audio],
    ):
        for demand in sorted(group, key=lambda d: -d.importance):
            given[demand.key] = min(demand.minimum_bps, left)
            left -= given[demand.key]
        left = _share_out(left, group, given)
    return given


def _share_out(left: float, group: Iterable[RateDemand[K]], given: dict[K, float]) -> float:
    """Add to what the group was given, by weight and up to the maximums; returns what is over."""
    hungry = [demand for demand in group if given[demand.key] < demand.maximum_bps]
    if math.isinf(left):
        for demand in hungry:
            given[demand.key] = demand.maximum_bps
        return left
    while hungry and left > 0.0:
        per_weight = left / sum(weight(demand.importance) for demand in hungry)
        full = [
            demand
            for demand in hungry
            if demand.maximum_bps - given[demand.key] <= per_weight * weight(demand.importance)
        ]
        if not full:
            for demand in hungry:
                given[demand.key] += per_weight * weight(demand.importance)
            return 0.0
        for demand in full:
            left -= demand.maximum_bps - given[demand.key]
            given[demand.key] = demand.maximum_bps
        hungry = [demand for demand in hungry if demand not in full]
    return max(0.0, left)
