"""B32 to its own bounds: one peer's death, fault or garbage ends its session and no other's.

Real sockets and a real server, in virtual time: where the loop would wait, the clock jumps. So
70 s of watching take a few, and a gap is limen's doing, never the machine's.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import selectors
import socket
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import limen
from limen.transport import api, endpoint
from limen.transport.quic.timer import LoopTimer

WATCHED = 70.0
INTERVAL = 0.04


class JumpingSelector(selectors.DefaultSelector):
    """Passes time instead of waiting for it."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout is None or timeout <= 0:
            return ready
        self.now += timeout
        return super().select(0)


@pytest.fixture
def virtually(monkeypatch: pytest.MonkeyPatch) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on a loop whose clock, and everybody's, jumps."""

    async def resolve(host: str, port: int) -> Any:
        return socket.AF_INET, (host, port)  # asyncio would ask a thread, which takes real time

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        selector = JumpingSelector()
        monkeypatch.setattr(time, "monotonic", lambda: selector.now)
        monkeypatch.setattr(endpoint, "make_timer", LoopTimer)
        monkeypatch.setattr(api, "resolve", resolve)
        loop = asyncio.SelectorEventLoop(selector)
        try:
            return loop.run_until_complete(main)
        finally:
            loop.close()

    return run


def test_b32_one_peers_fault_is_no_others(
    virtually: Any, certificate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    lives: dict[str, weakref.ref[Any]] = {}
    ended: dict[str, float] = {}

    async def handler(session: limen.Session) -> None:
        track = session.publish("ticks", limen.Data())
        await track.wait_subscribed()
        (name,) = session.offers
        lives[name] = weakref.ref(session.core)
        try:
            for step in itertools.count():
                await track.send(bytes(100))
                if name == "raises" and step == 250:
                    raise ZeroDivisionError("in the handler of one peer")
                await asyncio.sleep(INTERVAL)
        finally:
            ended[name] = time.monotonic()

    async def listen(server: Any, name: str, arrivals: list[float]) -> None:
        async with limen.connect(
            "127.0.0.1", server.port, fingerprint=server.fingerprint
        ) as session:
            session.publish(name, limen.Data())
            async for frame in session.subscribe("ticks", "data"):
                arrivals.append(frame.arrived)
                if len(arrivals) == 250 and name == "dies":
                    wire = session._wire
                    assert wire is not None
                    asyncio.get_running_loop().remove_reader(wire._sock.fileno())
                    wire.close()  # as after kill -9: no good-bye, and nobody listens
                if len(arrivals) == 250 and name == "hostile":
                    session.core.quic.send_stream_data(0, b"\xff" * 100)
                    session.wake()

    async def main() -> dict[str, list[float]]:
        names = ("dies", "raises", "hostile", "fourth")
        arrivals: dict[str, list[float]] = {name: [] for name in names}
        async with limen.serve(handler, certificate=certificate) as server:
            tasks = {n: asyncio.create_task(listen(server, n, arrivals[n])) for n in names}
            await asyncio.sleep(WATCHED)
            assert len(server.sessions) == len(server._endpoint.wires) == 1
            assert not tasks["fourth"].done()
            gc.collect()
            assert lives["dies"]() is None, "its memory is free"
            for name in ("raises", "hostile"):
                with pytest.raises(limen.SessionClosedError):
                    tasks[name].result()
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        return arrivals

    begin = JumpingSelector.now
    with caplog.at_level(logging.CRITICAL, logger="limen"):
        arrivals = virtually(main())
    fourth = arrivals["fourth"]
    assert len(fourth) > 0.98 * WATCHED / INTERVAL
    assert fourth[-1] > begin + WATCHED - 0.1, "watched to the end"
    assert max(b - a for a, b in itertools.pairwise(fourth)) < 0.1
    fault = begin + 250 * INTERVAL
    assert ended["raises"] < fault + 1.0
    assert ended["hostile"] < fault + 1.0
    assert ended["dies"] < fault + 11.5, "by the idle limit of 10 s"
