"""A job: one run to be made, and the key by which it is known again.

Jobs are plain data: they can be written down, sent to another machine, and compared with the lines
of runs that were made before. `turn` is the place in the order and no part of the key: a matrix
that grows by a peer does not run the others again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..peers.plan import RunPlan
from ..scene import MediaChoice

Clock = Literal["real", "virtual"]


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one peer."""

    profile: str
    """A shipped profile's name or a .toml path."""
    scene: str
    """A shipped scene's name or a .toml path."""
    peer: str
    seed: int
    duration: float
    """Seconds of capture."""
    media: MediaChoice
    """`recorded` or `generated`; `auto` has been decided by now."""
    backend: str = "auto"
    """As asked for: `auto`, `udp`, `tun`, `uml`, `kernel`. The line says what it came to."""
    video_bps: int | None = None
    """Ceiling of the pictures' rate instead of the plan's own; None for that."""
    trace: str | None = None
    """A trace file that takes the place of the profile's rate towards the receiver."""
    clock: Clock = "real"
    turn: int = 0
    """Place in the order of the matrix, from 0."""

    @property
    def key(self) -> str:
        """What this run is, in one readable string: equal keys are the same run."""
        parts = [self.profile, self.scene, self.peer, f"seed{self.seed}", f"{self.duration:g}s"]
        parts += [
            self.media,
            self.backend,
            "own" if self.video_bps is None else f"{self.video_bps}",
        ]
        if self.trace is not None:
            parts.append(f"trace={self.trace}")
        if self.clock != "real":
            parts.append(self.clock)
        return "|".join(parts)

    @property
    def file_name(self) -> str:
        """The key as a file's name without its ending."""
        return re.sub(r"[^A-Za-z0-9.=-]+", "_", self.key).strip("_.")

    @property
    def words(self) -> str:
        """For progress and messages."""
        return f"{self.profile} {self.scene} {self.peer} seed {self.seed}"

    def plan(self) -> RunPlan:
        """What both ends are told."""
        plan = RunPlan(self.scene, self.media, self.seed, self.duration)
        if self.video_bps is not None:
            plan = dataclasses.replace(plan, video_bps=self.video_bps)
        return plan

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe, for `from_dict`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Job:
        """What `to_dict` gave."""
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Playing:
    """A scene as a matrix plays it."""

    scene: str
    duration: float
    """Seconds."""
    media: MediaChoice
    """`recorded` or `generated`."""


def in_turn(
    *,
    profiles: Sequence[str],
    scenes: Sequence[Playing],
    peers: Sequence[str],
    seeds: Sequence[int],
    backend: str = "auto",
    video_bps: int | None = None,
    trace: str | None = None,
    clock: Clock = "real",
) -> list[Job]:
    """All runs of a matrix, the peers one after another over each link, then the next: A B A B.

    Runs that are compared with one another are thereby made within the same minutes, so what the
    machine does slowly (heat, other users) befalls all of them. The first seed is through all
    links before the second begins: a matrix that is ended early is small, not lopsided.
    """
    combinations = [
        (profile, playing, peer, seed)
        for seed in seeds
        for profile in profiles
        for playing in scenes
        for peer in peers
    ]
    return [
        Job(
            profile,
            playing.scene,
            peer,
            seed,
            playing.duration,
            playing.media,
            backend,
            video_bps,
            trace,
            clock,
            turn,
        )
        for turn, (profile, playing, peer, seed) in enumerate(combinations)
    ]


def groups_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that are compared with one another, in order: what one machine must run in one go."""
    groups: dict[tuple[str, str, int], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.profile, job.scene, job.seed), []).append(job)
    return list(groups.values())
