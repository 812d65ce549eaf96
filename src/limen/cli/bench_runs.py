"""`limen bench run`, `report` and `compare`: matrices of runs, and what came of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from .bench_progress import watching
from .bench_tables import show_comparisons, show_matrix
from .failures import CommandError, usage

if TYPE_CHECKING:
    from ..bench.runs.engine import Engine
    from ..bench.runs.job import Job, Playing
    from ..bench.scene import MediaChoice, Scene

ALL = "all"
LINES = "runs.jsonl"


def run(  # noqa: PLR0917 - options, each given by its name
    profiles: Annotated[
        list[str], typer.Argument(help="Links: shipped profiles' names, .toml files, or all.")
    ],
    scene: Annotated[list[str] | None, typer.Option(help="Repeatable.  [default: talk]")] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="Repeatable.  [default: fifo, static, limen]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="How many: 1, 2, ...")] = 3,
    duration: Annotated[
        float | None, typer.Option(min=1, help="Seconds of media.  [default: the scene's]")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="A delivery or rate trace instead of the links' rate.")
    ] = None,
    bitrate: Annotated[
        int | None, typer.Option(min=50_000, help="Ceiling of the pictures' rate, bit/s.")
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Runs, one a line.  [default: OUT/runs.jsonl]")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path(
        "out/bench"
    ),
    backend: Annotated[
        Literal["auto", "udp", "tun", "uml", "kernel"],
        typer.Option(help="What carries the packets: real netem, tun, or the UDP proxy."),
    ] = "auto",
    media: Annotated[
        Literal["auto", "recorded", "generated"],
        typer.Option(help="Recordings fetched by name, generated media, or what can be had."),
    ] = "auto",
    engine: Annotated[
        Literal["local", "dask"], typer.Option(help="Who makes the runs: this machine, or many.")
    ] = "local",
    cluster: Annotated[
        str | None, typer.Option(help="The Dask scheduler's address, for --engine dask.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep raw pictures and sound.")] = False,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out peers that cannot run here.")
    ] = False,
) -> None:
    """Run peers over links in turn, each run one JSON line, and report on them.

    A run that is in the file already is not made again: the same command goes on where it stopped.
    """
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    from ..bench.runs.engine import EngineError  # noqa: PLC0415 - not for `limen --help`
    from ..bench.runs.job import in_turn  # noqa: PLC0415
    from ..bench.runs.lines import LineFileError, read_lines  # noqa: PLC0415
    from ..bench.runs.matrix import run_matrix, why_absent, why_unfit  # noqa: PLC0415

    if cluster is not None and engine != "dask":
        raise usage("--cluster is the address of a Dask scheduler: give --engine dask with it")
    lines_path = json_out or out / LINES
    names = _profiles(profiles, duration, trace)
    chosen_seeds = range(1, seeds + 1)
    wanted = peer or ["fifo", "static", "limen"]
    peers = _able(wanted, lambda name: why_absent(name, backend), skip_missing, console)
    playings = []
    for name in scene or ["talk"]:
        playing, loaded = _playing(name, media, duration, chosen_seeds, console)
        playings.append(playing)
        peers = _able(peers, functools.partial(why_unfit, scene=loaded), skip_missing, console)
    jobs = in_turn(
        profiles=names,
        scenes=playings,
        peers=peers,
        seeds=chosen_seeds,
        backend=backend,
        video_bps=bitrate,
        trace=None if trace is None else str(trace),
    )
    try:
        chosen = _engine(engine, cluster, out / "raw" if keep else None)
        try:
            with watching(console, len(jobs)) as watcher:
                outcome = run_matrix(jobs, lines_path, engine=chosen, watcher=watcher)
        except KeyboardInterrupt:
            there = read_lines(lines_path) if lines_path.exists() else []
            _say_interrupted(console, jobs, there, lines_path)
            raise
    except (EngineError, LineFileError) as error:
        raise CommandError(str(error)) from None
    show_matrix(console, outcome.lines)
    console.print()
    for line in (lines_path, _report(outcome.lines, lines_path, out)):
        if line is not None:
            console.print(str(line), soft_wrap=True)
    if outcome.failed:
        raise CommandError(_failed_words(outcome.failed, len(jobs)))


def report(
    file: Annotated[Path, typer.Argument(help="What `limen bench run` wrote: runs, one a line.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="[default: the file's folder]")
    ] = None,
) -> None:
    """Make the report of runs: a page and its pictures."""
    lines = _read(file)
    page = _report(lines, file, out or file.parent)
    if page is None:
        raise CommandError("the report needs matplotlib: pip install 'limen[bench]'")
    typer.echo(str(page))


def compare(
    a: Annotated[str, typer.Argument(help="Runs as they were: FILE, or FILE@PEER.")],
    b: Annotated[str, typer.Argument(help="Runs as they are: FILE, FILE@PEER, or @PEER of A's.")],
) -> None:
    """Hold two files of runs, or two peers of one, against each other, in pairs.

    What got worse beyond noise is named; that alone is no failure of the command.
    """
    from ..bench.report.comparing import compare as pair_up  # noqa: PLC0415 - numpy

    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    file_a, peer_a = _side(a)
    file_b, peer_b = _side(b)
    if not file_a:
        raise usage(f"A is FILE or FILE@PEER, got {a!r}")
    lines_a = _of_peer(_read(Path(file_a)), peer_a, file_a)
    lines_b = _of_peer(_read(Path(file_b or file_a)), peer_b, file_b or file_a)
    across = peer_a is not None and peer_b is not None
    found = pair_up(lines_a, lines_b, across_peers=across)
    if not found:
        raise CommandError(
            f"{a} and {b} have no two good runs of the same link, scene, media, length"
            f"{'' if across else ', peer'} and seed"
        )
    named = (peer_a, peer_b) if across and peer_a != peer_b else (file_a, file_b or file_a)
    show_comparisons(console, found, *(str(name) for name in named))


def _profiles(wanted: Sequence[str], duration: float | None, trace: Path | None) -> list[str]:
    """The links by name, each checked."""
    from ..bench.link.profile import (  # noqa: PLC0415
        ProfileError,
        load_profile,
        profile_names,
    )

    names = [n for name in wanted for n in (profile_names() if name == ALL else [name])]
    try:
        for name in names:
            load_profile(name, duration=duration or 60.0, trace=trace)
    except ProfileError as error:
        raise usage(str(error)) from None
    return list(dict.fromkeys(names))


def _playing(
    name: str,
    media: MediaChoice,
    duration: float | None,
    seeds: Sequence[int],
    console: Console,
) -> tuple[Playing, Scene]:
    """A scene with its media in place, for every seed, before anything runs."""
    from ..bench.runs.job import Playing  # noqa: PLC0415
    from ..bench.scene import SceneError, load_scene  # noqa: PLC0415

    @functools.cache
    def note(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    try:
        first, *_ = (
            load_scene(name, media=media, seed=seed, duration=duration, progress=note)
            for seed in seeds
        )
    except SceneError as error:
        raise usage(str(error)) from None
    recorded = first.media.startswith("recorded")
    return Playing(name, first.duration, "recorded" if recorded else "generated"), first


def _able(
    peers: Sequence[str], why_not: Callable[[str], str | None], skip: bool, console: Console
) -> list[str]:
    """The peers without a reason against them; the others are named, and end the command
    unless they are to be skipped."""
    from ..bench.peers.registry import UnknownPeerError  # noqa: PLC0415

    try:
        reasons = {peer: why_not(peer) for peer in dict.fromkeys(peers)}
    except UnknownPeerError as error:
        raise usage(str(error)) from None
    unable = [f"{peer} cannot run: {why}" for peer, why in reasons.items() if why is not None]
    if unable and not skip:
        raise CommandError("; ".join(unable) + " (--skip-missing leaves out such peers)")
    for words in unable:
        console.print(Text(f"left out: {words}", style="yellow"), soft_wrap=True)
    able = [peer for peer, why in reasons.items() if why is None]
    if not able:
        raise CommandError("none of the peers can run here")
    return able


def _engine(name: str, cluster: str | None, keep: Path | None) -> Engine:
    from ..bench.runs.engine import DaskEngine, LocalEngine  # noqa: PLC0415

    if name == "local":
        return LocalEngine(keep=keep)
    if keep is not None:
        raise usage("--keep leaves raw media on the machine that made them: not with --engine dask")
    return DaskEngine(cluster)


def _report(lines: Sequence[dict[str, Any]], file: Path, out: Path) -> Path | None:
    """The report's page; None without matplotlib."""
    try:
        from ..bench.report.matrix import write_matrix_report  # noqa: PLC0415 - matplotlib
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("matplotlib"):
            raise
        return None
    return write_matrix_report(lines, file.parent, out)


def _read(path: Path) -> list[dict[str, Any]]:
    from ..bench.runs.lines import LineFileError, read_lines  # noqa: PLC0415

    try:
        lines = read_lines(path)
    except LineFileError as error:
        raise CommandError(str(error)) from None
    if not lines:
        raise CommandError(f"{path} holds no run")
    return lines


def _side(text: str) -> tuple[str, str | None]:
    file, separator, peer = text.rpartition("@")
    return (file, peer) if separator else (text, None)


def _of_peer(lines: list[dict[str, Any]], peer: str | None, file: str) -> list[dict[str, Any]]:
    if peer is None:
        return lines
    chosen = [line for line in lines if line["peer"] == peer]
    if not chosen:
        known = ", ".join(dict.fromkeys(line["peer"] for line in lines))
        raise CommandError(f"{file} has no run of {peer!r}; its peers: {known}")
    return chosen


def _failed_words(failed: Sequence[dict[str, Any]], total: int) -> str:
    by_peer: dict[str, list[dict[str, Any]]] = {}
    for line in failed:
        by_peer.setdefault(line["peer"], []).append(line)
    parts = [
        f"{peer} ({len(lines)}; {lines[0]['profile']} seed {lines[0]['seed']}: {lines[0]['error']})"
        for peer, lines in by_peer.items()
    ]
    return f"{len(failed)} of {total} runs failed: {'; '.join(parts)}"


def _say_interrupted(
    console: Console, jobs: Sequence[Job], there: Sequence[dict[str, Any]], path: Path
) -> None:
    wanted = {job.key for job in jobs}
    mine = [line for line in there if line["key"] in wanted and "error" not in line]
    show_matrix(console, mine)
    console.print(
        Text(
            f"interrupted: {len(mine)} of {len(jobs)} runs are in {path}; the same command goes on"
        ),
        soft_wrap=True,
    )
