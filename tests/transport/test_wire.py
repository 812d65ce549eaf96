"""The wire format: what goes in comes out, and nothing hostile gets further than a WireError."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.scheduler.types import ObjectId, Region
from limen.transport import wire
from limen.transport.errors import PeerError, WireError
from limen.transport.limits import Limits
from limen.transport.wire import ControlReader, ObjectHeader, decode_message, split_object

LIMITS = Limits()
SAMPLES: list[wire.Message] = [
    wire.Hello([1, 7], "limen/0.1", 10.0),
    wire.Announce(3, "voice", "audio", {"codec": "opus", "channels": 2, "fps": 29.97, "x": True}),
    wire.Finished(3, 1234),
    wire.Subscribe(65535),
    wire.Unsubscribe(0),
    wire.TagMessage(1, "gaze", 0.9, 0.02, 0.3, None, [-0.1, 0.4, 0.2, 0.2], "app"),
    wire.TagMessage(1, "hint", 0.0, 3600.0, math.inf, 255, None, ""),
    wire.RequestKeyframe(9),
    wire.Gone(9, [[1, 2, 0], [1, 3, 0]]),
]
HEADER = ObjectHeader(
    id=ObjectId(4, 17, 3, 1),
    captured=12345.678901,
    duration=0.02,
    deadline=0.2,
    importance=1.0,
    size=5,
    keyframe=False,
    silence=True,
    sequence=99,
    depends_on=(ObjectId(4, 17, 2, 1), ObjectId(4, 17, 3, 0)),
    picture=(641, 359),
)
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def framed(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


def packed(*values: Any) -> bytes:
    return bytes(msgpack.packb(list(values)))


# -- control messages


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_messages_survive_the_trip(message: wire.Message) -> None:
    (back,) = ControlReader(LIMITS).feed(message.encode())
    assert back == message


def test_every_message_has_a_sample_and_a_number_of_its_own() -> None:
    assert {type(m) for m in SAMPLES} == set(wire.MESSAGES.values())
    assert all(number == kind.NUMBER for number, kind in wire.MESSAGES.items())


def test_messages_in_pieces_of_any_size() -> None:
    stream = b"".join(m.encode() for m in SAMPLES)
    for step in (1, 2, 3, 7, 50):
        reader = ControlReader(LIMITS)
        got = [
            m for start in range(0, len(stream), step) for m in reader.feed(stream[start:][:step])
        ]
        assert got == SAMPLES


def test_unknown_numbers_are_skipped_and_trailing_fields_ignored() -> None:
    reader = ControlReader(LIMITS)
    later = framed(packed(200, "what", {"a": [1]})) + framed(packed(2**40))
    longer = framed(packed(4, 5, "a field of a later version", [1, 2]))
    assert list(reader.feed(later + longer)) == [wire.Subscribe(5)]


def test_a_huge_announced_length_is_refused_before_it_is_waited_for() -> None:
    for length in (LIMITS.control_message_bytes + 1, 2**32 - 1):
        with pytest.raises(WireError, match=f"of {length} bytes.*at most 16384"):
            list(ControlReader(LIMITS).feed(struct.pack("!I", length)))


def test_the_largest_message_is_taken() -> None:
    padding = LIMITS.control_message_bytes - len(packed(4, 5, b"")) - 2
    body = packed(4, 5, bytes(padding))
    assert LIMITS.control_message_bytes - 2 <= len(body) <= LIMITS.control_message_bytes
    assert list(ControlReader(LIMITS).feed(framed(body))) == [wire.Subscribe(5)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        packed(),
        bytes(msgpack.packb({"a": 1})),
        bytes(msgpack.packb(7)),
        packed("1", 2),
        packed(-1),
        packed(True, 1),
        packed(1.0),
        packed(4),
        packed(4, -1),
        packed(4, 65536),
        packed(4, 1.0),
        packed(4, True),
        packed(4, None),
        packed(1, [], "a", 1.0),
        packed(1, [1] * 17, "a", 1.0),
        packed(1, "1", "a", 1.0),
        packed(1, [1.5], "a", 1.0),
        packed(1, [1], "a" * 257, 1.0),
        packed(1, [1], "a", math.nan),
        packed(1, [1], "a", math.inf),
        packed(1, [1], "a", -1.0),
        packed(2, 1, "", "audio", {}),
        packed(2, 1, "x", "smell", {}),
        packed(2, 1, "x", "audio", []),
        packed(2, 1, "x", "audio", {"a": [1]}),
        packed(2, 1, "x", "audio", {"a": None}),
        packed(2, 1, "x", "audio", {b"a": 1}),
        packed(2, 1, b"x", "audio", {}),
        packed(2, 1, "x", "audio", {"k" * 65: 1}),
        packed(3, 1, -1),
        packed(3, 1, 2**53 + 1),
        packed(6, 1, "gaze", math.nan, 0.0, 1.0, None, None, ""),
        packed(6, 1, "gaze", 1.1, 0.0, 1.0, None, None, ""),
        packed(6, 1, "gaze", 0.5, -1.0, 1.0, None, None, ""),
        packed(6, 1, "gaze", 0.5, 0.0, 0.0, None, None, ""),
        packed(6, 1, "gaze", 0.5, 0.0, math.nan, None, None, ""),
        packed(6, 1, "", 0.5, 0.0, 1.0, None, None, ""),
        packed(6, 1, "k" * 33, 0.5, 0.0, 1.0, None, None, ""),
        packed(6, 1, "gaze", 0.5, 0.0, 1.0, 256, None, ""),
        packed(6, 1, "gaze", 0.5, 0.0, 1.0, None, [0, 0, 1], ""),
        packed(6, 1, "gaze", 0.5, 0.0, 1.0, None, [0, 0, 1, -1], ""),
        packed(6, 1, "gaze", 0.5, 0.0, 1.0, None, [0, 0, -0.1, 1], ""),
        packed(6, 1, "gaze", 0.5, 0.0, 1.0, None, [0, math.nan, 1, 1], ""),
        packed(6, 1, "gaze", 0.5, 0.0, 1.0, None, [0, 17, 1, 1], ""),
        packed(6, 1, "gaze", 0.5, 0.0, 1.0, None, None, "s" * 65),
        packed(8, 1, [[1, 2]]),
        packed(8, 1, [[1, 2, -3]]),
        packed(8, 1, [1, 2, 3]),
        packed(8, 1, [[1, 2, 3]] * 65),
        packed(8, 1, {}),
        packed(*range(300)),
        bytes(msgpack.packb([4, {str(n): n for n in range(65)}])),
        b"\x91" * 5000 + b"\x01",  # arrays in arrays
        b"\x81\xa1a" * 5000,  # maps in maps
        b"\xdd\xff\xff\xff\xff",  # an array of four thousand million
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffabc",
        b"\x92\x04\xc7\x05\x01hello",  # an extension type
        b"\x92\x04\xd6\xff\x00\x00\x00\x00",  # a timestamp
        b"\x92\x04\xa2\xff\xfe",  # no UTF-8
        packed(4, 5) + b"\x00",  # more after the end
        packed(4, 5)[:-1],
    ],
)
def test_malformed_messages_end_in_one_kind_of_error(body: bytes) -> None:
    with pytest.raises(WireError) as caught:
        decode_message(body, LIMITS)
    assert isinstance(caught.value, PeerError)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_random_bytes_never_do_more_than_raise(data: bytes) -> None:
    for attempt in (
        lambda: list(ControlReader(LIMITS).feed(data)),
        lambda: decode_message(data, LIMITS),
        lambda: split_object(data, LIMITS),
        lambda: split_object(struct.pack("!H", len(data)) + data, LIMITS),
        lambda: wire.decode_pong(data),
        lambda: wire.encode_pong(data, 1.0, 1.0),
    ):
        with contextlib.suppress(WireError):
            attempt()


@given(st.integers(0, 9), st.lists(junk, max_size=9))
@settings(max_examples=60, deadline=None)
def test_wrong_types_in_the_right_places(number: int, values: list[Any]) -> None:
    try:
        message = decode_message(packed(number, *values), LIMITS)
    except WireError:
        return
    if message is not None:  # what passes can be used: encode it, and read its region
        assert decode_message(message.encode()[4:], LIMITS) == message
        if isinstance(message, wire.TagMessage):
            message.as_region()


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_truncation_and_bit_flips(data: st.DataObject) -> None:
    encoded = bytearray(data.draw(st.sampled_from(SAMPLES)).encode())
    cut = data.draw(st.integers(0, len(encoded)))
    place, bit = data.draw(st.integers(0, len(encoded) - 1)), data.draw(st.integers(0, 7))
    encoded[place] ^= 1 << bit
    with contextlib.suppress(WireError):
        list(ControlReader(LIMITS).feed(bytes(encoded[:cut])))


def test_a_region_comes_back_as_one() -> None:
    message = SAMPLES[5]
    assert isinstance(message, wire.TagMessage)
    assert message.as_region() == Region(-0.1, 0.4, 0.2, 0.2)


# -- objects


def test_an_objects_header_survives_the_trip() -> None:
    encoded = HEADER.encode()
    header, start = split_object(encoded + b"hello", LIMITS) or (None, 0)
    assert header == HEADER
    assert start == len(encoded)
    for cut in range(len(encoded)):
        assert split_object(encoded[:cut], LIMITS) is None


@pytest.mark.parametrize("captured", [0.0, -5.5, 1e6 + 1, 3.2e7, 1.8e9, 7.9e9])
def test_capture_times_of_any_clock_fit(captured: float) -> None:
    """Uptimes of months and the time of day are times too; 1e6 s is 11.6 days of uptime."""
    header = dataclasses.replace(HEADER, captured=captured)
    back, _ = split_object(header.encode(), LIMITS) or (None, 0)
    assert back is not None
    assert back.captured == pytest.approx(captured, abs=1e-6)
    probe = wire.encode_pong(wire.encode_ping(captured), captured, captured)
    assert wire.decode_pong(probe) == (captured, captured, captured)


def header_with(index: int, value: Any) -> bytes:
    values = msgpack.unpackb(HEADER.encode()[2:])
    values[index] = value
    body = packed(*values)
    return struct.pack("!H", len(body)) + body


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, -1),
        (0, 65536),
        (1, -1),
        (1, 2**54),
        (2, None),
        (2, 1.0),
        (3, 256),
        (4, math.nan),
        (4, math.inf),
        (4, 1e17),
        (4, "now"),
        (5, -1),
        (5, math.nan),
        (5, 61e6),
        (6, -1),
        (6, math.nan),
        (6, 3.7e6),
        (7, 256),
        (7, -1),
        (8, -1),
        (8, LIMITS.object_bytes + 1),
        (8, 4 * 2**30),
        (8, 5.0),
        (9, 256),
        (9, True),
        (10, -1),
        (11, [[0, 0, 0]] * 17),
        (11, [[0, 0]]),
        (11, [[0, 0, -1]]),
        (11, None),
        (12, [1]),
        (12, [1, 16385]),
        (12, [1, -1]),
        (12, "640x360"),
    ],
)
def test_headers_out_of_bounds_are_refused(index: int, value: Any) -> None:
    with pytest.raises(WireError):
        split_object(header_with(index, value), LIMITS)


def test_headers_of_later_versions_may_be_longer() -> None:
    values = [*msgpack.unpackb(HEADER.encode()[2:]), "new", 7]
    body = packed(*values)
    header, _ = split_object(struct.pack("!H", len(body)) + body, LIMITS) or (None, 0)
    assert header == HEADER
    body = packed(*values[:12])
    with pytest.raises(WireError, match="13 fields"):
        split_object(struct.pack("!H", len(body)) + body, LIMITS)


def test_a_header_that_is_too_long_is_refused_at_once() -> None:
    with pytest.raises(WireError, match="at most 512"):
        split_object(b"\xff\xff", LIMITS)


@given(st.integers(0, 12), junk)
@settings(max_examples=80, deadline=None)
def test_headers_of_wrong_types(index: int, value: Any) -> None:
    try:
        header, _ = split_object(header_with(index, value), LIMITS) or (None, 0)
    except WireError:
        return
    assert header is not None
    header.encode()


# -- clock probes


def test_clock_probes() -> None:
    pong = wire.encode_pong(wire.encode_ping(1.5), 2.5, 2.75)
    assert wire.decode_pong(pong) == (1.5, 2.5, 2.75)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_clock_probes_with_impossible_times(value: float) -> None:
    for stamps in ((value, 1.0, 1.0), (1.0, value, 1.0), (1.0, 1.0, value)):
        pong = wire.encode_pong(wire.encode_ping(stamps[0]), *stamps[1:])
        with pytest.raises(WireError):
            wire.decode_pong(pong)
