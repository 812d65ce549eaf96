"""Start a tap at both ends of a link as a process of its own, and get what it saw."""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from ..orders import start_order
from ..profile import LinkProfile
from .links import DEVICE, DRIVER_TIMEOUT, NamespaceLink
from .measure import SO_RCVBUFFORCE, SO_TIMESTAMPNS
from .namespace import LabError, Namespace, dying_with_parent

ETH_P_ALL = 0x0003
BUFFER_BYTES = 64 << 20
STOP_TIMEOUT = 10.0


class TapProcess:
    """A running tap. Use as a context manager; `stop` returns what it saw."""

    def __init__(self, link: NamespaceLink, profile: LinkProfile, *, base_delay: float) -> None:
        """Start it; it sees all packets from now on. Raises LabError.

        `base_delay`: seconds that the bare link takes by itself.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="limen-tap-")
        self._stats = Path(self._folder.name) / "stats.json"
        pickled = Path(self._folder.name) / "profile.pickle"
        pickled.write_bytes(pickle.dumps(profile))
        with contextlib.ExitStack() as stack:
            try:
                sockets = [stack.enter_context(_open(end)) for end in (link.near, link.far)]
            except OSError as error:
                self._folder.cleanup()
                raise LabError(f"the link cannot be tapped: {error}") from error
            near, far = (sock.fileno() for sock in sockets)
            command = [sys.executable, "-m", "limen.bench.link.lab.tap"]
            command += ["--near", str(near), "--far", str(far), "--pickled", str(pickled)]
            command += ["--base", repr(base_delay), "--stats", str(self._stats)]
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                dying_with_parent(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(near, far),
            )
        timer = threading.Timer(DRIVER_TIMEOUT, self._process.kill)
        timer.start()
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        ready = self._process.stdout.readline()
        timer.cancel()
        if not ready:
            _, words = self._process.communicate()
            self._folder.cleanup()
            raise LabError(f"the tap did not start: {words.strip() or 'it gave no reason'}")

    def start(self, at: float) -> None:
        """Link time 0 is `at` on the monotonic clock."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        with contextlib.suppress(OSError):  # `stop` says why it is gone
            self._process.stdin.write(start_order(at))
            self._process.stdin.flush()

    def stop(self) -> dict[str, Any]:
        """End it and return what it saw (layout in bench/README.md). Raises LabError."""
        try:
            _, words = self._process.communicate(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, words = self._process.communicate()
        try:
            return dict(json.loads(self._stats.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise LabError(f"the tap left no statistics: {words.strip()}") from error

    def __enter__(self) -> TapProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()


def _open(namespace: Namespace) -> socket.socket:
    """A packet socket on the link's device in a namespace, stamped by the kernel."""
    with namespace.entered():
        # Protocol 0 keeps it deaf until it is bound to the one device.
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.bind((DEVICE, ETH_P_ALL))
    except OSError:
        sock.close()
        raise
    return sock
