"""Plain data that crosses the rooms: regions, scopes, tags, objects and what became of them.

The object model is that of Media over QUIC (draft-ietf-moq-transport): a track has groups that
start at a decodable point, a group has objects, and one object is one audio frame or one video
frame, layer or region of it. All times are seconds on one monotonic clock.
"""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from .checks import instance, number, text, whole
from .errors import UsageError

FARTHEST = 1e9
"""Picture widths: any finite place will do here; what crosses the wire is bounded there."""
KIND_LENGTH = 32
"""Characters of a tag's kind at most."""


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
        for side in ("x", "y", "width", "height"):
            least = -FARTHEST if side in ("x", "y") else 0.0
            plain = number(f"a region's {side}", getattr(self, side), least, FARTHEST)
            object.__setattr__(self, side, plain)

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

    def __post_init__(self) -> None:
        instance("a tag's track", self.track, str, "a track's name, a string")
        if self.layer is not None:
            object.__setattr__(self, "layer", whole("a tag's layer", self.layer, 0, 1 << 31))
        if self.region is not None:
            words = "a limen.Region(x, y, width, height)"
            instance("a tag's region", self.region, Region, words)


class TagKind(StrEnum):
    """The kinds limen knows. One of your own has a dot in it ("chat.mention"); see `check_kind`."""

    SPEECH = "speech"
    ONSET = "onset"
    PEAK = "peak"
    PAUSE = "pause"
    GAZE = "gaze"
    DWELL = "dwell"
    GESTURE = "gesture"
    HINT = "hint"


def check_kind(kind: str) -> None:
    """Refuse, with UsageError, a kind that is neither known nor marked as one's own by a dot.

    Whatever its kind, a tag counts in full; the kind says which earlier tag it replaces. So a
    misspelt one would stand beside the tag it was meant to replace, and nobody would notice.
    """
    if "." in kind or kind in KNOWN_KINDS:
        return
    near = difflib.get_close_matches(kind, KNOWN_KINDS, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(
        f"a tag's kind is one of {', '.join(sorted(KNOWN_KINDS))}, or your own with a dot in it "
        f"(such as 'app.{kind}'), got {kind!r}{meant}"
    )


KNOWN_KINDS = frozenset(kind.value for kind in TagKind)


@dataclass(frozen=True, slots=True)
class Tag:
    """One statement of importance: `scope` is worth `value` at `time`, and half of that later.

    Raises UsageError when a field has a wrong type or is out of its range.
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
        plain: dict[str, object] = {
            "value": number("a tag's value", self.value, 0.0, 1.0),
            "time": number("a tag's time", self.time, -sys.float_info.max, sys.float_info.max, "s"),
            "half_life": number("a tag's half-life", self.half_life, sys.float_info.min, unit="s"),
            "kind": text("a tag's kind", self.kind, KIND_LENGTH),
            "source": text("a tag's source", self.source, 256, least=0),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        instance("a tag's scope", self.scope, Scope, "a Scope(track, layer, region)")

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
