"""One JSON line: all the figures of one run, as bench/README.md defines them.

Nothing is measured here and no figure is computed here: what both ends noted goes through
`bench.metrics`, what was seen and heard through `runs.quality`, and the rest is copied from where
it was found. The run's trace is made on the way, from the same records.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..link.profile import LinkProfile
from ..metrics import (
    class_table,
    concealed_share,
    floor_ratios,
    importance_weighted_ms,
    loss_share,
    rounded,
    utilization,
)
from ..objects import ObjectRecord
from ..peers.capture import PERIOD
from ..peers.plan import RunPlan
from ..peers.registry import find_peer
from ..scene import Scene
from .floors import floors
from .host import commit, is_busy, versions
from .job import Job
from .once import RunResult
from .records import RunLog, make_records, read_run
from .traces import RunTrace


def make_line(
    job: Job,
    result: RunResult,
    *,
    plan: RunPlan,
    scene: Scene,
    profile: LinkProfile,
    host: dict[str, Any],
    quality: Mapping[str, Any],
) -> tuple[dict[str, Any], RunTrace]:
    """A finished run's line and its trace.

    `profile` is the link as the run had it, `host` from `HostWatch.to_dict`, `quality` the fields
    of `runs.quality.Quality`. The line is JSON-safe.
    """
    log = read_run(result.folder, start=result.start)
    records, measure = _judged(_records(scene, log), log)
    down = result.link["down"]
    origin = result.link.get("started")
    began = result.start if origin is None else float(origin)
    length = result.end - began
    least = floors(records, profile.down, started=began, length=length)
    tick = tick_lateness_ms(log)
    stats = _peer_stats(result.folder)
    queue = down.get("queue_delay_ms", {})
    line = {
        **_head(job, profile.name),
        "backend": result.backend,
        "base_delay_ms": result.base_delay_ms,
        "barcode": plan.barcode,
        "classes": class_table(records, end=result.end),
        "classes_shown": class_table(records, end=result.end, measure="shown"),
        "measure": measure,
        "importance_weighted_ms": importance_weighted_ms(records, end=result.end),
        "floor_ratio": floor_ratios(records, least, end=result.end),
        "utilization": _utilization(down, result.start - began, plan.duration),
        "queue_p50_ms": queue.get("p50"),
        "queue_p95_ms": queue.get("p95"),
        "region_psnr_db": rounded(quality["region_psnr_db"]),
        "background_psnr_db": rounded(quality["background_psnr_db"]),
        "pesq": rounded(quality["pesq"]),
        "freezes": {
            "count": quality["freezes_count"],
            "longest_s": rounded(quality["longest_freeze_s"]),
        },
        "lip_sync_ms": rounded(quality["lip_sync_ms"]),
        "bytes_sent": down.get("offered", {}).get("bytes"),
        "loss": loss_share(down),
        "cpu_s": result.cpu_s,
        "tick_lateness_p99_ms": tick,
        "concealed_share": stats.get("concealed_share", _concealed(log)),
        "busy": is_busy(host, tick_lateness_p99_ms=tick),
        **_where_and_when(job, host),
        "peer_stats": stats,
    }
    return line, _trace(records, least, log, result, began)


def error_line(job: Job, error: str, *, host: dict[str, Any]) -> dict[str, Any]:
    """The line of a run that failed, with the one line that says why."""
    return {**_head(job, job.profile), **_where_and_when(job, host), "error": error}


def tick_lateness_ms(log: RunLog) -> float | None:
    """How late the scheduler's tick came, p99; None for a peer without one."""
    lateness: Any = log.stats.get("tick", {}).get("lateness_p99")
    return None if lateness is None else rounded(float(lateness) * 1e3)


def _head(job: Job, profile: str) -> dict[str, Any]:
    return {
        "key": job.key,
        "profile": profile,
        "scene": job.scene,
        "peer": job.peer,
        "seed": job.seed,
        "turn": job.turn,
        "media": job.media,
        "duration_s": job.duration,
        "video_bps": job.plan().video_bps,
        "clock": job.clock,
    }


def _where_and_when(job: Job, host: dict[str, Any]) -> dict[str, Any]:
    return {
        "versions": versions(*find_peer(job.peer).packages),
        "limen_commit": commit(),
        "host": host,
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _records(scene: Scene, log: RunLog) -> list[ObjectRecord]:
    pictures = [time for time, _ in scene.pictures()]
    return make_records(scene, log, pictures=pictures, chunks=int(scene.duration / PERIOD + 1e-6))


def _judged(records: list[ObjectRecord], log: RunLog) -> tuple[list[ObjectRecord], str]:
    """The records, and what `arrived` means in them: a peer without that tap is judged by what
    was shown."""
    if any(log.arrived.values()) or not any(record.shown is not None for record in records):
        return records, "arrived"
    return [dataclasses.replace(record, arrived=record.shown) for record in records], "shown"


def _utilization(down: Mapping[str, Any], start: float, duration: float) -> float | None:
    if "series" not in down or "rate_bps" not in down:
        return None
    return utilization(down, start=max(0.0, start), end=start + duration)


def _concealed(log: RunLog) -> float | None:
    return concealed_share([block.kind for block in blocks] for blocks in log.sound.values())


def _peer_stats(folder: Path) -> dict[str, Any]:
    """What the peer itself counted, from `peer.json` in its folder; empty without."""
    path = folder / "peer.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _trace(
    records: Sequence[ObjectRecord],
    least: Sequence[float],
    log: RunLog,
    result: RunResult,
    began: float,
) -> RunTrace:
    """The same on run time: 0 is where capture began."""
    start, down = result.start, result.link["down"]

    def moved(stamp: float | None) -> float | None:
        return None if stamp is None else stamp - start

    waits = down.get("series", {}).get("queue_delay_ms", ())
    return RunTrace(
        records=[
            dataclasses.replace(
                record,
                captured=record.captured - start,
                deadline=record.deadline - start,
                arrived=moved(record.arrived),
                shown=moved(record.shown),
            )
            for record in records
        ],
        floors=least,
        end=result.end - start,
        rates=[(at + began - start, rate) for at, rate in down.get("rate_bps", ())],
        queue_ms=[(at + began - start, wait) for at, wait in waits],
        tags=log.tags,
        shares=log.shares,
    )
