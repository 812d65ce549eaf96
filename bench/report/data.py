"""What a report is made of. Whoever runs a comparison fills this; nothing here measures.

Times of `shares` and `tags` are run time: seconds since the run's start of capture. Stamps of
records stay on their own clock, and `start` says where run time 0 lies on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..objects import ObjectRecord, TagMark
from ..turns import Turn


@dataclass(frozen=True, slots=True)
class RunData:
    """One peer's run over the link."""

    name: str
    """Short, as in report.json: `fifo`, `limen`."""
    label: str
    """What it is, in words a stranger understands."""
    records: Sequence[ObjectRecord]
    """Every object captured, also those that never came."""
    start: float
    """Run time 0 on the records' clock, s."""
    end: float
    """When the run was over, on the records' clock, s: nothing is waited for any more."""
    link: Mapping[str, Any]
    """What `ProxyProcess.stop` returned."""
    summary: Mapping[str, Any]
    """What `metrics.run_summary` returned."""
    shares: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Per track (run time, share of the link in [0, 1]), at common times; may be empty."""
    shares_unit: str = "share of bytes sent, %"
    """What `shares` are shares of; the label of their axis."""
    tags: Sequence[TagMark] = ()
    """In order of time; may be empty."""
    video: str | None = None
    """Name of the recording of what was seen and heard, beside the report."""


@dataclass(frozen=True, slots=True)
class ReportData:
    """A comparison of runs over the same link, media and seed."""

    title: str
    media: str
    """What played, in words."""
    attribution: Sequence[str]
    """Whose recordings these are, and under which licence."""
    seed: int
    link: Mapping[str, Any]
    """What `LinkProfile.to_dict` returned."""
    duration: float
    """Seconds of media."""
    runs: Mapping[str, RunData]
    """By name, the baseline first; two or more."""
    ratio: Mapping[str, float | None]
    """What `metrics.ratios` returned, of the last run against the first."""
    turns: Sequence[Turn] = ()
    """Who really speaks when, run time."""
    talkers: Mapping[str, str] = field(default_factory=dict)
    """Whose voice is on which track: talker to track; what is drawn is named by its track."""
    busy: Sequence[str] = ()
    """Of each run made on a machine that was too busy, a line that says how busy; empty: none."""
    away: Sequence[tuple[float, float]] = ()
    """When the viewer looks away from the picture: (from, to), run time."""


def report_json(data: ReportData) -> dict[str, Any]:
    """The content of report.json; JSON-safe as its parts are."""
    return {
        "media": data.media,
        "seed": data.seed,
        "link": dict(data.link),
        "clocks": {
            "link": "steps of `link` are in link time, in which capture starts at:",
            "link_time_at_capture_start_s": {
                name: _link_time_at_start(run) for name, run in data.runs.items()
            },
        },
        "busy": list(data.busy),
        "runs": {name: dict(run.summary) for name, run in data.runs.items()},
        "ratio": dict(data.ratio),
    }


def _link_time_at_start(run: RunData) -> float | None:
    """Run time 0 in link time, s; None when no packet was ever sent."""
    started = run.link["started"]
    return None if started is None else round(run.start - started, 3)
