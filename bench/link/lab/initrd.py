"""A tiny Linux system in memory for user-mode-linux: busybox, tc, ip and the modules of a link.

The archive is the kernel's "newc" cpio format, written here so that no further tool is needed.
"""

from __future__ import annotations

import glob
import re
import shutil
import stat
from pathlib import Path

from .namespace import LabError, run_tool

BUSYBOX = Path("/bin/busybox")
KERNEL = Path("/usr/bin/linux.uml")
APPLETS = ("sh", "mount", "insmod", "cat", "echo", "poweroff")
MODULES = (
    "drivers/net/veth",
    "net/sched/sch_ingress",
    "net/sched/cls_matchall",
    "net/sched/act_mirred",
    "net/sched/sch_netem",
    "net/sched/sch_tbf",
    "net/sched/sch_codel",
)
INIT = """#!/bin/sh
export PATH=/sbin:/bin TC_LIB_DIR=/tables
mount -t proc proc /proc
mount -t sysfs sysfs /sys
for module in /modules/*.ko; do insmod $module; done
tc() { /sbin/tc "$@"; }
ip() { /sbin/ip "$@"; }
echo
echo limen-wire-ready
while read -r line; do eval "$line"; done 2>&1
poweroff -f
"""
"""The functions stand before busybox's applets of the same names."""


def missing_parts() -> list[str]:
    """What is not installed of what the image is made of."""
    missing = []
    if not KERNEL.exists():
        missing.append("user-mode-linux")
    if not BUSYBOX.exists():
        missing.append("busybox-static")
    if shutil.which("tc") is None or shutil.which("ip") is None:
        missing.append("iproute2")
    return missing


def build_initrd(path: Path, tables: dict[str, str]) -> None:
    """Write the archive; `tables` are further files for tc's distributions. Raises LabError."""
    archive = _Archive()
    for folder in ("bin", "sbin", "proc", "sys", "dev", "modules", "tables"):
        archive.folder(folder)
    archive.file("bin/busybox", BUSYBOX.read_bytes(), executable=True)
    for applet in APPLETS:
        archive.link(f"bin/{applet}", "busybox")
    for tool in ("tc", "ip"):
        source = shutil.which(tool)
        if source is None:
            raise LabError(f"missing: {tool} (Debian: apt install iproute2)")
        archive.file(f"sbin/{tool}", Path(source).read_bytes(), executable=True)
        for library in re.findall(r"/\S+", run_tool(["ldd", source])):
            archive.file(library.lstrip("/"), Path(library).read_bytes(), executable=True)
    for number, module in enumerate(MODULES):
        found = sorted(glob.glob(f"/usr/lib/uml/modules/*/kernel/{module}.ko"))  # noqa: PTH207
        if not found:
            raise LabError(f"this user-mode-linux has no module {module}")
        name = f"modules/{number:02}-{Path(module).name}.ko"
        archive.file(name, Path(found[-1]).read_bytes())
    for table in sorted(glob.glob("/usr/lib/*/tc/*.dist") + glob.glob("/usr/lib/tc/*.dist")):  # noqa: PTH207
        archive.file(f"tables/{Path(table).name}", Path(table).read_bytes())
    for name, text in tables.items():
        archive.file(f"tables/{name}", text.encode())
    archive.file("init", INIT.encode(), executable=True)
    path.write_bytes(archive.finish())


class _Archive:
    """Collects entries; parents are added before what lies in them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._names: set[str] = set()

    def folder(self, name: str) -> None:
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, content: bytes, *, executable: bool = False) -> None:
        for parent in reversed(Path(name).parents):
            if str(parent) != ".":
                self.folder(str(parent))
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def link(self, name: str, target: str) -> None:
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def finish(self) -> bytes:
        self._add("TRAILER!!!", 0, b"")
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, content: bytes) -> None:
        if name in self._names:
            return
        self._names.add(name)
        encoded = name.encode() + b"\0"
        fields = (len(self._names), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self._parts += [_padded(header), _padded(content)]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
