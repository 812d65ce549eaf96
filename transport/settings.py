"""How a session behaves; one dataclass, each field with its unit, default and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..scheduler.checks import flag, instance, number, whole
from ..scheduler.errors import UsageError
from ..scheduler.settings import SchedulerSettings
from .congestion.choice import CONTROLLERS, CongestionSettings
from .congestion.delay import DelaySettings
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
        number("idle_timeout", self.idle_timeout, 0.5, 3600, "seconds")
        # QUIC's least to Ethernet's most (RFC 9000 section 14)
        whole("max_packet_size", self.max_packet_size, 1200, 1452, "bytes")
        flag("datagrams", self.datagrams)
        instance("congestion", self.congestion, CONTROLLERS, "DelaySettings or ScreamSettings")
        instance("scheduler", self.scheduler, SchedulerSettings, "SchedulerSettings")
        instance("limits", self.limits, Limits, "limen.Limits")
        if self.trace is not None and not callable(self.trace):
            raise UsageError(f"trace is a function of an event and its values, got {self.trace!r}")
