"""The virtual clock: a link model stepped through a sequence of sends, as fast as it computes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .model import LinkModel
from .spec import LinkSpec


@dataclass(frozen=True, slots=True)
class Delivery:
    """A packet at the far end: which one, when it was due, and what happened to it on the way."""

    index: int
    sent: float
    arrived: float
    marked: bool = False
    corrupted: bool = False


@dataclass(frozen=True, slots=True)
class _Packet:
    index: int
    sent: float
    marked: bool = False
    corrupted: bool = False


def play(
    spec: LinkSpec, sends: Iterable[tuple[float, int]], *, seed: int = 1, ect: bool = False
) -> list[Delivery]:
    """Send (time, payload bytes) in order of time; the deliveries in order of arrival.

    The same spec, sends and seed give the same deliveries, bit for bit, on every system.
    """
    link = LinkModel[_Packet](
        spec,
        seed,
        mark=lambda packet: _Packet(packet.index, packet.sent, True, packet.corrupted),
        damage=lambda packet, _: _Packet(packet.index, packet.sent, packet.marked, True),
    )
    out: list[Delivery] = []

    def drain(until: float) -> None:
        while (event := link.next_event()) is not None and event <= until:
            out.extend(
                Delivery(packet.index, packet.sent, event, packet.marked, packet.corrupted)
                for packet in link.pop(now=event)
            )

    for index, (time, size) in enumerate(sends):
        drain(time)
        link.push(_Packet(index, time), now=time, size=size, ect=ect)
    drain(math.inf)
    return out
