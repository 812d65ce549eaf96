"""The tables of `limen bench run` and `limen bench compare`, for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..bench.report.comparing import Comparison, Figure
    from ..bench.report.conditions import Condition, Spread


def show_matrix(console: Console, lines: Sequence[Mapping[str, Any]]) -> None:
    """Per link the medians over seeds with least and greatest, and what the others are beside."""
    from ..bench.report.conditions import conditions  # noqa: PLC0415 - numpy

    bare = [{**line, "trace": None} for line in lines]
    for condition in conditions(bare, Path()):
        console.print()
        console.print(_matrix_table(condition))
        busy = sum(bool(run.line.get("busy")) for runs in condition.peers.values() for run in runs)
        if busy:
            console.print(Text(f"* made on a busy machine: {busy} of these runs", style="yellow"))


def _matrix_table(condition: Condition) -> Table:
    taken = "shown or played" if condition.measure == "shown" else "arrival"
    seeds = len(condition.seeds)
    title = (
        f"{condition.name}: {condition.title}\n"
        f"{condition.duration:g} s of {condition.media} media, "
        f"{condition.backend}, {seeds} seed{'s' if seeds > 1 else ''}; ms from capture to {taken}"
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    subject = condition.subject
    table.add_column("", no_wrap=True, min_width=1 + max(map(len, condition.peers)))
    headings = ("vital p50", "vital p95", "on time", "attended p95", "seen dB", "link used")
    for heading in (*headings, "queue p95", f"{subject} ÷ it"):
        table.add_column(heading, justify="right", no_wrap=True)
    p95 = condition.class_figure("vital", "p95_ms")
    rows = (
        (condition.class_figure("vital", "p50_ms"), "{:,.0f}"),
        (p95, "{:,.0f}"),
        (condition.class_figure("vital", "on_time"), "{:.1%}"),
        (condition.class_figure("attended", "p95_ms"), "{:,.0f}"),
        (lambda line: line["region_psnr_db"], "{:.1f}"),
        (lambda line: line["utilization"], "{:.0%}"),
        (lambda line: line["queue_p95_ms"], "{:,.0f}"),
    )
    for peer, runs in condition.peers.items():
        busy = "*" if any(run.line.get("busy") for run in runs) else ""
        cells = [cell(condition.spread(peer, figure), form) for figure, form in rows]
        ratio = "" if peer == subject else cell(condition.ratio(subject, p95, base=peer), "{:.2f}")
        table.add_row(peer + busy, *cells, ratio)
    table.caption = (
        f"median over seeds, below it least to greatest; {subject} ÷ it: vital p95, seed by seed"
    )
    table.caption_justify = "left"
    return table


def cell(found: Spread | None, form: str) -> str:
    """A spread in a cell: its median, and under it from where to where when seeds differ."""
    if found is None:
        return "-"
    median = form.format(found.median)
    low, high = form.format(found.low), form.format(found.high)
    return median if low == high else f"{median}\n{low} to {high}"


def show_comparisons(console: Console, comparisons: Sequence[Comparison], a: str, b: str) -> None:
    """Per link the figures of both sides, and what changed beyond noise."""
    for comparison in comparisons:
        console.print()
        console.print(_comparison_table(comparison, a, b))
        for verdict, style in (("worse", "red"), ("better", "green")):
            names = [row.figure.name for row in comparison.rows if row.verdict == verdict]
            words = ", ".join(names) if names else "nothing beyond noise"
            console.print(Text.assemble((f"{verdict}: ", style), words), soft_wrap=True)
        if len(comparison.seeds) < 2:
            console.print(
                Text("one pair only: nothing can be told from noise", style="yellow"),
                soft_wrap=True,
            )
        if comparison.busy:
            console.print(
                Text(f"{comparison.busy} of these runs had a busy machine", style="yellow")
            )


def _comparison_table(comparison: Comparison, a: str, b: str) -> Table:
    title = f"{comparison.title}; seeds {', '.join(map(str, comparison.seeds))}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for heading in (f"A: {a}", f"B: {b}", "B beside A", "least to greatest"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    styles = {"worse": "red", "better": "green", "": ""}
    for row in comparison.rows:
        table.add_row(
            row.figure.name,
            value_words(row.figure, row.a.median),
            value_words(row.figure, row.b.median),
            change_words(row.figure, row.change.median),
            f"{change_words(row.figure, row.change.low)} to "
            f"{change_words(row.figure, row.change.high)}",
            Text(row.verdict, style=styles[row.verdict]),
        )
    return table


def value_words(figure: Figure, value: float) -> str:
    """A figure with its unit."""
    match figure.unit:
        case "%":
            return f"{value * 100:.1f} %"
        case "kB":
            return f"{value / 1e3:,.0f} kB"
        case "ms":
            return f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms"
        case _:
            return f"{value:.2f} {figure.unit}"


def change_words(figure: Figure, change: float) -> str:
    """B ÷ A, or the difference."""
    if figure.as_quotient:
        return f"x {change:.2f}"
    return f"{change * 100:+.1f} points" if figure.unit == "%" else f"{change:+.2f} {figure.unit}"
