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
Row = tuple[str, str, str, str]


def rows(summaries: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """(what, first run, last run, last beside first); headings have empty figures."""
    first, last = next(iter(summaries.values())), list(summaries.values())[-1]
    table: list[Row] = []
    for cls, heading in HEADINGS.items():
        base, other = first["classes"][cls.value], last["classes"][cls.value]
        table.append((heading, "", "", ""))
        for key, label in (
            ("p50_ms", "delay p50"),
            ("p95_ms", "delay p95"),
            ("p99_ms", "delay p99"),
            ("std_ms", "delay std"),
        ):
            table.append((f"  {label}", *_pair(base[key], other[key], "ms")))
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
