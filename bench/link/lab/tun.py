"""The TUN driver: two TUN devices in two namespaces, and the link model between them.

Any unmodified program runs over it, with ECN and IPv6. The driver is a process of its own that is
handed both descriptors; it is told on its standard input when link time begins, ends when that
closes, and then writes what the link saw.
A packet's size for the link is that of its IP packet; the profile's overhead counts from the UDP
payload, so the 28 bytes that IPv4 and UDP headers take are taken off first.

`links.TunLink` starts it: `python -m limen.bench.link.lab.tun --near FD --far FD --stats FILE …`
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pickle
import select
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

from ..model import LinkModel
from ..orders import Orders
from ..packets import carries_ecn, mark_congestion
from ..profile import LinkProfile
from ..proxy import sharpen_timers
from ..spec import UDP_IPV4_OVERHEAD, LinkSpec

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
BATCH = 64


def open_tun(name: str) -> int:
    """A new TUN device in this thread's namespace; it ends when its descriptor closes."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        request = struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(descriptor, TUNSETIFF, request)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class TunDriver:
    """Two link models between two TUN descriptors; `near` is the media's sender."""

    def __init__(self, profile: LinkProfile, *, near: int, far: int, seed: int, stdin: int) -> None:
        """`stdin`: the descriptor that orders come from."""
        self.profile = profile
        self.seed = seed
        self._down = LinkModel[bytes](profile.down, 2 * seed, mark=mark_congestion, held=True)
        self._up = LinkModel[bytes](profile.up, 2 * seed + 1, mark=mark_congestion, held=True)
        self._routes = {near: (self._down, far), far: (self._up, near)}
        self._stdin = stdin
        self._orders = Orders(stdin)
        self._write_failures = 0
        self._worst_lateness = 0.0
        self._running = True

    def stop(self) -> None:
        """Make `serve` return at its next round."""
        self._running = False

    def serve(self) -> None:
        """Forward packets until the end."""
        descriptors = [*self._routes, self._stdin]
        links = (self._down, self._up)
        while self._running:
            due = [event for link in links if (event := link.next_event()) is not None]
            if (begin := self._orders.start) is not None:
                if begin <= time.monotonic():
                    self._orders.start = None
                    for link in links:
                        link.release(now=begin)
                    continue
                due.append(begin)
            wait = max(0.0, min(due) - time.monotonic()) if due else 1.0
            ready, _, _ = select.select(descriptors, (), (), wait)
            for descriptor in ready:
                if descriptor != self._stdin:
                    self._read(descriptor)
                    continue
                self._orders.read()
                if self._orders.over:
                    return
            for link, out in self._routes.values():
                self._deliver(link, out, time.monotonic())

    def _read(self, descriptor: int) -> None:
        link, _ = self._routes[descriptor]
        for _ in range(BATCH):
            try:
                packet = os.read(descriptor, 65535)
            except OSError:
                return
            now = time.monotonic()
            for other, _ in self._routes.values():
                other.start(now=now)
            size = max(0, len(packet) - UDP_IPV4_OVERHEAD)
            link.push(packet, now=now, size=size, ect=carries_ecn(packet))

    def _deliver(self, link: LinkModel[bytes], out: int, now: float) -> None:
        event = link.next_event()
        if event is None or event > now:
            return
        self._worst_lateness = max(self._worst_lateness, now - event)
        for packet in link.pop(now=now):
            try:
                os.write(out, packet)
            except OSError:  # the far end is down, or a bit error made it no IP packet at all
                self._write_failures += 1

    def stats(self) -> dict[str, Any]:
        """What the link saw, laid out as the UDP proxy's."""
        now = time.monotonic()
        return {
            "profile": self.profile.to_dict(),
            "seed": self.seed,
            "clock": "time.monotonic of the host",
            "started": self._down.started,
            "ended": now,
            "send_failures": self._write_failures,
            "forwarding_lateness_max_ms": round(self._worst_lateness * 1e3, 3),
            "down": self._down.stats(now=now),
            "up": self._up.stats(now=now),
        }


def main(arguments: list[str] | None = None) -> int:
    """Run the driver; the exit status is 0 after an orderly end."""
    parser = argparse.ArgumentParser(description="Drive a link between two TUN descriptors.")
    parser.add_argument("--near", required=True, type=int)
    parser.add_argument("--far", required=True, type=int)
    parser.add_argument("--pickled", type=Path, help="a LinkProfile from the parent process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stats", type=Path, required=True)
    options = parser.parse_args(arguments)
    profile = LinkProfile("bare", "a bare wire", LinkSpec(), LinkSpec())
    if options.pickled is not None:  # written by our parent, in a folder of its own
        profile = pickle.loads(options.pickled.read_bytes())  # noqa: S301
    stdin = sys.stdin.fileno()
    driver = TunDriver(profile, near=options.near, far=options.far, seed=options.seed, stdin=stdin)
    signal.signal(signal.SIGTERM, lambda *_: driver.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent ends the run
    print(json.dumps({"ready": True}), flush=True)  # noqa: T201 - a program's own output
    sharpen_timers()
    with contextlib.suppress(KeyboardInterrupt):
        driver.serve()
    options.stats.write_text(json.dumps(driver.stats()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
