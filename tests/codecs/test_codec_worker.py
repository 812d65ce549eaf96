"""The codec thread: order, results, exceptions, back-pressure, cancelling, closing."""

from __future__ import annotations

import asyncio
import threading

import pytest

from limen.codecs.errors import CodecError
from limen.codecs.worker import CodecWorker


async def test_calls_run_in_order_in_one_other_thread() -> None:
    worker = CodecWorker("order")
    seen: list[tuple[int, int]] = []

    def note(n: int) -> int:
        seen.append((n, threading.get_ident()))
        return n * 2

    assert await asyncio.gather(*(worker.run(note, n) for n in range(20))) == list(range(0, 40, 2))
    assert [n for n, _ in seen] == list(range(20))
    assert len({ident for _, ident in seen}) == 1
    assert seen[0][1] != threading.get_ident()
    worker.close()


async def test_an_exception_comes_back_as_itself_and_the_worker_goes_on() -> None:
    worker = CodecWorker("errors")

    def fail() -> None:
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        await worker.run(fail)
    with pytest.raises(CodecError):
        await worker.run(next, iter(()))
    assert await worker.run(lambda: 3) == 3
    worker.close()


async def test_callers_wait_for_their_turn_and_the_loop_stays_free() -> None:
    worker = CodecWorker("full")
    gate = threading.Event()
    tasks = [asyncio.create_task(worker.run(gate.wait, 5)) for _ in range(5)]
    await asyncio.sleep(0.02)
    assert worker.pending == 5
    assert not any(task.done() for task in tasks)
    gate.set()
    assert await asyncio.gather(*tasks) == [True] * 5
    worker.close()


async def test_calls_made_while_others_wait_come_after_them() -> None:
    worker = CodecWorker("turns")
    seen: list[int] = []
    first = [asyncio.create_task(worker.run(seen.append, n)) for n in range(200)]
    second = []
    for n in range(200, 400):
        await asyncio.sleep(0)
        second.append(asyncio.create_task(worker.run(seen.append, n)))
    await asyncio.gather(*first, *second)
    assert seen == list(range(400))
    worker.close()


async def test_a_cancelled_call_that_had_not_begun_never_runs() -> None:
    worker = CodecWorker("cancel")
    gate = threading.Event()
    ran: list[int] = []
    first = asyncio.create_task(worker.run(gate.wait, 5))
    queued = asyncio.create_task(worker.run(ran.append, 1))
    waiting = asyncio.create_task(worker.run(ran.append, 2))
    last = asyncio.create_task(worker.run(ran.append, 3))
    await asyncio.sleep(0.01)
    queued.cancel()
    waiting.cancel()
    gate.set()
    await asyncio.wait_for(asyncio.gather(first, last), 5)
    assert ran == [3]
    worker.close()


async def test_close_ends_what_was_queued_and_refuses_what_comes_after() -> None:
    worker = CodecWorker("close")
    started, gate = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        gate.wait(5)
        return "done"

    running = asyncio.create_task(worker.run(slow))
    others = [asyncio.create_task(worker.run(int)) for _ in range(3)]
    await asyncio.to_thread(started.wait, 5)
    await asyncio.sleep(0)
    closing = asyncio.create_task(asyncio.to_thread(worker.close))
    await asyncio.sleep(0.01)
    gate.set()
    await closing
    assert await running == "done"
    ended = await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 5)
    assert all(isinstance(outcome, CodecError) for outcome in ended)
    with pytest.raises(CodecError, match="closed"):
        await worker.run(int)
    worker.close()
    assert not any(thread.name == "limen-close" for thread in threading.enumerate())
