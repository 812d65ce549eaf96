"""`limen bench codecs`: what each encoder can do, measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def codecs(
    clip: Annotated[
        list[str] | None,
        typer.Option(help="A video and where to look: face.mp4@0.66,0.5. Repeatable."),
    ] = None,
    codec: Annotated[
        list[str] | None, typer.Option(help="h264, vp8, vp9 or av1. Repeatable; default all.")
    ] = None,
    speech: Annotated[
        Path | None, typer.Option(help="A recording of speech for the Opus table.")
    ] = None,
    pictures: Annotated[int, typer.Option(min=40, max=2000, help="Of each clip.")] = 90,
    out: Annotated[
        Path | None, typer.Option(help="A folder for codecs.json and codecs.png.")
    ] = None,
) -> None:
    """Speed, delay, rate steps, aim, layers, repairs and speech quality, with plots."""
    from ..bench.codecs.clips import default_clip, load_clip  # noqa: PLC0415
    from ..bench.codecs.run import run  # noqa: PLC0415
    from ..bench.codecs.sound import read_speech  # noqa: PLC0415
    from ..codecs.video_codecs import CODECS  # noqa: PLC0415

    chosen = codec or list(CODECS)
    for name in chosen:
        if name not in CODECS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(CODECS)}")
    clips = []
    for text in clip or []:
        path, _, place = text.partition("@")
        try:
            x, y = (float(part) for part in place.split(",")) if place else (0.5, 0.5)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}: a place is x,y in 0..1") from error
        clips.append(load_clip(Path(path), count=pictures, gaze=(x, y)))
    if not clips:
        clips.append(default_clip(count=pictures))
    run(clips, chosen, read_speech(speech), out, typer.echo)
