"""What a person sees: lines that stay, one status line that lives, tables at the end.

On a terminal the status is redrawn four times a second by rich's own thread, so a slow terminal
never holds up media. Elsewhere (a file, a pipe, a service's log) it is a plain line now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

REDRAWS_PER_SECOND = 4
PLAIN_INTERVAL = 10.0
"""Seconds between status lines where they stay."""


class Terminal:
    """Prints for one command; with `to_stderr` where standard output carries media."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self._console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
        self._started = time.monotonic()

    def say(self, text: str, *, style: str = "") -> None:
        """A line that stays."""
        with contextlib.suppress(OSError):  # a log that is gone stops nothing
            self._console.print(Text(text, style=style))

    def note(self, text: str) -> None:
        """A line about something that is not as it should be."""
        self.say(text, style="yellow")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A small table; all columns but the first are flushed right."""
        table = Table(title=title, title_justify="left", title_style="bold", box=None)
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index else "left", header_style="dim")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        with contextlib.suppress(OSError):
            self._console.print(table, soft_wrap=False)

    @contextlib.asynccontextmanager
    async def status(self, describe: Callable[[], str | None]) -> AsyncIterator[None]:
        """Show what `describe()` says, for as long as the context lasts; None says nothing."""
        if self._console.is_terminal:
            live = Live(
                Text(""),
                console=self._console,
                refresh_per_second=REDRAWS_PER_SECOND,
                transient=True,
                vertical_overflow="crop",
            )
            with live:
                task = asyncio.create_task(self._redraw(live, describe))
                try:
                    yield
                finally:
                    task.cancel()
            return
        task = asyncio.create_task(self._plain(describe))
        try:
            yield
        finally:
            task.cancel()

    async def _redraw(self, live: Live, describe: Callable[[], str | None]) -> None:
        while True:
            text = describe()
            line = "" if text is None else f"{self._elapsed()}  {text}"
            live.update(Text(line, style="cyan", no_wrap=True, overflow="ellipsis"))
            await asyncio.sleep(1 / REDRAWS_PER_SECOND)

    async def _plain(self, describe: Callable[[], str | None]) -> None:
        while True:
            await asyncio.sleep(PLAIN_INTERVAL)
            text = describe()
            if text is not None:
                self.say(f"{self._elapsed()}  {text}")

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{seconds // 60:02}:{seconds % 60:02}"


def rate_text(bps: float | None) -> str:
    """Bits a second, as people read them."""
    if bps is None:
        return "–"
    return f"{bps / 1e6:.2f} Mbit/s" if bps >= 1e6 else f"{bps / 1e3:.0f} kbit/s"


def ms_text(seconds: float | None) -> str:
    """Milliseconds, or a dash for what is not known."""
    return "–" if seconds is None else f"{seconds * 1000:.0f} ms"
