"""The machine a run was made on, and whether it had time for it.

Real-time figures of a busy machine say something about the machine. So each run is watched: a
thread of the runner, which has nothing else to do, asks to be woken every 10 ms and notes how late
it is. What it waits for, the peers wait for too. The load average stands beside it, because that
is what people know; it does not decide, since it still holds the run before.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..metrics import milli, percentile

INTERVAL = 0.01
"""Seconds between wake-ups: a percent of them is one a second, and they cost nothing."""
BUSY_WAKE_MS = 5.0
"""p99 lateness of a wake-up above which a run counts as made on a busy machine: a quarter of a
chunk of sound. Two idle cores with a run on them stay below 1 ms."""
BUSY_TICK_MS = 2.0
"""The same for the scheduler's own tick, which is wanted below 0.3 ms."""
_PACKAGES = ("limen", "aioquic", "av", "numpy")


class HostWatch:
    """Watches the machine while a run is made. Use as a context manager, then `to_dict`."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="host watch")
        self._before = _load()
        self._after: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The `host` of a run's line."""
        late = percentile(np.array(self._late), 99) if self._late else None
        return {
            "name": platform.node(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
            "cpus": _cpus(),
            "load_before": self._before,
            "load_after": self._after,
            "wake_lateness_p99_ms": None if late is None else milli(late),
        }

    def __enter__(self) -> HostWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._after = _load()

    def _watch(self) -> None:
        due = time.monotonic() + INTERVAL
        while not self._over.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            self._late.append(max(0.0, now - due))
            due = max(due + INTERVAL, now)


def is_busy(host: dict[str, Any], *, tick_lateness_p99_ms: float | None) -> bool:
    """Whether a run's real-time figures are to be doubted."""
    wake = host["wake_lateness_p99_ms"]
    if wake is not None and wake > BUSY_WAKE_MS:
        return True
    return tick_lateness_p99_ms is not None and tick_lateness_p99_ms > BUSY_TICK_MS


def versions(*more: str) -> dict[str, str]:
    """Versions of what took part, by package; those that are not installed are left out."""
    found = {}
    for name in (*_PACKAGES, *more):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit this code is at, with `-dirty` when files differ; None outside of a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=10"],  # noqa: S607
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _load() -> float | None:
    if not hasattr(os, "getloadavg"):  # Windows
        return None
    return round(os.getloadavg()[0], 2)


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
