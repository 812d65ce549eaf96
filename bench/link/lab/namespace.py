"""Network namespaces without names, gone when their last user is, however that ended.

A named namespace (`ip netns add`) outlives a crash. These exist only as open descriptors of this
process and of the processes inside them; killing this process with SIGKILL leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

CLONE_NEWNET = 0x40000000
COMMAND_TIMEOUT = 20.0


class LabError(RuntimeError):
    """A link between namespaces cannot be had; the text says why and what would help."""


def why_not() -> str | None:
    """Why this system and user cannot have namespaces; None when they can."""
    if sys.platform != "linux":
        return "network namespaces need Linux; elsewhere the UDP proxy carries every profile"
    if os.geteuid() != 0:
        return "links between network namespaces need root (sudo); the UDP proxy works without"
    missing = [tool for tool in ("ip", "nsenter") if shutil.which(tool) is None]
    if missing:
        return f"missing: {', '.join(missing)} (Debian: apt install iproute2 util-linux)"
    return None


def run_tool(arguments: Sequence[str], *, env: dict[str, str] | None = None) -> str:
    """Run a system tool and return what it printed. Raises LabError with its own words."""
    try:
        done = subprocess.run(  # noqa: S603 - system tools with our own arguments
            arguments,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
            env=None if env is None else {**os.environ, **env},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{' '.join(arguments)}: {error}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise LabError(f"{' '.join(arguments)}: {words}")
    return done.stdout


class Namespace:
    """A network namespace with its loopback up. `close` gives it up."""

    def __init__(self) -> None:
        """Raises LabError where the kernel refuses one."""
        self._fd = _in_thread(_new_namespace)
        with self.entered():
            run_tool(["ip", "link", "set", "lo", "up"])

    @property
    def path(self) -> str:
        """A path other processes can open it by, while this process lives."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    @property
    def prefix(self) -> list[str]:
        """A command line's beginning that runs the rest inside."""
        return ["nsenter", f"--net={self.path}", "--"]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This thread inside the namespace: sockets and processes made here belong to it."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(self._fd)
            try:
                yield
            finally:
                _setns(here)
        finally:
            os.close(here)

    def close(self) -> None:
        """Give it up; it ends with the last process inside."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def dying_with_parent(arguments: Sequence[str], *, by: str = "KILL") -> list[str]:
    """A command line whose process gets a signal when this one ends, even by SIGKILL."""
    if shutil.which("setpriv") is None:
        return list(arguments)
    return ["setpriv", "--pdeathsig", by, "--", *arguments]


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _setns(descriptor: int) -> None:
    if _libc().setns(descriptor, CLONE_NEWNET) != 0:
        raise LabError(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")


def _new_namespace() -> int:
    if _libc().unshare(CLONE_NEWNET) != 0:
        words = os.strerror(ctypes.get_errno())
        raise LabError(f"cannot make a network namespace: {words}; in a container, allow it")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _in_thread(func: Any) -> int:
    """Run `func` in a thread of its own: what it unshares stays there."""
    result: list[int] = []
    problem: list[BaseException] = []

    def work() -> None:
        try:
            result.append(func())
        except BaseException as error:  # raised in the caller
            problem.append(error)

    thread = threading.Thread(target=work, name="new-namespace")
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return result[0]
