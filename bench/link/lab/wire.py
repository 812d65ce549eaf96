"""A wire of three queueing stages each way, made of veth pairs and redirects, told by shell lines.

    port a ─> ab0 ══ ab0p ─> ab1 ══ ab1p ─> port b        (and ba0, ba1 the other way)
              shape          wire           path           (the qdisc on each: see tc.py)

The same lines make it inside user-mode-linux and inside a namespace of a kernel that has netem;
a `Shell` runs them there. Every frame that comes in on one port leaves on the other.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Protocol

from ..spec import LinkSpec
from .initrd import KERNEL, build_initrd, missing_parts
from .namespace import LabError, Namespace, dying_with_parent, run_tool
from .tc import Qdiscs, qdiscs

BOOT_TIMEOUT = 20.0
LINE_TIMEOUT = 10.0
REAL_TIME_PRIORITY = "20"
MTU = 1500
LONGEST_LINE = 2500
"""Characters; a terminal takes lines of 4,096."""


class Shell(Protocol):
    """Runs a shell line where the wire is."""

    def run(self, line: str) -> str:
        """Its output. Raises LabError with its words when it fails."""
        ...


class Direction:
    """The qdiscs of one direction of a wire: set for a spec, changed as its rate steps."""

    def __init__(self, shell: Shell, name: str, port: str) -> None:
        """`name`: "ab" or "ba"; `port`: the device frames of this direction leave on."""
        self._shell = shell
        self._devices = (f"{name}0", f"{name}1", port)
        self._now: Qdiscs | None = None

    def apply(self, spec: LinkSpec) -> None:
        """Set the qdiscs of a spec, as at the beginning, on a cleared direction."""
        self._now = qdiscs(spec)
        stages = (self._now.shape, self._now.wire, self._now.path)
        lines = [
            f"qdisc add dev {device} root handle 1: {qdisc}"
            for device, qdisc in zip(self._devices, stages, strict=True)
            if qdisc
        ]
        if self._now.shape_child:
            child = self._now.shape_child
            lines.append(f"qdisc add dev {self._devices[0]} parent 1:1 handle 10: {child}")
        batch(self._shell, "tc", lines)

    def changes(self, spec: LinkSpec, time: float) -> list[str]:
        """The lines of `tc -batch` that set the rate of a link time; queues stay.

        To be run by the caller, together with the other direction's: a step should come at once.
        """
        wanted = qdiscs(spec, time)
        before, self._now = self._now, wanted
        if before is None:
            return []
        pairs = (
            (self._devices[0], before.shape, wanted.shape),
            (self._devices[1], before.wire, wanted.wire),
        )
        return [
            f"qdisc change dev {device} root handle 1: {new}"
            for device, old, new in pairs
            if old != new
        ]

    def clear(self) -> None:
        """Take every qdisc off: a bare wire."""
        lines = [f"tc qdisc del dev {device} root 2>/dev/null" for device in self._devices]
        self._shell.run("; ".join([*lines, "true"]))
        self._now = None

    def statistics(self) -> str:
        """What tc counts, as it prints it."""
        return "".join(self._shell.run(f"tc -s qdisc show dev {d}") for d in self._devices)


def batch(shell: Shell, tool: str, lines: list[str]) -> None:
    """Run many commands of `ip` or `tc` in one process: starting one is what takes the time."""
    while lines:
        size, count = 0, 0
        while count < len(lines) and size + len(lines[count]) < LONGEST_LINE:
            size += len(lines[count]) + 3
            count += 1
        words = " ".join(f"'{line}'" for line in lines[:count])
        shell.run(f"printf '%s\\n' {words} | {tool} -batch -")
        lines = lines[count:]


def connect_ports(shell: Shell, port_a: str, port_b: str) -> tuple[Direction, Direction]:
    """Build the stages between two ports that are up; the directions a to b and b to a."""
    devices = [f"{name}{stage}" for name in ("ab", "ba") for stage in "01"]
    ends = [end for device in devices for end in (device, f"{device}p")]
    batch(shell, "ip", [f"link add {device} type veth peer name {device}p" for device in devices])
    silence(shell, *ends, port_a, port_b)
    setup = f"mtu {MTU} arp off txqueuelen 1000 up promisc on"
    lines = [f"link set {end} {setup}" for end in ends]
    batch(shell, "ip", [*lines, *(f"link set {port} promisc on" for port in (port_a, port_b))])
    lines = []
    for name, source, sink in (("ab", port_a, port_b), ("ba", port_b, port_a)):
        hops = ((source, f"{name}0"), (f"{name}0p", f"{name}1"), (f"{name}1p", sink))
        for entry, out in hops:
            lines.append(f"qdisc add dev {entry} ingress")
            lines.append(
                f"filter add dev {entry} parent ffff: matchall "
                f"action mirred egress redirect dev {out}"
            )
    batch(shell, "tc", lines)
    return Direction(shell, "ab", port_b), Direction(shell, "ba", port_a)


def silence(shell: Shell, *devices: str) -> None:
    """Let devices say nothing of their own: no IPv6 address, no solicitations."""
    names = " ".join(devices)
    shell.run(
        f"[ ! -d /proc/sys/net/ipv6 ] || for d in {names}; do ip link set $d addrgenmode none; done"
    )


class NamespaceShell:
    """Runs lines in a namespace of this kernel."""

    def __init__(self, namespace: Namespace, tables: Path | None = None) -> None:
        self._namespace = namespace
        self._env = None if tables is None else {"TC_LIB_DIR": str(tables)}

    def run(self, line: str) -> str:
        """See Shell."""
        return run_tool([*self._namespace.prefix, "sh", "-c", line], env=self._env)


class UserModeLinux:
    """A user-mode-linux whose console takes shell lines; its two taps open in a namespace."""

    PORTS = ("vec0", "vec1")

    def __init__(self, namespace: Namespace, taps: tuple[str, str], tables: dict[str, str]) -> None:
        """Boot it. Raises LabError when it is not installed or does not come up."""
        missing = missing_parts()
        if missing:
            raise LabError(f"missing: {' '.join(missing)} (Debian: apt install them)")
        self._folder = tempfile.TemporaryDirectory(prefix="limen-wire-")
        image = Path(self._folder.name) / "initrd"
        build_initrd(image, tables)
        command = [str(KERNEL), "mem=64M", f"initrd={image}", "con0=fd:0,fd:1", "con=null"]
        command += ["umid=wire", f"uml_dir={self._folder.name}", "quiet"]
        command += [
            f"{port}:transport=tap,ifname={tap},mtu={MTU}"
            for port, tap in zip(self.PORTS, taps, strict=True)
        ]
        with namespace.entered():
            self._process = subprocess.Popen(  # noqa: S603 - a system program
                dying_with_parent(command, by="TERM"),  # it ends its helpers itself
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        self._output = b""
        self._count = 0
        try:
            self._wait_for(b"\nlimen-wire-ready", BOOT_TIMEOUT)
            self._hurry()
        except BaseException:
            self.close()
            raise

    def run(self, line: str) -> str:
        """See Shell."""
        self._count += 1
        mark = f"limen-line-{self._count}"
        begin = len(self._output)
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        try:
            self._process.stdin.write(f"{line}; code=$?; echo; echo {mark}-$code\n".encode())
            self._process.stdin.flush()
        except OSError as error:
            raise LabError(f"user-mode-linux is gone: {error}") from error
        sought = f"\n{mark}-".encode()
        at = self._wait_for(sought, LINE_TIMEOUT, begin=begin)
        text = self._output[begin:at].replace(b"\r", b"").decode(errors="replace")
        if mark in text:  # the terminal's echo of what was said
            text = text.partition(f"{mark}-$code\n")[2]
        text = text.strip()
        code = self._output[at + len(sought) :].split(b"\n")[0].strip()
        if code != b"0":
            raise LabError(f"{line}: {text or code.decode(errors='replace')}")
        return text

    def close(self) -> None:
        """End it and its helper processes; it holds nothing worth keeping."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()

    def _wait_for(self, word: bytes, timeout: float, *, begin: int = 0) -> int:
        """Read on until `word` and the rest of its line have come; where the word stands."""
        until = time.monotonic() + timeout
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        descriptor = self._process.stdout.fileno()
        while True:
            at = self._output.replace(b"\r", b" ").find(word, begin)
            if at >= 0 and self._output.find(b"\n", at + len(word)) >= 0:
                return at
            left = until - time.monotonic()
            ready, _, _ = select.select([descriptor], (), (), max(0.0, left))
            data = os.read(descriptor, 65536) if ready else b""
            if not data:
                tail = self._output[-800:].decode(errors="replace").strip()
                raise LabError(f"user-mode-linux does not answer; it last said: {tail}")
            self._output += data

    def _hurry(self) -> None:
        """Real-time priority for it and its helpers: delays stay right on a busy machine."""
        if shutil.which("chrt") is None:
            return
        children = run_tool(["ps", "-o", "pid=", "--ppid", str(self._process.pid)]).split()
        for pid in (str(self._process.pid), *children):
            with contextlib.suppress(LabError):
                run_tool(["chrt", "-f", "-p", REAL_TIME_PRIORITY, pid])
