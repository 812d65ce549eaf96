"""Arrival reports: when each packet came in, told to its sender in DATAGRAMs.

aioquic's acknowledgements carry no receive times, so the receiver collects (packet number,
arrival time) and reports every `INTERVAL`. The encoding is compact because it costs reverse
bandwidth: a varint-free header and four bytes a packet.

Layout, network byte order: type (1), first packet number (4, modulo 2^32), first arrival in
microseconds (8), then for each further packet its number's distance to the one before (2) and
its arrival's distance in 10 µs steps (2). The same idea as the per-packet reports of RFC 8888.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .base import Arrival

REPORT = 0x02
INTERVAL = 0.01
"""Seconds between reports: a fade is seen within a round trip and this."""
LONE_INTERVAL = 0.02
"""The same while only one packet waits. On a slow link reports, and the acknowledgements they
draw, would otherwise take a seventh of the other direction (56 of 400 kbit/s, measured)."""
MAX_ARRIVALS = 240
"""Packets in one report at most: 973 bytes, below any DATAGRAM limit limen uses."""
STEP = 1e-5
_HEAD = struct.Struct("!BIQ")
_NEXT = struct.Struct("!HH")


class ArrivalRecorder:
    """The receiving end: collects arrivals and says when a report is due."""

    def __init__(self) -> None:
        self._pending: list[Arrival] = []

    def add(self, packet_number: int, *, now: float) -> None:
        """A packet with a new largest number arrived."""
        self._pending.append(Arrival(packet_number, now))

    def due_at(self) -> float | None:
        """When the next report should leave; None while there is nothing to report."""
        if not self._pending:
            return None
        lone = len(self._pending) == 1
        return self._pending[0].received + (LONE_INTERVAL if lone else INTERVAL)

    def take(self) -> list[bytes]:
        """The reports for everything collected, one DATAGRAM payload each."""
        reports = []
        while self._pending:
            batch = self._pending[:MAX_ARRIVALS]
            payload, used = _encode(batch)
            reports.append(payload)
            del self._pending[:used]
        return reports


def _encode(arrivals: Sequence[Arrival]) -> tuple[bytes, int]:
    first = arrivals[0]
    out = bytearray(
        _HEAD.pack(REPORT, first.packet_number & 0xFFFFFFFF, round(first.received * 1e6))
    )
    previous = first
    time = first.received
    used = 1
    for arrival in arrivals[1:]:
        gap = arrival.packet_number - previous.packet_number
        steps = round((arrival.received - time) / STEP)
        if not (0 < gap <= 0xFFFF and 0 <= steps <= 0xFFFF):
            break
        out += _NEXT.pack(gap, steps)
        time += steps * STEP
        previous = arrival
        used += 1
    return bytes(out), used


def decode_report(payload: bytes, *, newest_sent: int) -> list[Arrival]:
    """Arrivals in a report; `newest_sent` restores the upper bits of packet numbers.

    Raises ValueError on a report that is malformed or speaks of packets never sent.
    """
    if len(payload) < _HEAD.size or (len(payload) - _HEAD.size) % _NEXT.size:
        raise ValueError(f"an arrival report of {len(payload)} bytes has no valid length")
    _, low, micros = _HEAD.unpack_from(payload)
    number = (newest_sent & ~0xFFFFFFFF) | low
    if number > newest_sent:
        number -= 1 << 32
    time = micros / 1e6
    arrivals = [Arrival(number, time)]
    for gap, steps in _NEXT.iter_unpack(payload[_HEAD.size :]):
        number += gap
        time += steps * STEP
        arrivals.append(Arrival(number, time))
    if number > newest_sent or arrivals[0].packet_number < 0:
        raise ValueError("an arrival report speaks of packets that were never sent")
    return arrivals
