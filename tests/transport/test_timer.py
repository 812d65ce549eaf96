"""One-shot timers, both kinds: not early, once, and gone when told."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from limen.transport.quic.timer import LoopTimer, TimerFd, make_timer

pytestmark = pytest.mark.realtime
KINDS = [LoopTimer, *([TimerFd] if sys.platform == "linux" else [])]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
async def make(request: pytest.FixtureRequest) -> Any:
    made: list[Any] = []

    def create(fire: Callable[[], None]) -> Any:
        made.append(request.param(asyncio.get_running_loop(), fire))
        return made[-1]

    yield create
    for timer in made:
        timer.close()


async def test_it_fires_once_and_not_early(make: Any) -> None:
    fired: list[float] = []
    timer = make(lambda: fired.append(time.monotonic()))
    whens = []
    for delay in (0.001, 0.0005, 0.013, 0.02):
        whens.append(time.monotonic() + delay)
        timer.arm(whens[-1])
        await asyncio.sleep(delay + 0.03)
    assert len(fired) == 4
    assert all(at >= when - 1e-5 for at, when in zip(fired, whens, strict=True))


async def test_a_time_in_the_past_fires_at_once(make: Any) -> None:
    fired = asyncio.Event()
    timer = make(fired.set)
    for when in (time.monotonic() - 5, 0.0, -1.0):
        fired.clear()
        timer.arm(when)
        await asyncio.wait_for(fired.wait(), 2)


async def test_arming_anew_replaces(make: Any) -> None:
    fired: list[float] = []
    timer = make(lambda: fired.append(time.monotonic()))
    begin = time.monotonic()
    timer.arm(begin + 0.01)
    timer.arm(begin + 0.06)
    await asyncio.sleep(0.03)
    assert not fired
    timer.arm(begin + 0.04)
    await asyncio.sleep(0.1)
    assert len(fired) == 1


async def test_cancelled_and_closed_timers_stay_silent(make: Any) -> None:
    fired: list[int] = []
    timer = make(lambda: fired.append(1))
    timer.arm(time.monotonic() + 0.01)
    timer.cancel()
    await asyncio.sleep(0.03)
    timer.arm(time.monotonic() + 0.01)
    timer.close()
    timer.close()
    timer.cancel()
    timer.arm(time.monotonic() + 0.01)
    await asyncio.sleep(0.03)
    assert not fired


async def test_it_may_be_armed_or_closed_by_what_it_fires(make: Any) -> None:
    count = [0]

    def again() -> None:
        count[0] += 1
        if count[0] < 5:
            timer.arm(time.monotonic() + 0.001)
        else:
            timer.close()

    timer = make(again)
    timer.arm(time.monotonic())
    await asyncio.sleep(0.1)
    assert count == [5]


@pytest.mark.skipif(sys.platform != "linux", reason="timerfd is Linux's")
async def test_without_timerfd_the_portable_one_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timer = make_timer(loop, lambda: None)
    assert isinstance(timer, TimerFd)
    timer.close()

    class NoTimer:
        def timerfd_create(self, *_arguments: int) -> int:
            return -1

    monkeypatch.setattr("ctypes.CDLL", lambda *_a, **_k: NoTimer())
    assert isinstance(make_timer(loop, lambda: None), LoopTimer)
    monkeypatch.setattr("ctypes.CDLL", lambda *_a, **_k: object())
    assert isinstance(make_timer(loop, lambda: None), LoopTimer)
    monkeypatch.undo()
    monkeypatch.setattr("sys.platform", "darwin")
    assert isinstance(make_timer(loop, lambda: None), LoopTimer)
