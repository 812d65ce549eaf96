"""One run: a receiver, a link and a sender, three processes, and their results in one folder."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ..link.launch import ProxyProcess
from ..peers.plan import RunPlan

START_TIMEOUT = 60.0
"""Seconds an end has to load its media; decoding takes two, on a loaded machine ten."""
SLACK = 15.0
"""Seconds beyond its nominal length after which a run counts as stuck."""
Live = Callable[[float, dict[str, float]], None]
"""Called with run time (s) and median delays by track (ms)."""


class RunError(RuntimeError):
    """A run failed; the text says which end, and its last words."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left behind, besides the files in `folder`."""

    folder: Path
    start: float
    """Run time 0 on the monotonic clock."""
    end: float
    """From when on nothing was waited for any more."""
    link: dict[str, Any]
    """What the link proxy saw."""


class PeerProcess:
    """One end of a run. Use as a context manager: leaving it ends the process."""

    def __init__(self, peer: str, role: str, plan: Path) -> None:
        self.name = f"{peer} {role}"
        self._words = (plan.parent / f"{role}.stderr").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603 - our own module, our own arguments
            [sys.executable, "-m", f"limen.bench.peers.{peer}", role, str(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
        )
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True, name=self.name)
        self._reader.start()

    def tell(self, **message: Any) -> None:
        """Send a message."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise RunError(self._why()) from error

    def receive(self, *, timeout: float) -> dict[str, Any]:
        """The next message. Raises RunError when the process ends or says nothing in time."""
        try:
            message = self._messages.get(timeout=max(0.0, timeout))
        except queue.Empty:
            raise RunError(f"the {self.name} process said nothing in time") from None
        if message is None:
            raise RunError(self._why())
        return message

    def take(self) -> dict[str, Any] | None:
        """The next message if there is one; raises as `receive`."""
        return None if self._messages.empty() else self.receive(timeout=0.0)

    def expect(self, key: str, *, timeout: float) -> Any:
        """Skip messages up to the first with `key`, and return that one."""
        until = time.monotonic() + timeout
        while True:
            message = self.receive(timeout=until - time.monotonic())
            if key in message:
                return message

    def _why(self) -> str:
        self._process.wait()
        self._words.seek(0)
        lines = self._words.read().strip().splitlines()
        return f"the {self.name} process failed: {lines[-1] if lines else 'it gave no reason'}"

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        for line in self._process.stdout:
            self._messages.put(json.loads(line))
        self._messages.put(None)

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None  # noqa: S101 - for the type checker
            if pipe is self._process.stdout:
                self._process.wait()
                self._reader.join()
            pipe.close()
        self._words.close()


def run_once(
    peer: str, plan: RunPlan, folder: Path, *, profile: str | Path, live: Live | None = None
) -> RunResult:
    """Run one peer over the link. Raises RunError, ProxyError."""
    folder.mkdir(parents=True, exist_ok=True)
    plan_path = folder / "plan.json"
    plan.write(plan_path)
    with (
        PeerProcess(peer, "receive", plan_path) as receiver,
        PeerProcess(peer, "send", plan_path) as sender,
    ):
        listening = receiver.expect("ready", timeout=START_TIMEOUT)
        sender.expect("ready", timeout=START_TIMEOUT)
        with ProxyProcess(
            profile,
            target=("127.0.0.1", listening["port"]),
            duration=plan.link_duration,
            seed=plan.seed,
        ) as proxy:
            sender.tell(connect={"port": proxy.port, "fingerprint": listening["fingerprint"]})
            start = float(sender.expect("start", timeout=START_TIMEOUT)["start"])
            receiver.tell(start=start)
            length = plan.duration + plan.drain
            _follow(receiver, start + length + SLACK, live)
            sender.expect("done", timeout=SLACK)
            link = proxy.stop()
    return RunResult(folder, start, start + length, link)


def _follow(receiver: PeerProcess, until: float, live: Live | None) -> None:
    while True:
        message = receiver.receive(timeout=until - time.monotonic())
        if "done" in message:
            return
        if live is not None and "live" in message:
            live(float(message["at"]), message["live"])
