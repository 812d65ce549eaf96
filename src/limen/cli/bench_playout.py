"""`limen bench playout`: the jitter buffer against its rivals on recorded or generated arrivals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def playout(  # noqa: PLR0917 - a command line
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Cellular traces, mahimahi format.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for playout.jsonl and playout.png.")] = Path(
        "out/playout"
    ),
    seconds: Annotated[float, typer.Option(min=10, max=600, help="Length of the talk.")] = 120.0,
    generated: Annotated[int, typer.Option(min=0, max=20, help="Generated LTE-like links.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the generated links.")] = 1,
    speech: Annotated[
        Path | None, typer.Option(help="A recording; the samples' or a generated one without it.")
    ] = None,
    pesq: Annotated[bool, typer.Option(help="Judge the sound with PESQ-WB.")] = True,
    curves: Annotated[bool, typer.Option(help="Delay against damage, as a picture.")] = True,
) -> None:
    """Play one talk through limen, NetEQ's rules, a fixed buffer and the clairvoyant bound."""
    from ..bench.playout.judging import make_cases, run_all, save, table  # noqa: PLC0415
    from ..bench.playout.plots import plot_curves  # noqa: PLC0415
    from ..bench.playout.speech import default_sound, make_speech, read_sound  # noqa: PLC0415

    sound = read_sound(speech) if speech is not None else default_sound(seed=seed)
    talk = make_speech(sound, seconds=seconds)
    cases = run_all(
        talk,
        make_cases(talk, traces or [], generated=generated, seed=seed),
        with_pesq=pesq,
        with_curves=curves,
        progress=lambda text: typer.echo(text, err=True),
    )
    typer.echo(table(cases))
    save(cases, out, seed=seed)
    if curves:
        plot_curves(cases, out / "playout.png")
    typer.echo(f"\nfigures: {out / 'playout.jsonl'}", err=True)
