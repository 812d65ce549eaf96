"""`limen bench`: links and measurements from the command line."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .bench_codecs import codecs
from .bench_playout import playout
from .bench_runs import compare, report, run
from .bench_virtual import virtual

if TYPE_CHECKING:
    from ..bench.link.lab.measure import Calibration

app = typer.Typer(
    name="bench",
    help="Emulated and real links, and what is measured over them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.command("run")(run)
app.command("report")(report)
app.command("compare")(compare)
app.command("codecs")(codecs)
app.command("playout")(playout)
app.command("virtual")(virtual)


@app.command("list")
def list_all() -> None:
    """List the links and scenes that ship with limen, and the peers, with what is missing."""
    from ..bench.link.profile import load_profile, profile_names  # noqa: PLC0415
    from ..bench.peers.registry import PEERS  # noqa: PLC0415
    from ..bench.runs.matrix import why_absent  # noqa: PLC0415
    from ..bench.scene import scene_names, scene_title  # noqa: PLC0415

    # Only titles are shown: any length of run will do for profiles that depend on it.
    links = {name: load_profile(name, duration=60.0).title for name in profile_names()}
    peers = {}
    for name, peer in PEERS.items():
        reason = why_absent(name)
        peers[name] = peer.label if reason is None else f"{peer.label}; MISSING: {reason}"
    scenes = {name: scene_title(name) for name in scene_names()}
    for heading, names in (("links", links), ("scenes", scenes), ("peers", peers)):
        typer.echo(f"{heading}:")
        width = max(map(len, names))
        for name, title in names.items():
            typer.echo(f"  {name:<{width}}  {title}")


@app.command("netem")
def netem(  # noqa: PLR0917 - a command line
    profile: Annotated[str, typer.Argument(help="A shipped profile's name, or a .toml file.")],
    command: Annotated[list[str], typer.Argument(help="What to run; write it behind --.")],
    far: Annotated[
        str | None, typer.Option(help="A command to run at the far end meanwhile, in quotes.")
    ] = None,
    backend: Annotated[
        str, typer.Option(help="auto, kernel, uml (real netem), or tun (emulated).")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Decides an emulated link's chances.")] = 1,
    duration: Annotated[
        float | None, typer.Option(help="The run's length in s, for profiles that need it.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="A delivery or rate trace instead of the profile's rate.")
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write backend, base delay and link statistics.")
    ] = None,
) -> None:
    """Run any program over a link: limen bench netem tight -- ping -c 3 10.77.0.2.

    The command runs at the near end, 10.77.0.1; the far end is 10.77.0.2 (fd77::1 and fd77::2).
    The profile's `down` goes from near to far. Needs Linux and root.
    """
    from ..bench.link.lab.namespace import LabError, why_not  # noqa: PLC0415
    from ..bench.link.profile import ProfileError, load_profile  # noqa: PLC0415

    def say(text: str) -> None:
        sys.stderr.write(f"limen bench netem: {text}\n")

    def ready(chosen: str, calibration: Calibration) -> None:
        say(
            f"{loaded.title}; backend {chosen}, bare link {calibration.base_delay_ms} ms "
            f"(p99 {calibration.p99_ms} ms)"
        )

    try:
        loaded = load_profile(profile, duration=duration, trace=trace)
        reason = why_not()
        if reason is not None:
            raise LabError(reason)  # noqa: TRY301 - one place turns errors into words
        # It needs Linux to be imported at all, which has just been checked.
        from ..bench.link.lab.run import run_under_profile  # noqa: PLC0415

        result = run_under_profile(
            loaded,
            command,
            far_command=shlex.split(far) if far else None,
            backend=backend,
            seed=seed,
            on_ready=ready,
        )
    except (ProfileError, LabError) as error:
        say(str(error))
        raise typer.Exit(2 if isinstance(error, ProfileError) else 1) from error
    if json_out is not None:
        json_out.write_text(
            json.dumps({"profile": loaded.to_dict(), **result.to_dict()}), encoding="utf-8"
        )
    raise typer.Exit(result.returncode)
