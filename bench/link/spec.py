"""What a link is, as plain data: bottleneck, queue, loss, delay and what else befalls packets.

A `LinkSpec` describes one direction. Times are link time in seconds (`model.py` says since when);
rates are bits per second on the wire, headers included. A packet meets, in this order: the queue
of the bottleneck (with its limit and its marking or dropping), serialization at the rate of the
moment, duplication, loss, corruption, and propagation with its jitter. Serialization is counted
once, before propagation (a store-and-forward wire, unless a burst makes it a token bucket), so
one packet of 1,200 bytes on 0.1 Mbit/s takes 96 ms plus the delay.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from .rates import RateCurve, RateStep
from .tables import table

__all__ = [
    "CoDelSpec",
    "FourStateLoss",
    "GilbertElliottLoss",
    "LinkSpec",
    "LossSpec",
    "RandomLoss",
    "RateStep",
    "ReorderSpec",
    "StepMarkingSpec",
]

UDP_IPV4_OVERHEAD = 28
"""Bytes an IPv4 header (20) and a UDP header (8) add to a payload: what the wire really carries."""
MAX_JITTER = 2.147
"""Seconds; netem keeps jitter in 31 bits of nanoseconds."""
MIN_BURST = 1514
"""Bytes of a full Ethernet frame. A smaller token bucket could never send one."""
OPPORTUNITY_BYTES = 1500
"""What one delivery opportunity of a mahimahi trace carries."""


def _probability(value: float, what: str) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{what} is in [0, 1], got {value!r}")


@dataclass(frozen=True, slots=True)
class RandomLoss:
    """Each packet is lost with `probability`, whatever became of the one before."""

    probability: float

    def __post_init__(self) -> None:
        _probability(self.probability, "a loss probability")


@dataclass(frozen=True, slots=True)
class GilbertElliottLoss:
    """Loss in bursts: a two-state chain whose good state loses nothing, whose bad state all.

    Given as what one can measure: the `mean` share of packets lost, and the mean length `burst`
    of a run of losses (at least 1 packet); or by `from_transitions` as netem has it. Raises
    ValueError when no chain has both.
    """

    mean: float
    burst: float
    bad_loss: float = 1.0
    """Share lost in the bad state (netem's 1-h). Then `burst` is the mean stay there."""
    good_loss: float = 0.0
    """Share lost in the good state (netem's 1-k)."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.mean < 1.0:
            raise ValueError(f"a mean loss is in [0, 1), got {self.mean!r}")
        if not (math.isfinite(self.burst) and self.burst >= 1.0):
            raise ValueError(f"a mean burst is at least 1 packet, got {self.burst!r}")
        _probability(self.bad_loss, "the bad state's loss")
        _probability(self.good_loss, "the good state's loss")
        if not self.good_loss <= self.mean < self.bad_loss:
            raise ValueError(
                f"a mean loss of {self.mean} lies between the good state's loss "
                f"{self.good_loss} and the bad state's {self.bad_loss}"
            )
        if self.enter > 1.0:
            shortest = self.mean / (1.0 - self.mean)
            raise ValueError(
                f"a mean loss of {self.mean} needs bursts of at least {shortest:.2f} packets, "
                f"got {self.burst!r}"
            )

    @classmethod
    def from_transitions(
        cls, p: float, r: float, *, bad_loss: float = 1.0, good_loss: float = 0.0
    ) -> GilbertElliottLoss:
        """netem's `gemodel p r 1-h 1-k`: probability per packet of going bad, and back."""
        _probability(p, "the probability of going bad")
        if not 0.0 < r <= 1.0:
            raise ValueError(f"the probability of going back to good is in (0, 1], got {r!r}")
        bad = p / (p + r)
        mean = bad * bad_loss + (1.0 - bad) * good_loss
        return cls(mean, 1.0 / r, bad_loss, good_loss)

    @property
    def leave(self) -> float:
        """Probability per packet of going from bad to good: a geometric run of mean `burst`."""
        return 1.0 / self.burst

    @property
    def enter(self) -> float:
        """Probability per packet of going from good to bad, from the mean loss in balance."""
        if self.mean <= self.good_loss:
            return 0.0
        return (self.mean - self.good_loss) * self.leave / (self.bad_loss - self.mean)


@dataclass(frozen=True, slots=True)
class FourStateLoss:
    """netem's `loss state`: gaps and bursts, each with packets that come and packets that do not.

    Transition probabilities per packet between 1 (came, in a gap), 2 (came, in a burst), 3 (lost,
    in a burst) and 4 (lost alone in a gap).
    """

    p13: float
    p31: float
    p32: float = 0.0
    p23: float = 1.0
    p14: float = 0.0

    def __post_init__(self) -> None:
        for name in ("p13", "p31", "p32", "p23", "p14"):
            _probability(getattr(self, name), f"the loss transition {name}")
        if self.p13 + self.p14 > 1.0 or self.p31 + self.p32 > 1.0:
            raise ValueError("the loss transitions out of one state add up to at most 1")


LossSpec = RandomLoss | GilbertElliottLoss | FourStateLoss


@dataclass(frozen=True, slots=True)
class CoDelSpec:
    """CoDel (RFC 8289) at the bottleneck's queue."""

    target: float = 0.005
    """Seconds a packet may have waited."""
    interval: float = 0.1
    """Seconds it may be above before CoDel acts."""
    ecn: bool = False
    """Mark packets that can carry a mark instead of dropping them."""

    def __post_init__(self) -> None:
        if not (0.0 < self.target < self.interval and math.isfinite(self.interval)):
            raise ValueError(f"CoDel needs 0 < target < interval, got {self}")


@dataclass(frozen=True, slots=True)
class StepMarkingSpec:
    """ECN marking of every packet that waited longer than a threshold, as in L4S."""

    threshold: float
    """Seconds of waiting; 1 ms is the usual one. Packets that carry no ECN pass."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and self.threshold >= 0.0):
            raise ValueError(f"a marking threshold is at least 0 s, got {self.threshold!r}")


@dataclass(frozen=True, slots=True)
class ReorderSpec:
    """Some packets skip the propagation delay and overtake those before them, as in netem."""

    probability: float
    """That a packet whose turn it is overtakes."""
    gap: int = 1
    """Only every `gap`-th packet has its turn."""

    def __post_init__(self) -> None:
        _probability(self.probability, "a reordering probability")
        if self.gap < 1:
            raise ValueError(f"a reordering gap is at least 1 packet, got {self.gap!r}")


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
    """Drop-tail limit in bytes waiting, headers included; of several limits each counts."""
    loss: LossSpec | None = None
    """Loss after the bottleneck: a lost packet has used the link's capacity."""
    overhead_bytes: int = UDP_IPV4_OVERHEAD
    """Added to each packet's size (its UDP payload) before it is serialized."""
    queue_packets: int | None = None
    """Drop-tail limit in packets waiting."""
    repeat: float | None = None
    """Seconds after which the rate steps start again from 0 s; None: the last one stays."""
    opportunities: tuple[int, ...] = ()
    """Instead of rate steps: milliseconds at which 1,500 bytes may leave (a mahimahi trace);
    the last one is also the trace's length, after which it starts again."""
    burst_bytes: int | None = None
    """Bytes of a token bucket: what an idle link saves up and then sends at once. None: a wire."""
    aqm: CoDelSpec | StepMarkingSpec | None = None
    """What the queue does before it is full."""
    jitter: float = 0.0
    """Seconds of delay variation, as the distribution scales it (normal: standard deviation)."""
    distribution: str = "uniform"
    """Of the delay variation: see `tables`."""
    jitter_bound: float | None = None
    """Seconds; the distribution is cut here on both sides."""
    jitter_correlation: float = 0.0
    """Share of each draw that is taken over from the one before. As in netem, which then looks at
    the draw's low bits only: the delays themselves end up hardly correlated at all."""
    jitter_reorders: bool = False
    """Let jitter swap packets, as netem does; otherwise a packet waits for those before it."""
    reorder: ReorderSpec | None = None
    """Overtaking on purpose; needs a delay to save."""
    duplicate: float = 0.0
    """Probability that a packet comes twice."""
    corrupt: float = 0.0
    """Probability that one bit of a packet is flipped."""
    limit_packets: int | None = None
    """Packets that may be under way at once, netem's `limit` (its default is 1,000, ours none)."""
    flow_delays: tuple[float, ...] = ()
    """Propagation per flow instead of `delay`, seconds: flow n has the n-th, round and round."""
    curve: RateCurve = field(init=False, repr=False, compare=False)
    """The steps, ready for arithmetic."""

    def __post_init__(self) -> None:
        for value in (self.delay, *self.flow_delays):
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"a link's delay is at least 0 s, got {value!r}")
        object.__setattr__(self, "curve", RateCurve(self.steps, self.repeat))
        self._check_queue()
        self._check_delay()
        _probability(self.duplicate, "a duplication probability")
        _probability(self.corrupt, "a corruption probability")
        if self.overhead_bytes < 0:
            raise ValueError(f"an overhead is at least 0 bytes, got {self.overhead_bytes!r}")

    def _check_queue(self) -> None:
        limits = (self.queue_seconds, self.queue_bytes, self.queue_packets, self.limit_packets)
        for limit, unit in zip(limits, ("s", "bytes", "packets", "packets"), strict=True):
            if limit is not None and not limit > 0:
                raise ValueError(f"a queue limit is above 0 {unit}, got {limit!r}")
        times = self.opportunities
        if times:
            if self.steps or self.burst_bytes is not None:
                raise ValueError("a delivery trace takes the place of rate, steps and burst")
            if times[0] < 0 or any(a > b for a, b in itertools.pairwise(times)):
                raise ValueError("a delivery trace holds milliseconds from 0 on, in order")
            if times[-1] < 1:
                raise ValueError("a delivery trace is at least 1 ms long")
        if not (self.steps or times):
            if any(limit is not None for limit in limits[:3]) or self.aqm is not None:
                raise ValueError("an unlimited link has no queue to limit or mark: give it a rate")
            if self.burst_bytes is not None:
                raise ValueError("a token bucket needs a rate to fill it")
        if self.burst_bytes is not None and self.burst_bytes < MIN_BURST:
            raise ValueError(
                f"a burst is at least one full packet of {MIN_BURST} bytes, got {self.burst_bytes}"
            )

    def _check_delay(self) -> None:
        if not 0.0 <= self.jitter <= MAX_JITTER:
            raise ValueError(f"a jitter is in [0, {MAX_JITTER}] s, got {self.jitter!r}")
        if not 0.0 <= self.jitter_correlation < 1.0:
            raise ValueError(f"a jitter correlation is in [0, 1), got {self.jitter_correlation!r}")
        if self.jitter_bound is not None and not (self.jitter_bound > 0.0 and self.jitter > 0.0):
            raise ValueError("a jitter bound is above 0 s and needs a jitter to bound")
        self.delay_table()
        if self.reorder is not None and self.reorder.probability > 0.0 and self.delay <= 0.0:
            raise ValueError(
                "reordering lets packets skip the delay, and this link has none: give it a delay"
            )

    def delay_table(self) -> tuple[int, ...]:
        """The table that delay variation is drawn from; empty for a uniform one."""
        bound = None if self.jitter_bound is None else self.jitter_bound / self.jitter
        return table(self.distribution, bound)

    def rate_at(self, time: float) -> float:
        """Bits per second at `time`; of a delivery trace, its mean; infinity if unlimited."""
        if self.opportunities:
            return len(self.opportunities) * OPPORTUNITY_BYTES * 8e3 / self.opportunities[-1]
        return self.curve.rate_at(time)

    def rate_steps(self, *, until: float, limit: int = 4096) -> list[tuple[float, float]]:
        """(time, bits per second) of every change up to a time; a trace in means of 100 ms."""
        if self.opportunities:
            period = self.opportunities[-1] / 1e3
            count = min(limit, max(1, math.ceil(min(until, period) / 0.1)))
            room = [0] * count
            for at in self.opportunities:
                if at // 100 < count:
                    room[at // 100] += OPPORTUNITY_BYTES * 80
            return [(index / 10, float(bits)) for index, bits in enumerate(room)]
        steps = [(step.at, step.rate_bps) for step in self.steps]
        if self.repeat is not None:
            cycles = range(1, min(limit // len(steps), int(until / self.repeat) + 1))
            again = [(n * self.repeat + at, rate) for n in cycles for at, rate in steps]
            steps += [step for step in again if step[0] <= until]
        return steps

    def limit_bytes(self, time: float) -> float:
        """Bytes that may wait at `time`. In an outage the last rate above 0 is what counts."""
        limit = math.inf if self.queue_bytes is None else float(self.queue_bytes)
        if self.queue_seconds is None:
            return limit
        rate = self.rate_at(time) if self.opportunities else self.curve.nominal_rate_at(time)
        return min(limit, self.queue_seconds * rate / 8.0)

    def finish(self, start: float, size_bytes: float) -> float:
        """When a packet whose first bit leaves at `start` has left; infinity if it never does."""
        return self.curve.finish(start, size_bytes * 8.0)

    def capacity_bytes(self, start: float, end: float) -> float:
        """Bytes that could have been served between two times; infinity for an unlimited link."""
        if self.opportunities:
            return max(0.0, end - start) * self.rate_at(start) / 8.0
        if not self.steps:
            return math.inf
        return (self.curve.bits_by(end) - self.curve.bits_by(start)) / 8.0
