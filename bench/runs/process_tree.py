"""A process and everything it started: the CPU time they took, and their end.

A browser is a dozen processes, some of which leave their parent's session or outlive it. What
belongs to one end of a run is therefore found in /proc by a mark in the environment, which all
inherit, and by parentage. Linux only: elsewhere there are no figures, and what a process started
ends by the loss of its pipes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MARK = "LIMEN_END"
"""The environment variable that tells the ends of runs apart."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A process as /proc shows it."""

    pid: int
    parent: int
    ticks: int
    """CPU time, that of its ended children included."""
    born: int
    """Tells it from a later process of the same number."""


class ProcessTree:
    """A process that was started with `environment`, and all that descend from it."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._seen: dict[int, int] = {}

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the mark: start the first process of the tree with it."""
        return {**os.environ, MARK: self._mark}

    def cpu_seconds(self) -> float | None:
        """What all of them have taken so far; None where /proc does not tell."""
        entries = self._look()
        if not entries:
            return None
        return sum(entry.ticks for entry in entries) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """SIGKILL whatever is left of them, those seen earlier and since orphaned included."""
        self._look()
        for pid, born in self._seen.items():
            entry = _read(pid)
            if entry is not None and entry.born == born:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _look(self) -> list[Entry]:
        if not PROC.is_dir():
            return []
        entries = [
            entry for path in PROC.iterdir() if path.name.isdigit() and (entry := _read(path.name))
        ]
        ours = {entry.pid for entry in entries if self._is_marked(entry.pid)}
        grown = True
        while grown:
            more = {entry.pid for entry in entries if entry.parent in ours} - ours
            ours |= more
            grown = bool(more)
        found = [entry for entry in entries if entry.pid in ours]
        self._seen |= {entry.pid: entry.born for entry in found}
        return found

    def _is_marked(self, pid: int) -> bool:
        try:
            return f"{MARK}={self._mark}".encode() in (PROC / str(pid) / "environ").read_bytes()
        except OSError:
            return False


def _read(pid: int | str) -> Entry | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold anything; fields are counted from the state behind it.
    fields = text.rpartition(")")[2].split()
    ticks = sum(map(int, fields[11:15]))
    return Entry(int(pid), int(fields[1]), ticks, int(fields[19]))
