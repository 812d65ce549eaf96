"""The demo from beginning to end: prepare, run twice, analyse, write.

Whoever calls it says where figures go while it runs (`Progress`); nothing here prints.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..link.profile import LinkProfile, load_profile
from ..metrics import ratios, run_summary
from ..peers.capture import PERIOD
from ..peers.plan import RunPlan
from ..report.data import ReportData, RunData
from ..report.machine import busy_words
from ..runs.host import HostWatch, is_busy
from ..runs.once import RunResult, run_once
from ..runs.records import RunLog, make_records, read_run
from ..samples import fetch_all
from ..scene import MediaChoice, Scene, load_scene

LABELS = {
    "fifo": "bare QUIC (fifo)",
    "limen": "limen",
}
FILM_TITLES = {
    "fifo": "fifo: bare QUIC",
    "limen": "limen",
}
QUICK_SECONDS = 8.0
ANALYSIS_SECONDS = 12.0
"""What analysing two runs of 20 s takes on two cores."""


class DemoError(RuntimeError):
    """The demo could not be run; the text says why."""


class Progress(Protocol):
    """Told what happens."""

    def phase(self, name: str, seconds: float) -> None:
        """A phase begins that takes about `seconds`."""
        ...

    def note(self, text: str) -> None:
        """Something worth a line."""
        ...

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        """`at` seconds into a run: median delays by track of the last half second."""
        ...


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run and where to put it."""

    out: Path
    seed: int = 1
    duration: float | None = None
    """Seconds; None for the scene's own."""
    media: MediaChoice = "auto"
    profile: str = "demo"
    scene: str = "talk"


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What came of it."""

    data: ReportData
    page: Path
    films: Sequence[Path]
    seconds: float
    """How long it all took."""


def run_demo(options: DemoOptions, progress: Progress) -> DemoResult:
    """Run everything and write the report.

    Raises DemoError, SceneError, ProfileError, SamplesUnavailable, RunError, ProxyError, OSError:
    each with one line that says what is wrong.
    """
    began = time.monotonic()
    progress.phase("preparing", 3.0)
    scene = load_scene(
        options.scene,
        media=options.media,
        seed=options.seed,
        duration=options.duration,
        progress=progress.note,
    )
    media: MediaChoice = "recorded" if scene.media.startswith("recorded") else "generated"
    plan = RunPlan(options.scene, media, options.seed, scene.duration)
    profile = load_profile(options.profile, duration=plan.link_duration)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="limen-demo-", ignore_cleanup_errors=True) as scratch:
        results, hosts = {}, {}
        for peer in ("fifo", "limen"):
            progress.phase(f"{peer} run", plan.lead + plan.duration + plan.drain + 3.0)
            with HostWatch() as watch:
                results[peer] = run_once(
                    peer, plan, Path(scratch) / peer, profile=options.profile, live=progress.live
                )
            hosts[peer] = watch.to_dict()
        progress.phase("analysing", ANALYSIS_SECONDS * plan.duration / 20.0 + 3.0)
        qualities = _analyse(results, options.out)
        progress.phase("writing", 4.0)
        data = _report_data(scene, profile, plan, results, qualities, hosts=hosts)
    from ..report.page import write_report  # noqa: PLC0415 - matplotlib takes a second to import

    page = write_report(data, options.out)
    films = [options.out / f"{name}.mp4" for name in results]
    return DemoResult(data, page, films, time.monotonic() - began)


def _analyse(results: Mapping[str, RunResult], out: Path) -> dict[str, dict[str, float | None]]:
    """Picture quality by run; the films are written on the way. Each run has its own process."""
    running = {}
    for name, result in results.items():
        link = result.link
        request = result.folder / "request.json"
        request.write_text(
            json.dumps(
                {
                    "folder": str(result.folder),
                    "start": result.start,
                    "title": FILM_TITLES[name],
                    "film": str(out / f"{name}.mp4"),
                    "rates": [
                        [at + link["started"] - result.start, rate]
                        for at, rate in link["down"]["rate_bps"]
                    ],
                }
            ),
            encoding="utf-8",
        )
        running[name] = subprocess.Popen(  # noqa: S603 - our own module, our own arguments
            [sys.executable, "-m", "limen.bench.demo.analyse", str(request)],
            stderr=subprocess.PIPE,
            text=True,
        )
    answers = {}
    try:
        for name, process in running.items():
            _, words = process.communicate()
            if process.returncode:
                reason = (words.strip().splitlines() or ["it gave no reason"])[-1]
                raise DemoError(f"analysing the {name} run failed: {reason}")
            answer = results[name].folder / "answer.json"
            answers[name] = json.loads(answer.read_text(encoding="utf-8"))
    finally:
        for process in running.values():
            if process.poll() is None:
                process.kill()
                process.communicate()
    return answers


def _report_data(
    scene: Scene,
    profile: LinkProfile,
    plan: RunPlan,
    results: Mapping[str, RunResult],
    qualities: Mapping[str, Mapping[str, float | None]],
    *,
    hosts: Mapping[str, dict[str, Any]],
) -> ReportData:
    pictures = [time for time, _ in scene.pictures()]
    chunks = int(scene.duration / PERIOD + 1e-6)
    runs = {}
    for name, result in results.items():
        log = read_run(result.folder, start=result.start)
        records = make_records(scene, log, pictures=pictures, chunks=chunks)
        runs[name] = RunData(
            name=name,
            label=LABELS[name],
            records=records,
            start=result.start,
            end=result.end,
            link=result.link,
            summary=run_summary(
                records,
                start=result.start,
                end=result.end,
                media_end=result.start + plan.duration,
                link=result.link,
                region_psnr_db=qualities[name]["region"],
                background_psnr_db=qualities[name]["background"],
                tick_lateness_p99_ms=_tick_lateness_ms(log),
            ),
            shares=log.shares,
            tags=log.tags,
            video=f"{name}.mp4",
        )
    return ReportData(
        title="limen demo: the same media over the same tight link, twice",
        media=scene.media,
        attribution=attribution(scene),
        seed=plan.seed,
        link=profile.to_dict(),
        duration=plan.duration,
        runs=runs,
        ratio=ratios({name: run.summary for name, run in runs.items()}),
        turns=scene.turns,
        talkers={m.talker: m.track for m in scene.microphones},
        busy=[
            f"{LABELS[name]} run: {busy_words(host, tick_lateness_p99_ms=tick)}"
            for name, host in hosts.items()
            for tick in (runs[name].summary["tick_lateness_p99_ms"],)
            if is_busy(host, tick_lateness_p99_ms=tick)
        ],
        away=away_spans(scene),
    )


def _tick_lateness_ms(log: RunLog) -> float | None:
    lateness: Any = log.stats.get("tick", {}).get("lateness_p99")
    return None if lateness is None else float(lateness) * 1e3


def attribution(scene: Scene) -> list[str]:
    """Whose recordings a scene plays, and under which licences; nothing for generated media."""
    if not scene.media.startswith("recorded"):
        return []
    return list(dict.fromkeys(f"{s.attribution}: {s.licence}" for s in fetch_all()))


def away_spans(scene: Scene) -> list[tuple[float, float]]:
    """When the viewer looks away from the picture: (from, to) in run time."""
    ends = [point.time for point in scene.gaze[1:]] + [scene.duration]
    return [
        (point.time, min(end, scene.duration))
        for point, end in zip(scene.gaze, ends, strict=True)
        if not point.on_picture and point.time < scene.duration
    ]
