"""A command's event loop, and its end: orderly where possible, within a second always.

The first Ctrl-C (or SIGTERM) cancels the command, whose clean-up tells the peer and closes its
files. What blocks for longer, a name look-up or a device that hangs, is left behind: a thread
ends the process. Recordings are written so that this loses nothing but the last moments.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, NoReturn, TypeVar

from .failures import Interrupted

T = TypeVar("T")
GRACE = 0.7
"""Seconds for clean-up after a signal, so that Ctrl-C ends the process within one."""
_HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none
SIGNALS = [n for n in (signal.SIGINT, signal.SIGTERM, _HANG_UP) if n is not None]


def run_command(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main()` on an event loop of its own. Raises Interrupted after a signal."""
    caught: list[int] = []

    async def supervised() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(main())

        def on_signal(number: int, frame: FrameType | None) -> None:
            del frame
            caught.append(number)
            if len(caught) == 1:
                _exit_after(GRACE, 128 + number)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

        for number in before:
            signal.signal(number, on_signal)
        return await task

    before = {number: signal.getsignal(number) for number in SIGNALS}
    if before.get(_HANG_UP) is signal.SIG_IGN:
        del before[_HANG_UP]  # nohup
    try:
        return asyncio.run(supervised())
    except asyncio.CancelledError:
        raise Interrupted(128 + caught[0] if caught else 130) from None
    except BaseException:
        if caught:  # it failed while it was being stopped
            raise Interrupted(128 + caught[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def in_thread(func: Callable[[], T], name: str) -> T:
    """`func()` in a daemon thread: one that hangs holds nothing up but its caller."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, problem: BaseException | None) -> None:
        if done.done():
            return
        if problem is not None:
            done.set_exception(problem)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # T may be None itself

    def work() -> None:
        result: T | None = None
        problem: BaseException | None = None
        try:
            result = func()
        except BaseException as caught:  # it is raised in the caller
            problem = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, result, problem)

    threading.Thread(target=work, name=f"limen-{name}", daemon=True).start()
    return await done


def leave_now(code: int) -> NoReturn:
    """End the process without the interpreter's own clean-up, which takes a while after media."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream.isatty():
                stream.write("\x1b[?25h")  # a status line hides the cursor
            stream.flush()
    os._exit(code)


def _exit_after(seconds: float, code: int) -> None:
    timer = threading.Timer(seconds, leave_now, (code,))
    timer.daemon = True
    timer.start()
