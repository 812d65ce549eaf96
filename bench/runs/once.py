"""One run: a receiver, a link and a sender, and their results in one folder."""

from __future__ import annotations

import dataclasses
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..peers.heard import HEARD_FILE
from ..peers.plan import RunPlan
from ..peers.registry import find_peer
from .alignment import align_run
from .ends import Ends, PeerProcess, RunError
from .roads import UDP, Road, open_road

START_TIMEOUT = 60.0
"""Seconds an end has to load its media; decoding takes two, on a loaded machine ten."""
SLACK = 15.0
"""Seconds beyond its nominal length after which a run counts as stuck."""
Live = Callable[[float, dict[str, float]], None]
"""Called with run time (s) and median delays by track (ms)."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left behind, besides the files in `folder`."""

    folder: Path
    start: float
    """Run time 0 on the monotonic clock."""
    end: float
    """From when on nothing was waited for any more."""
    link: dict[str, Any]
    """What the link saw, in the layout of bench/README.md whatever the backend."""
    backend: str
    """`udp`, `tun`, `uml` or `kernel`."""
    base_delay_ms: float | None
    """Median one-way delay of the bare link, measured just before; None for `udp`, whose
    `forwarding_lateness_max_ms` says how late it was at worst."""
    cpu_s: dict[str, float | None]
    """CPU seconds of each end, `send` and `receive`, between start and end of the capture, with
    everything it started (a browser's processes). None where the system does not tell."""


def run_once(
    peer: str,
    plan: RunPlan,
    folder: Path,
    *,
    profile: str | Path,
    backend: str = UDP,
    trace: Path | None = None,
    live: Live | None = None,
) -> RunResult:
    """Run one peer over a link. `backend` as in `roads.open_road`.

    `trace`: a trace file instead of the profile's rate towards the receiver. Whatever happens,
    Ctrl-C included, no process, namespace or device stays behind. Raises RunError with the end at
    fault and its last words; UnknownPeerError, ProfileError, ProxyError, LabError.
    """
    known = find_peer(peer)
    reason = known.missing()
    if reason is not None:
        raise RunError(f"{peer} cannot run here: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    plan_path = folder / "plan.json"
    messages: queue.SimpleQueue[tuple[str, dict[str, Any] | None]] = queue.SimpleQueue()
    with open_road(known, plan, profile=profile, backend=backend, trace=trace) as road:
        dataclasses.replace(plan, listen_host=road.listen_host).write(plan_path)
        with (
            PeerProcess(
                peer, "receive", plan_path, namespace=road.far, messages=messages
            ) as receiver,
            PeerProcess(peer, "send", plan_path, namespace=road.near, messages=messages) as sender,
        ):
            ends = Ends({"receive": receiver, "send": sender}, messages)
            result = _run(ends, road, plan, folder, live)
    if (folder / HEARD_FILE).exists():  # sound without stamps
        align_run(folder, plan.load_scene(), start=result.start)
    return result


def _run(ends: Ends, road: Road, plan: RunPlan, folder: Path, live: Live | None) -> RunResult:
    listening = ends.expect("receive", "ready", timeout=START_TIMEOUT)
    ends.expect("send", "ready", timeout=START_TIMEOUT)
    told = {key: value for key, value in listening.items() if key != "ready"}
    ends.tell("send", connect=road.connect(told))
    start = float(ends.expect("send", "start", timeout=START_TIMEOUT)["start"])
    road.begin(start - plan.lead)
    ends.tell("receive", start=start)

    def watch(role: str, message: dict[str, Any]) -> None:
        if live is not None and role == "receive":
            live(float(message["at"]), message["live"])

    ends.listen(until=start, meanwhile=watch)
    before = ends.cpu_seconds()
    ends.listen(until=start + plan.duration, meanwhile=watch)
    after = ends.cpu_seconds()
    over = start + plan.duration + plan.drain
    for role in ("receive", "send"):
        left = over + SLACK - time.monotonic()
        ends.expect(role, "done", timeout=max(SLACK, left), meanwhile=watch)
    cpu = {
        role: None if taken is None or by_then is None else round(by_then - taken, 2)
        for (role, taken), by_then in zip(before.items(), after.values(), strict=True)
    }
    return RunResult(folder, start, over, road.finish(), road.backend, road.base_delay_ms, cpu)
