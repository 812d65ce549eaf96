"""`limen samples`: real recordings to try things on, fetched once, checked every time."""

from __future__ import annotations

import sys

from rich.console import Console

from ..bench.samples import SampleCorrupt, SamplesUnavailable, cache_dir, fetch_all
from .terminal import Terminal


def samples(*, quiet: bool, where: bool) -> None:
    """Have every sample and show them; offline is no failure, since media can be generated."""
    if where:
        sys.stdout.write(f"{cache_dir()}\n")
        return
    terminal = Terminal()
    try:
        if quiet:
            found = fetch_all()
        else:
            with Console(stderr=True).status("looking at the samples") as status:
                found = fetch_all(lambda text: status.update(f"{text} …"))
    except SampleCorrupt:
        raise
    except SamplesUnavailable as error:
        # Exit code 0: `make test` and the demo go on with generated media.
        sys.stderr.write(f"limen: {error}; generated media will be used instead\n")
        return
    if quiet:
        return
    for sample in found:
        terminal.say(sample.name, style="bold")
        terminal.say(f"  {sample.path}")
        terminal.say(f"  {sample.attribution}; licence: {sample.licence}", style="dim")
