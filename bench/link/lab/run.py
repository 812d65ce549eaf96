"""Run any program over a profile: two namespaces, a link between them, one command at each end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ..profile import LinkProfile
from .backends import choose_backend
from .links import FAR, FAR6, NEAR, NEAR6, NamespaceLink, open_link
from .measure import Calibration, calibrate
from .namespace import LabError, dying_with_parent

FAR_HEAD_START = 0.5
"""Seconds the far command has to open its ports before the near one starts."""
STOP_SECONDS = 3.0
"""What a command has to end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class NetemRun:
    """How a command over a profile ended, and what carried it."""

    returncode: int
    """The near command's; 128 + n after signal n."""
    backend: str
    calibration: Calibration
    """Of the bare link, before the profile was put on it."""
    link: dict[str, Any]
    """What the backend knows of the link's work; the model's layout is in bench/README.md."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON-safe values."""
        return {
            "returncode": self.returncode,
            "backend": self.backend,
            **self.calibration.to_dict(),
            "link": self.link,
        }


def run_under_profile(
    profile: LinkProfile,
    command: Sequence[str],
    *,
    far_command: Sequence[str] | None = None,
    backend: str = "auto",
    seed: int = 1,
    on_ready: Callable[[str, Calibration], None] | None = None,
) -> NetemRun:
    """Run `command` at the near end (the media's sender) of a link, and wait for it.

    The far end is 10.77.0.2 and fd77::2. `far_command` runs there from just before until the near
    one ends. Both find in their environment LIMEN_NEAR, LIMEN_FAR (addresses) and LIMEN_AT_FAR, a
    prefix that runs a further command at the far end. `on_ready` is told the backend and its
    calibration before anything starts. Ctrl-C and SIGTERM are passed on; whatever happens, no
    namespace, device or process stays behind. Needs Linux and root. Raises LabError.
    """
    if not command:
        raise LabError("there is no command to run; give one behind --")
    chosen = choose_backend(profile, backend)
    with _signals() as caught, open_link(profile, backend=chosen) as link:
        calibration = calibrate(link)
        link.shape(profile, seed=seed)
        if on_ready is not None:
            on_ready(chosen, calibration)
        far: subprocess.Popen[bytes] | None = None
        near: subprocess.Popen[bytes] | None = None
        try:
            if far_command:
                far = _start(link, far_command, at_far=True)
                _wait(FAR_HEAD_START, caught)
            link.start()
            near = _start(link, command, at_far=False)
            returncode = _wait_for(near, caught)
        finally:
            for process in (near, far):
                if process is not None:
                    _stop(process)
        return NetemRun(returncode, chosen, calibration, link.finish())


def _start(link: NamespaceLink, command: Sequence[str], *, at_far: bool) -> subprocess.Popen[bytes]:
    end = link.far if at_far else link.near
    environment = {
        **os.environ,
        "LIMEN_NEAR": NEAR,
        "LIMEN_FAR": FAR,
        "LIMEN_NEAR6": NEAR6,
        "LIMEN_FAR6": FAR6,
        "LIMEN_AT_FAR": " ".join(link.far.prefix),
    }
    try:
        with end.entered():
            return subprocess.Popen(  # noqa: S603 - the user's own command
                dying_with_parent(command), env=environment, start_new_session=True
            )
    except OSError as error:
        raise LabError(f"{command[0]}: {error.strerror or error}") from error


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT, SIGTERM and SIGHUP instead of dying of them in the middle of the work."""
    caught: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        caught.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield caught
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _wait(seconds: float, caught: list[int]) -> None:
    until = time.monotonic() + seconds
    while not caught and time.monotonic() < until:
        time.sleep(0.02)


def _wait_for(process: subprocess.Popen[bytes], caught: list[int]) -> int:
    """Wait for a command; a signal to us is passed on to its whole session, once."""
    passed = 0
    while True:
        try:
            code = process.wait(0.05)
        except subprocess.TimeoutExpired:
            for number in caught[passed:]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                passed += 1
            if passed > 1:  # it was asked twice
                _stop(process)
            continue
        return 128 - code if code < 0 else code


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started: SIGTERM, then SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
