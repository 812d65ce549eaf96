"""What callers hand in is checked at the call, in words, and breaks nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import limen
from limen.codecs.errors import CodecError
from limen.scheduler.settings import SchedulerSettings
from limen.scheduler.types import Scope

API: Any = limen
"""The interface as a caller without a type checker sees it."""
ANY_SCOPE: Any = Scope
ANY_SETTINGS: Any = SchedulerSettings
WRONG_NUMBERS = ["x", None, math.nan, True, b"1", [1], 1j]


def test_what_goes_wrong_with_a_session_is_one_family() -> None:
    for error in (CodecError, limen.UsageError, limen.PeerError, limen.SessionClosedError):
        assert issubclass(error, limen.LimenError)
    assert issubclass(limen.UsageError, ValueError)


@pytest.mark.parametrize("wrong", WRONG_NUMBERS)
def test_regions_and_tags_take_numbers_only(wrong: Any) -> None:
    with pytest.raises(limen.UsageError, match="a region's x is a number"):
        limen.Region(wrong, 0, 1, 1)
    with pytest.raises(limen.UsageError, match="a tag's value is a number from 0 to 1"):
        limen.Tag("hint", wrong, 0.0, 1.0, Scope("a"))
    with pytest.raises(limen.UsageError, match="a tag's half-life is a number above 0 s"):
        limen.Tag("hint", 0.5, 0.0, wrong, Scope("a"))
    with pytest.raises(limen.UsageError, match="a tag's time is a number, finite"):
        limen.Tag("hint", 0.5, wrong, 1.0, Scope("a"))


def test_numbers_of_numpy_become_plain_ones() -> None:
    tag = API.Tag("hint", np.float32(0.5), np.float64(1), np.int32(2), ANY_SCOPE("a", np.int8(1)))
    assert [type(v) for v in (tag.value, tag.time, tag.half_life)] == [float] * 3
    assert type(tag.scope.layer) is int
    region = API.Region(np.float32(0.25), 0, 1, 1)
    assert type(region.x) is float


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: API.Audio(bitrate_bps="x"), "bitrate_bps is a number from 6000 to 510000"),
        (lambda: API.Audio(channels=True), "channels is one of 1, 2"),
        (lambda: API.Audio(hold=math.nan), "hold is a number"),
        (lambda: API.Audio(speech_tags="no"), "speech_tags is True or False"),
        (lambda: API.Video(fps=None), "fps is a number"),
        (lambda: API.Video(codec=5), "codec is one of 'h264'"),
        (lambda: API.Video(codec=[]), "codec is one of 'h264'"),
        (lambda: API.Video(layers=1.5), "layers with h264 is a whole number"),
        (lambda: API.Video(threads=2.5), "threads is a whole number"),
        (lambda: API.Data(deadline="1"), "deadline is a number"),
        (lambda: API.Data(queue_bytes=1.5), "queue_bytes is a whole number"),
        (lambda: API.Limits(tracks="many"), "Limits.tracks is a whole number"),
        (lambda: API.Limits(overdue_seconds=0), "Limits.overdue_seconds is a number above 0"),
        (lambda: API.SessionSettings(idle_timeout="x"), "idle_timeout is a number"),
        (lambda: API.SessionSettings(limits={}), "limits is limen.Limits, got dict"),
        (lambda: API.SessionSettings(congestion="fast"), "congestion is DelaySettings"),
        (lambda: API.SessionSettings(trace=5), "trace is a function"),
        (lambda: ANY_SETTINGS(max_tags="x"), "max_tags is a whole number"),
        (lambda: ANY_SCOPE(5), "a tag's track is a track's name"),
    ],
)
def test_settings_say_what_they_take(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(limen.UsageError, match=words):
        make()


async def _enter(context: Any) -> None:
    async with context:
        pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: API.connect(5, 1), "a host is a string"),
        (lambda: API.connect("a", "x"), "a port is a whole number from 0 to 65535"),
        (lambda: API.connect("a", 1, timeout=math.nan), "timeout is a number above 0"),
        (lambda: API.connect("a", 1, settings={}), "settings is limen.SessionSettings"),
        (lambda: API.connect("a", 1, fingerprint=b"x"), "fingerprint is text"),
        (lambda: API.serve(None), "serve's handler is an async function"),
        (lambda: API.serve(_enter, certificate="x.pem"), "certificate is a limen.Certificate"),
    ],
)
async def test_ways_into_a_session_say_what_they_take(make: Any, words: str) -> None:
    with pytest.raises(limen.UsageError, match=words):
        await _enter(make())


@pytest.mark.realtime
async def test_a_session_refuses_in_words_and_goes_on(sessions: Any) -> None:
    async with sessions() as (client, server):
        voice = client.publish("voice", limen.Audio(hold=1))
        face = client.publish("face", limen.Video())
        data = client.publish("data", limen.Data(hold=1))
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: client.subscribe("x", max_frames="x"), "max_frames is a whole number"),
            (lambda: client.subscribe("x", wait=math.nan), "wait is a number"),
            (lambda: client.subscribe("x", media="film"), "media is one of"),
            (lambda: client.subscribe(5), "a track's name is a string"),
            (lambda: client.tag("\ud800.x", 0.5, track="face"), "UTF-8"),
            (lambda: client.tag(None, 0.5, track="face"), "a tag's kind is a string"),
            (lambda: client.tag("gaze", True, track="face"), "a tag's value is a number"),
            (lambda: client.tag("gaze", 0.5, track="face", layer="x"), "a tag's layer"),
            (lambda: client.tag("gaze", 0.5, track="face", region=(0, 0, 1, 1)), "limen.Region"),
            (lambda: client.tag("gaze", 0.5, track=7), "a tag's track"),
            (lambda: client.add_tag("gaze"), "a tag is a limen.Tag"),
        ]
        for call, words in calls:
            with pytest.raises(limen.UsageError, match=words):
                call()
        waits: list[tuple[Callable[[], Any], str]] = [
            (lambda: voice.send(np.zeros(960), captured="x"), "captured"),
            (lambda: voice.send([0.0] * 960), "NumPy array, got list"),
            (lambda: voice.send(np.zeros(960), sample_rate=0), "sample_rate is a whole number"),
            (lambda: voice.send(np.full(960, 2000.0)), "within ±1, got one of 2000"),
            (lambda: voice.send_encoded("x", captured=1.0), "an Opus packet is bytes, got str"),
            (lambda: voice.send_encoded(bytes(4_000_001), captured=1.0), "at most 4000000 bytes"),
            (lambda: face.send("x"), "a picture is an av.VideoFrame"),
            (
                lambda: face.send_encoded(
                    bytes(4_000_001), captured=1.0, keyframe=True, size=(64, 64)
                ),
                "at most 4000000 bytes",
            ),
            (
                lambda: face.send_encoded(b"x", captured=1.0, keyframe=1, size=(64, 64)),
                "keyframe is True",
            ),
            (
                lambda: face.send_encoded(b"x", captured=1.0, keyframe=True, size=5),
                "size is a pair of width",
            ),
            (lambda: data.send(b"x", captured=True), "captured"),
            (lambda: data.send(b"x", independent="no"), "independent is True or False"),
            (lambda: client.close(5), "a reason to close is a string"),
        ]
        for start, words in waits:
            with pytest.raises(limen.UsageError, match=words):
                await start()
        await data.send(b"after all", captured=limen.now())
        async for frame in server.subscribe("data", "data"):
            assert frame.payload == b"after all"
            break
        assert not client.is_closed


@pytest.mark.realtime
async def test_a_misspelt_kind_is_noticed_and_a_kind_of_ones_own_has_a_dot(sessions: Any) -> None:
    async with sessions() as (client, server):
        server.publish("face", limen.Data())
        async with asyncio.timeout(5):
            while "face" not in client.offers:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with pytest.raises(limen.UsageError, match=r"did you mean 'speech'\?"):
            client.tag("speach", 0.5, track="face")
        with pytest.raises(limen.UsageError, match=r"or your own with a dot in it"):
            server.add_tag(limen.Tag("mention", 0.5, limen.now(), 1.0, Scope("face")))
        for kind in (*limen.TagKind, "chat.mention"):
            client.tag(kind, 0.1, track="face", half_life=60)
        # What an older peer sends still counts: the rule is for this end's own tags.
        stranger = limen.Tag("mention", 0.1, limen.now(), 60.0, Scope("face"))
        client.core.tag_remote(client.offers["face"].number, stranger, now=limen.now())
        client.wake()
        tags = server.core.scheduler.tags
        async with asyncio.timeout(5):
            while len(tags) < len(limen.TagKind) + 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not server.is_closed
