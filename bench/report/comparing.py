"""Two sets of runs held against each other, figure by figure, in pairs of the same link and seed.

What is compared is a quotient (or, for shares, decibels and scores, a difference) of each pair;
the median of those is quoted with the least and the greatest beside it. A figure counts as changed
when every pair says so and the median is further away than what repeats differ by on one machine:
with one pair, or with pairs that disagree, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..objects import ObjectClass
from .conditions import Spread, spread

Verdict = Literal["better", "worse", ""]
ENOUGH_PAIRS = 2
"""Pairs needed to call anything changed: one run against one says nothing about chance."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a line, and how two of it are compared."""

    name: str
    path: tuple[str, ...]
    """Where it stands in a line."""
    unit: str
    """`ms`, `s`, `kB` are compared as quotients; `%`, `dB` and `MOS` as differences."""
    less_is_better: bool
    noise: float
    """What two runs of the same thing differ by even on a quiet machine: a share for quotients,
    in the figure's own unit (a share for %) for differences."""

    @property
    def as_quotient(self) -> bool:
        """Whether it is compared as B ÷ A, else as B - A."""
        return self.unit in ("ms", "s", "kB")

    def of(self, line: Mapping[str, Any]) -> float | None:
        """Its value; None for none."""
        value: Any = line
        for key in self.path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return None if value is None else float(value)


def figures(measure: Literal["arrived", "shown"]) -> list[Figure]:
    """All that is compared, with delays to that moment."""
    table = "classes_shown" if measure == "shown" else "classes"
    listed = []
    for cls in ObjectClass:
        for key, noise in (("p50_ms", 0.05), ("p95_ms", 0.1), ("std_ms", 0.15)):
            name = f"{cls.value} delay {key.removesuffix('_ms')}"
            listed.append(Figure(name, (table, cls.value, key), "ms", True, noise))
        listed.append(
            Figure(f"{cls.value} on time", (table, cls.value, "on_time"), "%", False, 0.01)
        )
    weighted = Figure("importance-weighted delay", ("importance_weighted_ms",), "ms", True, 0.05)
    if measure == "arrived":
        listed.append(weighted)
    return [
        *listed,
        Figure("PSNR where looked at", ("region_psnr_db",), "dB", False, 0.3),
        Figure("PSNR elsewhere", ("background_psnr_db",), "dB", False, 0.3),
        Figure("PESQ", ("pesq",), "MOS", False, 0.1),
        Figure("longest freeze", ("freezes", "longest_s"), "s", True, 0.2),
        Figure("concealed sound", ("concealed_share",), "%", True, 0.005),
        Figure("utilization", ("utilization",), "%", False, 0.02),
        Figure("queue p95", ("queue_p95_ms",), "ms", True, 0.1),
        Figure("sent", ("bytes_sent",), "kB", True, 0.02),
        Figure("tick lateness p99", ("tick_lateness_p99_ms",), "ms", True, 0.25),
    ]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one comparison."""

    figure: Figure
    a: Spread
    b: Spread
    change: Spread
    """B ÷ A, or B - A, over the pairs."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures of the runs over one link with one scene, of one peer or of two."""

    title: str
    seeds: tuple[int, ...]
    measure: Literal["arrived", "shown"]
    rows: Sequence[Row]
    busy: int
    """How many of the runs were made on a busy machine."""


def compare(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]], *, across_peers: bool = False
) -> list[Comparison]:
    """Pairs of good lines that differ in nothing but the side they are on.

    With `across_peers` the peer may differ too (then each side holds one peer's lines). Empty
    when no pair is found.
    """
    pairs: dict[tuple[Any, ...], list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    seconds = {_pairing(line, across_peers): line for line in b if "error" not in line}
    for line in a:
        key = _pairing(line, across_peers)
        if "error" not in line and key in seconds:
            pairs.setdefault(key[:-1], []).append((line, seconds[key]))
    return [_compared(chosen) for chosen in pairs.values()]


def _pairing(line: Mapping[str, Any], across_peers: bool) -> tuple[Any, ...]:
    same = ("profile", "scene", "media", "duration_s", "clock", "video_bps")
    peer = None if across_peers else line["peer"]
    return (*(line.get(key) for key in same), peer, line["seed"])


def _compared(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> Comparison:
    first, second = pairs[0]
    names = dict.fromkeys((first["peer"], second["peer"]))
    every = [line for pair in pairs for line in pair]
    measure: Literal["arrived", "shown"] = (
        "shown" if any(line.get("measure") == "shown" for line in every) else "arrived"
    )
    rows = [row for figure in figures(measure) if (row := _row(figure, pairs)) is not None]
    return Comparison(
        f"{first['profile']}, scene {first['scene']}: {' and '.join(names)}",
        tuple(sorted(line["seed"] for line, _ in pairs)),
        measure,
        rows,
        sum(bool(line.get("busy")) for line in every),
    )


def _row(
    figure: Figure, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Row | None:
    both = [
        (x, y)
        for a, b in pairs
        if (x := figure.of(a)) is not None and (y := figure.of(b)) is not None
    ]
    if figure.as_quotient:
        changes = [y / x for x, y in both if x > 0.0]
    else:
        changes = [y - x for x, y in both]
    a, b, change = spread([x for x, _ in both]), spread([y for _, y in both]), spread(changes)
    if a is None or b is None or change is None:
        return None
    return Row(figure, a, b, change, verdict(figure, change))


def verdict(figure: Figure, change: Spread) -> Verdict:
    """Whether a change is beyond noise, and which way."""
    if change.count < ENOUGH_PAIRS:
        return ""
    still, low, high = 0.0, -figure.noise, figure.noise
    if figure.as_quotient:
        still, low, high = 1.0, 1.0 / (1.0 + figure.noise), 1.0 + figure.noise
    if change.low > still and change.median > high:
        return "worse" if figure.less_is_better else "better"
    if change.high < still and change.median < low:
        return "better" if figure.less_is_better else "worse"
    return ""
