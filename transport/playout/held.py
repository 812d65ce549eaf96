"""Objects that wait undecoded, what an arriving one is to the buffer, and the running totals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .jitter import AudioArrival


class Standing(Enum):
    """What an arriving object is to the buffer."""

    WANTED = auto()
    LATE = auto()
    DUPLICATE = auto()


class Held(NamedTuple):
    """An undecoded object and its place on the timeline (seconds; `offset` leads to stamps)."""

    arrival: AudioArrival
    end: float
    offset: float

    @property
    def start(self) -> float:
        """Seconds on the timeline where its sound begins."""
        return self.end - self.arrival.duration


@dataclass(slots=True)
class Counts:
    """Running totals; `JitterStats` says what they mean."""

    played: int = 0
    repaired: int = 0
    concealed: int = 0
    silent: int = 0
    missing: int = 0
    returned: int = 0
    late: int = 0
    duplicate: int = 0
    skipped: int = 0
    gaps: int = 0
    underruns: int = 0
    concealed_samples: int = 0
    silent_samples: int = 0
    added_samples: int = 0
    removed_samples: int = 0
