"""The plots of a report, each a function from ReportData to a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..objects import ObjectClass, ObjectRecord
from . import style
from .data import ReportData, RunData

CLASS_TITLES = {
    ObjectClass.VITAL: "Vital: speech of the one listened to",
    ObjectClass.ATTENDED: "Attended: the picture while watched, other speech",
    ObjectClass.AMBIENT: "Ambient: silence, the picture while nobody looks",
}
MEDIAN_WINDOW = 0.5
"""Seconds over which the line through the dots takes its median."""


def delay_over_time(data: ReportData) -> Figure:
    """Per class: each object's delay as a dot, every run in its colour, the rate behind."""
    low, high = _delay_range(data)
    lost_at = high * 1.35
    figure, grid = style.new_figure(3, 1, height=9.4, sharex=True)
    for cls, axes in zip(ObjectClass, grid[:, 0], strict=True):
        first = next(iter(data.runs.values()))
        style.draw_rate(axes, first.link, offset=_link_offset(first), duration=data.duration)
        axes.set_yscale("log")
        axes.set_ylim(low, high * 1.8)
        style.log_ms(axes.yaxis, low, high)
        axes.set_title(CLASS_TITLES[cls])
        axes.set_ylabel("delay, ms (log)")
        deadline = _deadline_ms(data, cls)
        for index, run in enumerate(data.runs.values()):
            colour = style.run_colour(run.name, list(data.runs))
            records = [r for r in run.records if r.cls is cls]
            came = [r for r in records if r.arrived is not None]
            times = np.array([r.captured - run.start for r in came])
            values = np.array([_delay_ms(r) for r in came])
            axes.plot(times, values, ".", color=colour, markersize=4.5, alpha=0.4, mew=0)
            axes.plot(*_median_line(times, values), color=colour, linewidth=2.0)
            lost = [r.captured - run.start for r in records if r.arrived is None]
            height = lost_at * (1.0 + 0.16 * (index - (len(data.runs) - 1) / 2))
            axes.plot(lost, [height] * len(lost), "x", color=colour, markersize=4.5, mew=1.1)
        if deadline is not None:
            style.draw_deadline(axes, deadline, vertical=False)
    bottom = grid[-1, 0]
    bottom.set_xlim(0.0, data.duration)
    bottom.set_xlabel("capture time in the run, s")
    _legend(
        figure,
        data,
        [
            Line2D([], [], color="#555555", marker="x", linestyle="", label="never arrived"),
            Patch(facecolor=style.LIGHT.fill, edgecolor=style.LIGHT.faint, label="link rate"),
        ],
    )
    return figure


def delay_cdf(data: ReportData) -> Figure:
    """Per class: the share of all captured objects that had arrived within a delay."""
    low, high = _delay_range(data)
    figure, grid = style.new_figure(1, 3, height=4.2, sharey=True)
    for cls, axes in zip(ObjectClass, grid[0], strict=True):
        for run in data.runs.values():
            records = [r for r in run.records if r.cls is cls]
            if not records:
                continue
            values = np.sort([_delay_ms(r) for r in records if r.arrived is not None])
            rises = np.arange(1, len(values) + 1) / len(records) * 100.0
            colour = style.run_colour(run.name, list(data.runs))
            top = rises[-1] if len(rises) else 0.0
            x = np.concatenate([[low], values, [high]])
            axes.step(
                x, np.concatenate([[0.0], rises, [top]]), where="post", color=colour, linewidth=2.2
            )
        deadline = _deadline_ms(data, cls)
        if deadline is not None:
            style.draw_deadline(axes, deadline, vertical=True)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        style.log_ms(axes.xaxis, low, high, sparse=True)
        axes.tick_params(axis="x", labelsize=10)
        axes.set_title(cls.value.capitalize())
        axes.set_xlabel("delay, ms (log)")
    grid[0, 0].set_ylim(0.0, 102.0)
    grid[0, 0].set_ylabel("objects arrived, % of captured")
    _legend(figure, data, [])
    return figure


def queue_over_time(data: ReportData) -> Figure:
    """How long packets waited at the bottleneck, every run, the rate behind."""
    figure, grid = style.new_figure(1, 1, height=3.9)
    axes = grid[0, 0]
    first = next(iter(data.runs.values()))
    style.draw_rate(axes, first.link, offset=_link_offset(first), duration=data.duration)
    for index, run in enumerate(data.runs.values()):
        points = run.link["down"]["series"]["queue_delay_ms"]
        offset = _link_offset(run)
        colour = style.run_colour(run.name, list(data.runs))
        axes.plot(
            [t - offset for t, _ in points], [v for _, v in points], color=colour, linewidth=1.2
        )
        drops = [t - offset for t in run.link["down"]["series"]["queue_drops_s"]]
        height = 0.98 - 0.05 * index
        axes.plot(
            drops,
            [height] * len(drops),
            "v",
            color=colour,
            markersize=6,
            mew=0,
            transform=axes.get_xaxis_transform(),
        )
    axes.set_title("Wait in the bottleneck's queue")
    axes.set_xlim(0.0, data.duration)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("time in the run, s")
    axes.set_ylabel("wait, ms")
    _legend(
        figure,
        data,
        [
            Line2D(
                [], [], color="#555", marker="v", ls="", ms=6, label="packet dropped: queue full"
            ),
            Patch(facecolor=style.LIGHT.fill, edgecolor=style.LIGHT.faint, label="link rate"),
        ],
    )
    return figure


def shares_and_tags(data: ReportData, run: RunData) -> Figure | None:
    """Who got the link, above which tags said so; None when the run has neither."""
    if not run.shares and not run.tags:
        return None
    # The smallest at the bottom: its ups and downs then start from a level line.
    tracks = sorted(run.shares, key=lambda track: sum(v for _, v in run.shares[track]))
    tracks = tracks or sorted({tag.track for tag in run.tags})
    colours = {
        track: style.TRACK_COLOURS[index % len(style.TRACK_COLOURS)]
        for index, track in enumerate(sorted(tracks))
    }
    lanes = _tag_lanes(data, run, colours)
    figure, grid = style.new_figure(
        2,
        1,
        height=4.4 + 0.3 * len(lanes),
        sharex=True,
        height_ratios=[3.0, 0.4 + 0.3 * len(lanes)],
    )
    upper, lower = grid[:, 0]
    if run.shares:
        times = [t for t, _ in next(iter(run.shares.values()))]
        stack = [[100.0 * v for _, v in run.shares[track]] for track in tracks]
        upper.stackplot(
            times, *stack, labels=tracks, colors=[colours[t] for t in tracks], alpha=0.85, lw=0
        )
        upper.legend(
            loc="lower left", bbox_to_anchor=(0.25, 0.99), ncols=len(tracks), borderaxespad=0.0
        )
    upper.set_ylim(0.0, 100.0)
    upper.set_ylabel(run.shares_unit)
    upper.set_title("Who gets the link")
    for row, (label, colour, spans) in enumerate(reversed(lanes)):
        for begin, length, strength in spans:
            lower.barh(row, length, left=begin, height=0.72, color=colour, alpha=strength, lw=0)
        lower.axhline(row - 0.5, color="#eef1f4", linewidth=0.8)
        lower.annotate(
            label,
            (0, row),
            xytext=(-6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=10,
        )
    lower.set_yticks([])
    lower.set_ylim(-0.6, len(lanes) - 0.4)
    lower.grid(visible=False, axis="y")
    lower.set_title("What was said to matter (stronger colour: higher value)")
    lower.set_xlim(0.0, data.duration)
    lower.set_xlabel("time in the run, s")
    return figure


Lane = tuple[str, str, list[tuple[float, float, float]]]


def _tag_lanes(data: ReportData, run: RunData, colours: Mapping[str, str]) -> list[Lane]:
    """Rows of (begin, length, strength) bars: the truth in grey, then each track's tags by kind."""
    lanes: list[Lane] = []
    names = {turn.talker: data.talkers.get(turn.talker, turn.talker) for turn in data.turns}
    for talker, name in sorted(names.items(), key=lambda item: item[1]):
        spans = [(t.start, t.end - t.start, 0.9) for t in data.turns if t.talker == talker]
        lanes.append((f"truth: {name} speaks", "#8593a0", spans))
    if data.away:
        spans = [(begin, end - begin, 0.9) for begin, end in data.away]
        lanes.append(("truth: viewer looks away", "#8593a0", spans))
    for track, kind in sorted({(tag.track, tag.kind) for tag in run.tags}):
        marks = [tag for tag in run.tags if (tag.track, tag.kind) == (track, kind)]
        ends = [*(mark.time for mark in marks[1:]), data.duration]
        spans = []
        for mark, until in zip(marks, ends, strict=True):
            length = min(mark.half_life, until - mark.time)
            if length > 0.0 and mark.value > 0.0:
                # A tag with a short life is still drawn wide enough to be seen.
                spans.append((mark.time, max(length, 0.03), 0.15 + 0.85 * mark.value))
        lanes.append((f"{track}: {kind}", colours.get(track, "#555555"), spans))
    return lanes


def _delay_ms(record: ObjectRecord) -> float:
    return ((record.arrived or record.captured) - record.captured) * 1e3


def _link_offset(run: RunData) -> float:
    started = run.link["started"]
    return 0.0 if started is None else run.start - float(started)


def _deadline_ms(data: ReportData, cls: ObjectClass) -> float | None:
    for run in data.runs.values():
        for record in run.records:
            if record.cls is cls:
                return (record.deadline - record.captured) * 1e3
    return None


def _delay_range(data: ReportData) -> tuple[float, float]:
    """Limits of the delay axis in ms, common to all plots of a report."""
    values = [_delay_ms(r) for run in data.runs.values() for r in run.records if r.arrived]
    if not values:
        return 10.0, 1000.0
    low = max(1.0, min(values))
    return 10 ** (math.floor(math.log10(low) * 4) / 4), max(1000.0, max(values) * 1.1)


def _median_line(times: Any, values: Any) -> tuple[list[float], list[float]]:
    """Median delay per window; a gap (NaN) where a window holds nothing."""
    if not len(times):
        return [], []
    xs: list[float] = []
    ys: list[float] = []
    for index in range(int(times.max() / MEDIAN_WINDOW) + 1):
        inside = (times >= index * MEDIAN_WINDOW) & (times < (index + 1) * MEDIAN_WINDOW)
        xs.append((index + 0.5) * MEDIAN_WINDOW)
        ys.append(float(np.median(values[inside])) if inside.any() else math.nan)
    return xs, ys


def _legend(figure: Figure, data: ReportData, more: Sequence[Any]) -> None:
    handles = [
        Line2D([], [], color=style.run_colour(name, list(data.runs)), linewidth=3, label=run.label)
        for name, run in data.runs.items()
    ]
    figure.legend(handles=[*handles, *more], loc="outside upper left", ncols=4, fontsize=10.5)
