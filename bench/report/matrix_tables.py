"""The tables of a condition as HTML: ratios with their spread, and every figure behind them."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..objects import ObjectClass
from .conditions import Condition, Spread, label, spread
from .verdicts import lost_reach

Read = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of a run's line."""

    words: str
    unit: str
    """ms, %, dB, s, kB or nothing."""
    read: Read
    lower_is_better: bool | None
    """None: neither is better in itself."""


def class_rows(condition: Condition, cls: ObjectClass) -> list[Row]:
    """What is said of one class."""
    name = cls.value

    def read(key: str) -> Read:
        return condition.class_figure(name, key)

    def share(line: Mapping[str, Any]) -> float | None:
        sent = read("n_sent")(line)
        return read("n_shown")(line) / sent if sent else None

    return [
        Row("delay p50", "ms", read("p50_ms"), lower_is_better=True),
        Row("delay p95", "ms", read("p95_ms"), lower_is_better=True),
        Row("delay p99", "ms", read("p99_ms"), lower_is_better=True),
        Row("spread (std)", "ms", read("std_ms"), lower_is_better=True),
        Row("on time", "%", read("on_time"), lower_is_better=False),
        Row("shown or played, of captured", "%", share, lower_is_better=False),
        Row(
            "arrival p95 ÷ floor",
            "",
            lambda line: line["floor_ratio"][name] if line["measure"] == "arrived" else None,
            lower_is_better=True,
        ),
    ]


def _get(*keys: str, scale: float = 1.0) -> Read:
    def read(line: Mapping[str, Any]) -> Any:
        value: Any = line
        for key in keys:
            value = None if value is None else value.get(key)
        return None if value is None else value * scale

    return read


OTHER_ROWS: Mapping[str, Sequence[Row]] = {
    "Quality": (
        Row("PSNR where looked at", "dB", _get("region_psnr_db"), lower_is_better=False),
        Row("PSNR elsewhere", "dB", _get("background_psnr_db"), lower_is_better=False),
        Row("speech quality (PESQ)", "", _get("pesq"), lower_is_better=False),
        Row("sound concealed", "%", _get("concealed_share"), lower_is_better=True),
        Row("freezes of the picture", "n", _get("freezes", "count"), lower_is_better=True),
        Row("longest gap of pictures", "s", _get("freezes", "longest_s"), lower_is_better=True),
        Row("picture behind sound", "ms", _get("lip_sync_ms"), lower_is_better=None),
        Row("delay by importance", "ms", _get("importance_weighted_ms"), lower_is_better=True),
    ),
    "The link": (
        Row("utilization", "%", _get("utilization"), lower_is_better=None),
        Row("wait in the queue, p50", "ms", _get("queue_p50_ms"), lower_is_better=True),
        Row("wait in the queue, p95", "ms", _get("queue_p95_ms"), lower_is_better=True),
        Row("sent", "kB", _get("bytes_sent", scale=1e-3), lower_is_better=None),
        Row("packets lost", "%", _get("loss"), lower_is_better=None),
    ),
    "Cost": (
        Row("CPU of the sender", "s", _get("cpu_s", "send"), lower_is_better=True),
        Row("CPU of the receiver", "s", _get("cpu_s", "receive"), lower_is_better=True),
        Row("tick lateness, p99", "ms", _get("tick_lateness_p99_ms"), lower_is_better=None),
    ),
}  # fmt: skip


def figures_table(condition: Condition) -> str:
    """Every figure of every peer: its median, and least to greatest below where seeds differ."""
    groups = [(cls.value, class_rows(condition, cls)) for cls in ObjectClass]
    groups += [(name, list(rows)) for name, rows in OTHER_ROWS.items()]
    body = []
    for name, rows in groups:
        lines = []
        for row in rows:
            found = {peer: condition.spread(peer, row.read) for peer in condition.peers}
            if not any(found.values()):
                continue
            cells = "".join(
                f"<td>{_figure(s, row.unit, _dagger(condition, peer, name, row))}</td>"
                for peer, s in found.items()
            )
            lines.append(f'<tr><th scope="row">{html.escape(row.words)}</th>{cells}</tr>')
        if lines:
            body.append(_group(name.capitalize(), len(condition.peers)) + "".join(lines))
    heads = list(condition.peers)
    return _table(f"All figures, {condition.name}", heads, [], body)


def ratio_table(condition: Condition) -> str:
    """The subject beside each other peer, seed by seed; empty when there is no other."""
    subject = condition.subject
    others = [peer for peer in condition.peers if peer != subject]
    if not others:
        return ""
    groups: list[tuple[str, list[Row]]] = [
        (cls.value, [row for row in class_rows(condition, cls) if row.unit in {"ms", "%"}])
        for cls in ObjectClass
    ]
    groups.append(("Quality and link", [*OTHER_ROWS["Quality"][:4], *OTHER_ROWS["The link"][:3:2]]))
    body = []
    for name, rows in groups:
        lines = []
        for row in rows:
            cells = [_beside(condition, other, name, row) for other in others]
            if any(cells):
                whole = "".join(cell or "<td>–</td>" for cell in cells)
                lines.append(f'<tr><th scope="row">{html.escape(row.words)}</th>{whole}</tr>')
        if lines:
            body.append(_group(name.capitalize(), len(others)) + "".join(lines))
    head = f"{label(subject)} beside"
    return _table(f"Ratios, {condition.name}", others, [head], body)


def _beside(condition: Condition, other: str, group: str, row: Row) -> str:
    """The subject ÷ another peer, or minus it where a quotient would mislead."""
    subject = condition.subject
    if row.unit == "ms":
        found = condition.ratio(subject, row.read, base=other)
        dagger = _dagger(condition, subject, group, row) or _dagger(condition, other, group, row)
        return _judged(found, row, neutral=1.0, pattern="{:.2f} ×", dagger=dagger)
    bases = {run.seed: row.read(run.line) for run in condition.peers[other]}
    scale = 100.0 if row.unit == "%" else 1.0
    values = [
        (value - base) * scale
        for run in condition.peers[subject]
        if (value := row.read(run.line)) is not None and (base := bases.get(run.seed)) is not None
    ]
    if not values:
        return ""
    pattern = {"%": "{:+.1f} points", "dB": "{:+.1f} dB"}.get(row.unit, "{:+.2f}")
    return _judged(spread(values), row, neutral=0.0, pattern=pattern)


def _judged(
    found: Spread | None, row: Row, *, neutral: float, pattern: str, dagger: str = ""
) -> str:
    """A cell, coloured only where all seeds agree."""
    if found is None:
        return ""
    mark = ""
    if row.lower_is_better is not None and (found.high < neutral or found.low > neutral):
        mark = "good" if (found.high < neutral) == row.lower_is_better else "bad"
    text = pattern.format(found.median) + {"good": " ▲", "bad": " ▼"}.get(mark, "") + dagger
    if found.count > 1 and found.low != found.high:
        short = pattern.split(" ", maxsplit=1)[0]
        text += (
            f'<span class="range">{short.format(found.low)} to {short.format(found.high)}</span>'
        )
    return f'<td class="{mark}">{text}</td>'


def _dagger(condition: Condition, peer: str, group: str, row: Row) -> str:
    percent = {"delay p50": 50.0, "delay p95": 95.0, "delay p99": 99.0}.get(row.words)
    if percent is None or not lost_reach(condition, peer, group, percent):
        return ""
    return ' <abbr title="objects that never came weigh on this">†</abbr>'


def _figure(found: Spread | None, unit: str, dagger: str) -> str:
    if found is None:
        return "–"
    text = number(found.median, unit) + dagger
    if found.count > 1 and found.low != found.high:
        low, high = (number(v, unit).split(" ")[0] for v in (found.low, found.high))
        text += f'<span class="range">{low} to {high}</span>'
    return text


def number(value: float, unit: str) -> str:
    """A figure with its unit, as precise as it deserves."""
    match unit:
        case "%":
            return f"{value * 100:.1f} %"
        case "ms":
            return f"{value:,.0f} ms" if abs(value) >= 10 else f"{value:.2f} ms"
        case "kB":
            return f"{value:,.0f} kB"
        case "dB":
            return f"{value:.1f} dB"
        case "n":
            return f"{value:g}"
        case _:
            return f"{value:.2f} {unit}".strip()


def _group(words: str, columns: int) -> str:
    return (
        f'<tr class="group"><th scope="rowgroup">{html.escape(words)}</th>'
        f'<td colspan="{columns}"></td></tr>'
    )


def _table(name: str, peers: Sequence[str], corner: Sequence[str], body: Sequence[str]) -> str:
    heads = "".join(f'<th scope="col">{html.escape(label(peer))}</th>' for peer in peers)
    first = html.escape(corner[0]) if corner else ""
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{html.escape(name)}"><table>'
        f'<thead><tr><th scope="col">{first}</th>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
