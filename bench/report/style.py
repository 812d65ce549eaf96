"""One look for every plot: a run has the same colour everywhere, and time the same axis."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

WIDTH_INCHES = 10.0
PANEL_INCHES = 5.2
"""Width of a panel that a page lays in columns, or alone on a telephone."""
DPI = 150
"""1,500 pixels wide: sharp when a page shows it at 1,000."""

RUN_COLOURS = {"fifo": "#d1571f", "limen": "#1766a6", "static": "#7a7a1e"}
SPARE_COLOURS = ("#7b4fa3", "#2b8a5a", "#a33b6b", "#555555")
TRACK_COLOURS = ("#2f7f86", "#8a5aa8", "#b58a1b", "#6b7d8f", "#a14f4f", "#4f7f3f")


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a picture on one ground."""

    ground: str
    text: str
    faint: str
    """Lines that stand back: floor, link rate."""
    soft: str
    """Small print that must still be read."""
    fill: str
    """The area under the link's rate."""
    grid: str
    classes: tuple[str, str, str]
    """Vital, attended, ambient."""
    peers: Mapping[str, str]
    spare: str
    """For a peer without a colour of its own."""

    def peer(self, name: str) -> str:
        """The colour of a peer."""
        return self.peers.get(name, self.spare)


LIGHT = Theme(
    ground="#ffffff",
    text="#22303c",
    faint="#9aa7b4",
    soft="#66737f",
    fill="#e9edf1",
    grid="#dfe4e9",
    classes=("#c8321e", "#1766a6", "#8593a0"),
    peers={
        **RUN_COLOURS,
        "chromium": "#7b4fa3",
        "moq": "#2b8a5a",
        "aiortc": "#b0306a",
    },
    spare="#555555",
)
DARK = Theme(
    ground="#14191f",
    text="#dde4ea",
    faint="#76838f",
    soft="#9aa7b4",
    fill="#222b34",
    grid="#2c3640",
    classes=("#ff8a75", "#6fb7f2", "#8593a0"),
    peers={
        "fifo": "#ff9a62",
        "limen": "#6fb7f2",
        "static": "#cfcf62",
        "chromium": "#c49bf0",
        "moq": "#63cf98",
        "aiortc": "#f585b4",
    },
    spare="#bbbbbb",
)


def run_colour(name: str, names: Sequence[str]) -> str:
    """The colour of a run; the same in every plot of a report."""
    spare = [other for other in names if other not in RUN_COLOURS]
    return RUN_COLOURS.get(name) or SPARE_COLOURS[spare.index(name) % len(SPARE_COLOURS)]


def new_figure(rows: int, columns: int, *, height: float, **more: Any) -> tuple[Figure, Any]:
    """A figure of the common width and its axes as a 2-D array; call within `mpl.rc_context`."""
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **more)


def context(theme: Theme = LIGHT) -> Any:
    """The context in which figures are made and saved."""
    look: Any = {
        "font.family": "DejaVu Sans",
        "font.size": 11.0,
        "axes.titlesize": 12.0,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelcolor": theme.text,
        "axes.edgecolor": theme.faint,
        "axes.facecolor": theme.ground,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme.grid,
        "grid.linewidth": 0.7,
        "text.color": theme.text,
        "xtick.color": theme.text,
        "ytick.color": theme.text,
        "legend.frameon": False,
        "figure.facecolor": theme.ground,
        "savefig.facecolor": theme.ground,
    }
    return mpl.rc_context(look)


def png(figure: Figure) -> bytes:
    """The figure as PNG, without a date in it: the same data, the same bytes."""
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=DPI, metadata={"Software": "limen"})
    return sink.getvalue()


def log_ms(axis: Any, low: float, high: float, *, sparse: bool = False) -> None:
    """Put a logarithmic millisecond scale with plain numbers on a plot's axis."""
    factors = (1, 3) if sparse and high > 30 * low else (1, 2, 5)
    ticks = [factor * 10.0**power for power in range(6) for factor in factors]
    axis.set_ticks([tick for tick in ticks if low <= tick <= high])
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def draw_deadline(axes: Axes, value: float, *, vertical: bool, theme: Theme = LIGHT) -> None:
    """A dashed line at a deadline in ms, named where it ends: on the right, or at the foot."""
    look: Any = {"color": theme.text, "linewidth": 1.0, "linestyle": (0, (5, 3))}
    words: Any = {
        "textcoords": "offset points",
        "fontsize": 9,
        "bbox": {"facecolor": theme.ground, "edgecolor": "none", "alpha": 0.75, "pad": 1.0},
    }
    text = f"deadline {value:,.0f} ms"
    if vertical:
        axes.axvline(value, **look)
        axes.annotate(text, (value, 4), xytext=(4, 0), rotation=90, va="bottom", **words)
    else:
        axes.axhline(value, **look)
        where: Any = ("axes fraction", "data")
        axes.annotate(
            text, (0.995, value), xycoords=where, xytext=(0, 4), ha="right", va="bottom", **words
        )


def draw_rate(axes: Axes, link: Mapping[str, Any], *, offset: float, duration: float) -> bool:
    """The rate of a link's statistics behind a plot; `offset` is link time at run time 0."""
    steps = [(at - offset, rate) for at, rate in link["down"]["rate_bps"]]
    return draw_rate_steps(axes, steps, duration=duration)


def draw_rate_steps(
    axes: Axes,
    steps: Sequence[tuple[float, float]],
    *,
    duration: float,
    theme: Theme = LIGHT,
) -> bool:
    """The link's rate as a step behind a plot, on an axis of its own to the right.

    `steps` are (run time, bit/s from then on), in order. False when the link has no rate.
    """
    if not steps:
        return False
    times, rates = [0.0], [steps[0][1] / 1e6]
    for at, rate in steps:
        if at <= 0.0:
            rates[0] = rate / 1e6
        elif at < duration:
            times.append(at)
            rates.append(rate / 1e6)
    times.append(duration)
    rates.append(rates[-1])
    behind = axes.twinx()
    behind.fill_between(times, rates, step="post", color=theme.fill, linewidth=0)
    behind.step(times, rates, where="post", color=theme.faint, linewidth=1.2)
    behind.set_ylim(0.0, max(rates) * 1.12 or 1.0)
    behind.set_ylabel("link rate, Mbit/s", color=theme.soft)
    behind.tick_params(axis="y", colors=theme.soft, length=0)
    behind.grid(visible=False)
    behind.spines[["left", "right", "top"]].set_visible(False)
    behind.set_zorder(axes.get_zorder() - 1)
    axes.patch.set_visible(False)
    return True
