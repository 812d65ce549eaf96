"""Delay against damage, a curve per buffer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .judging import Case

COLOURS = {
    "limen": "#0b7285",
    "NetEQ's rules": "#e8590c",
    "fixed": "#868e96",
    "clairvoyant": "#2b8a3e",
}


def plot_curves(cases: Sequence[Case], path: Path) -> None:
    """One panel a case; needs matplotlib (extra `bench`). Raises OSError."""
    import matplotlib as mpl  # noqa: PLC0415 - slow, and an extra

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = [case for case in cases if case.curves]
    if not shown:
        return
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.6 * columns, 3.6 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    for axis, case in zip(axes.flat, shown, strict=False):
        _panel(axis, case)
    axes.flat[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _panel(axis: Any, case: Case) -> None:
    for name, points in case.curves.items():
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        axis.plot(xs, ys, "o-", color=COLOURS[name], markersize=3, linewidth=1.2, label=name)
    for name, verdict in (("limen", case.limen), ("NetEQ's rules", case.neteq)):
        axis.plot(verdict.damage, verdict.mean_ms, "D", color=COLOURS[name], markersize=7)
    axis.set_title(case.name, fontsize=10)
    axis.set_xlim(0, max(1.0, 2.5 * max(case.limen.damage, case.neteq.damage)))
    top = max(case.limen.mean_ms, case.neteq.mean_ms)
    axis.set_ylim(0, 1.6 * top)
    axis.set_xlabel("damage: made-up or missing speech, %", fontsize=8)
    axis.set_ylabel("mean delay, capture to ear, ms", fontsize=8)
    axis.grid(visible=True, alpha=0.25)
