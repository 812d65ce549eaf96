"""The line between a peer's process and the one that started it: JSON lines over its pipes.

A peer says `ready`, `start`, `live` and `done` on its standard output and is told the rest on its
standard input. When that closes, the peer ends at once: none outlives whoever started it, however
that one ended, on any system.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any

ORPHANED = 3
"""Exit status of a peer whose parent is gone."""


class Parent:
    """This process's parent. Made once, on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
        threading.Thread(target=self._read, daemon=True, name="parent").start()

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        return await self._messages.get()

    def tell(self, **message: Any) -> None:
        """Send one message."""
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")

    def _read(self) -> None:
        # os.read: a daemon thread inside a buffered read would abort the interpreter's exit.
        descriptor = sys.stdin.fileno()
        rest = b""
        while chunk := os.read(descriptor, 4096):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                self._loop.call_soon_threadsafe(self._messages.put_nowait, message)
        os._exit(ORPHANED)
