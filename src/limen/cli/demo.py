"""`limen demo`: live progress, a table at the end, and where the report is."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from .failures import CommandError

if TYPE_CHECKING:
    from ..bench.demo.demo import DemoResult


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
    """Phases with the time left, and the running delays, redrawn in place."""

    def __init__(self) -> None:
        self._done: list[tuple[str, float]] = []
        self._name = ""
        self._began = time.monotonic()
        self._expected = 0.0
        self._words = ""

    def phase(self, name: str, seconds: float) -> None:
        """See bench.demo.demo.Progress."""
        now = time.monotonic()
        if self._name:
            self._done.append((self._name, now - self._began))
        self._name, self._began, self._expected, self._words = name, now, seconds, ""

    def note(self, text: str) -> None:
        """See bench.demo.demo.Progress."""
        self._words = text

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        """See bench.demo.demo.Progress."""
        del at
        self._words = delay_words(delays_ms)

    def __rich__(self) -> Table:
        """Drawn by rich some times a second."""
        table = Table.grid(padding=(0, 2))
        for name, seconds in self._done:
            table.add_row("[green]done[/]", name, f"{seconds:.0f} s", "")
        if self._name:
            gone = time.monotonic() - self._began
            left = max(0.0, self._expected - gone)
            share = min(1.0, gone / self._expected) if self._expected else 1.0
            bar = "━" * round(24 * share) + "·" * (24 - round(24 * share))
            table.add_row(f"[cyan]{bar}[/]", self._name, f"{left:.0f} s left", self._words)
        return table


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
    progress = LiveProgress()
    with Live(progress, console=console, refresh_per_second=8, transient=True):
        yield progress


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
    from ..bench.demo.table import rows  # noqa: PLC0415

    data = result.data
    names = list(data.runs)
    title = f"{data.link['title']}; {data.media}; seed {data.seed}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for heading in (*names, f"{names[-1]} beside {names[0]}"):
        table.add_column(heading, justify="right")
    for what, *figures in rows({name: run.summary for name, run in data.runs.items()}):
        table.add_row(what, *figures, style=None if any(figures) else "bold")
    console.print(table, highlight=False)
    console.print()
    for path in (result.page, result.page.with_suffix(".json"), *result.films):
        console.print(str(path), highlight=False, soft_wrap=True)
    console.print(f"took {result.seconds:.0f} s", highlight=False)
