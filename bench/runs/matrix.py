"""A matrix of runs: what is already there is kept, what fails is named, the rest is made in turn.

The order is in `job.in_turn`, the file in `lines`, the making in an `engine`; this is what holds
them together. After whatever ended the command, the same command goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..peers.registry import DATA, SEVERAL_PICTURES, find_peer
from ..scene import Scene
from .attempt import Made
from .engine import Engine
from .job import Job
from .lines import LineFile, good_keys, newest

STARTING = 4.0
"""Seconds a run needs before its first packet, roughly; the estimate of the time left begins so."""
JUDGING = 0.4
"""Seconds of judging for each second of media, roughly."""


class Watcher(Protocol):
    """Told how a matrix goes on."""

    def note(self, text: str) -> None:
        """Something worth a line."""
        ...

    def begin(self, job: Job, seconds: float, left: int, all_seconds: float) -> None:
        """A run begins that takes about `seconds`; it and what else is left about
        `all_seconds`."""
        ...

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        """`at` seconds into the run: median delays by track."""
        ...

    def done(self, line: Mapping[str, Any], left: int, seconds: float) -> None:
        """A run is over; `left` of them are still to be made, in about `seconds`."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a matrix came to."""

    lines: list[dict[str, Any]]
    """Of all its runs that have one, in order, whether made now or before."""
    made: int
    kept: int
    """Runs that were there already."""
    failed: list[dict[str, Any]]
    """Lines of the runs that failed now."""


def run_matrix(jobs: Sequence[Job], out: Path, *, engine: Engine, watcher: Watcher) -> Outcome:
    """Make every job that `out` has no good line of, and add a line for each to it.

    Traces go to the folder `<out>.d`. Ctrl-C passes through; what is done by then is written.
    Raises OSError, LineFileError, EngineError.
    """
    file = LineFile(out)
    if file.torn:
        watcher.note(f"{out}: its last line was torn ({file.torn} bytes) and is run again")
    there = good_keys(file.lines)
    todo = [job for job in jobs if job.key not in there]
    kept = len(jobs) - len(todo)
    if kept:
        watcher.note(f"{kept} of {len(jobs)} runs are in {out} already and are kept")
    clock = _Clock(todo)
    made: list[dict[str, Any]] = []

    def begin(job: Job) -> None:
        watcher.begin(job, clock.begin(job), *clock.left())

    with contextlib.closing(engine.run(todo, begin=begin, live=watcher.live)) as runs:
        for run in runs:
            line = _stored(run, out)
            file.add(line)
            made.append(line)
            watcher.done(line, *clock.done(run.job, failed="error" in line))
    wanted = {job.key: place for place, job in enumerate(jobs)}
    mine = [line for line in newest([*file.lines, *made]) if line["key"] in wanted]
    return Outcome(
        lines=sorted(mine, key=lambda line: wanted[line["key"]]),
        made=len(made),
        kept=kept,
        failed=[line for line in made if "error" in line],
    )


def why_absent(name: str, backend: str = "auto") -> str | None:
    """Why a peer cannot run here over a backend, in one line; None when it can.

    Raises UnknownPeerError.
    """
    peer = find_peer(name)
    if importlib.util.find_spec(peer.module) is None:
        return "its module is not installed"
    try:
        reason = peer.missing()
    except ImportError as error:
        return f"it cannot be imported: {error}"
    if reason is not None or not peer.needs_namespaces:
        return reason
    if backend == "udp":
        return "it needs a link between two namespaces, which the backend udp is not"
    from ..link.lab.namespace import why_not  # noqa: PLC0415 - not on all systems

    return why_not()


def why_unfit(name: str, scene: Scene) -> str | None:
    """What of a scene a peer cannot carry, in one line; None when it carries all.

    Raises UnknownPeerError.
    """
    lacks = sorted(needs_of(scene) - find_peer(name).carries)
    return f"it cannot carry {' and '.join(lacks)} of scene {scene.name}" if lacks else None


def needs_of(scene: Scene) -> set[str]:
    """What a scene asks of a peer beyond one picture and sound."""
    needs = set()
    if len(getattr(scene, "cameras", ())) > 1:
        needs.add(SEVERAL_PICTURES)
    if getattr(scene, "data", ()):
        needs.add(DATA)
    return needs


def nominal_seconds(job: Job) -> float:
    """About how long a run takes, judging included."""
    plan = job.plan()
    return STARTING + plan.lead + plan.duration + plan.drain + JUDGING * plan.duration


def _stored(run: Made, out: Path) -> dict[str, Any]:
    """The run's line, with its trace in the folder beside the file."""
    if run.trace is None:
        return run.line
    folder = out.with_name(f"{out.name}.d")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.job.file_name}.npz"
    path.write_bytes(run.trace)
    return {**run.line, "trace": f"{folder.name}/{path.name}"}


class _Clock:
    """How long is left: nominal times, scaled by what the runs so far really took."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._left = {job.key: nominal_seconds(job) for job in jobs}
        self._nominal = 0.0
        self._began = self._last = time.monotonic()

    def begin(self, job: Job) -> float:
        """About how long this one takes."""
        return self._left[job.key] * self._scale()

    def done(self, job: Job, *, failed: bool) -> tuple[int, float]:
        """As `left`. How long a failure took says nothing of the runs to come."""
        now = time.monotonic()
        nominal = self._left.pop(job.key)
        if failed:
            self._began += now - self._last
        else:
            self._nominal += nominal
        self._last = now
        return self.left()

    def left(self) -> tuple[int, float]:
        """How many are not done, and about how long they take."""
        return len(self._left), sum(self._left.values()) * self._scale()

    def _scale(self) -> float:
        return (time.monotonic() - self._began) / self._nominal if self._nominal else 1.0
