"""Where the product means to stand, and where these runs say it stands.

Each goal is a function of the conditions: what was measured in words, and whether that meets it.
A goal is met only where every condition that bears on it meets it (by the median over seeds), so
the words name the worst. What the lines do not hold is "not measured", never met.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..link.profile import ProfileError, load_profile
from .conditions import SUBJECT, Condition, Spread, conditions, spread

Verdict = Literal["met", "missed", "not measured"]
LOSS_LIMIT = 0.1
"""Share of packets lost up to which speech is to be on time."""
CONSTRAINED_MS = 20.0
"""p95 wait in bare QUIC's queue from which a link counts as constrained: a chunk of sound. Its
utilization would not tell: losses keep CUBIC below the rate of a link it fills now and then."""


@dataclass(frozen=True, slots=True)
class StandingRow:
    """One goal."""

    subject: str
    goal: str
    measured: str
    verdict: Verdict


Read = Callable[[Condition], float | None]
"""A figure of a condition; None where it does not bear on the goal."""


def standing_rows(lines: Sequence[Mapping[str, Any]], folder: Path) -> list[StandingRow]:
    """Every goal, in order. `folder` is where the traces lie."""
    ours = [c for c in conditions(lines, folder) if SUBJECT in c.peers and c.clock == "real"]
    chromium = "against chromium, capture → play, propagation off both"
    fifo = "against fifo, every constrained link"
    first = "rfc8867-5.1"
    return [
        _row(
            ours, "vital sound", "p95 ≤ 1.3 × floor", _own_floor, most=1.3, pattern="{:.2f} × floor"
        ),
        _row(ours, "vital sound, up to 10 % loss", "on time ≥ 99 %", _on_time, least=99.0,
             pattern="{:.1f} %"),
        _unmeasured("vital sound while a 300 kB keyframe crosses 2 Mbit/s", "p95 ≤ floor + 8 ms"),
        _row(ours, chromium, "vital p95 ≤ 0.5 ×", _played("vital"), most=0.5),
        _row(ours, chromium, "attended p95 ≤ 0.6 ×", _played("attended"), most=0.6),
        _row(ours, "against chromium", "PESQ no lower", _gain("pesq"), least=0.0,
             pattern="{:+.2f}"),
        _row(ours, "against chromium", "region PSNR no lower", _gain("region_psnr_db"), least=0.0,
             pattern="{:+.1f} dB"),
        _row(ours, "against chromium", "less than half the concealed sound", _concealed, most=0.5),
        _row(ours, "limen wherever chromium ran", "no freeze", _freezes, most=0.0,
             pattern="{:g} freezes"),
        _row(ours, "against chromium", "more of the link used", _gain("utilization", 100.0),
             least=0.0, pattern="{:+.1f} points"),
        _row(ours, "against moq", "vital p95 ≤ 0.4 ×", _against("moq", "vital", "p95_ms"),
             most=0.4),
        _row(ours, "against moq", "attended p95 ≤ 0.5 ×", _against("moq", "attended", "p95_ms"),
             most=0.5),
        _row(ours, "against moq", "no fewer attended objects shown",
             _against("moq", "attended", "n_shown"), least=1.0),
        _row(ours, fifo, "std of vital delay ≤ 0.38 ×", _constrained("std_ms"), most=0.38),
        _row(ours, fifo, "p99 of vital delay ≤ 0.20 ×", _constrained("p99_ms"), most=0.2),
        _row(ours, "RFC 8867 5.1", "utilization ≥ 90 %",
             _on(first, lambda line: _times(line["utilization"], 100.0)), least=90.0,
             pattern="{:.1f} %"),
        _row(ours, "RFC 8867 5.1", "queue p95 ≤ 40 ms", _on(first, lambda line:
             line["queue_p95_ms"]), most=40.0, pattern="{:.0f} ms"),
        _row(ours, "RFC 8867 5.1, after each step down", "queue back under 100 ms within 1 s",
             _recovery, most=1.0, pattern="{:.2f} s"),
        _unmeasured("playout on LTE traces", "mean delay ≤ 0.6 × NetEQ's (see docs/playout.md)"),
        _row(ours, "scheduler tick while encoding", "lateness p99 < 0.3 ms",
             lambda c: _median(c, SUBJECT, lambda line: line["tick_lateness_p99_ms"]), most=0.3,
             pattern="{:.2f} ms"),
        _unmeasured("scheduler tick", "≤ 40 µs at 16 flows, ≤ 400 µs at 1,000"),
        _unmeasured("network core", "≤ 60 µs CPU a packet a side; ≥ 150 Mbit/s on one core"),
    ]  # fmt: skip


def standing_markdown(lines: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, with a line on what it was made from."""
    good = [line for line in lines if "error" not in line]
    dates = sorted(line["started"][:10] for line in good)
    seeds = len({line["seed"] for line in good})
    commits = sorted({line["limen_commit"] for line in good if line.get("limen_commit")})
    busy = sum(bool(line.get("busy")) for line in good)
    text = (
        "# Where limen stands\n\n"
        f"From {len(good)} runs ({seeds} {'seed' if seeds == 1 else 'seeds'}"
        f"{', ' + dates[-1] if dates else ''}{', limen ' + ', '.join(commits) if commits else ''})"
        f", {busy} of them on a busy machine, {len(lines) - len(good)} failed. Medians over seeds; "
        "where several links bear on a goal, the worst decides and is named. Constrained: bare "
        f"QUIC waits {CONSTRAINED_MS:.0f} ms or more in the queue (p95).\n\n"
        "| what | goal | measured | |\n|---|---|---|---|\n"
    )
    for row in standing_rows(lines, folder):
        text += f"| {row.subject} | {row.goal} | {row.measured} | {row.verdict} |\n"
    return text


def _row(
    ours: Iterable[Condition],
    subject: str,
    goal: str,
    read: Read,
    *,
    most: float | None = None,
    least: float | None = None,
    pattern: str = "{:.2f} ×",
) -> StandingRow:
    """A goal that every condition must meet: at most `most`, or at least `least`."""
    found = [(value, c) for c in ours if (value := read(c)) is not None]
    if not found:
        return _unmeasured(subject, goal)
    worst, where = max(found, key=lambda item: item[0] if most is not None else -item[0])
    met = sum(v <= most if most is not None else v >= (least or 0.0) for v, _ in found)
    measured = f"{pattern.format(worst)} ({where.name})"
    if len(found) > 1:
        measured += f"; met on {met} of {len(found)} links"
    return StandingRow(subject, goal, measured, "met" if met == len(found) else "missed")


def _unmeasured(subject: str, goal: str) -> StandingRow:
    return StandingRow(subject, goal, "–", "not measured")


def _median(
    condition: Condition, peer: str, figure: Callable[[Mapping[str, Any]], Any]
) -> float | None:
    return _middle(condition.spread(peer, figure)) if peer in condition.peers else None


def _middle(found: Spread | None) -> float | None:
    return None if found is None else found.median


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _own_floor(condition: Condition) -> float | None:
    return _median(condition, SUBJECT, lambda line: line["floor_ratio"]["vital"])


def _on_time(condition: Condition) -> float | None:
    if (_median(condition, SUBJECT, lambda line: line["loss"]) or 0.0) > LOSS_LIMIT:
        return None
    figure = condition.class_figure("vital", "on_time", measure="arrived")
    return _times(_median(condition, SUBJECT, figure), 100.0)


def _played(cls: str) -> Read:
    """p95 until played over Chromium's, the link's propagation taken off both."""

    def read(condition: Condition) -> float | None:
        if "chromium" not in condition.peers:
            return None
        try:
            link = load_profile(condition.profile, duration=condition.duration).down
        except ProfileError:
            return None
        propagation = 1e3 * (link.flow_delays[0] if link.flow_delays else link.delay)
        p95 = condition.class_figure(cls, "p95_ms", measure="shown")

        def beyond(line: Mapping[str, Any]) -> float | None:
            value = p95(line)
            return None if value is None else value - propagation

        return _middle(condition.ratio(SUBJECT, beyond, base="chromium"))

    return read


def _gain(key: str, factor: float = 1.0) -> Read:
    """Limen minus Chromium, seed by seed."""

    def read(condition: Condition) -> float | None:
        bases = {run.seed: run.line[key] for run in condition.peers.get("chromium", ())}
        gains = [
            (run.line[key] - base) * factor
            for run in condition.peers[SUBJECT]
            if (base := bases.get(run.seed)) is not None and run.line[key] is not None
        ]
        return _middle(spread(gains))

    return read


def _concealed(condition: Condition) -> float | None:
    if "chromium" not in condition.peers:
        return None
    return _middle(condition.ratio(SUBJECT, lambda line: line["concealed_share"], base="chromium"))


def _freezes(condition: Condition) -> float | None:
    if "chromium" not in condition.peers:
        return None
    return _median(condition, SUBJECT, lambda line: line["freezes"]["count"])


def _against(peer: str, cls: str, key: str) -> Read:
    """Limen ÷ another peer, by the measure both have."""

    def read(condition: Condition) -> float | None:
        if peer not in condition.peers:
            return None
        told = {run.line["measure"] for p in (peer, SUBJECT) for run in condition.peers[p]}
        measure: Literal["arrived", "shown"] = "shown" if "shown" in told else "arrived"
        figure = condition.class_figure(cls, key, measure=measure)
        return _middle(condition.ratio(SUBJECT, figure, base=peer))

    return read


def _constrained(key: str) -> Read:
    def read(condition: Condition) -> float | None:
        wait = _median(condition, "fifo", lambda line: line["queue_p95_ms"])
        if wait is None or wait < CONSTRAINED_MS:
            return None
        return _against("fifo", "vital", key)(condition)

    return read


def _on(profile: str, figure: Callable[[Mapping[str, Any]], Any]) -> Read:
    def read(condition: Condition) -> float | None:
        return _median(condition, SUBJECT, figure) if condition.profile == profile else None

    return read


def _recovery(condition: Condition) -> float | None:
    """The longest the queue stayed above 100 ms after a step down of the rate, s."""
    if condition.profile != "rfc8867-5.1":
        return None
    longest: list[float | None] = []
    for run in condition.peers[SUBJECT]:
        if run.trace is None or not run.trace.queue_ms:
            continue
        rates = run.trace.rates
        for (_, before), (at, rate) in itertools.pairwise(rates):
            if rate < before and 0.0 < at < condition.duration:
                until = min(
                    [t for t, r in rates if t > at and r > rate], default=condition.duration
                )
                over = [t - at for t, wait in run.trace.queue_ms if at <= t < until and wait > 100]
                longest.append(max(over, default=0.0))
    known = [value for value in longest if value is not None]
    return max(known, default=None)
