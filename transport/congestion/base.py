"""What a congestion controller is told, and what it decides.

A controller is sans-IO: it is told of packets sent, acknowledged and lost, and of arrival times
the receiver reports, and answers with three figures: a window (bytes that may be in flight), a
pacing rate and a target for the encoders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Arrival:
    """One packet as the receiver saw it."""

    packet_number: int
    received: float
    """Seconds on the receiver's monotonic clock."""


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """What a controller believes of the path; for stats and traces."""

    target_bps: float
    """Bits per second offered to encoders, packet overhead included."""
    pacing_bps: float
    window_bytes: int
    delivered_bps: float | None
    """Measured delivery rate; None before enough arrivals."""
    queue_delay: float
    """Seconds the newest packets spent queueing, above the base delay."""
    rtt: float | None
    """Smoothed round-trip time in seconds."""
    loss: float
    """Share of packets lost over the last second or so, in [0, 1]."""
    state: str
    base_rtt: float | None = None
    """The least round-trip time seen, in seconds: without queues."""


class Controller(Protocol):
    """The interface between a congestion controller and the QUIC adapter."""

    @property
    def window_bytes(self) -> int:
        """Bytes that may be in flight."""
        ...

    @property
    def pacing_bps(self) -> float:
        """Bits per second at which packets leave."""
        ...

    @property
    def target_bps(self) -> float:
        """Bits per second that media may produce, packet overhead included."""
        ...

    def on_sent(self, packet_number: int, size: int, *, in_flight: int, now: float) -> None:
        """A packet of `size` bytes left; `in_flight` includes it."""

    def on_acked(self, packet_number: int, size: int, *, now: float) -> None:
        """The peer acknowledged a packet."""

    def on_lost(self, packet_number: int, size: int, *, now: float) -> None:
        """A packet was declared lost."""

    def on_persistent_congestion(self) -> None:
        """Everything over a long period was lost (RFC 9002 section 7.6)."""

    def on_rtt(self, rtt: float, *, now: float) -> None:
        """A round-trip sample in seconds."""

    def on_arrivals(self, arrivals: Sequence[Arrival], *, now: float) -> None:
        """The receiver reported when packets came in."""

    def on_backlog(self, waiting: bool, *, now: float) -> None:
        """Whether the sender has more to send than it may (False: application-limited)."""

    def estimate(self) -> LinkEstimate:
        """What the controller believes now."""
        ...
