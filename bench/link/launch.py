"""Start the link proxy as a process of its own, and get what the link saw when it is over."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from .orders import start_order

START_TIMEOUT = 20.0
"""Seconds a proxy has to name its port; an interpreter on a loaded machine takes two."""
STOP_TIMEOUT = 10.0


class ProxyError(RuntimeError):
    """The link proxy did not start or did not end properly."""


class ProxyProcess:
    """A running link proxy. Use as a context manager; `stop` returns what the link saw."""

    def __init__(
        self,
        profile: str | Path,
        *,
        target: tuple[str, int],
        duration: float | None = None,
        seed: int = 1,
        client: str = "sender",
        listen: tuple[str, int] = ("127.0.0.1", 0),
        held: bool = False,
        trace: Path | None = None,
    ) -> None:
        """Start it and wait until it listens. Raises ProxyError with its own words.

        `client` says whether the connecting side is the media's "sender" or "receiver"; `held`
        lets link time wait for `start` instead of the first packet.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="limen-link-")
        self._stats_path = Path(self._folder.name) / "stats.json"
        self._stats: dict[str, Any] | None = None
        command = [sys.executable, "-m", "limen.bench.link.proxy", "--stop-on-eof"]
        command += ["--profile", str(profile), "--target", f"{target[0]}:{target[1]}"]
        command += ["--listen", f"{listen[0]}:{listen[1]}", "--seed", str(seed)]
        command += ["--client", client, "--stats", str(self._stats_path)]
        if duration is not None:
            command += ["--duration", repr(duration)]
        if trace is not None:
            command += ["--trace", str(trace)]
        if held:
            command.append("--held")
        self._process = subprocess.Popen(  # noqa: S603 - our own module, our own arguments
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        timer = threading.Timer(START_TIMEOUT, self._process.kill)
        timer.start()
        try:
            assert self._process.stdout is not None  # noqa: S101 - for the type checker
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            _, words = self._process.communicate()
            self._folder.cleanup()
            raise ProxyError(words.strip() or "the link proxy ended without a word")
        self.port: int = int(json.loads(line)["port"])
        """The UDP port to connect to instead of the target's."""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status once stopped; 0 after a proper end."""
        return self._process.returncode

    def start(self, at: float) -> None:
        """Link time 0 of a proxy made `held` is `at` on the monotonic clock."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        with contextlib.suppress(OSError):  # `stop` says why it is gone
            self._process.stdin.write(start_order(at))
            self._process.stdin.flush()

    def stop(self) -> dict[str, Any]:
        """End it and return its statistics (layout in bench/README.md); again: the same."""
        if self._stats is not None:
            return self._stats
        try:
            _, words = self._process.communicate(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, words = self._process.communicate()
        try:
            self._stats = dict(json.loads(self._stats_path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ProxyError(f"the link proxy left no statistics: {words.strip()}") from error
        finally:
            self._folder.cleanup()
        return self._stats

    def __enter__(self) -> ProxyProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProxyError):
            self.stop()
