"""How a session behaves; one dataclass, each field with its unit, default and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..scheduler.scheduler import SchedulerSettings
from .congestion.choice import CongestionSettings
from .congestion.delay import DelaySettings
from .errors import UsageError
from .limits import Limits

Trace = Callable[[str, dict[str, Any]], None]
"""Called on the loop with an event's name and plain values; must return quickly."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of one session; both ends may differ."""

    idle_timeout: float = 10.0
    """Seconds without a packet after which the peer counts as gone (both ends: the smaller)."""
    max_packet_size: int = 1200
    """UDP payload bytes. 1200 passes every QUIC path; more needs a path known to carry it."""
    datagrams: bool = True
    """Accept DATAGRAMs. Without them the peer falls back to streams and sees no reports."""
    congestion: CongestionSettings = field(default_factory=DelaySettings)
    """The congestion controller's settings: where the rate starts, its bounds, queue target.
    `ScreamSettings` chooses SCReAMv2, which fills deeper queues; docs/decisions/005 compares."""
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    """Floors and queue bounds."""
    limits: Limits = field(default_factory=Limits)
    """What a peer may make this end hold or do."""
    trace: Trace | None = None
    """Receives every object's and every decision's events; see docs/trace.md."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.idle_timeout <= 3600:
            raise UsageError(f"idle_timeout is 0.5 to 3600 s, got {self.idle_timeout!r}")
        if not 1200 <= self.max_packet_size <= 1452:
            raise UsageError(
                f"max_packet_size is 1200 (QUIC's least) to 1452 (Ethernet's most), "
                f"got {self.max_packet_size!r}"
            )
