"""A link between two namespaces by a profile: real netem where it can be had, emulated otherwise.

All backends (`backends.py`) are entered by the same two namespaces, `near` (the media's sender)
and `far`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from ..orders import start_order
from ..profile import LinkProfile
from ..spec import LinkSpec
from .backends import Backend, choose_backend
from .namespace import LabError, Namespace, dying_with_parent, run_tool
from .tc import table_files
from .tun import open_tun
from .wire import (
    MTU,
    Direction,
    NamespaceShell,
    Shell,
    UserModeLinux,
    batch,
    connect_ports,
    silence,
)

DEVICE = "limen0"
"""The name of the link in both namespaces."""
NEAR, FAR = "10.77.0.1", "10.77.0.2"
NEAR6, FAR6 = "fd77::1", "fd77::2"
DRIVER_TIMEOUT = 20.0


class NamespaceLink:
    """Two namespaces joined by a bare wire until `shape` puts a profile on it. Close it."""

    backend: Backend

    def __init__(self) -> None:
        self._exit = contextlib.ExitStack()
        self.near = Namespace()
        self._exit.callback(self.near.close)
        self.far = Namespace()
        self._exit.callback(self.far.close)

    def shape(self, profile: LinkProfile, *, seed: int = 1) -> None:
        """Put a profile on the link."""
        raise NotImplementedError

    def start(self, at: float | None = None) -> None:
        """Let link time begin at `at` on the monotonic clock (None: now), once per `shape`.

        Until then a profile's first rate holds.
        """

    def finish(self) -> dict[str, Any]:
        """Stop what runs and say what the link saw, as far as the backend knows."""
        return {}

    def close(self) -> None:
        """End everything."""
        self._exit.close()

    def __enter__(self) -> NamespaceLink:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _address(self) -> None:
        ends = ((self.near, NEAR, NEAR6), (self.far, FAR, FAR6))
        hardware = {}
        for namespace, address, address6 in ends:
            with namespace.entered():
                run_tool(["ip", "link", "set", DEVICE, "mtu", str(MTU), "up"])
                run_tool(["ip", "addr", "add", f"{address}/24", "dev", DEVICE])
                run_tool(["ip", "-6", "addr", "add", f"{address6}/64", "dev", DEVICE, "nodad"])
                shown = json.loads(run_tool(["ip", "-j", "link", "show", DEVICE]))
                hardware[address] = hardware[address6] = shown[0].get("address")
        for namespace, other, other6 in ((self.near, FAR, FAR6), (self.far, NEAR, NEAR6)):
            for address in (other, other6):
                if hardware[address] is None:  # TUN has no neighbours
                    continue
                words = f"ip neigh replace {address} lladdr {hardware[address]} dev {DEVICE}"
                with namespace.entered():
                    run_tool(words.split())


class NetemLink(NamespaceLink):
    """A wire of real netem, of this kernel or of a user-mode-linux."""

    def __init__(self, backend: Literal["kernel", "uml"], *, tables: dict[str, str]) -> None:
        super().__init__()
        self.backend = backend
        self._stop = threading.Event()
        self._stepper: threading.Thread | None = None
        self._missed_steps = 0
        self._specs: dict[str, LinkSpec] = {}
        self._shell: Shell
        self._directions: tuple[tuple[str, Direction], ...] = ()
        try:
            middle = Namespace()
            self._exit.callback(middle.close)
            if backend == "uml":
                down, up = self._through_uml(middle, tables)
            else:
                down, up = self._through_kernel(middle, tables)
            self._directions = (("down", down), ("up", up))
        except BaseException:
            self.close()
            raise

    def _through_uml(
        self, middle: Namespace, tables: dict[str, str]
    ) -> tuple[Direction, Direction]:
        taps = ("limena", "limenb")
        uml = UserModeLinux(middle, taps, tables)
        self._exit.callback(uml.close)
        silence(uml, *uml.PORTS)
        for port in uml.PORTS:  # its taps come into being when it opens them
            uml.run(f"ip link set {port} up")
        self._shell = uml
        for tap, end in zip(taps, (self.near, self.far), strict=True):
            with middle.entered():
                run_tool(["ip", "link", "set", tap, "netns", end.path])
            with end.entered():
                run_tool(["ip", "link", "set", tap, "name", DEVICE])
                _no_offload()
        self._address()
        # Only now, with both taps up: a frame to one that is down wedges its port for good.
        return connect_ports(uml, *uml.PORTS)

    def _through_kernel(
        self, middle: Namespace, tables: dict[str, str]
    ) -> tuple[Direction, Direction]:
        folder = tempfile.TemporaryDirectory(prefix="limen-tables-")
        self._exit.callback(folder.cleanup)
        for source in (*Path("/usr/lib").glob("*/tc/*.dist"), *Path("/usr/lib/tc").glob("*.dist")):
            (Path(folder.name) / source.name).write_bytes(source.read_bytes())
        for name, text in tables.items():
            (Path(folder.name) / name).write_text(text, encoding="ascii")
        shell = NamespaceShell(middle, Path(folder.name))
        self._shell = shell
        for port, end in (("porta", self.near), ("portb", self.far)):
            peer = f"type veth peer name {DEVICE} netns {end.path}"
            shell.run(f"ip link add {port} {peer}")
            silence(shell, port)
            shell.run(f"ip link set {port} mtu {MTU} up")
            with end.entered():
                _no_offload()
        self._address()
        return connect_ports(shell, "porta", "portb")

    def shape(self, profile: LinkProfile, *, seed: int = 1) -> None:
        """See NamespaceLink. A kernel's chance takes no seed."""
        del seed
        self._halt()
        specs = {"down": profile.down, "up": profile.up}
        for name, direction in self._directions:
            direction.clear()
            direction.apply(specs[name])
        self._specs = specs

    def start(self, at: float | None = None) -> None:
        """See NamespaceLink."""
        specs = self._specs
        begin = time.monotonic() if at is None else at
        steps = sorted(
            {at for spec in specs.values() for at, _ in spec.rate_steps(until=3600.0) if at > 0.0}
        )
        if steps and self._stepper is None:
            self._stop.clear()
            self._stepper = threading.Thread(
                target=self._step, args=(steps, specs, begin), name="rate-steps", daemon=True
            )
            self._stepper.start()

    def _step(self, steps: list[float], specs: dict[str, LinkSpec], begin: float) -> None:
        for at in steps:
            if self._stop.wait(max(0.0, begin + at - time.monotonic())):
                return
            lines = [
                line
                for name, direction in self._directions
                for line in direction.changes(specs[name], at)
            ]
            try:
                batch(self._shell, "tc", lines)
            except LabError:
                self._missed_steps += 1

    def finish(self) -> dict[str, Any]:
        """See NamespaceLink: tc's own counters, as text."""
        self._halt()
        said: dict[str, Any] = {name: d.statistics() for name, d in self._directions}
        return {"tc": said, "missed_rate_steps": self._missed_steps}

    def close(self) -> None:
        """See NamespaceLink."""
        self._halt()
        super().close()

    def _halt(self) -> None:
        self._stop.set()
        if self._stepper is not None:
            self._stepper.join()
            self._stepper = None


class TunLink(NamespaceLink):
    """The link model between two TUN devices."""

    backend: Backend = "tun"

    def __init__(self) -> None:
        super().__init__()
        self._process: subprocess.Popen[str] | None = None
        self._started = False
        self._folder = tempfile.TemporaryDirectory(prefix="limen-tun-")
        self._exit.callback(self._folder.cleanup)
        try:
            descriptors = []
            for end in (self.near, self.far):
                with end.entered():
                    descriptors.append(open_tun(DEVICE))
                self._exit.callback(os.close, descriptors[-1])
            self._descriptors = tuple(descriptors)
            self._address()
            self._drive([])
        except (OSError, LabError) as error:
            self.close()
            raise LabError(f"a TUN link cannot be made: {error}") from error

    def shape(self, profile: LinkProfile, *, seed: int = 1) -> None:
        """See NamespaceLink."""
        self._halt()
        path = Path(self._folder.name) / "profile.pickle"
        path.write_bytes(pickle.dumps(profile))
        self._drive(["--pickled", str(path), "--seed", str(seed)])

    def start(self, at: float | None = None) -> None:
        """See NamespaceLink."""
        if self._process is None or self._process.stdin is None or self._started:
            return
        self._started = True
        with contextlib.suppress(OSError):  # a driver that is gone is told by its statistics
            self._process.stdin.write(start_order(time.monotonic() if at is None else at))
            self._process.stdin.flush()

    def finish(self) -> dict[str, Any]:
        """See NamespaceLink: the model's statistics, laid out as the proxy's."""
        return self._halt()

    def close(self) -> None:
        """See NamespaceLink."""
        self._halt()
        super().close()

    def _drive(self, options: list[str]) -> None:
        near, far = map(str, self._descriptors)
        self._stats = Path(self._folder.name) / "stats.json"
        command = [sys.executable, "-m", "limen.bench.link.lab.tun", "--near", near, "--far", far]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            dying_with_parent([*command, *options, "--stats", str(self._stats)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=self._descriptors,
        )
        self._started = False
        timer = threading.Timer(DRIVER_TIMEOUT, self._process.kill)
        timer.start()
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        ready = self._process.stdout.readline()
        timer.cancel()
        if not ready:
            raise LabError("the TUN driver did not start; its words stand above")

    def _halt(self) -> dict[str, Any]:
        process, self._process = self._process, None
        if process is None:
            return {}
        try:
            process.communicate(timeout=5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        try:
            return dict(json.loads(self._stats.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}


def _no_offload() -> None:
    """netem treats a batch of segmentation offload as one packet: switch it off."""
    with contextlib.suppress(LabError):
        words = "tx off sg off tso off gso off gro off"
        run_tool(["ethtool", "-K", DEVICE, *words.split()])


def open_link(profiles: LinkProfile | list[LinkProfile], *, backend: str = "auto") -> NamespaceLink:
    """A bare link ready for any of these profiles. Raises LabError when there can be none."""
    many = profiles if isinstance(profiles, list) else [profiles]
    chosen = choose_backend(many[0], backend)
    if chosen == "tun":
        return TunLink()
    specs = [spec for profile in many for spec in (profile.down, profile.up)]
    return NetemLink(chosen, tables=table_files(*specs))
