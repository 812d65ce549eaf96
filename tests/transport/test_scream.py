"""SCReAMv2 on simulated links, in virtual time, and its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from limen.transport.congestion.choice import make_controller
from limen.transport.congestion.delay import DelayController, DelaySettings
from limen.transport.congestion.scream.controller import ScreamController
from limen.transport.congestion.scream.queue_target import QueueTarget
from limen.transport.congestion.scream.settings import ScreamSettings
from limen.transport.congestion.scream.window import Congestion, ReferenceWindow
from limen.transport.settings import SessionSettings

RigMaker = Callable[..., Any]


def test_the_settings_choose_the_controller() -> None:
    assert isinstance(make_controller(ScreamSettings()), ScreamController)
    assert isinstance(make_controller(DelaySettings()), DelayController)


def video(rig: Any, *, until: float, most_bps: float = 5e6) -> None:
    """Thirty pictures a second at the server's target, to the client."""
    rig.offer("server", 1, "face")
    rig.run(1.4)

    def picture(index: int) -> None:
        core = rig.core("server")
        rate = min(most_bps, core.controller.target_bps - 40e3)
        if core.scheduler.backlog_seconds(1) < 0.05:
            rig.send("server", 1, index, max(200, int(rate * 0.92 / 8 / 30)))
        rig.at(rig.time + 1 / 30, lambda: picture(index + 1))

    rig.at(1.5, lambda: picture(0))
    rig.run(until)


def through(rig: Any, start: float, end: float) -> float:
    """Bits per second that left the bottleneck between two virtual times."""
    bins = rig.down.stats(now=rig.now)["series"]["through_bytes"]
    width = bins["width_s"]
    inside = bins["bins"][round(start / width) : round(end / width)]
    return float(sum(inside)) * 8.0 / (end - start)


def scream_rig(rig: RigMaker, **link: Any) -> Any:
    return rig(server=SessionSettings(congestion=ScreamSettings()), **link)


def test_it_fills_a_steady_link_without_filling_the_queue(rig: RigMaker) -> None:
    link = scream_rig(rig, rate_bps=1e6, down={"queue_ms": 1000.0})
    video(link, until=15.0)
    assert through(link, 5.0, 15.0) > 0.85e6
    assert link.down.stats(now=link.now)["queue_delay_ms"]["p95"] < 120.0


def test_it_follows_a_step_down_and_up(rig: RigMaker) -> None:
    steps = [{"at_s": 8.0, "rate_bps": 400_000}, {"at_s": 14.0, "rate_bps": 1_000_000}]
    link = scream_rig(rig, rate_bps=1e6, down={"steps": steps})
    video(link, until=13.9)
    assert link.core("server").controller.target_bps < 450_000
    link.run(24.0)
    assert link.core("server").controller.target_bps > 650_000


def test_media_below_the_link_does_not_inflate_the_window(rig: RigMaker) -> None:
    link = scream_rig(rig, rate_bps=10e6)
    video(link, until=12.0, most_bps=300_000)
    assert link.core("server").controller.window_bytes < 60_000


def test_a_steady_high_queue_raises_the_target_and_an_empty_one_lowers_it() -> None:
    target = QueueTarget(ScreamSettings())
    for _ in range(300):
        target.add(0.2, loss_event_rate=0.0)
    assert target.value == pytest.approx(0.2, rel=0.2)
    for _ in range(300):
        target.add(0.0, loss_event_rate=0.0)
    assert target.value == ScreamSettings().queue_target_low
    for _ in range(300):
        target.add(5.0, loss_event_rate=0.5)
    assert target.value == ScreamSettings().queue_target_high


def test_without_compensation_the_target_stays() -> None:
    target = QueueTarget(ScreamSettings(compensate_competing=False))
    for _ in range(300):
        target.add(0.3, loss_event_rate=0.5)
    assert target.value == ScreamSettings().queue_target_low


def test_the_window_backs_off_by_the_drafts_factors_and_never_below_its_least() -> None:
    settings = ScreamSettings()
    window = ReferenceWindow(settings, 100_000.0)
    window.reduce(Congestion(), max_in_flight=1e9, now=1.0)
    assert window.size == 100_000.0
    window.reduce(Congestion(loss=True), max_in_flight=1e9, now=1.0)
    assert window.size == pytest.approx(70_000.0)
    window.reduce(Congestion(virtual_alpha=1.0), max_in_flight=1e9, now=3.0)
    assert window.size == pytest.approx(35_000.0)
    for second in range(50):
        window.reduce(Congestion(loss=True), max_in_flight=1e9, now=5.0 + second)
    assert window.size == settings.min_window


def test_the_window_grows_only_as_far_as_it_is_used_and_slowly_near_the_last_maximum() -> None:
    settings = ScreamSettings()
    free, near = ReferenceWindow(settings, 20_000.0), ReferenceWindow(settings, 20_000.0)
    near.inflection = 20_000.0
    for window in (free, near):
        window.grow(6_000, rtt=0.05, max_in_flight=1e9, now=100.0)
    assert free.size > near.size > 20_000.0
    unused = ReferenceWindow(settings, 20_000.0)
    unused.grow(6_000, rtt=0.05, max_in_flight=5_000.0, now=100.0)
    assert unused.size == 20_000.0
