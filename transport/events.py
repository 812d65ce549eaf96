"""What a session core tells the session around it. Frozen, plain, in the order it happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..scheduler.types import ObjectId, Sent, Shed, Tag
from .wire import ObjectHeader


@dataclass(frozen=True, slots=True)
class TrackInfo:
    """A track as its publisher announced it."""

    number: int
    name: str
    media: str
    """"audio", "video" or "data"."""
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Connected:
    """The handshake and HELLO are done."""

    version: int
    agent: str


@dataclass(frozen=True, slots=True)
class TrackOffered:
    """The peer announced a track."""

    track: TrackInfo


@dataclass(frozen=True, slots=True)
class TrackFinished:
    """The peer finished a track after `objects` objects."""

    track: int
    objects: int


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The peer wants one of this end's tracks."""

    track: int


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The peer no longer wants it."""

    track: int


@dataclass(frozen=True, slots=True)
class TagReceived:
    """The peer stated importance for one of this end's tracks; `tag.scope.track` is its name."""

    tag: Tag


@dataclass(frozen=True, slots=True)
class KeyframeRequested:
    """The peer cannot decode this end's track without a new decodable point."""

    track: int
    since: ObjectId | None = None
    """The last picture it has, when it said so."""


@dataclass(frozen=True, slots=True)
class ObjectReceived:
    """A whole object arrived."""

    header: ObjectHeader
    payload: bytes
    first_byte: float
    """Seconds, this end's monotonic clock."""
    arrived: float
    """Seconds, this end's monotonic clock: its last byte."""


@dataclass(frozen=True, slots=True)
class ObjectsGone:
    """Objects the peer gave up, or whose streams were reset."""

    objects: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class ObjectShed:
    """This end gave up an object of its own."""

    shed: Shed


@dataclass(frozen=True, slots=True)
class ObjectSent:
    """The last byte of an object of this end's left."""

    sent: Sent


@dataclass(frozen=True, slots=True)
class RepairsAbandoned:
    """Own objects that had left whole, lost a packet, and could not be repaired in time."""

    objects: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over. `error` is False for an orderly close by either end."""

    reason: str
    error: bool


Event = (
    Connected
    | TrackOffered
    | TrackFinished
    | Subscribed
    | Unsubscribed
    | TagReceived
    | KeyframeRequested
    | ObjectReceived
    | ObjectsGone
    | ObjectShed
    | ObjectSent
    | RepairsAbandoned
    | Closed
)
