"""The two ends of a run as processes, told and heard over their pipes.

Whatever an end says goes into one queue, so that whoever waits for one end hears at once that the
other has failed. `relay` messages are handed to the other end as they come.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..peers.registry import find_peer
from .process_tree import ProcessTree

if TYPE_CHECKING:
    from ..link.lab.namespace import Namespace

ENDING = 10.0
"""Seconds an end has to end once it is done or its pipe is closed; a browser takes two."""

LAST_WORDS = 1.0
"""Seconds to read what an end that is gone has said."""
Meanwhile = Callable[[str, dict[str, Any]], None]
"""Told an end's role and one of its messages."""


class RunError(RuntimeError):
    """A run failed; the text says which end, and its last words."""


class PeerProcess:
    """One end of a run. Use as a context manager: leaving it ends the process and its children."""

    def __init__(
        self,
        peer: str,
        role: str,
        plan: Path,
        *,
        namespace: Namespace | None = None,
        messages: queue.SimpleQueue[tuple[str, dict[str, Any] | None]] | None = None,
    ) -> None:
        """Start it. What it says is put into `messages` with its role, None when it ended."""
        self.name = f"{peer} {role}"
        self.role = role
        self.done = False
        self._messages = queue.SimpleQueue() if messages is None else messages
        self._words = plan.parent / f"{role}.stderr"
        self._writing = threading.Lock()
        self.tree = ProcessTree()
        place = contextlib.nullcontext() if namespace is None else namespace.entered()
        with self._words.open("wb") as words, place:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, our own arguments
                [sys.executable, "-m", find_peer(peer).module, role, str(plan)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env=self.tree.environment,
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        self._reader = threading.Thread(target=self._read, daemon=True, name=self.name)
        self._reader.start()
        threading.Thread(target=self._watch, daemon=True, name=f"{self.name} end").start()

    def tell(self, **message: Any) -> None:
        """Send a message. Raises RunError when the process is gone."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        try:
            with self._writing:
                self._process.stdin.write(json.dumps(message) + "\n")
                self._process.stdin.flush()
        except OSError as error:
            raise self.failure() from error

    def expect(self, key: str, *, timeout: float) -> Any:
        """This end's message with `key`, of an end on its own. Raises RunError."""
        return Ends({self.role: self}, self._messages).expect(self.role, key, timeout=timeout)

    def failure(self) -> RunError:
        """Why it ended, in its own last words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDING)
        return RunError(f"the {self.name} process failed: {self._last_words()}")

    def silence(self, key: str) -> RunError:
        """It did not say `key` in time."""
        words = f"the {self.name} process said no {key!r} in time"
        return RunError(f"{words}; its last words: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._words.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it gave no reason"

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # a library that prints
                continue
            if isinstance(message, dict):
                self._messages.put((self.role, message))

    def _watch(self) -> None:
        """Tell of its end, which the pipe need not: what it started may hold that open."""
        self._process.wait()
        self._reader.join(LAST_WORDS)
        self._messages.put((self.role, None))

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(ENDING)
        finally:
            self.tree.kill()
            self._process.kill()
            self._process.wait()
            self._reader.join(LAST_WORDS)
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    assert pipe is not None  # noqa: S101 - for the type checker
                    pipe.close()


class Ends:
    """Both ends, by role, heard in the order in which they spoke."""

    def __init__(
        self,
        ends: dict[str, PeerProcess],
        messages: queue.SimpleQueue[tuple[str, dict[str, Any] | None]],
    ) -> None:
        self._ends = ends
        self._messages = messages
        self._kept: list[tuple[str, dict[str, Any]]] = []

    def tell(self, role: str, **message: Any) -> None:
        """Send a message to one end. Raises RunError when it is gone."""
        self._ends[role].tell(**message)

    def cpu_seconds(self) -> dict[str, float | None]:
        """CPU time that each end and what it started have taken so far."""
        return {role: end.tree.cpu_seconds() for role, end in self._ends.items()}

    def expect(
        self,
        role: str,
        key: str,
        *,
        timeout: float,
        meanwhile: Meanwhile | None = None,
    ) -> dict[str, Any]:
        """The next message with `key` of one end; figures for whoever watches go to `meanwhile`.

        Raises RunError when either end fails, or this one says it not within `timeout` seconds.
        """
        for index, (who, message) in enumerate(self._kept):
            if who == role and key in message:
                del self._kept[index]
                return message
        until = time.monotonic() + timeout
        while (heard := self._hear(until, meanwhile)) is not None:
            who, message = heard
            if who == role and key in message:
                return message
            self._kept.append(heard)
        raise self._ends[role].silence(key)

    def listen(self, *, until: float, meanwhile: Meanwhile | None = None) -> None:
        """Attend to both ends up to a moment; what they say for later is kept. Raises RunError."""
        while (heard := self._hear(until, meanwhile)) is not None:
            self._kept.append(heard)

    def _hear(self, until: float, meanwhile: Meanwhile | None) -> tuple[str, dict[str, Any]] | None:
        """The next message that is not dealt with here; None when there was none in time."""
        while True:
            try:
                who, message = self._messages.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return None
            if message is None:
                if not self._ends[who].done:
                    raise self._ends[who].failure()
            elif "relay" in message:
                self._relay(who, message)
            elif "live" in message:
                if meanwhile is not None:
                    meanwhile(who, message)
            else:
                self._ends[who].done |= "done" in message
                return who, message

    def _relay(self, who: str, message: dict[str, Any]) -> None:
        for role, end in self._ends.items():
            if role != who:
                end.tell(relay=message["relay"])
