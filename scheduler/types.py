"""Plain data that crosses the rooms: regions, scopes, tags, objects and what became of them.

The object model is that of Media over QUIC (draft-ietf-moq-transport): a track has groups that
start at a decodable point, a group has objects, and one object is one audio frame or one video
frame, layer or region of it. All times are seconds on one monotonic clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle in relative picture coordinates: (0, 0) is top left, (1, 1) bottom right.

    Parts outside the picture are allowed (a gaze near the edge); `clipped` cuts them off.
    """

    x: float
    y: float
    width: float
    height: float

    def __post_init__(self) -> None:
        values = (self.x, self.y, self.width, self.height)
        if not all(math.isfinite(v) for v in values):
            raise ValueError(f"a region needs four finite numbers, got {values}")
        if self.width < 0 or self.height < 0:
            raise ValueError(f"a region's width and height are at least 0, got {values}")

    @classmethod
    def around(cls, x: float, y: float, radius: float) -> Region:
        """The square of half-side `radius` (in picture widths and heights) around a point."""
        return cls(x - radius, y - radius, 2 * radius, 2 * radius)

    def clipped(self) -> Region | None:
        """The part inside the picture, or None when nothing of it is."""
        left, top = max(0.0, self.x), max(0.0, self.y)
        right, bottom = min(1.0, self.x + self.width), min(1.0, self.y + self.height)
        if right <= left or bottom <= top:
            return None
        return Region(left, top, right - left, bottom - top)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tag speaks of: a track by name, one layer of it, or a region of its picture."""

    track: str
    layer: int | None = None
    region: Region | None = None


class TagKind(StrEnum):
    """The kinds limen's own sources produce; any other short string is a valid kind too."""

    SPEECH = "speech"
    ONSET = "onset"
    PEAK = "peak"
    PAUSE = "pause"
    GAZE = "gaze"
    DWELL = "dwell"
    GESTURE = "gesture"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Tag:
    """One statement of importance: `scope` is worth `value` at `time`, and half of that later.

    Raises ValueError when a field is out of its range.
    """

    kind: str
    value: float
    """Importance in [0, 1]."""
    time: float
    """Seconds, monotonic: when the statement held in full."""
    half_life: float
    """Seconds until the value has halved; `math.inf` for one that holds until replaced."""
    scope: Scope
    source: str = ""
    """Who says so; a later tag of the same kind, track, layer and source replaces this one."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a tag's value is in [0, 1], got {self.value!r}")
        if not math.isfinite(self.time):
            raise ValueError(f"a tag's time is a finite number of seconds, got {self.time!r}")
        if not self.half_life > 0.0:
            raise ValueError(f"a tag's half-life is above 0 s, got {self.half_life!r}")
        if not 0 < len(self.kind) <= 32:
            raise ValueError(f"a tag's kind has 1 to 32 characters, got {self.kind!r}")

    def value_at(self, now: float) -> float:
        """The decayed value at `now`; a tag from the future counts in full."""
        age = max(0.0, now - self.time)
        return float(self.value * 2.0 ** (-age / self.half_life))


class ObjectId(NamedTuple):
    """Where an object stands: track number, group, index in the group, layer."""

    track: int
    group: int
    index: int  # type: ignore[assignment]  # the field's name in Media over QUIC
    layer: int = 0


@dataclass(slots=True, eq=False)
class MediaObject:
    """One object on its way out: opaque bytes plus what the scheduler must know of them."""

    id: ObjectId
    payload: bytes
    """What goes on the wire, the transport's object header included."""
    captured: float
    """Seconds, monotonic: when the last sample or the picture was captured."""
    deadline: float
    """Seconds, monotonic: arriving later than this is useless."""
    depends_on: tuple[ObjectId, ...] = ()
    """Objects of the same track without which this one cannot be decoded."""
    atomic: bool = False
    """True for an object that travels whole in one DATAGRAM, never in pieces."""
    sent_bytes: int = 0
    """Payload bytes handed over so far."""
    stream_id: int | None = None
    """The transport's: allocated when the first byte leaves."""
    first_sent: float | None = field(default=None)
    """Seconds, monotonic: when the first byte left."""

    @property
    def remaining(self) -> int:
        """Payload bytes not yet handed over."""
        return len(self.payload) - self.sent_bytes


class ShedReason(StrEnum):
    """Why an object was given up."""

    EXPIRED = "expired"
    """Its deadline has passed."""
    HOPELESS = "hopeless"
    """It could not have arrived in time at the current rate."""
    DEPENDENCY = "dependency"
    """Something it depends on was given up."""
    OVERFLOW = "overflow"
    """Its flow's queue was full."""
    CANCELLED = "cancelled"
    """Its publisher took it back."""


@dataclass(frozen=True, slots=True)
class Shed:
    """An object was given up. `sent_bytes` > 0 means that a stream has to be reset."""

    object: MediaObject
    reason: ShedReason
    time: float


@dataclass(frozen=True, slots=True)
class Sent:
    """An object's last byte was handed to the network."""

    object: MediaObject
    time: float
