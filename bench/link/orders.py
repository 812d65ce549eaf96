"""What a link's driver is told on its standard input while it runs: when link time begins.

One line, `start SECONDS`, on the monotonic clock that all processes of a host share. The end of
the input is the order to stop, so no driver outlives the process that started it.
"""

from __future__ import annotations

import os


def start_order(at: float) -> str:
    """The line that says that link time 0 is `at`."""
    return f"start {at!r}\n"


class Orders:
    """A driver's side: feed it the input's descriptor whenever that is readable."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.start: float | None = None
        """When link time begins, as told; None: not told."""
        self.over = False
        """The input has ended."""

    def read(self) -> None:
        """Take in what has come; waits when nothing has."""
        # os.read: a buffered read would hold back what select no longer announces.
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        self.over = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, value = line.partition(b" ")
            if word == b"start":
                self.start = float(value)
