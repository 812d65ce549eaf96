"""`limen demo`: live progress, a table at the end, and where the report is."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from .failures import CommandError

if TYPE_CHECKING:
    from ..bench.demo.demo import DemoResult


REDRAW_INTERVAL = 0.2
"""Seconds between steps of a phase's bar, which time alone moves."""


class PlainProgress:
    """A line per event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed = 0.0

    def phase(self, name: str, seconds: float) -> None:
        """See bench.demo.demo.Progress."""
        self._console.print(f"{name} (about {seconds:.0f} s)", highlight=False)
        self._printed = 0.0

    def note(self, text: str) -> None:
        """See bench.demo.demo.Progress."""
        self._console.print(f"  {text}", highlight=False)

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        """See bench.demo.demo.Progress."""
        if at - self._printed >= 5.0:
            self._printed = at
            self.note(f"{at:4.1f} s: {delay_words(delays_ms)}")


class LiveProgress:
    """Phases with the time left, and the running delays, redrawn in place by rich."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._began = time.monotonic()

    def phase(self, name: str, seconds: float) -> None:
        """See bench.demo.demo.Progress."""
        now = time.monotonic()
        if self._task is not None:
            gone = max(now - self._began, 1e-3)
            self._progress.update(
                self._task, total=gone, completed=gone, left=f"took {gone:.0f} s", words=""
            )
        self._began = now
        self._task = self._progress.add_task(name, total=max(seconds, 1e-3), left="", words="")
        self.tick()

    def note(self, text: str) -> None:
        """See bench.demo.demo.Progress."""
        self._say(text)

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        """See bench.demo.demo.Progress."""
        del at
        self._say(delay_words(delays_ms))

    def tick(self) -> None:
        """Move the current phase's bar to the present; called some times a second."""
        if self._task is None:
            return
        gone = time.monotonic() - self._began
        total = next(task.total for task in self._progress.tasks if task.id == self._task) or 0.0
        self._progress.update(
            self._task, completed=min(gone, total), left=f"{max(0.0, total - gone):.0f} s left"
        )

    def _say(self, words: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, words=escape(words))


def delay_words(delays_ms: Mapping[str, float]) -> str:
    """Running delays, for one line."""
    if not delays_ms:
        return "nothing arrives"
    parts = (f"{track} {delay:,.0f} ms" for track, delay in sorted(delays_ms.items()))
    return "delay of " + ", ".join(parts)


@contextlib.contextmanager
def progress_on(console: Console) -> Iterator[PlainProgress | LiveProgress]:
    """Live on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield PlainProgress(console)
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(24),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[words]}"),
        console=console,
        transient=True,
    ) as drawn:
        progress = LiveProgress(drawn)
        over = threading.Event()

        def follow() -> None:
            while not over.wait(REDRAW_INTERVAL):
                progress.tick()

        follower = threading.Thread(target=follow, daemon=True, name="demo progress")
        follower.start()
        try:
            yield progress
        finally:
            over.set()
            follower.join()


def demo(  # noqa: PLR0917 - options, each given by its name
    out: Annotated[Path, typer.Option(help="Folder for the report and the films.")] = Path(
        "out/demo"
    ),
    seed: Annotated[int, typer.Option(help="Seeds the link's loss and generated media.")] = 1,
    duration: Annotated[
        float | None, typer.Option(help="Seconds of media.  [default: the scene's, 19.5]", min=5.5)
    ] = None,
    media: Annotated[
        Literal["auto", "recorded", "generated"],
        typer.Option(help="Recordings fetched by name, generated media, or what can be had."),
    ] = "auto",
    profile: Annotated[str, typer.Option(help="The link: a shipped profile, or a .toml.")] = "demo",
    quick: Annotated[bool, typer.Option("--quick", help="8 seconds of media only.")] = False,
) -> None:
    """Show what limen does: the same media over the same tight link, twice.

    Once over bare QUIC, once over limen. Ends with a table, a report and two films.
    """
    console = Console(width=None if sys.stdout.isatty() else 100)
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 - said here rather than after two runs

        from ..bench.demo.demo import (  # noqa: PLC0415 - not for `limen --help`
            QUICK_SECONDS,
            DemoError,
            DemoOptions,
            run_demo,
        )
        from ..bench.link.launch import ProxyError  # noqa: PLC0415
        from ..bench.link.profile import ProfileError  # noqa: PLC0415
        from ..bench.runs.ends import RunError  # noqa: PLC0415
        from ..bench.scene import SceneError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CommandError(f"the demo needs {error.name}: pip install 'limen[bench]'") from None
    if duration is None and quick:
        duration = QUICK_SECONDS
    options = DemoOptions(out, seed=seed, duration=duration, media=media, profile=profile)
    try:
        with progress_on(console) as progress:
            result = run_demo(options, progress)
    except (
        DemoError,
        RunError,
        ProxyError,
        ProfileError,
        SceneError,
    ) as error:
        raise CommandError(str(error)) from None
    show_result(console, result)


def show_result(console: Console, result: DemoResult) -> None:
    """Print the table and the paths."""
    from ..bench.demo.table import FOOTNOTE, rows  # noqa: PLC0415
    from ..bench.report.machine import ADVICE  # noqa: PLC0415

    data = result.data
    names = list(data.runs)
    title = f"{data.link['title']}; {data.media}; seed {data.seed}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for heading in (*names, f"{names[-1]} beside {names[0]}"):
        table.add_column(heading, justify="right")
    table_rows = rows({name: run.summary for name, run in data.runs.items()})
    for what, *figures in table_rows:
        table.add_row(what, *figures, style=None if any(figures) else "bold")
    console.print(table, highlight=False)
    if any("†" in figure for row in table_rows for figure in row):
        console.print(FOOTNOTE, highlight=False)
    console.print()
    for words in data.busy:
        console.print(f"This machine was too busy: {words}", style="yellow", highlight=False)
    if data.busy:
        console.print(f"{ADVICE.capitalize()}.", style="yellow", highlight=False)
        console.print()
    for path in (result.page, result.page.with_suffix(".json"), *result.films):
        console.print(str(path), highlight=False, soft_wrap=True)
    console.print(f"took {result.seconds:.0f} s", highlight=False)
