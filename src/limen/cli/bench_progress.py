"""What a person sees while a matrix of runs is made: bars with the time left, a line a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .demo import delay_words

if TYPE_CHECKING:
    from ..bench.runs.job import Job

BAR = 24


class PlainRuns:
    """A line per run, for logs and pipes."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total

    def note(self, text: str) -> None:
        """See bench.runs.matrix.Watcher."""
        self._say(Text(text))

    def begin(self, job: Job, seconds: float, left: int, all_seconds: float) -> None:
        """See bench.runs.matrix.Watcher."""
        place = f"run {self._total - left + 1} of {self._total}"
        rest = f"; all that is left about {span(all_seconds)}" if left > 1 else ""
        self._say(Text(f"{place}: {job.words} (about {seconds:.0f} s{rest})"))

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        """See bench.runs.matrix.Watcher; a log is told only what came out."""

    def done(self, line: Mapping[str, Any], left: int, seconds: float) -> None:
        """See bench.runs.matrix.Watcher."""
        del left, seconds
        self._say(finished(line))

    def _say(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


class LiveRuns:
    """Finished runs above, the running ones and the whole below, redrawn in place."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._done = 0
        self._running: dict[str, tuple[Job, float, float]] = {}
        self._left: tuple[float, float] | None = None
        self._words = ""

    def note(self, text: str) -> None:
        """See bench.runs.matrix.Watcher."""
        self._console.print(Text(text, style="yellow"), soft_wrap=True)

    def begin(self, job: Job, seconds: float, left: int, all_seconds: float) -> None:
        """See bench.runs.matrix.Watcher."""
        self._count(left, all_seconds)
        self._running[job.key] = (job, time.monotonic(), seconds)
        self._words = ""

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        """See bench.runs.matrix.Watcher."""
        del at
        self._words = delay_words(delays_ms)

    def done(self, line: Mapping[str, Any], left: int, seconds: float) -> None:
        """See bench.runs.matrix.Watcher."""
        self._running.pop(line["key"], None)
        self._count(left, seconds)
        self._console.print(finished(line), soft_wrap=True)

    def _count(self, left: int, seconds: float) -> None:
        self._done = self._total - left
        self._left = (time.monotonic(), seconds)

    def __rich__(self) -> Group:
        """Drawn by rich some times a second."""
        now = time.monotonic()
        table = Table.grid(padding=(0, 2))
        if len(self._running) == 1:
            ((job, began, seconds),) = self._running.values()
            share = min(1.0, (now - began) / seconds) if seconds else 1.0
            left = max(0.0, seconds - (now - began))
            table.add_row(bar(share), job.words, f"{left:.0f} s left", self._words)
        elif self._running:
            table.add_row("", f"{len(self._running)} runs are out", "", "")
        share = self._done / self._total if self._total else 1.0
        words = f"{self._done} of {self._total} runs"
        left_words = ""
        if self._left is not None:
            at, seconds = self._left
            left_words = f"about {span(max(0.0, seconds - (now - at)))} left"
        table.add_row(bar(share), words, left_words, "")
        return Group(table)


def bar(share: float) -> Text:
    """A bar filled to a share of it."""
    filled = round(BAR * share)
    return Text.assemble(("━" * filled, "cyan"), ("·" * (BAR - filled), "dim"))


def span(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def finished(line: Mapping[str, Any]) -> Text:
    """One run, over, in a line."""
    what = f"{line['profile']} {line['scene']} {line['peer']} seed {line['seed']}"
    if "error" in line:
        return Text.assemble(("failed  ", "red"), f"{what}: {line['error']}")
    parts = []
    for cls in ("vital", "attended"):
        value = line["classes"][cls]["p95_ms"]
        if value is not None:
            parts.append(f"{cls} p95 {value:,.0f} ms")
    if line["busy"]:
        parts.append("the machine was busy")
    style = "yellow" if line["busy"] else "green"
    return Text.assemble(("done    ", style), f"{what}: {', '.join(parts)}")


@contextlib.contextmanager
def watching(console: Console, total: int) -> Iterator[PlainRuns | LiveRuns]:
    """Live on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield PlainRuns(console, total)
        return
    runs = LiveRuns(console, total)
    with Live(runs, console=console, refresh_per_second=8, transient=True):
        yield runs
