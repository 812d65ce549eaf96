"""The demo's last words: its figures as rows of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..objects import ObjectClass

HEADINGS = {
    ObjectClass.VITAL: "vital: speech listened to",
    ObjectClass.ATTENDED: "attended: picture watched, other speech",
    ObjectClass.AMBIENT: "ambient: silence, picture unwatched",
}
FOOTNOTE = "† never arrived (or was never shown): counted as lasting to the end of the run"
Row = tuple[str, str, str, str]


def rows(summaries: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """(what, first run, last run, last beside first); headings have empty figures."""
    first, last = next(iter(summaries.values())), list(summaries.values())[-1]
    table: list[Row] = []
    for cls, heading in HEADINGS.items():
        base, other = first["classes"][cls.value], last["classes"][cls.value]
        table.append((heading, "", "", ""))
        for percent in (50, 95, 99):
            words = f"  p{percent} until arrived"
            table.append((words, *_percentiles(base, other, percent)))
        table.append(
            (
                "  p95 until shown, played",
                *_percentiles(
                    first["classes_shown"][cls.value], last["classes_shown"][cls.value], 95
                ),
            )
        )
        table.append(("  std of arrivals' delay", *_pair(base["std_ms"], other["std_ms"], "ms")))
        table.append(("  on time", *_pair(base["on_time"], other["on_time"], "%")))
        before, after = (f"{c['n_shown']} of {c['n_sent']}" for c in (base, other))
        table.append(("  shown or played", before, after, ""))
    table.append(("picture and link", "", "", ""))
    for key, label, unit in (
        ("region_psnr_db", "PSNR where looked at", "dB"),
        ("background_psnr_db", "PSNR elsewhere", "dB"),
        ("bytes_sent", "sent", "kB"),
        ("utilization", "utilization", "%"),
        ("queue_p95_ms", "bottleneck queue p95", "ms"),
        ("tick_lateness_p99_ms", "tick lateness p99", "ms"),
    ):
        table.append((f"  {label}", *_pair(first[key], last[key], unit)))
    return table


def _percentiles(
    base: Mapping[str, Any], other: Mapping[str, Any], percent: int
) -> tuple[str, str, str]:
    """Marked where objects that never came reach into a percentile."""
    before, after, ratio = _pair(base[f"p{percent}_ms"], other[f"p{percent}_ms"], "ms")
    return _marked(before, base, percent), _marked(after, other, percent), ratio


def _marked(text: str, figures: Mapping[str, Any], percent: int) -> str:
    return f"{text} †" if figures["n_came"] * 100 < percent * figures["n_sent"] else text


def _pair(base: float | None, other: float | None, unit: str) -> tuple[str, str, str]:
    return _figure(base, unit), _figure(other, unit), _beside(base, other, unit)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    match unit:
        case "%":
            return f"{value * 100:.1f} %"
        case "kB":
            return f"{value / 1e3:,.0f} kB"
        case "dB":
            return f"{value:.2f} dB"
        case _:
            return f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms"


def _beside(base: float | None, other: float | None, unit: str) -> str:
    if base is None or other is None:
        return ""
    if unit == "dB":
        return f"{other - base:+.2f} dB"
    if unit == "%":
        return f"{(other - base) * 100:+.1f} points"
    return f"x {other / base:.3f}" if base > 0 else ""
