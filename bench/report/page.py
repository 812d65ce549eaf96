"""One self-contained HTML page: headline, table of ratios, plots with plain captions, glossary."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ..objects import ObjectClass
from . import plots, style
from .data import ReportData, report_json
from .machine import ADVICE

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 1000px; padding: 24px 20px 60px; background: #fff;
  color: #22303c; font: 16px/1.5 "Segoe UI", "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; }
h1 { font-size: 27px; margin: 0 0 6px; } h2 { font-size: 20px; margin: 40px 0 6px; }
.lead { font-size: 18px; margin: 14px 0 20px; } .facts { color: #55636f; margin: 0; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.card { flex: 1 1 200px; box-sizing: border-box; border: 1px solid #dfe4e9;
  border-radius: 8px; padding: 12px 16px; }
.card b { display: block; font-size: 27px; line-height: 1.2; color: #1766a6; }
.card b.worse { color: #d1571f; } .card b.equal { color: #22303c; }
.card span { color: #55636f; font-size: 14px; }
table { border-collapse: collapse; width: 100%; margin: 8px 0 4px; font-size: 15px; }
th, td { padding: 6px 10px; text-align: right; border-bottom: 1px solid #e6eaee; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid #9aa7b4; }
tr.group td { background: #f4f6f8; font-weight: 600; }
td.better { color: #14713f; font-weight: 600; }
td.worse { color: #b3400f; font-weight: 600; }
img { display: block; width: 100%; height: auto; margin: 6px 0; }
.caption { color: #44525e; margin: 2px 0; }
dt { font-weight: 600; margin-top: 10px; } dd { margin: 0 0 0 20px; color: #44525e; }
.busy { background: #fff4e0; border-left: 4px solid #d99a2b; padding: 10px 14px; margin: 14px 0; }
.busy ul { margin: 4px 0 0; padding-left: 20px; }
.small { color: #6f7e8c; font-size: 14px; }
"""

CAPTIONS = {
    "delay_over_time": (
        "Delay of each object over the run",
        "Each dot is one captured object (20 ms of sound or one picture): how long after capture "
        "it was complete at the receiver. Lower is better. The line through the dots is their "
        "median per half second. Crosses at the top never arrived. The grey shape is what the "
        "link could carry; where it drops, there is not enough for everything.",
    ),
    "delay_cdf": (
        "How many objects had arrived after how long",
        "Read upwards from a delay: that percentage of all captured objects was there by then. "
        "A curve further left is faster, a steeper one more predictable. A curve that ends below "
        "100 % lost the rest, or gave it up because it would have come too late.",
    ),
    "shares_and_tags": (
        "How limen spent the link, and why",
        "Top: which track the bytes of each moment belonged to. Bottom: in grey what really "
        "happened in the scene, in colour the tags limen raised from the media and the gaze. "
        "Shares move when tags do.",
    ),
    "queue_over_time": (
        "The queue in front of the bottleneck",
        "What waits here can no longer be re-ordered by anyone: every packet behind it waits too. "
        "Lower is better, as long as the link is kept busy (utilization in the table above).",
    ),
}

GLOSSARY = (
    ("vital, attended, ambient", "How much an object matters at the moment of its capture, said "
     "by a reference that knows the scene, the same for every run. Vital: speech of whoever is "
     "listened to. Attended: other speech, and the picture while someone looks at it. Ambient: "
     "silence, and the picture while nobody looks."),
    ("p50, p95, p99", "Half, 95 % or 99 % of all captured objects were at least this fast. "
     "Objects that never came are counted, as slower than any that did."),
    ("spread (standard deviation)", "How far delays scatter: small means predictable."),
    ("on time", "Share of captured objects that were complete at the receiver by their deadline."),
    ("region PSNR, background PSNR", "Likeness of the pictures on screen to the captured ones, "
     "in decibels (higher is better; 1 dB is just visible): around the point looked at, and "
     "elsewhere. When a picture never came, the one before it stays and is compared."),
    ("utilization", "Share of what the link could have carried that it did carry."),
    ("tick lateness", "How late the scheduler's 1 ms clock woke, 99th percentile."),
)  # fmt: skip


def write_report(data: ReportData, folder: str | Path) -> Path:
    """Write report.html, report.json and one PNG per plot into `folder`; the page's path.

    Raises OSError when the folder cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    images: dict[str, bytes] = {}
    with style.context():
        for name, figure in _figures(data).items():
            images[name] = style.png(figure)
            (folder / f"{name}.png").write_bytes(images[name])
    content = json.dumps(report_json(data), indent=1, allow_nan=False)
    (folder / "report.json").write_text(content + "\n", encoding="utf-8")
    page = folder / "report.html"
    page.write_text(render_page(data, images), encoding="utf-8")
    return page


def _figures(data: ReportData) -> dict[str, Figure]:
    figures = {
        "delay_over_time": plots.delay_over_time(data),
        "delay_cdf": plots.delay_cdf(data),
    }
    shares = plots.shares_and_tags(data, list(data.runs.values())[-1])
    if shares is not None:
        figures["shares_and_tags"] = shares
    figures["queue_over_time"] = plots.queue_over_time(data)
    return figures


def render_page(data: ReportData, images: Mapping[str, bytes]) -> str:
    """The page as text; `images` are PNGs by plot name."""
    e = html.escape
    first, last = next(iter(data.runs.values())), list(data.runs.values())[-1]
    sections = []
    for name, image in images.items():
        title, caption = CAPTIONS[name]
        source = base64.b64encode(image).decode("ascii")
        sections.append(
            f'<h2>{e(title)}</h2>\n<img alt="{e(title)}" src="data:image/png;base64,{source}">\n'
            f'<p class="caption">{e(caption)}</p>'
        )
    videos = "; ".join(
        f'<a href="{e(run.video)}">{e(run.label)}</a>' for run in data.runs.values() if run.video
    )
    glossary = "".join(f"<dt>{e(term)}</dt><dd>{e(text)}</dd>" for term, text in GLOSSARY)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{e(data.title)}</title>
<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>
<h1>{e(data.title)}</h1>
<p class="facts">Link: {e(str(data.link["title"]))}. Media: {e(data.media)}, {data.duration:g} s.
Seed {data.seed}. Both runs had the same link, media and seed, one after the other.</p>
{_busy(data)}<p class="lead">{e(_lead(data))}</p>
<div class="cards">{_cards(data)}</div>
<h2>The figures</h2>
{_table(data)}
<p class="caption">Delays run from capture to complete at the receiver, but for the rows until
shown or played (what the films write below the picture); all from one monotonic clock.
The last column is {e(last.name)} divided by {e(first.name)}: below 1 is less.
Green is better, red is worse.
† Objects that never came weigh on this figure. They count as lasting to the end of the run, so that
giving up never looks faster than delivering late.</p>
{f"<p>See and hear it: {videos}.</p>" if videos else ""}
{"".join(sections)}
<h2>What the words mean</h2><dl>{glossary}</dl>
<p class="small">{e(" · ".join(data.attribution))}</p>
</body></html>
"""


def _busy(data: ReportData) -> str:
    if not data.busy:
        return ""
    entries = "".join(f"<li>{html.escape(words)}</li>" for words in data.busy)
    return (
        f'<div class="busy"><b>This machine was too busy:</b> {ADVICE}.<ul>{entries}</ul></div>\n'
    )


def _lead(data: ReportData) -> str:
    first, last = next(iter(data.runs.values())), list(data.runs.values())[-1]
    b, o = (run.summary["classes"]["vital"] for run in (first, last))
    if None in (b["p95_ms"], o["p95_ms"]):
        return "The scene held no vital object: nothing can be said of the delay that matters most."
    return (
        f"Of the speech that is listened to, {_within(o)} over {last.label}, "
        f"{_within(b)} over {first.label}. "
        f"In time for a conversation: {_percent(o['on_time'])} against {_percent(b['on_time'])}."
    )


def _within(figures: Mapping[str, Any]) -> str:
    """How soon 95 % arrived; where fewer ever did, that instead."""
    share = figures["n_came"] / figures["n_sent"]
    if share < 0.95:
        return f"only {_percent(share)} ever arrived"
    return f"95 % arrived within {_ms(figures['p95_ms'])}"


def _cards(data: ReportData) -> str:
    ratio = data.ratio
    cards = [
        _less("delay of the slowest 5 % of vital speech", ratio.get("vital_p95")),
        _less("scatter of vital speech's delay", ratio.get("vital_std")),
    ]
    runs = list(data.runs.values())
    share, before = (r.summary["classes"]["attended"]["on_time"] for r in (runs[-1], runs[0]))
    if share is not None and before is not None:
        kind = "worse" if share < before else ""
        cards.append(
            f'<div class="card"><b class="{kind}">{_percent(share)}</b>'
            "<span>on time: the picture while watched, other speech "
            f"({_percent(before)} over {html.escape(runs[0].name)})</span></div>"
        )
    gain = ratio.get("region_psnr_gain_db")
    if gain is not None:
        mark = "" if gain > 0 else ' class="worse"'
        cards.append(
            f'<div class="card"><b{mark}>{gain:+.1f} dB</b>'
            "<span>picture quality where the viewer looks</span></div>"
        )
    return "".join(cards)


def _less(what: str, ratio: float | None) -> str:
    if ratio is None:
        return ""
    percent = (1.0 - ratio) * 100.0
    if abs(percent) < 1.0:
        kind, text = "equal", "same"
    elif percent > 0:
        kind, text = "", f"{percent:.0f} % less"
    else:
        kind, text = "worse", f"{-percent:.0f} % more"
    return f'<div class="card"><b class="{kind}">{text}</b><span>{html.escape(what)}</span></div>'


def _table(data: ReportData) -> str:
    e = html.escape
    names = list(data.runs)
    runs = [run.summary for run in data.runs.values()]
    head = "".join(f"<th>{e(run.label)}</th>" for run in data.runs.values())
    rows = [f"<thead><tr><th></th>{head}<th>{e(names[-1])} ÷ {e(names[0])}</th></tr></thead>"]

    def row(
        label: str,
        values: list[Any],
        unit: str,
        *,
        lower_is_better: bool | None,
        marks: Sequence[str] = (),
    ) -> None:
        cells = "".join(
            f"<td>{_cell(value, unit)}{mark}</td>"
            for value, mark in zip(values, marks or [""] * len(values), strict=True)
        )
        base, other = values[0], values[-1]
        text, mark = "–", ""
        if base is not None and other is not None and unit == "dB":
            text, mark = f"{other - base:+.1f} dB", _mark(other - base, lower_is_better)
        elif base is not None and other is not None and unit == "%":
            text = f"{(other - base) * 100:+.1f} points"
            mark = _mark(other - base, lower_is_better)
        elif base and other is not None:
            text, mark = f"{other / base:.2f} ×", _mark(other / base - 1.0, lower_is_better)
        rows.append(f'<tr><td>{e(label)}</td>{cells}<td class="{mark}">{text}</td></tr>')

    for cls in ObjectClass:
        tables = [run["classes"][cls.value] for run in runs]
        rows.append(f'<tr class="group"><td colspan="{len(runs) + 2}">')
        rows[-1] += f"{e(plots.CLASS_TITLES[cls])}</td></tr>"
        sent = ", ".join(f"{t['n_shown']} of {t['n_sent']}" for t in tables)
        lost = [_lost_share(figures) for figures in tables]
        for percent in (50, 95, 99):
            marks = [" †" if share > 1.0 - percent / 100 else "" for share in lost]
            values = [t[f"p{percent}_ms"] for t in tables]
            row(f"p{percent} delay", values, "ms", lower_is_better=True, marks=marks)
        row(
            "spread (standard deviation)", [t["std_ms"] for t in tables], "ms", lower_is_better=True
        )
        row("on time", [t["on_time"] for t in tables], "%", lower_is_better=False)
        shown = [run["classes_shown"][cls.value] for run in runs]
        row(
            "p95 until shown or played",
            [t["p95_ms"] for t in shown],
            "ms",
            lower_is_better=True,
            marks=[" †" if t["n_came"] < 0.95 * t["n_sent"] else "" for t in shown],
        )
        cells = "".join(f"<td>{part}</td>" for part in sent.split(", "))
        rows.append(f"<tr><td>shown or played, of captured</td>{cells}<td></td></tr>")
    rows.append(f'<tr class="group"><td colspan="{len(runs) + 2}">Picture and link</td></tr>')
    for label, key, unit, lower in (
        ("region PSNR (where the viewer looks)", "region_psnr_db", "dB", False),
        ("background PSNR", "background_psnr_db", "dB", False),
        ("bytes sent", "bytes_sent", "kB", None),
        ("utilization of the link", "utilization", "%", None),
        ("wait in the bottleneck's queue, p95", "queue_p95_ms", "ms", True),
        ("scheduler tick lateness, p99", "tick_lateness_p99_ms", "ms", None),
    ):
        row(label, [run[key] for run in runs], unit, lower_is_better=lower)
    return f"<table>{''.join(rows)}</table>"


def _lost_share(figures: Mapping[str, Any]) -> float:
    sent = figures["n_sent"]
    return 1.0 - figures["n_came"] / sent if sent else 0.0


def _mark(difference: float, lower_is_better: bool | None) -> str:
    if lower_is_better is None or abs(difference) < 0.005:
        return ""
    return "better" if (difference < 0) == lower_is_better else "worse"


def _cell(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "%":
        return _percent(value)
    if unit == "kB":
        return f"{value / 1000:,.0f} kB"
    return _ms(value) if unit == "ms" else f"{value:.1f} {unit}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms"
