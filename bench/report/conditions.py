"""Lines of a matrix in the order a reader wants them: by condition, then by peer, then by seed.

A condition is everything that must be the same before two runs may be compared: link, scene,
media, length, backend and clock. A figure of several seeds is a `Spread`: its median, with the
least and the greatest beside it. What one peer is of another is taken seed by seed, since those
runs were made one after the other, and only then summed up.

Not every peer says when an object was complete at its receiver; for a browser only what is shown
can be seen. A condition is therefore judged by one measure for all: `arrived` when every peer
tells that, else `shown`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..link.profile import ProfileError, load_profile
from ..peers.registry import PEERS
from ..runs.traces import RunTrace, read_trace

Measure = Literal["arrived", "shown"]
SUBJECT = "limen"
"""The peer that the others are held against; where it did not run, the last one listed."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over the seeds that have it."""

    median: float
    low: float
    high: float
    count: int

    def overlaps(self, other: Spread) -> bool:
        """Whether the two ranges have values in common: then neither is surely less."""
        return self.low <= other.high and other.low <= self.high


def spread(values: Sequence[float | None]) -> Spread | None:
    """The spread of the values there are; None for none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(float(np.median(known)), min(known), max(known), len(known))


@dataclass(frozen=True, slots=True)
class Run:
    """One good line, and its trace where that can be read."""

    line: Mapping[str, Any]
    trace: RunTrace | None
    trace_path: Path | None

    @property
    def seed(self) -> int:
        """The seed of link and media."""
        return int(self.line["seed"])


@dataclass(frozen=True, slots=True)
class Condition:
    """Runs that may be compared with one another."""

    profile: str
    scene: str
    backend: str
    clock: str
    media: str
    duration: float
    """Seconds of capture."""
    video_bps: int | None
    """Ceiling of the pictures' rate; None where the lines do not say."""
    peers: Mapping[str, Sequence[Run]]
    """By name, in the registry's order; a peer whose runs all failed is left out."""

    @property
    def name(self) -> str:
        """Short, for headings."""
        return f"{self.profile}, scene {self.scene}"

    @property
    def title(self) -> str:
        """The link in words; the profile's name where the profile is not at hand."""
        try:
            return load_profile(self.profile, duration=self.duration).title
        except ProfileError:
            return self.profile

    @property
    def slug(self) -> str:
        """For file names and anchors: the same for every report of the same condition."""
        parts = (self.profile, self.scene, self.backend, self.clock, self.media)
        ceiling = () if self.video_bps is None else (str(self.video_bps),)
        words = "-".join((*parts, f"{self.duration:g}s", *ceiling))
        return "".join(c if c.isalnum() or c in "-." else "_" for c in words)

    @property
    def measure(self) -> Measure:
        """What delays are taken to, the same for all peers."""
        told = {run.line["measure"] for runs in self.peers.values() for run in runs}
        return "shown" if "shown" in told else "arrived"

    @property
    def subject(self) -> str:
        """The peer the others are held against."""
        return SUBJECT if SUBJECT in self.peers else list(self.peers)[-1]

    @property
    def seeds(self) -> list[int]:
        """All seeds any peer ran with."""
        return sorted({run.seed for runs in self.peers.values() for run in runs})

    def spread(self, peer: str, figure: Callable[[Mapping[str, Any]], Any]) -> Spread | None:
        """A figure of one peer over its seeds."""
        return spread([figure(run.line) for run in self.peers[peer]])

    def ratio(
        self,
        peer: str,
        figure: Callable[[Mapping[str, Any]], Any],
        *,
        base: str,
    ) -> Spread | None:
        """What `peer` is of `base`, seed by seed; None where no seed has both, or `base` is 0."""
        bases = {run.seed: figure(run.line) for run in self.peers[base]}
        return spread(
            [
                value / bases[run.seed]
                for run in self.peers[peer]
                if bases.get(run.seed) and (value := figure(run.line)) is not None
            ]
        )

    def class_figure(
        self, cls: str, key: str, *, measure: Measure | None = None
    ) -> Callable[[Mapping[str, Any]], Any]:
        """Reads a class's figure from a line, by the condition's measure unless told otherwise."""
        table = "classes_shown" if (measure or self.measure) == "shown" else "classes"
        return lambda line: line[table][cls][key]


def label(peer: str) -> str:
    """What a peer is called."""
    return PEERS[peer].label if peer in PEERS else peer


def failures(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines of runs that failed."""
    return [line for line in lines if "error" in line]


def conditions(lines: Sequence[Mapping[str, Any]], folder: Path) -> list[Condition]:
    """Good lines by condition, in the order in which the conditions come first.

    `folder` is where the traces lie that the lines name; one that cannot be read is left out.
    """
    groups: dict[tuple[str, str, str, str, str, float, int | None], dict[str, list[Run]]] = {}
    for line in lines:
        if "error" in line:
            continue
        key = (
            line["profile"],
            line["scene"],
            line["backend"],
            line.get("clock", "real"),
            line["media"],
            float(line["duration_s"]),
            line.get("video_bps"),
        )
        groups.setdefault(key, {}).setdefault(line["peer"], []).append(_run(line, folder))
    return [Condition(*key, _in_order(peers)) for key, peers in groups.items()]


def _in_order(peers: Mapping[str, Sequence[Run]]) -> dict[str, Sequence[Run]]:
    """Peers in the registry's order, unknown ones last, each with its runs by seed."""
    known = list(PEERS)
    names = sorted(peers, key=lambda peer: known.index(peer) if peer in PEERS else len(known))
    return {peer: sorted(peers[peer], key=lambda run: run.seed) for peer in names}


def _run(line: Mapping[str, Any], folder: Path) -> Run:
    name = line.get("trace")
    if not name:
        return Run(line, None, None)
    path = folder / name
    try:
        return Run(line, read_trace(path), path)
    except (OSError, ValueError):
        return Run(line, None, None)
