"""A headless Chromium for one peer: started, spoken to, and gone with its owner.

Spoken to over a pipe (`--remote-debugging-pipe`: JSON messages of the DevTools protocol, each ended
by a zero byte), so it needs no driver, no port and no package. The pipe is also its lifeline: when
this process ends, however it ends, the pipe closes, Chromium ends, and the shell that started it
removes its profile folder.

Chromium's `performance.now()` and Python's `time.monotonic()` read the same kernel clock from
different zeros. `clock_offset` finds the difference from the quickest of many round trips.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BINARIES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",  # a run is root's: it needs namespaces
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-extensions",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-ui-for-media-stream",
    "--allow-loopback-in-peer-connection",
    # The names that hide addresses cannot be looked up on a link without multicast.
    "--disable-features=WebRtcHideLocalIpsWithMdns,LocalNetworkAccessChecks",
    "--remote-debugging-pipe",
)
LAUNCH = 'folder=$1; shift; "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf "$folder"'
"""Chromium reads its orders from descriptor 3 and answers on 4."""
MESSAGE_LIMIT = 64 << 20
ROUND_TRIPS = 40
CLOSE_SECONDS = 5.0


class BrowserError(RuntimeError):
    """The browser or its page failed; the text says what it said."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """What is added to `performance.now()` (s) to get `time.monotonic()`, and how sure that is."""

    offset: float
    error: float
    """Seconds the offset may be wrong: half the quickest round trip, either way."""


def missing() -> str | None:
    """Why there is no browser, and what would help; None when there is one."""
    if find_binary() is None or shutil.which("sh") is None:
        return "Chromium is not installed (Debian: apt install chromium)"
    return None


def find_binary() -> str | None:
    """The browser's path."""
    return next((path for name in BINARIES if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page. Use as an async context manager."""

    def __init__(self, url: str, *, folder: Path) -> None:
        """`folder` is made for the browser's profile, and removed with it."""
        self._url = url
        self._folder = folder
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session = ""
        self._loaded = asyncio.Event()
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.Task[None]

    async def __aenter__(self) -> Browser:
        binary = find_binary()
        if binary is None:
            raise BrowserError(missing() or "")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        folder = str(self._folder)
        self._process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", LAUNCH, "sh", folder,
            binary, *FLAGS, f"--user-data-dir={folder}", "about:blank",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MESSAGE_LIMIT,
            start_new_session=True,  # Ctrl-C is not its business
        )  # fmt: skip
        self._reader = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(30.0):
                await self._open_page()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._close()

    async def evaluate(self, expression: str, *, timeout: float = 30.0) -> Any:
        """The value of a JavaScript expression; a promise is awaited. Raises BrowserError."""
        answer = await self._call(
            "Runtime.evaluate",
            {"expression": expression, "awaitPromise": True, "returnByValue": True},
            timeout=timeout,
        )
        if details := answer.get("exceptionDetails"):
            thrown = details.get("exception", {})
            words = thrown.get("description") or thrown.get("value") or details.get("text")
            raise BrowserError(f"{expression[:60]}: {words}")
        return answer["result"].get("value")

    async def call(self, function: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """Call a function of the page with JSON-safe arguments. Raises BrowserError."""
        listed = ", ".join(json.dumps(argument) for argument in arguments)
        return await self.evaluate(f"{function}({listed})", timeout=timeout)

    async def clock_offset(self) -> ClockOffset:
        """Compare the page's clock with this process's."""
        best = ClockOffset(0.0, float("inf"))
        for _ in range(ROUND_TRIPS):
            before = time.monotonic()
            there = float(await self.evaluate("performance.now()")) / 1e3
            after = time.monotonic()
            error = (after - before) / 2
            if error < best.error:
                best = ClockOffset((before + after) / 2 - there, error)
        return best

    async def _open_page(self) -> None:
        origin = self._url.rpartition("/")[0]
        # Without these, WebRTC only looks for addresses on the default route: there is none.
        granted = {"origin": origin, "permissions": ["audioCapture", "videoCapture"]}
        await self._call("Browser.grantPermissions", granted)
        targets = (await self._call("Target.getTargets", {}))["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = await self._call("Target.attachToTarget", {"targetId": page, "flatten": True})
        self._session = attached["sessionId"]
        await self._call("Page.enable", {})
        self._loaded.clear()
        await self._call("Page.navigate", {"url": self._url})
        await self._loaded.wait()

    async def _call(
        self, method: str, parameters: dict[str, Any], *, timeout: float = 30.0
    ) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - for the type checker
        try:
            pipe.write(json.dumps(message).encode() + b"\0")
            await pipe.drain()
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise BrowserError(f"Chromium did not answer {method} in {timeout:g} s") from None
        except OSError as error:
            raise BrowserError(f"Chromium has ended ({method}: {error})") from error
        finally:
            self._answers.pop(number, None)

    async def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101 - for the type checker
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                message = json.loads((await pipe.readuntil(b"\0"))[:-1])
                if message.get("method") == "Page.loadEventFired":
                    self._loaded.set()
                answer = self._answers.get(message.get("id", 0))
                if answer is None or answer.done():
                    continue
                if "error" in message:
                    answer.set_exception(BrowserError(f"Chromium: {message['error']['message']}"))
                else:
                    answer.set_result(message["result"])
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(BrowserError("Chromium ended while it was asked something"))

    async def _close(self) -> None:
        """Close the pipe, upon which it ends and its folder goes."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
