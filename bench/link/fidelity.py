"""The proof that the model means what netem means: both measured side by side, per parameter set.

Over each parameter set the same plan of packets is sent through real netem, in both directions at
once, and then, at the very times they were really sent, through the model on a virtual clock.

- **KS** is the Kolmogorov-Smirnov distance of one-way delays between model and reality; **reality
  twice** is that between the two directions. The model passes when its distance is within that
  one's or 1.5 times the 5 % critical value, `1.36 * sqrt((n + m) / (n * m))`.
- Delays out of a queue are plateaus: thousands of packets have nearly the same. There, two equal
  links differ by what a wake-up takes, and KS would be 1. For those cases values are allowed to lie
  0.5 ms apart (`WAKE_UP`). A store-and-forward wire's full queue is made of two qdiscs in tc, and
  its limit is exact to one packet only: there, by one packet's serialization more (`packet_limit`).
- **TUN KS** compares the driver over TUN devices with the virtual clock: the same seed, the very
  times at which its packets were sent. Plateaus may lie 1 ms apart there.
- CoDel's path forks: whether a packet a microsecond earlier or later is the one that is dropped
  decides where all later drops fall (10 µs of noise in the send times of the overload case gave one
  of two paths, KS 0.27 apart, one time in four). Both directions of reality share their noise, so
  "reality twice" does not show it. There the model is played `FORKS` times with send times up to
  0.1 ms later, and the nearest of these is judged: reality has to be one of the paths.
- The base delay of the bare link, measured beforehand, is taken off.
- **Losses** (of all kinds), the mean length of their runs, and **marks** are shares of the packets
  sent; they pass when they are as close as reality to itself, or within 1.5 times what two samples
  of this size differ by at 5 %. Runs of losses widen that by their length.

    python -m limen.bench.link.fidelity [--quick] [--tun] [--backend kernel|uml]
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from .distance import critical, distance
from .fidelity_cases import CASES, Case
from .lab.backends import probe
from .lab.links import NamespaceLink, open_link
from .lab.measure import Calibration, Passage, calibrate, measure
from .lab.namespace import LabError
from .loss import burst_lengths
from .profile import LinkProfile
from .spec import CoDelSpec, FourStateLoss, GilbertElliottLoss
from .virtual import play

WAKE_UP = 0.0005
"""Seconds by which equal delays may differ in cases of plateaus."""
SLACK = 1.5
FORKS = 12
"""Plays of a model with CoDel; with even odds all take the wrong path once in 4,096 proofs."""
FORK_NOISE = 0.0001
"""Seconds: what lies between a send's stamp and its arrival at the qdisc on a quiet machine."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What came of a plan: one-way delays in seconds, and which packets were lost or marked."""

    delays: list[float]
    lost: list[bool]
    marks: float
    """Share of arrivals that carry a congestion mark."""
    repeats: float
    """Share of packets sent that arrived more than once."""
    overtakings: float
    """Share of arrivals that an earlier packet came after."""

    @property
    def loss(self) -> float:
        """Share of packets sent that never came."""
        return sum(self.lost) / len(self.lost)

    @property
    def bursts(self) -> list[int]:
        """Lengths of the runs of losses."""
        return burst_lengths(self.lost)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the fidelity table."""

    case: Case
    distance: float
    distance_reality: float
    distance_allowed: float
    model: Sample
    reality: Sample
    again: Sample
    distance_tun: float | None
    """Between the TUN driver and the virtual clock; None when it was not measured."""
    failures: list[str] = field(default_factory=list)


def sample(arrivals: Sequence[tuple[int, float, bool]], count: int) -> Sample:
    """From (index, delay, marked) in order of arrival, of `count` packets sent."""
    times = [0] * count
    highest, late = -1, 0
    for index, _, _ in arrivals:
        times[index] += 1
        late += index < highest
        highest = max(highest, index)
    came = max(1, len(arrivals))
    return Sample(
        delays=sorted(delay for _, delay, _ in arrivals),
        lost=[seen == 0 for seen in times],
        marks=sum(marked for _, _, marked in arrivals) / came,
        repeats=sum(seen > 1 for seen in times) / count,
        overtakings=late / came,
    )


def real_sample(passage: Passage, base: float) -> Sample:
    """A measured passage, with the bare link's delay taken off."""
    rows = [(a.index, a.delay - base, a.ecn == 0b11) for a in passage.arrived]
    return sample(rows, len(passage.sent))


def model_samples(case: Case, passage: Passage, *, seed: int) -> list[Sample]:
    """The model's paths through a case: one, or several where the path forks (module's text)."""
    sends = [(sent.time, sent.size) for sent in passage.sent]
    paths = [model_sample(case, sends, seed=seed)]
    if isinstance(case.spec.aqm, CoDelSpec):
        for fork in range(1, FORKS):
            source = random.Random(f"fork/{seed}/{fork}")
            shifted = sorted((time + source.uniform(0, FORK_NOISE), size) for time, size in sends)
            paths.append(model_sample(case, shifted, seed=seed))
    return paths


def model_sample(case: Case, sends: Sequence[tuple[float, int]], *, seed: int) -> Sample:
    """The same packets at the times they were really sent, through the model."""
    deliveries = play(case.spec, sends, seed=seed, ect=case.ecn)
    # The receiver's kernel drops a damaged packet by its checksum.
    rows = [(d.index, d.arrived - d.sent, d.marked) for d in deliveries if not d.corrupted]
    return sample(rows, len(sends))


def _share_slack(case: Case, a: Sample, b: Sample, value: float) -> float:
    bursts = a.bursts + b.bursts
    run = sum(bursts) / len(bursts) if bursts else 1.0
    if isinstance(case.spec.loss, GilbertElliottLoss):
        run = max(run, case.spec.loss.burst)  # a stay in the bad state may lose only some
    elif isinstance(case.spec.loss, FourStateLoss):
        loss = case.spec.loss
        run = max(run, (1.0 + loss.p32 / max(loss.p23, 1e-9)) / max(loss.p31, 1e-9))
    spread = 2.0 * value * (1.0 - value) / len(a.lost) * (2.0 * run - 1.0)
    return SLACK * 1.96 * math.sqrt(spread) + 2.0 / len(a.lost)


def judge(case: Case, model: Sample, reality: Sample, again: Sample) -> Row:
    """Hold one case's model against reality and reality against itself."""
    tolerance = WAKE_UP if case.queue else 0.0
    if case.packet_limit:
        tolerance += (case.size + case.spec.overhead_bytes) * 8.0 / case.spec.rate_at(0.0)
    here = distance(model.delays, reality.delays, tolerance=tolerance)
    there = distance(again.delays, reality.delays, tolerance=tolerance)
    allowed = max(there, SLACK * critical(len(model.delays), len(reality.delays)))
    failures: list[str] = []
    if judges_delay(case) and here > allowed:
        failures.append(f"KS {here:.3f} > {allowed:.3f}")
    for name in ("loss", "marks", "repeats", "overtakings"):
        got, real, other = (getattr(s, name) for s in (model, reality, again))
        slack = max(abs(real - other), _share_slack(case, model, reality, (got + real) / 2.0))
        if name == "overtakings":
            slack += 0.02  # swaps of neighbours hang on microseconds
        if abs(got - real) > slack:
            failures.append(f"{name} {got:.4f}, real {real:.4f}")
    lengths, real_lengths = sorted(model.bursts), sorted(reality.bursts)
    if len(lengths) > 30 and len(real_lengths) > 30:
        between = distance(lengths, real_lengths)
        itself = distance(sorted(again.bursts), real_lengths)
        if between > max(itself, SLACK * critical(len(lengths), len(real_lengths))):
            failures.append(f"runs of losses differ: KS {between:.3f}")
    return Row(case, here, there, allowed, model, reality, again, None, failures)


def judges_delay(case: Case) -> bool:
    """Whether a case has delays to compare; pure loss has none but the bare link's."""
    spec = case.spec
    return bool(spec.delay or spec.jitter or spec.steps)


def compare(
    link: NamespaceLink, cases: Sequence[Case], base: float, tun: NamespaceLink | None = None
) -> list[Row]:
    """Measure every case over real netem, play it through the model, judge."""
    rows: list[Row] = []
    for number, case in enumerate(cases, 1):
        profile = LinkProfile(case.name, case.name, up=case.spec, down=case.spec)
        plan = case.plan()
        link.shape(profile)
        there, back = measure(link, [plan, plan], ecn=case.ecn, longest_delay=case.longest)
        reality, again = real_sample(there, base), real_sample(back, base)
        judged = [
            judge(case, path, reality, again) for path in model_samples(case, there, seed=number)
        ]
        row = min(judged, key=lambda row: (len(row.failures), row.distance))
        if tun is not None:
            tun.shape(profile, seed=number)
            [driven] = measure(tun, [plan], ecn=case.ecn, longest_delay=case.longest)
            slack = 2 * WAKE_UP if case.queue else 0.0
            through = real_sample(driven, base)
            computed = model_samples(case, driven, seed=2 * number)  # the driver's way down
            far = min(distance(through.delays, c.delays, tolerance=slack) for c in computed)
            row = dataclasses.replace(row, distance_tun=far)
        rows.append(row)
    return rows


def markdown(rows: Sequence[Row], calibration: Calibration, backend: str) -> str:
    """The table, made to be read."""
    lines = [
        f"Real netem: backend `{backend}`, bare link {calibration.base_delay_ms} ms one way "
        f"(p99 {calibration.p99_ms} ms, 1,000 packets). Delays in ms are p50 / p95.",
        "",
        "| parameters | n | delay, model | delay, real | KS | reality twice | allowed | TUN KS "
        "| loss %, model / real / again | run of losses | marks % | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        m, r, a = row.model, row.reality, row.again
        delays = judges_delay(row.case)
        cells = [
            row.case.name,
            str(len(m.lost)),
            _delay(m) if delays else "",
            _delay(r) if delays else "",
            f"{row.distance:.3f}" if delays else "",
            f"{row.distance_reality:.3f}" if delays else "",
            f"{row.distance_allowed:.3f}" if delays else "",
            f"{row.distance_tun:.3f}" if delays and row.distance_tun is not None else "",
            " / ".join(f"{100 * s.loss:.2f}" for s in (m, r, a)),
            " / ".join(f"{_mean(s.bursts):.2f}" for s in (m, r, a)) if m.loss or r.loss else "",
            " / ".join(f"{100 * s.marks:.1f}" for s in (m, r, a)) if row.case.ecn else "",
            "; ".join(row.failures) or "same",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _delay(s: Sample) -> str:
    if not s.delays:
        return "none came"
    n = len(s.delays)
    return f"{1e3 * s.delays[n // 2]:.2f} / {1e3 * s.delays[n * 95 // 100]:.2f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def real_backend() -> str:
    """The real netem to be had here. Raises LabError, with the reasons, when there is none."""
    reasons = probe()
    for name in ("kernel", "uml"):
        if reasons[name] is None:
            return name
    raise LabError(f"no real netem here: {reasons['kernel']}; user-mode-linux: {reasons['uml']}")


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; exit status 1 when a case differs, 2 without real netem."""
    parser = argparse.ArgumentParser(description="Hold the link model against real netem.")
    parser.add_argument("--quick", action="store_true", help="the short set of cases")
    parser.add_argument("--tun", action="store_true", help="measure the TUN driver as well")
    parser.add_argument("--backend", choices=("kernel", "uml"), help="which real netem")
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this in their name")
    options = parser.parse_args(arguments)
    cases = [c for c in CASES if (c.quick or not options.quick) and options.only in c.name]
    profiles = [LinkProfile(c.name, c.name, up=c.spec, down=c.spec) for c in cases]
    try:
        link = open_link(profiles, backend=options.backend or real_backend())
        with link:
            calibration = calibrate(link)
            base = calibration.base_delay_ms / 1e3
            if options.tun:
                with open_link(profiles, backend="tun") as tun:
                    rows = compare(link, cases, base, tun)
            else:
                rows = compare(link, cases, base)
    except LabError as error:
        print(f"fidelity: {error}", file=sys.stderr)  # noqa: T201 - a program's own output
        return 2
    print(markdown(rows, calibration, link.backend))  # noqa: T201 - a program's own output
    return 1 if any(row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
