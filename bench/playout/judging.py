"""The trace player: every buffer on the same arrivals, one table, one picture of curves.

Delays in the table are from capture to ear with the link's propagation taken off, the same for
all. A buffer's curve is what turning its main knob does; the clairvoyant bound stands at the
damage of limen's own run, so that the two can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...transport.playout.jitter import JitterSettings
from .clairvoyant import Bound, bound_at, clairvoyant
from .link import audio_arrivals, generate_lte, read_trace, steady_arrivals
from .neteq import play_neteq
from .outcome import Outcome, Verdict, judge
from .players import distinct, play_fixed, play_limen
from .speech import FRAME_S, Speech

Floats = NDArray[np.float64]
Progress = Callable[[str], None]

PROPAGATION_MS = 20.0
PRICES = (4.0, 10.0, 25.0)
QUANTILES = (0.7, 0.85, 0.97)
FIXED_S = (0.06, 0.1, 0.2, 0.4, 0.8)
BOUND_PRICES = (5.0, 20.0, 100.0)


@dataclass(slots=True)
class Case:
    """All verdicts on one stream of arrivals."""

    name: str
    limen: Verdict
    neteq: Verdict
    fixed: Verdict
    bound: Bound
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Per buffer: (damage %, mean delay ms)."""

    @property
    def mean_ratio(self) -> float:
        """Mean delay over that of NetEQ's rules."""
        return self.limen.mean_ms / self.neteq.mean_ms

    @property
    def p95_ratio(self) -> float:
        """95th percentile over that of NetEQ's rules."""
        return self.limen.p95_ms / self.neteq.p95_ms

    @property
    def bound_ratio(self) -> float:
        """Mean delay over the clairvoyant bound at the same damage."""
        return self.limen.mean_ms / self.bound.mean_ms


def run_case(
    name: str,
    speech: Speech,
    arrivals: Floats,
    *,
    with_pesq: bool = True,
    with_curves: bool = False,
    progress: Progress = lambda _: None,
) -> Case:
    """Play one stream of arrivals through all buffers. 120 s take about half a minute."""
    arrivals = arrivals - PROPAGATION_MS / 1000
    progress(f"{name}: limen")
    ours = judge(speech, play_limen(speech, arrivals), with_pesq=with_pesq)
    progress(f"{name}: NetEQ's rules")
    theirs = judge(speech, play_neteq(speech, arrivals), with_pesq=with_pesq)
    progress(f"{name}: fixed and clairvoyant")
    fixed = judge(speech, _fixed_at(speech, arrivals, ours.mean_ms), with_pesq=with_pesq)
    case = Case(name, ours, theirs, fixed, bound_at(speech, arrivals, damage=ours.damage))
    if with_curves:
        progress(f"{name}: curves")
        case.curves = _curves(speech, arrivals)
    return case


def _fixed_at(speech: Speech, arrivals: Floats, mean_ms: float) -> Outcome:
    captured = (np.arange(len(speech)) + 1) * FRAME_S
    floor_ms = float(np.nanmin(arrivals - captured)) * 1000
    return play_fixed(speech, arrivals, delay_s=max(0.0, mean_ms - floor_ms - 20) / 1000)


def _curves(speech: Speech, arrivals: Floats) -> dict[str, list[tuple[float, float]]]:
    def points(outcomes: Iterable[Outcome]) -> list[tuple[float, float]]:
        verdicts = [judge(speech, outcome) for outcome in outcomes]
        return sorted((v.damage, v.mean_ms) for v in verdicts)

    bounds = [clairvoyant(speech, arrivals, price=p) for p in BOUND_PRICES]
    return {
        "limen": points(
            play_limen(speech, arrivals, settings=JitterSettings(damage_price=p)) for p in PRICES
        ),
        "NetEQ's rules": points(play_neteq(speech, arrivals, quantile=q) for q in QUANTILES),
        "fixed": points(play_fixed(speech, arrivals, delay_s=d, with_sound=False) for d in FIXED_S),
        "clairvoyant": sorted((b.damage, b.mean_ms) for b in bounds),
    }


def make_cases(
    speech: Speech, traces: Iterable[Path], *, generated: int = 2, seed: int = 1
) -> list[tuple[str, Floats]]:
    """Named arrivals: a clean link, the recorded traces, generated LTE-like ones.

    Raises TraceError and OSError for a trace that cannot be read.
    """
    sizes = [len(payload) for payload in speech.payloads]
    seconds = len(speech) * FRAME_S
    steady = steady_arrivals(len(speech), transit=PROPAGATION_MS / 1000, seed=seed)
    cases = [("clean", steady)]
    cases += [(p.name.split("-")[0], audio_arrivals(read_trace(p), sizes)) for p in traces]
    for number in range(seed, seed + generated):
        trace = generate_lte(seed=number, seconds=seconds)
        cases.append((f"generated {number}", audio_arrivals(trace, sizes, seed=number)))
    return cases


def run_all(
    speech: Speech,
    cases: Iterable[tuple[str, Floats]],
    *,
    with_pesq: bool = True,
    with_curves: bool = False,
    progress: Progress = lambda _: None,
) -> list[Case]:
    """All cases, one after the other."""
    speech = distinct(speech)
    return [
        run_case(
            name, speech, arrivals, with_pesq=with_pesq, with_curves=with_curves, progress=progress
        )
        for name, arrivals in cases
    ]


def table(cases: Iterable[Case]) -> str:
    """The table that is printed: a line per buffer and case, ratios below each case."""
    head = (
        "case         buffer           mean   p50   p95  damage conceal. unheard stretch. PESQ  CPU"
    )
    lines = [head, "             (ms, %)" + " " * 62 + "ms/20ms"]
    for case in cases:
        for label, v in (
            ("limen", case.limen),
            ("NetEQ's rules", case.neteq),
            (case.fixed.name, case.fixed),
        ):
            pesq = "   -" if v.pesq is None else f"{v.pesq:4.2f}"
            lines.append(
                f"{case.name:12} {label:14} {v.mean_ms:6.0f} {v.p50_ms:5.0f} {v.p95_ms:5.0f} "
                f"{v.damage:7.2f} {v.concealed:8.2f} {v.unheard:7.2f} {v.stretched:8.1f} {pesq} "
                f"{v.cpu_ms:5.2f}"
            )
        b = case.bound
        lines.append(
            f"{case.name:12} {'clairvoyant':14} {b.mean_ms:6.0f}       {b.p95_ms:5.0f} "
            f"{b.damage:7.2f}"
        )
        lines.append(
            f"{'':12} -> of NetEQ's mean {case.mean_ratio:.2f}, p95 {case.p95_ratio:.2f}; "
            f"of the clairvoyant mean {case.bound_ratio:.2f}"
        )
    return "\n".join(lines)


def save(cases: Iterable[Case], folder: Path, *, seed: int) -> None:
    """Write `playout.jsonl`: one case a line, with the seed in it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"seed": seed, **asdict(case)}) for case in cases]
    (folder / "playout.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
