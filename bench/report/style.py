"""One look for every plot: a run has the same colour everywhere, and time the same axis."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

WIDTH_INCHES = 10.0
DPI = 150
"""1,500 pixels wide: sharp when a page shows it at 1,000."""

RUN_COLOURS = {"fifo": "#d1571f", "limen": "#1766a6", "static": "#7a7a1e"}
SPARE_COLOURS = ("#7b4fa3", "#2b8a5a", "#a33b6b", "#555555")
TRACK_COLOURS = ("#2f7f86", "#8a5aa8", "#b58a1b", "#6b7d8f", "#a14f4f", "#4f7f3f")
RATE_FILL = "#e9edf1"
RATE_LINE = "#9aa7b4"
TEXT = "#22303c"
RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 11.0,
    "axes.titlesize": 12.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": TEXT,
    "axes.edgecolor": "#8593a0",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dfe4e9",
    "grid.linewidth": 0.7,
    "text.color": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def run_colour(name: str, names: Sequence[str]) -> str:
    """The colour of a run; the same in every plot of a report."""
    spare = [other for other in names if other not in RUN_COLOURS]
    return RUN_COLOURS.get(name) or SPARE_COLOURS[spare.index(name) % len(SPARE_COLOURS)]


def new_figure(rows: int, columns: int, *, height: float, **more: Any) -> tuple[Figure, Any]:
    """A figure of the common width and its axes as a 2-D array; call within `mpl.rc_context`."""
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **more)


def context() -> Any:
    """The context in which figures are made and saved."""
    return mpl.rc_context(RC)


def png(figure: Figure) -> bytes:
    """The figure as PNG, without a date in it: the same data, the same bytes."""
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=DPI, metadata={"Software": "limen"})
    return sink.getvalue()


def log_ms(axis: Any, low: float, high: float, *, sparse: bool = False) -> None:
    """Put a logarithmic millisecond scale with plain numbers on a plot's axis."""
    factors = (1, 3) if sparse else (1, 2, 5)
    ticks = [factor * 10.0**power for power in range(6) for factor in factors]
    axis.set_ticks([tick for tick in ticks if low <= tick <= high])
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def draw_rate(axes: Axes, link: Mapping[str, Any], *, offset: float, duration: float) -> bool:
    """The link's rate as a grey step behind a plot, on an axis of its own to the right.

    `offset`: link time at run time 0. False when the link has no rate.
    """
    steps = link["down"]["rate_bps"]
    if not steps:
        return False
    times, rates = [0.0], [0.0]
    for at, rate in steps:
        if at - offset <= 0.0:
            rates[0] = rate / 1e6
        elif at - offset < duration:
            times.append(at - offset)
            rates.append(rate / 1e6)
    times.append(duration)
    rates.append(rates[-1])
    behind = axes.twinx()
    behind.fill_between(times, rates, step="post", color=RATE_FILL, linewidth=0)
    behind.step(times, rates, where="post", color=RATE_LINE, linewidth=1.2)
    behind.set_ylim(0.0, max(rates) * 1.12 or 1.0)
    behind.set_ylabel("link rate, Mbit/s", color="#6f7e8c")
    behind.tick_params(axis="y", colors="#6f7e8c", length=0)
    behind.grid(visible=False)
    behind.spines[["left", "right", "top"]].set_visible(False)
    behind.set_zorder(axes.get_zorder() - 1)
    axes.patch.set_visible(False)
    return True
