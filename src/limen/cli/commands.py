"""The subcommands as typer sees them: names, options, help; each checks its words and hands on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..scheduler.sources.gaze import GazeSample, read_gaze_csv
from ..transport.quic.tls import Certificate, normal_fingerprint
from .calling import Destination
from .failures import usage
from .parsing import parse_address, parse_rate, parse_seconds
from .receiving import RecvOptions, receive
from .running import run_command
from .samples_command import samples as show_samples
from .sending import SendOptions
from .sending import send as send_media
from .terminal import Terminal


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


def root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Real-time media over QUIC that spends a scarce link on what matters at this moment."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def version() -> None:
    """Print the version."""
    sys.stdout.write(f"limen {__version__}\n")


def _gaze(path: Path | None) -> list[GazeSample]:
    return [] if path is None else read_gaze_csv(path)


def send(
    *,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            show_default=False,
            help="Files, device:FORMAT:NAME (device:v4l2:/dev/video0, device:alsa:default, "
            "device:avfoundation:0) or lavfi:GRAPH (lavfi:testsrc2=size=640x360). "
            "Every picture and sound stream in them becomes a track.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option("--to", metavar="HOST:PORT", help="Where the receiver listens."),
    ],
    fingerprint: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="The receiver's certificate by its SHA-256, as `limen recv` prints it. Without "
            "it, one on this machine is known, and any other is checked by authority.",
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="PEM file of authorities to trust."),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long to try for a receiver that is not there."),
    ] = 3.5,
    reconnect: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long to try for one that went away."),
    ] = 30.0,
    gaze: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Where the viewer looks: lines time,x,y[,radius], 0 to 1."
        ),
    ] = None,
    bitrate: Annotated[
        str, typer.Option(metavar="RATE", help="The most each picture track may use.")
    ] = "1.5M",
    audio_bitrate: Annotated[
        str, typer.Option(metavar="RATE", help="For each channel of sound.")
    ] = "32k",
    loop: Annotated[bool, typer.Option("--loop", help="Start files again at their end.")] = False,
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after so much media.")
    ] = None,
) -> None:
    """Send media to a receiver in real time.

    The receiver listens: start `limen recv` there, before or after. The media begin when it has
    asked for them; if it goes away they run on, and it gets what is current when it is back.
    """
    if fingerprint is not None and ca is not None:
        raise usage("give --fingerprint or --ca, not both")
    if ca is not None and not ca.is_file():
        raise usage(f"the CA file {ca} does not exist")
    if not wait >= 0 or not reconnect >= 0:
        raise usage("--wait and --reconnect are numbers of seconds, 0 or more")
    options = SendOptions(
        sources=sources,
        to=Destination(
            parse_address(to, "--to"),
            None if fingerprint is None else normal_fingerprint(fingerprint),
            None if ca is None else str(ca),
        ),
        wait=wait,
        reconnect=reconnect,
        video_bps=parse_rate(bitrate, "--bitrate", 20_000, 50_000_000),
        audio_bps=parse_rate(audio_bitrate, "--audio-bitrate", 6_000, 255_000),
        loop=loop,
        duration=parse_seconds(duration, "--duration"),
        gaze=_gaze(gaze),
    )
    terminal = Terminal()
    run_command(lambda: send_media(options, terminal))


def recv(
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:4433",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record each session into DIR/received.mp4."),
    ] = None,
    cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM certificate; without it, one for development."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM private key of --cert.")
    ] = None,
    raw_video: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Write pictures as YUV4MPEG2; - is standard output."),
    ] = None,
    raw_audio: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Write sound as 16-bit PCM, 48 kHz stereo; - is standard output."
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep/--once", help="Serve on, or end with the first sender."),
    ] = False,
    duration: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End so long after the first picture or sound."),
    ] = None,
    gaze: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Where this viewer looks, told to the sender as it plays."
        ),
    ] = None,
) -> None:
    """Receive media: listen, play out, and record what was seen and heard."""
    if (cert is None) != (key is None):
        raise usage("--cert and --key belong together: give both or neither")
    if raw_video == "-" and raw_audio == "-":
        raise usage("pictures and sound cannot both go to standard output")
    options = RecvOptions(
        listen=parse_address(listen, "--listen", lowest_port=0),
        out=out,
        certificate=None if cert is None or key is None else Certificate.load(cert, key),
        raw_video=raw_video,
        raw_audio=raw_audio,
        keep=keep,
        duration=parse_seconds(duration, "--duration"),
        gaze=_gaze(gaze),
    )
    terminal = Terminal(to_stderr="-" in (raw_video, raw_audio))
    run_command(lambda: receive(options, terminal))


def samples(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what is wrong.")] = False,
    where: Annotated[bool, typer.Option("--where", help="Print the folder and exit.")] = False,
) -> None:
    """Fetch real recordings to try limen on: a face that gestures, two people talking."""
    show_samples(quiet=quiet, where=where)
