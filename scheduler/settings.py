"""How a scheduler behaves: floors, and bounds on what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import number, whole


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What can be set of a scheduler. Raises ValueError when a field is out of its range."""

    floor_share: float = 0.02
    """Share of the link, in [0, 0.5], below which no flow with a backlog falls. 0.02 of 1 Mbit/s is
    a small packet every 60 ms; more protects the unimportant at the price of the important."""
    max_tags: int = 1024
    """Tags held; 1,024 are some 300 kB. Beyond it, dead and then least valued ones are dropped."""
    max_queue_bytes: int = 4 << 20
    """Bytes queued per flow before objects overflow, unless `add_flow` says otherwise."""
    max_queue_objects: int = 1024
    """Objects queued per flow before objects overflow, unless `add_flow` says otherwise."""
    max_events: int = 65536
    """Events kept for a caller who does not drain them; the oldest are dropped beyond it."""

    def __post_init__(self) -> None:
        number("floor_share", self.floor_share, 0.0, 0.5)
        for name in ("max_tags", "max_queue_bytes", "max_queue_objects", "max_events"):
            whole(name, getattr(self, name), 1, 1 << 62)
