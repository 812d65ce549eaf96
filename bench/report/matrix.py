"""The report of a matrix of runs, written to be read by somebody who knows none of it.

From JSON lines and their traces to one page: what came out, a sentence per condition; then, per
condition, ratios, pictures and every figure; what failed and which runs had a busy machine; where
the product stands against its goals; and what the words mean. Pictures are PNG files beside the
page, light and dark. Nothing is measured here.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..objects import ObjectClass
from . import matrix_plots, sheet, style
from .conditions import Condition, conditions, failures, label
from .machine import ADVICE, busy_words
from .matrix_tables import figures_table, ratio_table
from .standing import standing_markdown, standing_rows
from .verdicts import verdict
from .worst import WorstCase, picture, worst_cases, worst_table, write_run_pages

PAGE = "report.html"
STANDING = "standing.md"
GLOSSARY = (
    ("vital, attended, ambient", "How much an object matters at its capture, said by a reference "
     "that knows the scene, the same for every peer. Vital: speech of whoever is listened to, "
     "telemetry with a deadline. Attended: other speech, the picture while it is looked at. "
     "Ambient: silence, bulk data, the picture while nobody looks."),
    ("p50, p95, p99", "Half, 95 % or 99 % of all captured objects were at least this fast. "
     "Objects that never came are counted, as lasting to the end of the run; † marks a percentile "
     "that they reach: there it is not a delay anybody saw."),
    ("arrival; shown or played", "Delays run from capture. Arrival: until the object was complete "
     "at the receiver. Shown or played: until it was on screen or in the loudspeaker. Where a peer "
     "cannot tell arrivals, all peers of that comparison are judged by what was shown or played."),
    ("floor", "The least delay the link itself allows the object: propagation, its own bytes, and "
     "one full packet ahead of it. It knows nothing of playout, loss or jitter."),
    ("ranges", "The median over seeds, with the least and the greatest below it. Ratios are taken "
     "seed by seed, from runs made one after the other. ▲ better and ▼ worse stand only where all "
     "seeds agree."),
    ("on time", "Share of captured objects there by the deadline of their class."),
    ("freeze", "More than three frame times between two shown pictures."),
    ("busy machine", "The runner's own wake-ups, or the scheduler's tick, came late: such figures "
     "say something of the machine, too."),
)  # fmt: skip


def write_matrix_report(lines: Sequence[dict[str, Any]], folder: Path, out: Path) -> Path:
    """Write report.html, its pictures and standing.md into `out`; the page's path.

    `lines` are runs as `runs.lines.read_lines` gives them, `folder` is where the traces lie that
    they name. Raises ValueError when there is no line at all, OSError when `out` cannot be
    written.
    """
    if not lines:
        raise ValueError("there is nothing to report: the file holds no run")
    out.mkdir(parents=True, exist_ok=True)
    found = conditions(lines, folder)
    sections = [_section(condition, out) for condition in found]
    title = html.escape(_title(found))
    body = f"""<h1>{title}</h1>
<p class="soft">{html.escape(_facts(lines, found))}</p>
{_trouble(lines)}
<div class="lead"><ul class="verdicts">{
        "".join(
            f'<li><a href="#{c.slug}">{html.escape(c.name)}</a>: {html.escape(verdict(c))}</li>'
            for c in found
        )
    }</ul></div>
{"".join(sections)}
{_standing(lines, folder)}
<h2 id="words">What the words mean</h2>
<dl>{"".join(f"<dt>{html.escape(t)}</dt><dd>{html.escape(d)}</dd>" for t, d in GLOSSARY)}</dl>
"""
    (out / STANDING).write_text(standing_markdown(lines, folder), encoding="utf-8")
    path = out / PAGE
    path.write_text(sheet.page(title, body), encoding="utf-8")
    return path


def _title(found: Sequence[Condition]) -> str:
    peers = list(dict.fromkeys(peer for condition in found for peer in condition.peers))
    links = list(dict.fromkeys(condition.profile for condition in found))
    return f"{len(peers)} ways of sending media over {', '.join(links) or 'no link'}"


def _facts(lines: Sequence[Mapping[str, Any]], found: Sequence[Condition]) -> str:
    good = [line for line in lines if "error" not in line]
    commits = sorted({line["limen_commit"] for line in good if line.get("limen_commit")})
    text = f"{len(good)} runs"
    if good:
        text += f", {min(line['started'] for line in good)[:16].replace('T', ' ')} to "
        text += f"{max(line['started'] for line in good)[:16].replace('T', ' ')} UTC"
    machines = sorted({f"{line['host']['cpus']} cores" for line in good if "host" in line})
    text += f"; {', '.join(machines)}" if machines else ""
    text += f"; limen {', '.join(commits)}" if commits else ""
    text += (
        ". Within a condition every peer had the same link, media, seed and ceiling of bit rate."
    )
    if any(condition.clock == "virtual" for condition in found):
        text += " Runs on the virtual clock are computed, not timed."
    return text


def _trouble(lines: Sequence[Mapping[str, Any]]) -> str:
    """Failed and busy runs, said before any figure."""
    parts = []
    if failed := failures(lines):
        entries = "".join(
            f"<li>{html.escape(label(line['peer']))} over {html.escape(line['profile'])}, "
            f"seed {line['seed']}: {html.escape(str(line['error']))}</li>"
            for line in failed
        )
        parts.append(
            f'<div class="note"><b>{len(failed)} of {len(lines)} runs failed</b> and are in no '
            f"figure:<ul>{entries}</ul></div>"
        )
    good = [line for line in lines if "error" not in line]
    if busy := [line for line in good if line.get("busy")]:
        entries = "".join(
            f"<li>{html.escape(label(line['peer']))} over {html.escape(line['profile'])}, "
            f"seed {line['seed']}: {html.escape(_busy(line))}</li>"
            for line in busy
        )
        parts.append(
            f'<div class="note"><b>The machine was busy in {len(busy)} of {len(good)} runs.</b> '
            f"{ADVICE.capitalize()}."
            f"<ul>{entries}</ul></div>"
        )
    return "".join(parts)


def _busy(line: Mapping[str, Any]) -> str:
    return busy_words(line["host"], tick_lateness_p99_ms=line.get("tick_lateness_p99_ms"))


def _section(condition: Condition, out: Path) -> str:
    images = [_image(condition, kind, cls, out) for kind in ("cdf", "time") for cls in ObjectClass]
    cases: dict[str, list[WorstCase]] = {
        peer: worst_cases(condition, peer) for peer in condition.peers
    }
    write_run_pages(condition, cases, out, back=PAGE)
    until = "arrival" if condition.measure == "arrived" else "shown or played"
    figures, over_time = "".join(images[:3]), "".join(images[3:])
    return f"""<h2 id="{condition.slug}">{html.escape(condition.name)}</h2>
<p class="soft">{html.escape(_circumstances(condition))}</p>
<p class="lead">{html.escape(verdict(condition))}</p>
<h3>Ratios</h3>{ratio_table(condition) or '<p class="soft">There is nothing to divide by.</p>'}
<p class="caption">Delays: {html.escape(label(condition.subject))} ÷ the other, below 1 is faster.
Shares and decibels: the difference. † objects that never came weigh on one of the two.</p>
<h3>How many had come after how long</h3><div class="figures">{figures}</div>
<p class="caption">Read upwards from a delay: that share of all captured objects was there by then.
Thick lines are all seeds together, thin ones each seed. A line that ends below 100 % lost the
rest. The wide grey line is the link's floor: only what finds the link free can be left of it.</p>
<h3>Over the run</h3><div class="figures">{over_time}</div>
<p class="caption">Median delay of each half second, all seeds together; at the top edge more than
half never came. Delays run to {until}. The grey shape is the link's rate.</p>
<h3>All figures</h3>{figures_table(condition)}
<p class="caption">† objects that never came weigh on this. – not known of this peer.</p>
<h3>Worst vital objects</h3>{worst_table(condition, cases)}
"""


def _circumstances(condition: Condition) -> str:
    base = condition.spread(condition.subject, lambda line: line.get("base_delay_ms"))
    seeds = ", ".join(map(str, condition.seeds))
    text = (
        f"Link: {condition.title}. {condition.media.capitalize()} media, {condition.duration:g} s; "
    )
    if condition.video_bps is not None:
        text += f"each picture up to {condition.video_bps / 1e3:,.0f} kbit/s; "
    text += f"seeds {seeds}; backend {condition.backend}"
    if base is not None:
        text += f", whose own delay was {base.median:.2f} ms"
    text += ". Delays run from capture to "
    if condition.measure == "arrived":
        return text + "complete at the receiver."
    blind = [
        label(peer)
        for peer, runs in condition.peers.items()
        if any(run.line["measure"] == "shown" for run in runs)
    ]
    return text + f"shown or played, since that is all that can be seen of {', '.join(blind)}."


def _image(condition: Condition, kind: str, cls: ObjectClass, out: Path) -> str:
    stem = f"{kind}-{condition.slug}-{cls.value}"
    draw = matrix_plots.delay_cdf if kind == "cdf" else matrix_plots.delay_over_time
    for theme, ending in ((style.LIGHT, ""), (style.DARK, "-dark")):
        with style.context(theme):
            figure = draw(condition, cls, theme)
            (out / f"{stem}{ending}.png").write_bytes(style.png(figure))
    what = "Cumulative share of objects by delay" if kind == "cdf" else "Delay over time"
    words = f"{what}, {cls.value} objects, {condition.name}: " + "; ".join(
        f"{label(peer)} p95 {s.median:,.0f} ms"
        for peer in condition.peers
        if (s := condition.spread(peer, condition.class_figure(cls.value, "p95_ms"))) is not None
    )
    return (
        f"<figure><figcaption>{cls.value.capitalize()}</figcaption>"
        f"{picture(stem, html.escape(words))}</figure>"
    )


def _standing(lines: Sequence[Mapping[str, Any]], folder: Path) -> str:
    marks = {"met": "good", "missed": "bad"}
    rows = "".join(
        f'<tr><th scope="row">{html.escape(row.subject)}</th>'
        f'<td class="words">{html.escape(row.goal)}</td>'
        f'<td class="words">{html.escape(row.measured)}</td>'
        f'<td class="{marks.get(row.verdict, "")}">{row.verdict}</td></tr>'
        for row in standing_rows(lines, folder)
    )
    return (
        '<h2 id="standing">Where limen stands against its goals</h2>'
        '<div class="wide" role="region" tabindex="0" aria-label="Goals and figures"><table>'
        '<thead><tr><th scope="col">what</th><th scope="col" class="words">goal</th>'
        '<th scope="col" class="words">measured'
        f'</th><th scope="col"></th></tr></thead><tbody>{rows}</tbody></table></div>'
    )
