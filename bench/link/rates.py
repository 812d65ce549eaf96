"""A link's rate over time: steps, once or again and again, with the arithmetic of serving bits.

A `RateCurve` holds the bits that could have been served since link time 0 as a growing, piecewise
straight curve. Serving a packet is then two look-ups: how many bits had gone by when it started,
and when that many plus its own will have. Both are a binary search, so that a trace of thousands
of steps costs no more per packet than a constant rate.

A `HeldCurve` is one that need not begin yet: the rate it begins with holds until it is let go.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateStep:
    """From `at` seconds on, the link serves `rate_bps` bits per second; 0 is an outage."""

    at: float
    rate_bps: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.at) and self.at >= 0.0):
            raise ValueError(f"a rate step starts at 0 s or later, got {self.at!r}")
        if not (math.isfinite(self.rate_bps) and self.rate_bps >= 0.0):
            raise ValueError(f"a rate is a finite number of bits/s of at least 0, got {self}")


class RateCurve:
    """Rate steps as a curve of served bits. `period`: seconds after which the steps repeat.

    Without steps the link is infinitely fast. Raises ValueError for steps out of order, a first
    step after 0 s, or a period that ends before the last step begins.
    """

    def __init__(self, steps: tuple[RateStep, ...], period: float | None = None) -> None:
        self._at = [step.at for step in steps]
        self._rate = [step.rate_bps for step in steps]
        self.period = period
        if steps and self._at[0] != 0.0:
            raise ValueError(f"a link's first rate step is at 0 s, got {self._at[0]!r}")
        if any(a >= b for a, b in itertools.pairwise(self._at)):
            raise ValueError(f"a link's rate steps stand in order of time, got {self._at}")
        if period is not None:
            if not steps:
                raise ValueError("rate steps that repeat need a rate to start from")
            if not (math.isfinite(period) and period > self._at[-1]):
                raise ValueError(
                    f"rate steps repeat after the last of them (at {self._at[-1]} s), "
                    f"got {period!r} s"
                )
        self._bits = [0.0]
        for index in range(1, len(steps)):
            width = self._at[index] - self._at[index - 1]
            self._bits.append(self._bits[-1] + width * self._rate[index - 1])
        self._cycle_bits = math.inf
        if period is not None:
            self._cycle_bits = self._bits[-1] + (period - self._at[-1]) * self._rate[-1]

    def __bool__(self) -> bool:
        """Whether the link has a rate at all."""
        return bool(self._at)

    def _place(self, time: float) -> tuple[int, float, int]:
        """Whole cycles gone by, the time within the cycle, and the step in force."""
        cycles = 0
        if self.period is not None:
            cycles = int(time // self.period)
            time -= cycles * self.period
        return cycles, time, max(0, bisect.bisect_right(self._at, time) - 1)

    def rate_at(self, time: float) -> float:
        """Bits per second at `time`; infinity for an unlimited link."""
        if not self._at:
            return math.inf
        return self._rate[self._place(time)[2]]

    def nominal_rate_at(self, time: float) -> float:
        """The rate that limits in time are meant for: in an outage, the last above 0."""
        if not self._at:
            return math.inf
        cycles, _, index = self._place(time)
        before = range(index, -1, -1)
        around = range(len(self._rate) - 1, index, -1) if cycles else range(index + 1, len(self))
        for candidate in itertools.chain(before, around):
            if self._rate[candidate] > 0.0:
                return self._rate[candidate]
        return 0.0

    def __len__(self) -> int:
        return len(self._at)

    def bits_by(self, time: float) -> float:
        """Bits that could have been served from 0 s to `time`; infinity for an unlimited link."""
        if not self._at:
            return math.inf
        if time <= 0.0:
            return 0.0
        cycles, within, index = self._place(time)
        done = self._bits[index] + (within - self._at[index]) * self._rate[index]
        return done + (cycles * self._cycle_bits if cycles else 0.0)

    def finish(self, start: float, bits: float) -> float:
        """When `bits` that begin to leave at `start` have left; infinity if they never do."""
        if not self._at or bits <= 0.0:
            return start
        if math.isinf(start):
            return start
        cycles, within, index = self._place(max(0.0, start))
        # The common case first, and exactly: all of it within one step.
        end = self._at[index + 1] if index + 1 < len(self._at) else self.period
        rate = self._rate[index]
        if rate > 0.0:
            done = bits / rate
            if end is None or within + done <= end:
                return start + done
        target = self._bits[index] + (within - self._at[index]) * rate + bits
        base = cycles * (self.period or 0.0)
        if self.period is not None:
            if self._cycle_bits <= 0.0:
                return math.inf
            while target > self._cycle_bits:
                target -= self._cycle_bits
                base += self.period
        # The last step whose curve starts below the target is the one that reaches it.
        index = max(0, bisect.bisect_left(self._bits, target) - 1)
        if self._rate[index] <= 0.0:
            return math.inf
        return max(start, base + self._at[index] + (target - self._bits[index]) / self._rate[index])


class HeldCurve:
    """A rate curve that begins at `begin`, seconds; until then, the rate it begins with holds.

    An infinite `begin` holds it until somebody sets one. Of a link that begins with an outage it
    is the first rate above 0 that holds.
    """

    def __init__(self, curve: RateCurve, begin: float = 0.0) -> None:
        self._curve = curve
        self._first = curve.nominal_rate_at(0.0)
        self.begin = begin

    def bits_by(self, time: float) -> float:
        """See RateCurve; up to a constant when `begin` is below 0."""
        if not self._curve:
            return math.inf
        if time < self.begin:
            return time * self._first
        return self.begin * self._first + self._curve.bits_by(time - self.begin)

    def finish(self, start: float, bits: float) -> float:
        """See RateCurve."""
        if not self._curve:
            return start
        if start >= self.begin:
            return self.begin + self._curve.finish(start - self.begin, bits)
        done = bits / self._first if self._first > 0.0 else math.inf
        if start + done <= self.begin:
            return start + done
        rest = bits - (self.begin - start) * self._first
        return self.begin + self._curve.finish(0.0, rest)
