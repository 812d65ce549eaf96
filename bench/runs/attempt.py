"""One job made: run, judge, write down, clean up; a failure is a line of its own, not an end.

`attempt` is the whole of it, in this process. `python -m limen.bench.runs.attempt FOLDER` does the
same for a list of jobs on its standard input, for engines that start runs elsewhere; it ends with
whoever started it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..link.profile import load_profile
from .host import HostWatch
from .job import Job
from .line import error_line, make_line
from .once import Live, run_once
from .traces import pack_trace

QUALITY_TIMEOUT = 600.0
"""Seconds that judging pictures and sound may take; a minute of media takes one."""
ORPHANED = 3


class JudgingError(RuntimeError):
    """What was seen and heard could not be judged; the text says why."""


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a job."""

    job: Job
    line: dict[str, Any]
    """With `error` when it failed; without the name of its trace, which whoever stores it sets."""
    trace: bytes | None
    """The content of its trace file; None when it failed."""


def attempt(job: Job, *, keep: Path | None = None, live: Live | None = None) -> Made:
    """Make a run. Whatever goes wrong, but for Ctrl-C, becomes its line's `error`.

    `keep`: a folder to leave raw pictures and sound in, each run in its own; None: they are
    deleted once they have been judged.
    """
    watch = HostWatch()
    try:
        with _folder(job, keep) as folder:
            return _make(job, folder, watch, live)
    except Exception as error:  # a matrix that runs all night outlives any one peer's fault
        words = " ".join(str(error).split()) or type(error).__name__
        return Made(job, error_line(job, words, host=watch.to_dict()), None)


def _make(job: Job, folder: Path, watch: HostWatch, live: Live | None) -> Made:
    plan = dataclasses.replace(job.plan(), barcode=True)
    trace = None if job.trace is None else Path(job.trace)
    profile = load_profile(job.profile, duration=plan.link_duration, trace=trace)
    with watch:
        result = run_once(
            job.peer,
            plan,
            folder,
            profile=job.profile,
            backend=job.backend,
            trace=trace,
            live=live,
        )
    line, drawn = make_line(
        job,
        result,
        plan=plan,
        scene=plan.load_scene(),
        profile=profile,
        host=watch.to_dict(),
        quality=judge(folder, start=result.start),
    )
    return Made(job, line, pack_trace(drawn))


def judge(folder: Path, *, start: float) -> dict[str, Any]:
    """The fields of `quality.Quality`, from a process that gives its memory back afterwards.

    Raises JudgingError with its last words.
    """
    request = folder / "request.json"
    request.write_text(json.dumps({"folder": str(folder), "start": start}), encoding="utf-8")
    try:
        done = subprocess.run(  # noqa: S603 - our own module, our own arguments
            [sys.executable, "-m", "limen.bench.runs.quality", str(request)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=QUALITY_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JudgingError(f"judging took more than {QUALITY_TIMEOUT:.0f} s") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise JudgingError(f"judging pictures and sound failed: {reason}")
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    return answer


@contextlib.contextmanager
def _folder(job: Job, keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        folder = keep / job.file_name
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="limen-run-", ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


def make_apart(jobs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], bytes | None]]:
    """Make jobs (`Job.to_dict`) one after another in a process of its own: (line, trace) of each.

    For threads of an engine's worker: what a run does with signals and namespaces needs a main
    thread. Raises JudgingError when that process itself failed.
    """
    with tempfile.TemporaryDirectory(prefix="limen-jobs-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        process = subprocess.Popen(  # noqa: S603 - our own module, our own arguments
            [sys.executable, "-m", "limen.bench.runs.attempt", str(folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Its standard input stays open: that it closes is how it learns that we are gone.
        assert process.stdin is not None  # noqa: S101 - for the type checker
        assert process.stderr is not None  # noqa: S101 - for the type checker
        with process:
            process.stdin.write(json.dumps(jobs) + "\n")
            process.stdin.flush()
            words = process.stderr.read()
        if process.returncode:
            reason = (words.strip().splitlines() or ["it gave no reason"])[-1]
            raise JudgingError(f"the process that makes runs failed: {reason}")
        made = []
        for number in range(len(jobs)):
            trace = folder / f"{number}.npz"
            line = json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))
            made.append((line, trace.read_bytes() if trace.is_file() else None))
        return made


def _main(folder: Path) -> None:
    jobs = [Job.from_dict(values) for values in json.loads(sys.stdin.readline())]
    threading.Thread(target=_end_with_parent, daemon=True, name="parent").start()
    for number, job in enumerate(jobs):
        made = attempt(job)
        (folder / f"{number}.json").write_text(json.dumps(made.line), encoding="utf-8")
        if made.trace is not None:
            (folder / f"{number}.npz").write_bytes(made.trace)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
