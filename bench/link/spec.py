"""What a link is, as plain data: rate over time, propagation, queue limit, loss.

A `LinkSpec` describes one direction and does the arithmetic of its rate: how much fits between two
times, and when a packet that starts at a time has left. Times are seconds since the link started
(its first packet); rates are bits per second on the wire, headers included. Serialization is
counted once, before propagation (a store-and-forward wire), so one packet of 1,200 bytes on
0.1 Mbit/s takes 96 ms plus the delay.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

UDP_IPV4_OVERHEAD = 28
"""Bytes an IPv4 header (20) and a UDP header (8) add to a payload: what the wire really carries."""


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


@dataclass(frozen=True, slots=True)
class RandomLoss:
    """Each packet is lost with `probability`, whatever became of the one before."""

    probability: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError(f"a loss probability is in [0, 1], got {self.probability!r}")


@dataclass(frozen=True, slots=True)
class GilbertElliottLoss:
    """Loss in bursts: a two-state chain whose good state loses nothing, whose bad state all.

    Given as what one can measure: the `mean` share of packets lost, and the mean length `burst`
    of a run of losses (at least 1 packet). Raises ValueError when no chain has both.
    """

    mean: float
    burst: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.mean < 1.0:
            raise ValueError(f"a mean loss is in [0, 1), got {self.mean!r}")
        if not (math.isfinite(self.burst) and self.burst >= 1.0):
            raise ValueError(f"a mean burst is at least 1 packet, got {self.burst!r}")
        if self.enter > 1.0:
            shortest = self.mean / (1.0 - self.mean)
            raise ValueError(
                f"a mean loss of {self.mean} needs bursts of at least {shortest:.2f} packets, "
                f"got {self.burst!r}"
            )

    @property
    def leave(self) -> float:
        """Probability per packet of going from bad to good: a geometric run of mean `burst`."""
        return 1.0 / self.burst

    @property
    def enter(self) -> float:
        """Probability per packet of going from good to bad; from mean = enter / (enter + leave)."""
        return self.mean * self.leave / (1.0 - self.mean)


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """One direction of a link."""

    delay: float = 0.0
    """Propagation, seconds; every packet that gets through has it, after its serialization."""
    steps: tuple[RateStep, ...] = ()
    """The rate over time, the first at 0 s, in order; empty for an infinitely fast link."""
    queue_seconds: float | None = None
    """Drop-tail limit as time: the bytes waiting never exceed this long at the current rate."""
    queue_bytes: int | None = None
    """Drop-tail limit in bytes waiting, headers included; with both, the smaller counts."""
    loss: RandomLoss | GilbertElliottLoss | None = None
    """Loss after the bottleneck: a lost packet has used the link's capacity."""
    overhead_bytes: int = UDP_IPV4_OVERHEAD
    """Added to each packet's size before it is serialized."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.delay) and self.delay >= 0.0):
            raise ValueError(f"a link's delay is at least 0 s, got {self.delay!r}")
        times = [step.at for step in self.steps]
        if times and times[0] != 0.0:
            raise ValueError(f"a link's first rate step is at 0 s, got {times[0]!r}")
        if any(a >= b for a, b in itertools.pairwise(times)):
            raise ValueError(f"a link's rate steps stand in order of time, got {times}")
        if self.queue_seconds is not None and not self.queue_seconds > 0.0:
            raise ValueError(f"a queue limit is above 0 s, got {self.queue_seconds!r}")
        if self.queue_bytes is not None and self.queue_bytes <= 0:
            raise ValueError(f"a queue limit is above 0 bytes, got {self.queue_bytes!r}")
        if self.overhead_bytes < 0:
            raise ValueError(f"an overhead is at least 0 bytes, got {self.overhead_bytes!r}")

    def rate_at(self, time: float) -> float:
        """Bits per second at `time`; infinity for an unlimited link."""
        rate = math.inf if not self.steps else self.steps[0].rate_bps
        for step in self.steps:
            if step.at > time:
                break
            rate = step.rate_bps
        return rate

    def limit_bytes(self, time: float) -> float:
        """Bytes that may wait at `time`. In an outage the last rate above 0 is what counts."""
        limit = math.inf if self.queue_bytes is None else float(self.queue_bytes)
        if self.queue_seconds is None or not self.steps:
            return limit
        rate = 0.0
        for step in self.steps:
            if step.at > time and rate > 0.0:
                break
            rate = step.rate_bps or rate
        return min(limit, self.queue_seconds * rate / 8.0)

    def finish(self, start: float, size_bytes: float) -> float:
        """When a packet whose first bit leaves at `start` has left; infinity if it never does."""
        if not self.steps:
            return start
        bits = size_bytes * 8.0
        for index, step in enumerate(self.steps):
            last = index + 1 == len(self.steps)
            end = math.inf if last else self.steps[index + 1].at
            if end <= start:
                continue
            if step.rate_bps > 0.0:
                done = start + bits / step.rate_bps
                if done <= end:
                    return done
                bits -= (end - start) * step.rate_bps
            start = end
        return math.inf

    def capacity_bytes(self, start: float, end: float) -> float:
        """Bytes that could have been served between two times; infinity for an unlimited link."""
        if not self.steps:
            return math.inf
        bits = 0.0
        for index, step in enumerate(self.steps):
            last = index + 1 == len(self.steps)
            until = end if last else min(end, self.steps[index + 1].at)
            bits += max(0.0, until - max(start, step.at)) * step.rate_bps
        return bits / 8.0
