"""What a benchmark knows of an object: its class, stamps and deadline; and of a tag. Plain data.

All stamps are seconds on one monotonic clock (`time.monotonic` of the host that runs both sides).
Capture is when the media existed, never when it was sent: a sender that falls behind shows up as
delay instead of vanishing from the figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class ObjectClass(StrEnum):
    """How much an object matters; set at capture by the reference tagger, never by a peer."""

    VITAL = "vital"
    ATTENDED = "attended"
    AMBIENT = "ambient"


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """One captured object and what became of it. Objects that never arrived are recorded too."""

    track: str
    cls: ObjectClass
    captured: float
    """When its last sample or its picture was captured."""
    deadline: float
    """Arriving later than this is useless."""
    arrived: float | None
    """When it was complete at the receiver; None when it was lost or shed."""
    shown: float | None
    """When it was played or shown; None when never. Without such a tap, the same as `arrived`."""
    importance: float = 0.5
    """The reference tagger's value in [0, 1] at capture."""
    size_bytes: int = 0

    def __post_init__(self) -> None:
        stamps = [self.captured, self.deadline]
        for name, stamp in (("arrived", self.arrived), ("shown", self.shown)):
            if stamp is None:
                continue
            stamps.append(stamp)
            if stamp < self.captured:
                raise ValueError(
                    f"object of {self.track} {name} {self.captured - stamp:.6f} s before it was "
                    "captured: stamps of two clocks?"
                )
        if not all(math.isfinite(stamp) for stamp in stamps):
            raise ValueError(f"stamps are finite numbers of seconds, got {self}")
        if self.deadline < self.captured:
            raise ValueError(f"a deadline is not before capture, got {self}")


@dataclass(frozen=True, slots=True)
class TagMark:
    """One tag that the product raised."""

    time: float
    """Run time, s."""
    track: str
    kind: str
    value: float
    """In [0, 1]."""
    half_life: float
    """Seconds; infinite for one that holds until replaced."""
