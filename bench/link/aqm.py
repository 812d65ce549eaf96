"""What a queue does to packets before it is full: CoDel (RFC 8289), or marking above a step.

Decisions are taken when a packet comes to the head of the queue, from how long it waited. CoDel's
square root is found as in Linux: one Newton step per drop and not the exact value, because the
difference shows in the spacing of drops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .spec import CoDelSpec, StepMarkingSpec

FULL_FRAME = 1514
"""Bytes: CoDel leaves a queue alone that holds no more than one of these behind the head."""
RESTART_INTERVALS = 16
"""A new dropping phase within so many intervals of the last begins at its rate (Linux's choice)."""

PacketT = TypeVar("PacketT")


@dataclass(slots=True)
class Waiting(Generic[PacketT]):
    """A packet in the queue."""

    packet: PacketT
    arrival: float
    size: int
    """Bytes on the wire."""
    ect: bool
    """It can carry a congestion mark."""
    fate: int
    """Its number among the packets offered."""
    flow: int = 0
    marked: bool = False


class StepMarking:
    """Marks what waited longer than the threshold; drops nothing."""

    def __init__(self, spec: StepMarkingSpec) -> None:
        self._threshold = spec.threshold

    def choose(
        self,
        pull: Callable[[], Waiting[PacketT] | None],
        backlog: Callable[[], int],
        drop: Callable[[Waiting[PacketT]], None],
        *,
        now: float,
    ) -> Waiting[PacketT] | None:
        """The packet to send next; see CoDel.choose."""
        del backlog, drop
        head = pull()
        if head is not None and head.ect and now - head.arrival > self._threshold:
            head.marked = True
        return head


class CoDel:
    """The control law of RFC 8289 as Linux runs it."""

    def __init__(self, spec: CoDelSpec) -> None:
        self._spec = spec
        self._first_above: float | None = None
        self._dropping = False
        self._drop_next = 0.0
        self._count = 0
        self._last_count = 0
        self._inverse_root = 1.0

    def choose(
        self,
        pull: Callable[[], Waiting[PacketT] | None],
        backlog: Callable[[], int],
        drop: Callable[[Waiting[PacketT]], None],
        *,
        now: float,
    ) -> Waiting[PacketT] | None:
        """The packet to send next, or None when the queue ran empty.

        `pull` takes the head off the queue, `backlog` says how many bytes are left behind it,
        `drop` is told what is dropped. Marks are set on the packet.
        """
        head = pull()
        above = self._above(head, backlog, now)
        if head is None:
            self._dropping = False
            return None
        if self._dropping:
            if not above:
                self._dropping = False
            while self._dropping and now >= self._drop_next:
                self._count += 1
                self._newton()
                if self._mark(head):
                    self._drop_next += self._spacing()
                    return head
                drop(head)
                head = pull()
                if self._above(head, backlog, now):
                    self._drop_next += self._spacing()
                else:
                    self._dropping = False
                if head is None:
                    return None
        elif above:
            if not self._mark(head):
                drop(head)
                head = pull()
                self._above(head, backlog, now)
            self._dropping = True
            recent = self._count - self._last_count
            if recent > 1 and now - self._drop_next < RESTART_INTERVALS * self._spec.interval:
                self._count = recent
                self._newton()
            else:
                self._count = 1
                self._inverse_root = 1.0
            self._last_count = self._count
            self._drop_next = now + self._spacing()
        return head

    def _above(self, head: Waiting[PacketT] | None, backlog: Callable[[], int], now: float) -> bool:
        """Whether waits have been above the target for an interval without a break."""
        if head is None or now - head.arrival < self._spec.target or backlog() <= FULL_FRAME:
            self._first_above = None
            return False
        if self._first_above is None:
            self._first_above = now + self._spec.interval
            return False
        return now > self._first_above

    def _mark(self, head: Waiting[PacketT]) -> bool:
        head.marked = head.marked or (self._spec.ecn and head.ect)
        return head.marked

    def _spacing(self) -> float:
        return self._spec.interval * self._inverse_root

    def _newton(self) -> None:
        root = self._inverse_root
        self._inverse_root = root * (3.0 - self._count * root * root) / 2.0


def make_aqm(spec: CoDelSpec | StepMarkingSpec | None) -> CoDel | StepMarking | None:
    """The queue management that a spec asks for."""
    if spec is None:
        return None
    return CoDel(spec) if isinstance(spec, CoDelSpec) else StepMarking(spec)
