"""The parameter sets that the model is held against real netem with, and what is sent over each."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .spec import (
    CoDelSpec,
    FourStateLoss,
    GilbertElliottLoss,
    LinkSpec,
    RandomLoss,
    RateStep,
    ReorderSpec,
    StepMarkingSpec,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One parameter set, what is sent over it, and what about it is judged."""

    name: str
    spec: LinkSpec
    rate: float
    """Packets per second offered."""
    seconds: float
    size: int = 300
    """Bytes of UDP payload."""
    poisson: bool = False
    """Send at random times: a queue then shows all its lengths."""
    ecn: bool = False
    queue: bool = False
    """Delays come from a queue, so they are whole plateaus of equal values: see `fidelity`."""
    packet_limit: bool = False
    """tc's queue limit is known to one packet only (tbf and the wire behind it share it)."""
    quick: bool = False
    """Part of the short set that continuous integration runs."""
    longest: float = 0.3
    """Seconds to wait for the last packets."""

    def plan(self, seed: int = 1) -> list[tuple[float, int]]:
        """(time, size) of what is sent."""
        count = round(self.rate * self.seconds)
        if not self.poisson:
            return [(index / self.rate, self.size) for index in range(count)]
        source = random.Random(f"plan/{seed}")
        time, plan = 0.0, []
        for _ in range(count):
            time += source.expovariate(self.rate)
            plan.append((time, self.size))
        return plan


def _jitter(distribution: str, **more: object) -> LinkSpec:
    values: dict[str, object] = {
        "delay": 0.05,
        "jitter": 0.01,
        "distribution": distribution,
        "jitter_reorders": True,
    }
    return LinkSpec(**{**values, **more})  # type: ignore[arg-type]


def _rate(bps: float, **more: object) -> LinkSpec:
    return LinkSpec(steps=(RateStep(0.0, bps),), **more)  # type: ignore[arg-type]


def _queue_case(
    name: str, spec: LinkSpec, load: float, *, quick: bool = False, **more: object
) -> Case:
    """Packets of 1,200 bytes (or `size`) at a share `load` of the first rate, at random times."""
    settings: dict[str, object] = {"seconds": 3.0, "size": 1200, "poisson": True, "queue": True}
    settings.update(more)
    rate = load * spec.rate_at(0.0) / 8 / (settings["size"] + 28)  # type: ignore[operator]
    return Case(name, spec, rate, quick=quick, **settings)  # type: ignore[arg-type]


CASES: tuple[Case, ...] = (
    Case("uniform 20 ± 5 ms", _jitter("uniform", delay=0.02, jitter=0.005), 2000, 2.0),
    Case("normal 50 ± 10 ms", _jitter("normal"), 2000, 2.0, quick=True),
    Case("normal, correlation 25 %", _jitter("normal", jitter_correlation=0.25), 2000, 2.0),
    Case("pareto 50 ± 10 ms", _jitter("pareto"), 2000, 2.0),
    Case("paretonormal 50 ± 10 ms", _jitter("paretonormal"), 2000, 2.0),
    Case(
        "normal 50 ± 5 ms, bound 15, in order",
        _jitter("normal", jitter=0.005, jitter_bound=0.015, jitter_reorders=False),
        200,
        6.0,
    ),
    Case(
        "normal 20 ± 10 ms, in order",
        _jitter("normal", delay=0.02, jitter_reorders=False),
        100,
        8.0,
    ),
    Case("loss 2 %", LinkSpec(loss=RandomLoss(0.02)), 2500, 4.0, 200),
    Case(
        "Gilbert-Elliott 5 %, bursts of 4",
        LinkSpec(loss=GilbertElliottLoss(0.05, 4.0)),
        2500,
        3.0,
        200,
        quick=True,
    ),
    Case(
        "gemodel 1 % 20 % 80 % 0.1 %",
        LinkSpec(
            loss=GilbertElliottLoss.from_transitions(0.01, 0.2, bad_loss=0.8, good_loss=0.001)
        ),
        2500,
        3.0,
        200,
    ),
    Case(
        "4-state 1 % 30 % 10 % 20 % 0.5 %",
        LinkSpec(loss=FourStateLoss(0.01, 0.3, 0.1, 0.2, 0.005)),
        2500,
        3.0,
        200,
        quick=True,
    ),
    Case(
        "reorder 25 %, 20 ms",
        LinkSpec(delay=0.02, reorder=ReorderSpec(0.25)),
        1000,
        2.0,
        queue=True,
    ),
    Case(
        "reorder 50 % gap 5, duplicate 2 %, 20 ms",
        LinkSpec(delay=0.02, reorder=ReorderSpec(0.5, 5), duplicate=0.02),
        1000,
        2.0,
        queue=True,
        quick=True,
    ),
    Case("corrupt 3 %", LinkSpec(corrupt=0.03), 2000, 2.0, 1000),
    Case(
        "limit 50 packets in 50 ms", LinkSpec(delay=0.05, limit_packets=50), 1100, 2.0, queue=True
    ),
    _queue_case("wire 5 Mbit/s, load 85 %", _rate(5e6, queue_bytes=60_000), 0.85),
    _queue_case(
        "wire 5 Mbit/s, 100 ms, load 120 %",
        _rate(5e6, queue_seconds=0.1),
        1.2,
        packet_limit=True,
    ),
    _queue_case(
        "wire 5 Mbit/s, 20 packets, load 110 %",
        _rate(5e6, queue_packets=20),
        1.1,
        packet_limit=True,
    ),
    _queue_case(
        "bucket 5 Mbit/s, burst 15 kB, load 85 %",
        _rate(5e6, queue_bytes=60_000, burst_bytes=15_000),
        0.85,
    ),
    _queue_case(
        "bucket 5 Mbit/s, burst 3 kB, 100 ms, load 120 %",
        _rate(5e6, queue_seconds=0.1, burst_bytes=3000),
        1.2,
        quick=True,
    ),
    _queue_case(
        "CoDel 5/100 ms, load 115 %",
        _rate(5e6, queue_bytes=600_000, burst_bytes=3000, aqm=CoDelSpec()),
        1.15,
        quick=True,
    ),
    _queue_case(
        "CoDel marking, load 110 %",
        _rate(5e6, queue_bytes=600_000, burst_bytes=3000, aqm=CoDelSpec(ecn=True)),
        1.1,
        ecn=True,
    ),
    _queue_case(
        "marks above 1 ms, load 80 %",
        _rate(5e6, queue_bytes=600_000, burst_bytes=3000, aqm=StepMarkingSpec(0.001)),
        0.8,
        ecn=True,
        quick=True,
    ),
    _queue_case(
        "4 Mbit/s, 2 after 1 s, 4 after 2 s; 150 ms",
        LinkSpec(
            steps=(RateStep(0.0, 4e6), RateStep(1.0, 2e6), RateStep(2.0, 4e6)), queue_seconds=0.15
        ),
        0.8,
    ),
    _queue_case(
        "1 Mbit/s, 25 ± 5 ms, bursts of 4 (all at once)",
        _rate(
            1e6,
            delay=0.025,
            jitter=0.005,
            distribution="normal",
            queue_seconds=0.2,
            loss=GilbertElliottLoss(0.05, 4.0),
        ),
        0.9,
        seconds=8.0,
        queue=False,
    ),
)
