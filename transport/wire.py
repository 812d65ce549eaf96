"""The wire format: msgpack within bounds.

Control messages travel on one bidirectional stream, each as a four-byte length and a msgpack
array whose first element is the message's number. Unknown numbers are skipped, so later versions
can add some; unknown trailing fields are ignored for the same reason. Objects start with a
two-byte length and a msgpack array (`ObjectHeader`), followed by the payload to the stream's end
or the DATAGRAM's. Nothing is decoded before its size is checked, and nothing is used before its
type and range are.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import msgpack

from ..scheduler.types import KIND_LENGTH, ObjectId, Region
from .errors import WireError
from .limits import Limits

ALPN = "limen/1"
VERSIONS = (1,)
"""Wire versions this code speaks, newest last. HELLO settles on the highest both know."""

OBJECT = 0x01
"""First byte of a DATAGRAM that carries an object; reports are `feedback.REPORT`."""
CLOCK_PING = 0x03
CLOCK_PONG = 0x04
LONGEST_DEADLINE = 3600.0
"""Seconds after capture: an hour, beyond which a time limit means nothing for media."""
OLDEST_TAG = 3600.0
"""Seconds since a tag held in full, at most."""
LATEST_TIME = 8e9
"""Largest time in seconds, either sign: 250 years, so a clock that counts from 1970 fits, and
microseconds stay below 2^53, where floats are still exact."""
_LENGTH = struct.Struct("!I")
_HEADER_LENGTH = struct.Struct("!H")
_PING = struct.Struct("!Bd")
_PONG = struct.Struct("!Bddd")


def _pack(values: list[Any]) -> bytes:
    packed = msgpack.packb(values)
    if not isinstance(packed, bytes):
        raise TypeError("msgpack gave no bytes")
    return packed


def unpack_bounded(data: bytes | memoryview, *, most: int, what: str) -> Any:
    """Decode one msgpack value of at most `most` bytes. Raises WireError."""
    if len(data) > most:
        raise WireError(f"{what} has {len(data)} bytes, at most {most} are allowed")
    try:
        return msgpack.unpackb(
            data,
            max_str_len=most,
            max_bin_len=most,
            max_array_len=256,
            max_map_len=64,
            max_ext_len=0,
            strict_map_key=True,
        )
    except RecursionError as error:
        raise WireError(f"{what} is nested too deeply") from error
    except Exception as error:  # msgpack raises many kinds, none of them ours to tell apart
        raise WireError(f"{what} is not valid msgpack: {type(error).__name__}") from error


def _number(value: Any, what: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WireError(f"{what} is not a number: {type(value).__name__}")
    if not (low <= value <= high):  # false for NaN as well
        raise WireError(f"{what} is {value}, outside [{low}, {high}]")
    return float(value)


def _integer(value: Any, what: str, high: int = 2**53) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= high:
        raise WireError(f"{what} is not a whole number in [0, {high}]")
    return value


def _text(value: Any, what: str, most: int = 256) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise WireError(f"{what} is not a string of at most {most} characters")
    return value


def _time(value: Any, what: str) -> float:
    """Seconds on some monotonic clock, which may be a machine's uptime or the time of day."""
    return _number(value, what, -LATEST_TIME, LATEST_TIME)


@dataclass(frozen=True, slots=True)
class Message:
    """A control message; its fields are its wire fields, in order."""

    NUMBER: ClassVar[int]

    def encode(self) -> bytes:
        """The framed message."""
        body = _pack([self.NUMBER, *(getattr(self, f.name) for f in fields(self))])
        return _LENGTH.pack(len(body)) + body

    def check(self) -> None:
        """Raise WireError unless every field has its type and range."""


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """First on the control stream in both directions."""

    NUMBER = 1
    versions: Any
    """A list of whole numbers."""
    agent: str
    idle_timeout: float

    def check(self) -> None:
        """See Message."""
        if not isinstance(self.versions, list) or not 0 < len(self.versions) <= 16:
            raise WireError("hello: versions is a list of 1 to 16 whole numbers")
        for version in self.versions:
            _integer(version, "hello: version", 65535)
        _text(self.agent, "hello: agent")
        _number(self.idle_timeout, "hello: idle timeout", 0.1, 86400.0)


@dataclass(frozen=True, slots=True)
class Announce(Message):
    """A track this end offers."""

    NUMBER = 2
    track: int
    name: str
    media: str
    """"audio", "video" or "data"."""
    params: dict[str, Any]
    """Media's own: codec, sample_rate, channels, frame_ms, width, height, fps."""

    def check(self) -> None:
        """See Message."""
        _integer(self.track, "announce: track", 65535)
        if not _text(self.name, "announce: name"):
            raise WireError("announce: a track's name is not empty")
        if self.media not in ("audio", "video", "data"):
            raise WireError(f"announce: media is {self.media!r}")
        if not isinstance(self.params, dict):
            raise WireError("announce: params is a map")
        for key, value in self.params.items():
            _text(key, "announce: params key", 64)
            if not isinstance(value, str | int | float | bool):
                raise WireError(f"announce: params {key} is not a plain value")


@dataclass(frozen=True, slots=True)
class Finished(Message):
    """A track ends; no objects follow those sent before."""

    NUMBER = 3
    track: int
    objects: int
    """How many objects it had in all."""

    def check(self) -> None:
        """See Message."""
        _integer(self.track, "finished: track", 65535)
        _integer(self.objects, "finished: objects")


@dataclass(frozen=True, slots=True)
class Subscribe(Message):
    """This end wants a track of the other's."""

    NUMBER = 4
    track: int

    def check(self) -> None:
        """See Message."""
        _integer(self.track, "subscribe: track", 65535)


@dataclass(frozen=True, slots=True)
class Unsubscribe(Message):
    """This end no longer wants it."""

    NUMBER = 5
    track: int

    def check(self) -> None:
        """See Message."""
        _integer(self.track, "unsubscribe: track", 65535)


@dataclass(frozen=True, slots=True)
class TagMessage(Message):
    """Importance stated by the other end for one of this end's tracks."""

    NUMBER = 6
    track: int
    kind: str
    value: float
    age: float
    """Seconds since the statement held in full; clocks differ, ages do not."""
    half_life: float
    layer: int | None
    region: Any
    """x, y, width and height in relative coordinates, or None."""
    source: str

    def check(self) -> None:
        """See Message."""
        _integer(self.track, "tag: track", 65535)
        if not _text(self.kind, "tag: kind", KIND_LENGTH):
            raise WireError("tag: kind is not empty")
        _number(self.value, "tag: value", 0.0, 1.0)
        _number(self.age, "tag: age", 0.0, OLDEST_TAG)
        _number(self.half_life, "tag: half-life", 1e-3, math.inf)
        _text(self.source, "tag: source", 64)
        if self.layer is not None:
            _integer(self.layer, "tag: layer", 255)
        if self.region is not None:
            if not isinstance(self.region, list) or len(self.region) != 4:
                raise WireError("tag: region is four numbers")
            for number in self.region:
                _number(number, "tag: region", -16.0, 16.0)
            if self.region[2] < 0 or self.region[3] < 0:
                raise WireError("tag: region has a negative size")

    def as_region(self) -> Region | None:
        """The region, or None when the tag speaks of the whole track."""
        return None if self.region is None else Region(*self.region)


@dataclass(frozen=True, slots=True)
class RequestKeyframe(Message):
    """The receiver cannot go on without a decodable point."""

    NUMBER = 7
    track: int
    since: Any = None
    """[group, index, layer] of the last picture it has, or None: from there a repair may go on."""

    def check(self) -> None:
        """See Message."""
        _integer(self.track, "keyframe request: track", 65535)
        if self.since is not None:
            if not isinstance(self.since, list) or len(self.since) != 3:
                raise WireError("keyframe request: since is group, index and layer")
            for number in self.since:
                _integer(number, "keyframe request: since")

    def as_id(self) -> ObjectId | None:
        """The last picture the receiver has, if it said so."""
        return None if self.since is None else ObjectId(self.track, *self.since)


@dataclass(frozen=True, slots=True)
class Gone(Message):
    """Objects that were given up; the receiver need not wait for them."""

    NUMBER = 8
    track: int
    objects: Any
    """A list of [group, index, layer] each, at most 64."""

    def check(self) -> None:
        """See Message."""
        _integer(self.track, "gone: track", 65535)
        if not isinstance(self.objects, list) or len(self.objects) > 64:
            raise WireError("gone: at most 64 objects in a list")
        for entry in self.objects:
            if not isinstance(entry, list) or len(entry) != 3:
                raise WireError("gone: an object is group, index and layer")
            for number in entry:
                _integer(number, "gone: object")


MESSAGES: dict[int, type[Message]] = {
    kind.NUMBER: kind
    for kind in (
        Hello,
        Announce,
        Finished,
        Subscribe,
        Unsubscribe,
        TagMessage,
        RequestKeyframe,
        Gone,
    )
}


class ControlReader:
    """Splits the control stream into checked messages."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take stream bytes and yield complete messages. Raises WireError."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self._limits.control_message_bytes:
                raise WireError(
                    f"a control message of {length} bytes was announced, "
                    f"at most {self._limits.control_message_bytes} are allowed"
                )
            if len(self._buffer) < _LENGTH.size + length:
                return
            body = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
            del self._buffer[: _LENGTH.size + length]
            message = decode_message(body, self._limits)
            if message is not None:
                yield message


def decode_message(body: bytes, limits: Limits) -> Message | None:
    """One message from its msgpack body; None for a number this version does not know."""
    values = unpack_bounded(body, most=limits.control_message_bytes, what="a control message")
    if not isinstance(values, list) or not values:
        raise WireError("a control message is an array that starts with its number")
    kind = MESSAGES.get(_integer(values[0], "message number"))
    if kind is None:
        return None
    wanted = len(fields(kind))
    least = sum(field.default is MISSING for field in fields(kind))
    if len(values) - 1 < least:
        raise WireError(f"{kind.__name__} has {len(values) - 1} fields, expected {least}")
    message = kind(*values[1 : wanted + 1])
    message.check()
    return message


@dataclass(frozen=True, slots=True)
class ObjectHeader:
    """What travels in front of an object's payload."""

    id: ObjectId
    captured: float
    """Seconds on the sender's monotonic clock: the end of the frame's samples, or the picture."""
    duration: float
    """Seconds of media in it; 0 where that means nothing."""
    deadline: float | None
    """Seconds after capture by which it is of use; None for data that is never too late."""
    importance: float
    """The sender's, in [0, 1], when it was queued."""
    size: int
    """Payload bytes."""
    keyframe: bool = True
    """Decodable without any other object."""
    silence: bool = False
    """An audio frame the sender takes for silence."""
    sequence: int = 0
    """The object's place among all of its track, in capture order."""
    depends_on: tuple[ObjectId, ...] = ()
    picture: tuple[int, int] | None = None
    """Width and height in pixels of a coded picture, where the coded size is rounded up."""

    def encode(self) -> bytes:
        """Length-prefixed header bytes."""
        body = _pack(
            [
                self.id.track,
                self.id.group,
                self.id.index,
                self.id.layer,
                round(self.captured * 1e6),
                round(self.duration * 1e6),
                None if self.deadline is None else round(self.deadline * 1e3),
                round(self.importance * 255),
                self.size,
                (1 if self.keyframe else 0) | (2 if self.silence else 0),
                self.sequence,
                [[d.group, d.index, d.layer] for d in self.depends_on],
                self.picture,
            ]
        )
        return _HEADER_LENGTH.pack(len(body)) + body


def split_object(data: bytes | bytearray, limits: Limits) -> tuple[ObjectHeader, int] | None:
    """The header and where the payload starts; None until the whole header is there.

    Raises WireError when it is malformed or out of bounds.
    """
    if len(data) < _HEADER_LENGTH.size:
        return None
    (length,) = _HEADER_LENGTH.unpack_from(data)
    if length > limits.header_bytes:
        raise WireError(
            f"an object header of {length} bytes, at most {limits.header_bytes} are allowed"
        )
    end = _HEADER_LENGTH.size + length
    if len(data) < end:
        return None
    body = bytes(data[_HEADER_LENGTH.size : end])
    return _decode_header(body, limits), end


def _decode_header(body: bytes, limits: Limits) -> ObjectHeader:
    values = unpack_bounded(body, most=limits.header_bytes, what="an object header")
    if not isinstance(values, list) or len(values) < 13:
        raise WireError("an object header is an array of 13 fields")
    track = _integer(values[0], "object: track", 65535)
    deadline = values[6]
    flags = _integer(values[9], "object: flags", 255)
    depends = values[11]
    if not isinstance(depends, list) or len(depends) > limits.dependencies:
        raise WireError(f"object: at most {limits.dependencies} dependencies in a list")
    picture = values[12]
    if picture is not None:
        if not isinstance(picture, list) or len(picture) != 2:
            raise WireError("object: a picture's size is width and height")
        width, height = (_integer(side, "object: picture side", 16384) for side in picture)
        picture = (width, height)
    ids = []
    for entry in depends:
        if not isinstance(entry, list) or len(entry) != 3:
            raise WireError("object: a dependency is group, index and layer")
        ids.append(ObjectId(track, *(_integer(n, "object: dependency") for n in entry)))
    return ObjectHeader(
        id=ObjectId(
            track,
            _integer(values[1], "object: group"),
            _integer(values[2], "object: index"),
            _integer(values[3], "object: layer", 255),
        ),
        captured=_number(values[4], "object: captured µs", -LATEST_TIME * 1e6, LATEST_TIME * 1e6)
        / 1e6,
        duration=_number(values[5], "object: duration µs", 0, 60e6) / 1e6,
        deadline=None
        if deadline is None
        else _number(deadline, "object: deadline ms", 0, LONGEST_DEADLINE * 1e3) / 1e3,
        importance=_number(values[7], "object: importance", 0, 255) / 255.0,
        size=_integer(values[8], "object: size", limits.object_bytes),
        keyframe=bool(flags & 1),
        silence=bool(flags & 2),
        sequence=_integer(values[10], "object: sequence"),
        depends_on=tuple(ids),
        picture=picture,
    )


def encode_ping(sent: float) -> bytes:
    """A clock probe: the sender's monotonic time in seconds."""
    return _PING.pack(CLOCK_PING, sent)


def encode_pong(ping: bytes, received: float, sent: float) -> bytes:
    """The answer to a probe: its time, when it came, when this leaves. Raises WireError."""
    if len(ping) != _PING.size:
        raise WireError(f"a clock probe of {len(ping)} bytes, expected {_PING.size}")
    return _PONG.pack(CLOCK_PONG, _PING.unpack(ping)[1], received, sent)


def decode_pong(pong: bytes) -> tuple[float, float, float]:
    """(own time of the probe, peer's receive time, peer's send time). Raises WireError."""
    if len(pong) != _PONG.size:
        raise WireError(f"a clock answer of {len(pong)} bytes, expected {_PONG.size}")
    _, sent, received, replied = _PONG.unpack(pong)
    for value in (sent, received, replied):
        _time(value, "clock answer")
    return sent, received, replied
