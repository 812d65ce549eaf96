"""The tap: what passes the devices at both ends of a link, seen from outside of all programs.

A process with a packet socket at each end. The kernel stamps every packet as it leaves and as it
arrives, so nothing depends on when this process gets to read them; it sleeps most of the time and
takes what has gathered. It is handed the sockets, told on its standard input when link time
begins, and writes what it saw when that closes.

`tap_launch.TapProcess` starts it: `python -m limen.bench.link.lab.tap --near FD --far FD …`
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import pickle
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..orders import Orders
from ..packets import ECN_MASK
from ..profile import LinkProfile
from .passages import Passages

HEAD_BYTES = 128
"""Of each packet: its headers, and enough of what they carry to know it again."""
PAYLOAD_BYTES = 64
ROUND_SECONDS = 0.05
"""Between two looks at the sockets: at 10,000 packets/s 500 of them wait, 1 % of the buffer."""
SO_TIMESTAMPNS = 35
SOL_PACKET, PACKET_STATISTICS, PACKET_OUTGOING = 263, 6, 4
ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
TIMESPEC = struct.Struct("@qq")


@dataclass(frozen=True, slots=True)
class Seen:
    """A packet at one end."""

    key: bytes
    outgoing: bool
    time: float
    """Monotonic, seconds."""
    size: int
    """Bytes, from the IP header on."""
    ecn: int


def packet_key(head: bytes) -> tuple[bytes, int, int] | None:
    """What tells an IP packet from others and no link changes; its size and its ECN bits.

    Left out are the fields that may change on the way: congestion marks, hops left, checksums.
    """
    version = head[0] >> 4 if head else 0
    if version == 4 and len(head) >= 20:
        body = (head[0] & 0x0F) * 4
        key = head[2:8] + head[9:10] + head[12:20] + head[body : body + PAYLOAD_BYTES]
        return key, int.from_bytes(head[2:4], "big"), head[1] & ECN_MASK
    if version == 6 and len(head) >= 40:
        key = head[4:7] + head[8:40] + head[40 : 40 + PAYLOAD_BYTES]
        return key, 40 + int.from_bytes(head[4:6], "big"), head[1] >> 4 & ECN_MASK
    return None


class Tap:
    """Both directions' accounts, from a packet socket at each end."""

    def __init__(
        self, profile: LinkProfile, near: socket.socket, far: socket.socket, *, base_delay: float
    ) -> None:
        self._profile = profile
        self._down = Passages(profile.down, base_delay=base_delay)
        self._up = Passages(profile.up, base_delay=base_delay)
        # What leaves an end is sent in one direction, what comes to it arrives in the other.
        self._ends = ((near, self._down, self._up), (far, self._up, self._down))
        self._arrivals: list[tuple[Passages, Seen]] = []
        self._started: float | None = None
        self._missed = 0

    def start(self, at: float) -> None:
        """Link time 0 is `at`, monotonic."""
        self._started = at
        self._down.start(at)
        self._up.start(at)

    def take(self) -> None:
        """Read what has gathered.

        Arrivals wait for the next round: by then whatever they were when they left has been read.
        """
        before, self._arrivals = self._arrivals, []
        for sock, leaving, coming in self._ends:
            for seen in _drain(sock):
                if seen.outgoing:
                    leaving.sent(seen.key, time=seen.time, size=seen.size, ecn=seen.ecn)
                else:
                    self._arrivals.append((coming, seen))
        for direction, seen in before:
            direction.arrived(seen.key, time=seen.time, ecn=seen.ecn)
        now = time.monotonic()
        self._down.settle(now)
        self._up.settle(now)

    def stats(self) -> dict[str, Any]:
        """Settle everything; laid out as the UDP proxy's statistics."""
        for _ in range(2):
            self.take()
        self._down.settle(math.inf)
        self._up.settle(math.inf)
        now = time.monotonic()
        for sock, _, _ in self._ends:
            said = sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
            self._missed += struct.unpack("II", said)[1]
        return {
            "profile": self._profile.to_dict(),
            "clock": "time.monotonic of the host",
            "started": self._started,
            "ended": now,
            "missed_by_tap": self._missed,
            "down": self._down.stats(now=now),
            "up": self._up.stats(now=now),
        }


def _drain(sock: socket.socket) -> list[Seen]:
    # The kernel's stamps are wall-clock time; the two clocks drift apart by microseconds only.
    offset = time.monotonic() - time.time()
    found: list[Seen] = []
    while True:
        try:
            head, extra, _, address = sock.recvmsg(HEAD_BYTES, 64)
        except BlockingIOError:
            return found
        if address[1] not in {ETH_P_IP, ETH_P_IPV6}:
            continue
        known = packet_key(head)
        stamp = next((data for _, kind, data in extra if kind == SO_TIMESTAMPNS), None)
        if known is None or stamp is None:
            continue
        seconds, nanos = TIMESPEC.unpack(stamp)
        at = seconds + offset + nanos / 1e9
        found.append(Seen(known[0], address[2] == PACKET_OUTGOING, at, known[1], known[2]))


def main(arguments: list[str] | None = None) -> int:
    """Run the tap; the exit status is 0 after an orderly end."""
    parser = argparse.ArgumentParser(description="Watch the packets at both ends of a link.")
    parser.add_argument("--near", required=True, type=int)
    parser.add_argument("--far", required=True, type=int)
    parser.add_argument("--pickled", required=True, type=Path, help="a LinkProfile of the parent")
    parser.add_argument("--base", required=True, type=float, help="the bare link's delay, s")
    parser.add_argument("--stats", required=True, type=Path)
    options = parser.parse_args(arguments)
    profile = pickle.loads(options.pickled.read_bytes())  # noqa: S301 - from our own parent
    near, far = socket.socket(fileno=options.near), socket.socket(fileno=options.far)
    orders = Orders(sys.stdin.fileno())
    tap = Tap(profile, near, far, base_delay=options.base)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent ends the run
    print(json.dumps({"ready": True}), flush=True)  # noqa: T201 - a program's own output
    gc.collect()
    gc.freeze()
    while not orders.over:
        ready, _, _ = select.select([sys.stdin], (), (), ROUND_SECONDS)
        if ready:
            orders.read()
            if orders.start is not None:
                tap.start(orders.start)
                orders.start = None
        tap.take()
    options.stats.write_text(json.dumps(tap.stats()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
