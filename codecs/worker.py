"""One thread for one codec: the event loop hands work over and awaits the result.

Encoders and decoders take milliseconds and release the GIL; on the loop they would delay every
packet. A worker is one daemon thread that takes calls strictly in the order in which they were
made, one at a time. Each caller waits for its own, so whoever awaits one before the next keeps the
queue short; `pending` tells the others how far the codec is behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from .errors import CodecError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Job:
    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class CodecWorker:
    """Runs calls one after another in a thread of its own; `run` may be used from any event loop.

    Await `run(func, *args)` for the result. Cancelling that drops the call if it has not begun
    (one that runs is finished, its result thrown away). `close` waits for the running call;
    those still queued end with CodecError, as do later ones.
    """

    def __init__(self, name: str = "codec") -> None:
        self.name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"limen-{name}", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Calls handed over and not yet finished: how far the codec is behind."""
        return self._pending

    async def run(self, func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`func(*args, **kwargs)`, run in the worker's thread; its exception is raised here.

        Raises CodecError when the worker is closed.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._closed:
                raise CodecError(f"the codec worker {self.name!r} is closed")
            self._pending += 1
            self._jobs.put(_Job(lambda: func(*args, **kwargs), loop, done))
        return await done

    def close(self) -> None:
        """End the thread after the call that runs now; safe to call twice, and from any thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result: object = None
            problem: BaseException | None = None
            if self._closed:
                problem = CodecError(f"the codec worker {self.name!r} was closed")
            elif not job.done.cancelled():
                try:
                    result = job.call()
                except BaseException as caught:  # it is raised in the caller
                    problem = caught
            with self._lock:
                self._pending -= 1
            _call(job.loop, _finish, job.done, result, problem)
            del job, result, problem  # keep no picture alive while waiting for the next


def _call(loop: asyncio.AbstractEventLoop, func: Callable[..., None], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(func, *args)


def _finish(future: asyncio.Future[Any], result: object, problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(result)
    elif isinstance(problem, StopIteration):
        # A future refuses StopIteration, which would end the caller's generator unseen.
        wrapped = CodecError("the call ended with StopIteration")
        wrapped.__cause__ = problem
        future.set_exception(wrapped)
    else:
        future.set_exception(problem)
