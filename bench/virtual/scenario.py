"""A profile with its flows, run from beginning to end on the virtual clock, and its figures."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...transport.congestion.delay import DelaySettings
from ...transport.congestion.scream.settings import ScreamSettings
from ...transport.settings import SessionSettings
from ..link.profile import LinkProfile, ProfileError, load_profile
from ..metrics import milli, percentile, rounded, utilization
from .media import FACE, VOICE, MediaSettings, MediaSource
from .world import World

HANDSHAKE = 1.0
"""Seconds between a flow's first packet and its first media."""
DRAIN = 2.0
"""Seconds after the last capture in which what is under way may arrive."""
ON_TIME = 0.15
"""Seconds after capture until which a voice is in time (ITU-T G.114)."""
QUEUE_LIMIT_MS = 100.0
CONTROLLERS = {"delay": DelaySettings, "scream": ScreamSettings}


@dataclass(frozen=True, slots=True)
class Scenario:
    """How long a profile runs, when its flows begin, and who pauses."""

    seconds: float
    starts: tuple[float, ...] = (0.0,)
    pauses: tuple[tuple[int, float, float], ...] = ()
    """(flow, from, to)."""


RFC8867 = {
    "rfc8867-5.1": Scenario(100.0),
    "rfc8867-5.2": Scenario(125.0, (0.0, 0.0)),
    "rfc8867-5.4": Scenario(120.0, (0.0, 20.0, 40.0)),
    "rfc8867-5.5": Scenario(300.0, (0.0, 10.0, 20.0, 30.0, 40.0)),
    "rfc8867-5.8": Scenario(120.0, (0.0, 0.0, 0.0), ((1, 40.0, 60.0),)),
}
"""RFC 8867's media-only scenarios with traffic in one direction."""
NOT_YET = ("rfc8867-5.3", "rfc8867-5.6", "rfc8867-5.7")
"""Media both ways, and TCP beside it: profiles that a virtual run cannot yet do justice to."""


def scenario_for(name: str, *, seconds: float | None = None, flows: int | None = None) -> Scenario:
    """The RFC's scenario of a profile of that name, else one flow for 30 s, or what is given.

    Raises ProfileError for a scenario that needs more than flows one way.
    """
    if name in NOT_YET:
        raise ProfileError(
            f"{name} needs media both ways or TCP beside it, which virtual runs do not have; "
            f"they have {', '.join(RFC8867)}"
        )
    base = RFC8867.get(re.sub(r"-(delay|queue)\d+$", "", name), Scenario(30.0))
    if flows is not None:
        base = dataclasses.replace(base, starts=(0.0,) * flows, pauses=())
    return base if seconds is None else dataclasses.replace(base, seconds=seconds)


def run_scenario(
    name: str, scenario: Scenario, *, seed: int = 1, congestion: str = "delay"
) -> dict[str, Any]:
    """Run a profile; JSON-safe figures. Raises ProfileError, KeyError for the congestion control.

    Link time 0 is `HANDSHAKE` before the first capture; a flow's start counts from its connection.
    """
    began = time.perf_counter()
    profile = load_profile(name, duration=scenario.seconds)
    world = World(profile, seed=seed)
    settings = SessionSettings(congestion=CONTROLLERS[congestion]())
    sources: list[MediaSource] = []

    def begin(number: int, start: float) -> None:
        flow = world.add_flow(settings)
        pauses = tuple((a, b) for who, a, b in scenario.pauses if who == number)
        sources.append(
            MediaSource(
                world,
                flow,
                MediaSettings(pauses=pauses),
                begin=start + HANDSHAKE,
                end=scenario.seconds,
                seed=seed,
            )
        )

    for number, start in enumerate(scenario.starts):
        world.at(start, lambda number=number, start=start: begin(number, start))  # type: ignore[misc]
    world.run(scenario.seconds + DRAIN)
    link = world.down.stats(now=world.now)
    return {
        "profile": name,
        "clock": "virtual",
        "congestion": congestion,
        "seed": seed,
        "seconds": scenario.seconds,
        "utilization": utilization(link, start=HANDSHAKE, end=scenario.seconds),
        "queue_p50_ms": link["queue_delay_ms"]["p50"],
        "queue_p95_ms": link["queue_delay_ms"]["p95"],
        "recovery_s": recoveries(profile, link["series"]["queue_delay_ms"], scenario.seconds),
        "flows": [_figures(world, source, number) for number, source in enumerate(sources)],
        "dropped": len(world.dropped),
        "fingerprint": fingerprint(world),
        "took_s": round(time.perf_counter() - began, 2),
    }


def _figures(world: World, source: MediaSource, number: int) -> dict[str, Any]:
    flow = world.flows[number]
    came = {a.index: a.at for a in flow.arrivals if a.track == VOICE}
    sent = source.sent[VOICE]
    # What never came counts up to the end of the run (bench/README.md).
    delays = np.array([came.get(index, world.time) - time for index, time in sent.items()])
    last = max((a.at for a in flow.arrivals), default=0.0)
    first = min(sent.values(), default=0.0)
    carried = sum(a.size for a in flow.arrivals)
    return {
        "vital_n": len(delays),
        "vital_p50_ms": milli(percentile(delays, 50)) if len(delays) else None,
        "vital_p95_ms": milli(percentile(delays, 95)) if len(delays) else None,
        "vital_std_ms": milli(float(delays.std())) if len(delays) else None,
        "vital_on_time": rounded(float((delays <= ON_TIME).mean())) if len(delays) else None,
        "rate_bps": round(carried * 8 / (last - first)) if last > first else 0,
        "pictures": len(source.sent[FACE]),
        "skipped": source.skipped,
    }


def recoveries(
    profile: LinkProfile, queue: list[list[float]], seconds: float
) -> list[float | None]:
    """After each step down: seconds until the queue stays below 100 ms for a second.

    None: it did not before the next step, or the end.
    """
    steps = [step for step in profile.down.rate_steps(until=seconds) if step[0] < seconds]
    out: list[float | None] = []
    for index, ((_, before), (at, rate)) in enumerate(itertools.pairwise(steps), 1):
        if rate >= before:
            continue
        until = steps[index + 1][0] if index + 1 < len(steps) else seconds
        over = [t for t, ms in queue if at <= t < until and ms > QUEUE_LIMIT_MS]
        if not over:
            out.append(0.0)
        else:
            out.append(None if until - over[-1] < 1.0 else round(over[-1] - at, 3))
    return out


def fingerprint(world: World) -> str:
    """One hash of every arrival's time and size and every drop: equal only for equal runs."""
    digest = hashlib.sha256()
    for flow in world.flows:
        for arrival in flow.arrivals:
            digest.update(
                repr((arrival.track, arrival.captured, arrival.at, arrival.size)).encode()
            )
    digest.update(repr(world.dropped).encode())
    return digest.hexdigest()[:16]
