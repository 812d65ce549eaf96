"""Every bound on what a peer may make this end hold or do, in one place.

A peer that breaks one of the first group (messages, tracks, names, headers, dependencies, object
size) ends its own session, with a reason that names the limit; nobody else's. The others do not
end it: a handshake beyond `sessions` is not answered, an object beyond what may be incomplete is
refused, and the oldest frame goes when an application does not read.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

from ..scheduler.checks import number, whole


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds per session unless they say otherwise; each is above 0, or UsageError is raised."""

    sessions: int = 256
    """Sessions one server holds at once; further handshakes are not answered."""
    control_message_bytes: int = 16_384
    """Longest control message."""
    control_messages_per_second: float = 2_000.0
    """Sustained rate of control messages (tags come at some hundred per second at most)."""
    tracks: int = 64
    """Tracks a peer may announce."""
    name_length: int = 64
    """Characters in a track's name."""
    header_bytes: int = 512
    """Longest object header."""
    dependencies: int = 16
    """Objects one object may depend on."""
    object_bytes: int = 4_000_000
    """Largest object."""
    incomplete_objects: int = 64
    """Objects under assembly at once; the oldest is refused beyond that."""
    incomplete_bytes: int = 8_000_000
    """Bytes held for objects under assembly; the oldest is refused beyond that."""
    incomplete_seconds: float = 10.0
    """How long an object under assembly may go without a new byte."""
    overdue_seconds: float = 1.0
    """How long past its deadline an object under assembly is still kept."""
    queued_frames: int = 64
    """Frames waiting for an application that does not read; the oldest go first."""
    queued_bytes: int = 8_000_000
    """The same in bytes, for data objects."""

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = f"Limits.{field.name}", getattr(self, field.name)
            if isinstance(field.default, float):
                number(name, value, sys.float_info.min)
            else:
                whole(name, value, 1, 1 << 62)
