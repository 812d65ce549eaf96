"""What a buffer did with one stream of arrivals, and what that is worth.

`Outcome` is the same for every buffer, real or modelled. `judge` turns it into figures:

- *delay*: capture to ear of each block that was heard and is audible (capture end of its last
  sample to the end of the block, which is the same for every sample in between);
- *damage*: made-up time where speech was due, plus audible objects that were never heard beyond
  the time that was made up in their place: waiting and dropping cost alike. Share of speech;
- *stretched*: share of speech blocks that were lengthened or shortened;
- *PESQ-WB* against what was captured, over stretches of some seconds, each compared with what was
  heard from its begin to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..speech_quality import pesq_wb
from .speech import FRAME_S, RATE, Flags, Sound, Speech

PESQ_SECONDS = 6.0
"""PESQ was trained on sentences of 8 s and less (ITU-T P.862)."""
WARM_UP = 4.0
"""Seconds at the start that count for nobody: every buffer learns first."""
CREDIT_S = 0.5
"""Seconds of whole sound after which a gap is closed: what is dropped later is another loss."""


@dataclass(slots=True)
class Outcome:
    """One buffer's output, block by block; times are seconds on the arrivals' clock."""

    name: str
    block_s: float
    heard: Flags
    """Per object: decoded or repaired."""
    ends: list[float] = field(default_factory=list)
    """When each block had been played."""
    captured: list[float] = field(default_factory=list)
    """Capture time at the end of each block; NaN where nothing of the talk is heard."""
    made_up: list[float] = field(default_factory=list)
    """Seconds of each block that are concealment or silence."""
    stretched: list[bool] = field(default_factory=list)
    sound: list[Sound] = field(default_factory=list)
    """What was heard, empty when the run was without sound."""
    cpu_s: float = 0.0
    """Seconds of processor time spent in the buffer and its decoder."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The figures of one run; delays in ms, shares in per cent."""

    name: str
    mean_ms: float
    p50_ms: float
    p95_ms: float
    damage: float
    concealed: float
    unheard: float
    stretched: float
    pesq: float | None
    cpu_ms: float
    """Per 20 ms."""


def judge(speech: Speech, outcome: Outcome, *, with_pesq: bool = False) -> Verdict:
    """See the module. PesqMissing when `with_pesq` and the package is not there."""
    audible = speech.audible
    ends = np.asarray(outcome.ends)
    captured = np.asarray(outcome.captured)
    place = _places(captured)
    counted = (place >= WARM_UP) & (place < len(speech) * FRAME_S - 0.2)
    index = np.clip(np.ceil(place / FRAME_S - 1e-6).astype(int) - 1, 0, len(speech) - 1)
    following = np.minimum(index + 1, len(speech) - 1)
    made_up = np.asarray(outcome.made_up)
    missing = made_up > outcome.block_s / 2
    speaking = counted & np.where(missing, audible[following], audible[index])
    whole = speaking & ~missing & np.isfinite(captured)
    delays = (ends - captured)[whole] * 1000
    damage, concealed, unheard = _damage(speech, outcome, index, counted, made_up)
    total = float(audible[round(WARM_UP / FRAME_S) : len(speech) - 10].sum()) * FRAME_S
    stretched = np.asarray(outcome.stretched) & whole
    seconds = max(1e-9, len(ends) * outcome.block_s)
    quantiles = np.percentile(delays, [50, 95]) if len(delays) else [np.nan, np.nan]
    return Verdict(
        name=outcome.name,
        mean_ms=float(delays.mean()) if len(delays) else float("nan"),
        p50_ms=float(quantiles[0]),
        p95_ms=float(quantiles[1]),
        damage=100 * damage / total,
        concealed=100 * concealed / total,
        unheard=100 * unheard / total,
        stretched=100 * float(stretched.sum()) * outcome.block_s / total,
        pesq=pesq_score(speech, outcome) if with_pesq else None,
        cpu_ms=outcome.cpu_s * 20 / seconds,
    )


def _places(captured: NDArray[np.float64]) -> NDArray[np.float64]:
    """Capture time reached after each block: the last one heard."""
    known = np.where(np.isfinite(captured), captured, -np.inf)
    return np.maximum(np.maximum.accumulate(known), 0.0)


def _damage(
    speech: Speech,
    outcome: Outcome,
    index: NDArray[np.int64],
    counted: Flags,
    made_up: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Seconds of damage, of made-up speech, of speech never heard."""
    audible, heard = speech.audible, outcome.heard
    damage = concealed = unheard = credit = whole = 0.0
    passed = int(index[0]) if len(index) else 0
    for block, position in enumerate(index):
        following = min(int(position) + 1, len(speech) - 1)
        made = float(made_up[block])
        if made > 0.0 and counted[block] and audible[following]:
            damage += made
            concealed += made
            credit += made
            whole = 0.0
        else:
            whole += outcome.block_s
            if whole > CREDIT_S:
                credit = 0.0
        for frame in range(passed + 1, int(position) + 1):
            if audible[frame] and not heard[frame] and counted[block]:
                unheard += FRAME_S
                paid = min(credit, FRAME_S)
                credit -= paid
                damage += FRAME_S - paid
        passed = max(passed, int(position))
    return damage, concealed, unheard


def pesq_score(speech: Speech, outcome: Outcome) -> float:
    """Mean PESQ-WB over stretches of the talk that are mostly speech."""
    heard = np.concatenate(outcome.sound)
    block = round(outcome.block_s * RATE)
    place = _places(np.asarray(outcome.captured))
    scores: list[float] = []
    begin = WARM_UP
    while begin + PESQ_SECONDS < len(speech) * FRAME_S:
        end = begin + PESQ_SECONDS
        frames = slice(round(begin / FRAME_S), round(end / FRAME_S))
        if speech.audible[frames].mean() > 0.5:
            first, last = np.searchsorted(place, [begin, end], side="right")
            played = heard[first * block : last * block + speech.lookahead]
            source = speech.sound[round(begin * RATE) : round(end * RATE)]
            scores.append(pesq_wb(source, played))
        begin = end
    return float(np.mean(scores)) if scores else float("nan")
