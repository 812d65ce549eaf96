"""One-way delays between two namespaces, packet by packet, and the calibration of a bare link.

Both ends are on one machine, so one clock stamps both: the sender's just before it sends, the
kernel's when a packet arrives (SO_TIMESTAMPNS), which no busy receiver delays. Everything is read
after the last packet was sent; until then it waits in a large socket buffer.
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .links import FAR, NEAR, NamespaceLink
from .namespace import LabError, Namespace

PORT = 7700
STAMP = struct.Struct("<Iq")
BUFFER_BYTES = 128 << 20
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
QUIET_SECONDS = 0.3
"""Nothing more for this long: all that will come has come."""
CALIBRATION_PACKETS = 1000
CALIBRATION_SPACING = 0.0005


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet as it was sent: seconds since the first, bytes of UDP payload."""

    time: float
    size: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """An arrival: which packet (its place in the order sent), its one-way delay, its ECN bits."""

    index: int
    delay: float
    ecn: int


@dataclass(frozen=True, slots=True)
class Passage:
    """What was sent one way, and what arrived, in order of arrival."""

    sent: list[Sent]
    arrived: list[Arrived]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a bare link adds by itself, in ms."""

    base_delay_ms: float
    """Median one-way delay."""
    p99_ms: float
    lost: int
    """Of 1,000; a bare link loses nothing."""

    def to_dict(self) -> dict[str, float]:
        """As JSON-safe values."""
        return {
            "base_delay_ms": self.base_delay_ms,
            "base_p99_ms": self.p99_ms,
            "lost": self.lost,
        }


def calibrate(link: NamespaceLink) -> Calibration:
    """Send 1,000 packets over a bare link, half a second. Raises LabError when none comes."""
    plan = [(index * CALIBRATION_SPACING, 200) for index in range(CALIBRATION_PACKETS)]
    [passage] = measure(link, [plan], longest_delay=0.1)
    if not passage.arrived:
        raise LabError("the link carries nothing at all")
    delays = sorted(arrival.delay for arrival in passage.arrived)
    return Calibration(
        base_delay_ms=round(statistics.median(delays) * 1e3, 3),
        p99_ms=round(delays[int(len(delays) * 0.99)] * 1e3, 3),
        lost=len(plan) - len(delays),
    )


def measure(
    link: NamespaceLink,
    plans: Sequence[Sequence[tuple[float, int]]],
    *,
    ecn: bool = False,
    longest_delay: float = 1.0,
) -> list[Passage]:
    """Send (time, payload bytes) plans, the first from near to far, a second one back, together.

    `longest_delay`: seconds to wait at least for the last ones. Sizes are at least 12 bytes.
    """
    ends: list[tuple[Namespace, str, Namespace, str]] = [
        (link.near, NEAR, link.far, FAR),
        (link.far, FAR, link.near, NEAR),
    ]
    pairs = [
        (_sender(source, ecn=ecn), _receiver(sink), (address, PORT))
        for source, _, sink, address in ends[: len(plans)]
    ]
    try:
        link.start()
        sends = _send_all(pairs, plans)
        time.sleep(longest_delay)
        return [
            Passage([sent for sent, _ in done], _collect(receiver, done))
            for (_, receiver, _), done in zip(pairs, sends, strict=True)
        ]
    finally:
        for sender, receiver, _ in pairs:
            sender.close()
            receiver.close()


def _sender(namespace: Namespace, *, ecn: bool) -> socket.socket:
    with namespace.entered():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    if ecn:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0b10)
    return sock


def _receiver(namespace: Namespace) -> socket.socket:
    with namespace.entered():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    sock.bind(("", PORT))
    sock.settimeout(QUIET_SECONDS)
    return sock


Pair = tuple[socket.socket, socket.socket, tuple[str, int]]


def _send_all(
    pairs: list[Pair], plans: Sequence[Sequence[tuple[float, int]]]
) -> list[list[tuple[Sent, int]]]:
    """Send all plans by one clock; per plan what was sent and when (wall clock, ns)."""
    merged = sorted(
        (at, direction, size) for direction, plan in enumerate(plans) for at, size in plan
    )
    done: list[list[tuple[Sent, int]]] = [[] for _ in plans]
    first: int | None = None
    begin = time.monotonic() + 0.01
    for at, direction, size in merged:
        wait = begin + at - time.monotonic()
        if wait > 0.0:
            time.sleep(wait)
        sender, _, target = pairs[direction]
        stamp = time.time_ns()
        first = stamp if first is None else first
        sender.sendto(STAMP.pack(len(done[direction]), stamp).ljust(size, b"\0"), target)
        done[direction].append((Sent((stamp - first) / 1e9, size), stamp))
    return done


def _collect(receiver: socket.socket, sent: list[tuple[Sent, int]]) -> list[Arrived]:
    arrived: list[Arrived] = []
    while True:
        try:
            packet, extra, _, _ = receiver.recvmsg(2048, 128)
        except TimeoutError:
            return arrived
        stamp, ecn = 0, 0
        for level, kind, data in extra:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanos = struct.unpack("@qq", data)
                stamp = seconds * 1_000_000_000 + nanos
            elif (level, kind) == (socket.IPPROTO_IP, socket.IP_TOS):
                ecn = data[0] & 0b11
        index, _ = STAMP.unpack_from(packet)
        # A bit error may hit the number itself; the packet it came from is then unknown.
        if index < len(sent):
            arrived.append(Arrived(index, (stamp - sent[index][1]) / 1e9, ecn))
