"""The worst vital objects of each peer, and a page for every run that has one of them."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..objects import ObjectClass, ObjectRecord
from . import matrix_plots, sheet, style
from .conditions import Condition, Run, label
from .verdicts import ms

MANY = 10
"""Objects listed of each peer."""


@dataclass(frozen=True, slots=True)
class WorstCase:
    """One vital object, and the run it belongs to."""

    run: Run
    record: ObjectRecord
    floor: float
    """Seconds; infinite for one the link could never have carried."""
    delay: float
    """Seconds; infinite for one that never came."""


def worst_cases(condition: Condition, peer: str) -> list[WorstCase]:
    """The peer's worst vital objects over all seeds, the worst first; those lost lead."""
    cases = []
    for run in condition.peers[peer]:
        if run.trace is None:
            continue
        for record, floor in zip(run.trace.records, run.trace.floors, strict=True):
            if record.cls is ObjectClass.VITAL:
                stamp = getattr(record, condition.measure)
                delay = math.inf if stamp is None else stamp - record.captured
                cases.append(WorstCase(run, record, floor, delay))
    cases.sort(key=lambda case: (-case.delay, case.run.seed, case.record.captured))
    return cases[:MANY]


def page_name(condition: Condition, run: Run) -> str:
    """The file of a run's page beside the report."""
    return f"run-{condition.slug}-{run.line['peer']}-seed{run.seed}.html"


def worst_table(condition: Condition, cases: Mapping[str, Sequence[WorstCase]]) -> str:
    """One row a peer: its worst objects, each linked to the page of its run."""
    rows = []
    for peer, worst in cases.items():
        if worst:
            links = ", ".join(
                f'<a href="{html.escape(page_name(condition, case.run))}">{_delay(case)}</a> '
                f"at {case.record.captured:.2f} s (seed {case.run.seed})"
                for case in worst
            )
            rows.append(
                f'<tr><th scope="row">{html.escape(label(peer))}</th>'
                f'<td class="words">{links}</td></tr>'
            )
    if not rows:
        return '<p class="soft">No traces lie beside these lines, so no single object is known.</p>'
    return (
        '<div class="wide" role="region" tabindex="0" aria-label="Worst vital objects"><table>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def write_run_pages(
    condition: Condition, cases: Mapping[str, Sequence[WorstCase]], out: Path, *, back: str
) -> None:
    """A page and two pictures for each run that has one of `cases`."""
    for worst in cases.values():
        for key in dict.fromkeys(case.run.line["key"] for case in worst):
            own = [case for case in worst if case.run.line["key"] == key]
            _write_run_page(condition, own, out, back=back)


def _write_run_page(
    condition: Condition, worst: Sequence[WorstCase], out: Path, *, back: str
) -> None:
    run = worst[0].run
    name = page_name(condition, run)
    stem = name.removesuffix(".html")
    for theme, ending in ((style.LIGHT, ""), (style.DARK, "-dark")):
        with style.context(theme):
            records = [case.record for case in worst]
            figure = matrix_plots.run_trace(run, condition, records, theme)
            (out / f"{stem}{ending}.png").write_bytes(style.png(figure))
    title = html.escape(f"{label(run.line['peer'])} over {condition.name}, seed {run.seed}")
    rows = "".join(
        f'<tr><th scope="row">{case.record.captured:.3f} s</th><td>{html.escape(case.record.track)}'
        f"</td><td>{_delay(case)}</td><td>{_floor(case)}</td>"
        f"<td>{case.record.size_bytes} B</td><td>{case.record.importance:.2f}</td></tr>"
        for case in sorted(worst, key=lambda case: case.record.captured)
    )
    trace = ""
    if run.trace_path is not None:
        target = Path(os.path.relpath(run.trace_path.resolve(), out.resolve())).as_posix()
        trace = (
            f'<p>The whole trace: <a href="{html.escape(target)}">'
            f"{html.escape(run.trace_path.name)}</a> (numpy; "
            "<code>limen.bench.runs.traces.read_trace</code> reads it).</p>"
        )
    body = f"""<p><a href="{html.escape(back)}">Back to the report</a></p>
<h1>{title}</h1>
<figure><figcaption>Every object of the run, and the bottleneck's queue</figcaption>
{
        picture(
            stem,
            f"Delay of every object of {title} over the run, the worst vital ones ringed, above "
            "the wait in the bottleneck's queue with the link's rate behind it",
        )
    }</figure>
<p class="caption">Each dot is one object. Crosses never came. Ringed are the worst vital ones:</p>
<div class="wide" role="region" tabindex="0" aria-label="Worst vital objects"><table>
<thead><tr><th scope="col">captured at</th><th scope="col">track</th><th scope="col">delay</th>
<th scope="col">floor</th><th scope="col">size</th><th scope="col">importance</th></tr></thead>
<tbody>{rows}</tbody></table></div>
{trace}"""
    (out / name).write_text(sheet.page(title, body), encoding="utf-8")


def picture(stem: str, words: str) -> str:
    """An image that is dark where the reader's screen is; `words` are escaped already."""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{stem}-dark.png">'
        f'<img src="{stem}.png" alt="{words}" loading="lazy"></picture>'
    )


def _delay(case: WorstCase) -> str:
    return ms(case.delay * 1e3) if math.isfinite(case.delay) else "never came"


def _floor(case: WorstCase) -> str:
    return ms(case.floor * 1e3) if math.isfinite(case.floor) else "none: the link stood still"
