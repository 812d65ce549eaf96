"""The plots of a matrix: one small picture per class, light and dark, legible on a telephone.

Every picture has the same width and type size, so that a page may lay them in columns or one
below the other. A peer has one colour and one dash pattern everywhere: neither alone is needed to
tell it from the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..objects import ObjectClass, ObjectRecord
from . import style
from .conditions import Condition, Run, label

WINDOW = 0.5
"""Seconds over which the line over time takes its median."""
DASHES: dict[str, Any] = {
    "fifo": (0, (4, 1.5)),
    "static": (0, (1.5, 1)),
    "limen": "-",
    "chromium": (0, (6, 1.5, 1.5, 1.5)),
    "moq": (0, (7, 2)),
    "aiortc": (0, (3, 1, 1, 1, 1, 1)),
}


def delay_cdf(condition: Condition, cls: ObjectClass, theme: style.Theme) -> Figure:
    """Share of a class's captured objects that had come within a delay; thin lines are seeds."""
    figure, axes = _panel()
    low, high = _range(condition, cls)
    floors: list[float] = []
    for peer, runs in condition.peers.items():
        colour = theme.peer(peer)
        pooled: list[float] = []
        captured = 0
        for run in runs:
            records, least = _of_class(run, cls)
            values = _delays_ms(records, condition)
            floors += [1e3 * floor for floor in least if math.isfinite(floor)]
            pooled += values
            captured += len(records)
            _steps(axes, values, len(records), (low, high), color=colour, lw=0.7, alpha=0.45)
        if captured:
            width = 2.6 if peer == condition.subject else 1.9
            _steps(axes, pooled, captured, (low, high), color=colour, lw=width, ls=DASHES.get(peer))
    if floors:
        _steps(axes, floors, len(floors), (low, high), color=theme.faint, lw=3.2, alpha=0.8)
    _deadline(axes, condition, cls, theme, vertical=True)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    style.log_ms(axes.xaxis, low, high, sparse=True)
    axes.set_ylim(0, 102)
    axes.set_xlabel(f"delay, capture to {_until(condition)}, ms (log)")
    axes.set_ylabel("of captured objects, %")
    floor = Line2D([], [], color=theme.faint, lw=3.2, label="floor of the link")
    _legend(figure, condition, theme, [floor] if floors else [])
    return figure


def delay_over_time(condition: Condition, cls: ObjectClass, theme: style.Theme) -> Figure:
    """Median delay per half second and peer, over all seeds; the link's rate behind."""
    figure, axes = _panel()
    low, high = _range(condition, cls)
    behind = _rate_behind(axes, condition, theme)
    for peer, runs in condition.peers.items():
        times: list[float] = []
        values: list[float] = []
        for run in runs:
            records, _ = _of_class(run, cls)
            for record in records:
                stamp = getattr(record, condition.measure)
                times.append(record.captured)
                # What never came is in the median of its moment: far above what did.
                values.append(math.inf if stamp is None else (stamp - record.captured) * 1e3)
        xs, ys = _medians(times, values, top=high * 0.97)
        width = 2.6 if peer == condition.subject else 1.7
        axes.plot(xs, ys, color=theme.peer(peer), lw=width, ls=DASHES.get(peer, "-"))
    _deadline(axes, condition, cls, theme, vertical=False)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    style.log_ms(axes.yaxis, low, high)
    axes.set_xlim(0.0, condition.duration)
    axes.set_xlabel("capture time in the run, s")
    axes.set_ylabel("median delay, ms (log)")
    rate = Patch(facecolor=theme.fill, edgecolor=theme.faint, label="rate of the link")
    _legend(figure, condition, theme, [rate] if behind else [])
    return figure


def run_trace(
    run: Run, condition: Condition, marked: Sequence[ObjectRecord], theme: style.Theme
) -> Figure:
    """One run whole: every object's delay by class, the rate and the queue, worst ones ringed."""
    figure = Figure(figsize=(style.PANEL_INCHES * 1.5, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    trace = run.trace
    if trace is None:
        raise ValueError(f"the run {run.line.get('key')} has no trace to draw")
    came = [r for r in trace.records if getattr(r, condition.measure) is not None]
    never = [r for r in trace.records if getattr(r, condition.measure) is None]
    delays = _delays_ms(came, condition)
    low, high = _limits(delays)
    for cls, colour in zip(ObjectClass, theme.classes, strict=True):
        chosen = [r for r in came if r.cls is cls]
        upper.plot(
            [r.captured for r in chosen],
            _delays_ms(chosen, condition),
            ".",
            ms=4.5,
            mew=0,
            color=colour,
            label=cls.value,
        )
        lost = [r.captured for r in never if r.cls is cls]
        upper.plot(lost, [high * 0.85] * len(lost), "x", ms=4, color=colour)
    ringed = [
        (r.captured, high * 0.85 if s is None else (s - r.captured) * 1e3)
        for r in marked
        for s in (getattr(r, condition.measure),)
    ]
    upper.plot(*zip(*ringed, strict=True), "o", ms=10, mfc="none", mew=1.2, color=theme.text)
    upper.set_yscale("log")
    upper.set_ylim(low, high)
    style.log_ms(upper.yaxis, low, high)
    upper.set_ylabel("delay, ms (log)")
    more = [
        Line2D([], [], ls="", marker="x", color=theme.text, label="never came"),
        Line2D([], [], ls="", marker="o", ms=8, mfc="none", color=theme.text, label="worst vital"),
    ]
    handles, _ = upper.get_legend_handles_labels()
    figure.legend(
        handles=[*handles, *more],
        loc="outside upper left",
        ncols=5,
        fontsize=9,
        columnspacing=1.1,
        markerscale=1.5,
    )
    if trace.queue_ms:
        lower.plot(*zip(*trace.queue_ms, strict=True), color=theme.text, lw=1.0)
    lower.set_ylim(bottom=0.0)
    lower.set_ylabel("queue, ms")
    lower.set_xlabel("time in the run, s")
    lower.set_xlim(0.0, condition.duration)
    _draw_rate(lower, trace.rates, condition.duration, theme)
    return figure


def _panel() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(style.PANEL_INCHES, 4.1), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _until(condition: Condition) -> str:
    return "shown or played" if condition.measure == "shown" else "arrival"


def _of_class(run: Run, cls: ObjectClass) -> tuple[list[ObjectRecord], list[float]]:
    if run.trace is None:
        return [], []
    pairs = zip(run.trace.records, run.trace.floors, strict=True)
    chosen = [(record, floor) for record, floor in pairs if record.cls is cls]
    return [record for record, _ in chosen], [floor for _, floor in chosen]


def _delays_ms(records: Sequence[ObjectRecord], condition: Condition) -> list[float]:
    """Of those that came."""
    return [
        (stamp - r.captured) * 1e3
        for r in records
        if (stamp := getattr(r, condition.measure)) is not None
    ]


def _range(condition: Condition, cls: ObjectClass) -> tuple[float, float]:
    values: list[float] = []
    for runs in condition.peers.values():
        for run in runs:
            records, floors = _of_class(run, cls)
            values += _delays_ms(records, condition)
            values += [1e3 * floor for floor in floors if math.isfinite(floor)]
            values += [(r.deadline - r.captured) * 1e3 for r in records[:1]]
    return _limits(values)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis in ms, with a little air and never less than a decade."""
    if not values:
        return 10.0, 1000.0
    low = max(1.0, min(values)) / 1.15
    return low, max(low * 10.0, max(values) * 1.25)


def _steps(
    axes: Axes, values: Sequence[float], captured: int, ends: tuple[float, float], **look: Any
) -> None:
    if not captured:
        return
    rises = np.arange(1, len(values) + 1) / captured * 100.0
    top = rises[-1] if len(rises) else 0.0
    axes.step(
        np.concatenate([[ends[0]], np.sort(values), [ends[1]]]),
        np.concatenate([[0.0], rises, [top]]),
        where="post",
        **look,
    )


def _medians(
    times: Sequence[float], values: Sequence[float], *, top: float
) -> tuple[list[float], list[float]]:
    """Median per window; at `top` where more than half never came, a gap where nothing was."""
    xs: list[float] = []
    ys: list[float] = []
    if not times:
        return xs, ys
    at, delays = np.array(times), np.array(values)
    for index in range(int(at.max() / WINDOW) + 1):
        inside = delays[(at >= index * WINDOW) & (at < (index + 1) * WINDOW)]
        middle = float(np.percentile(inside, 50, method="higher")) if len(inside) else math.nan
        xs.append((index + 0.5) * WINDOW)
        ys.append(min(middle, top) if len(inside) else math.nan)
    return xs, ys


def _deadline(
    axes: Axes, condition: Condition, cls: ObjectClass, theme: style.Theme, *, vertical: bool
) -> None:
    for runs in condition.peers.values():
        for run in runs:
            records, _ = _of_class(run, cls)
            if not records:
                continue
            value = (records[0].deadline - records[0].captured) * 1e3
            style.draw_deadline(axes, value, vertical=vertical, theme=theme)
            return


def _rate_behind(axes: Axes, condition: Condition, theme: style.Theme) -> bool:
    for runs in condition.peers.values():
        for run in runs:
            if run.trace is not None and run.trace.rates:
                return _draw_rate(axes, run.trace.rates, condition.duration, theme)
    return False


def _draw_rate(
    axes: Axes, rates: Sequence[tuple[float, float]], duration: float, theme: style.Theme
) -> bool:
    return style.draw_rate_steps(axes, rates, duration=duration, theme=theme)


def _legend(figure: Figure, condition: Condition, theme: style.Theme, more: list[Any]) -> None:
    handles = [
        Line2D([], [], color=theme.peer(peer), lw=2.4, ls=DASHES.get(peer, "-"), label=label(peer))
        for peer in condition.peers
    ]
    figure.legend(
        handles=[*handles, *more],
        loc="outside upper left",
        ncols=2,
        fontsize=9,
        columnspacing=1.2,
        handlelength=2.6,
    )
