"""Pictures between two sessions, with each codec: layers, repairs, refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import limen
from limen.codecs.video_codecs import ABILITIES, CODECS
from limen.scheduler.errors import UsageError
from limen.scheduler.types import MediaObject, ObjectId, Shed, ShedReason
from limen.transport.errors import PeerError
from limen.transport.media.picture_ids import REMEMBERED, PictureIds

pytestmark = pytest.mark.realtime


def picture(step: int = 0) -> np.ndarray:
    image = np.zeros((96, 128, 3), np.uint8)
    image[:, :, 1] = (np.arange(128) * 2 + step * 5) % 255
    return image


async def opened(sessions: tuple[Any, Any], kind: limen.Video) -> tuple[Any, Any]:
    client, server = sessions
    face = server.publish("face", kind)
    eyes = client.subscribe("face", "video")
    await asyncio.gather(eyes.ready(), face.wait_subscribed())
    return face, eyes


async def play(face: Any, steps: range) -> None:
    for step in steps:
        await face.send(picture(step))
        await asyncio.sleep(0.03)


@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_is_announced_sent_and_shown(sessions: Any, codec: Any) -> None:
    layers = min(2, ABILITIES[codec].temporal_layers)
    async with sessions() as pair:
        kind = limen.Video(bitrate_bps=300_000, codec=codec, layers=layers)
        face, eyes = await opened(pair, kind)
        assert pair[0].offers["face"].params["codec"] == codec
        await play(face, range(15))
        await face.finish()
        seen = [f async for f in eyes]
        assert len(seen) >= 8
        assert seen[0].keyframe
        assert {f.id.layer for f in seen} == set(range(layers))
        shown = seen[-1].picture.to_ndarray(format="rgb24").astype(int)
        wanted = picture(int(seen[-1].id.index)).astype(int)
        assert shown.shape == (96, 128, 3)
        if len(seen) == 15:
            assert np.abs(shown - wanted)[8:-8, 8:-8, 1].mean() < 12


@pytest.mark.parametrize("codec", ["vp8", "vp9"])
async def test_b37_what_was_shed_is_stepped_around_without_a_keyframe(
    sessions: Any, codec: Any
) -> None:
    """The object that follows a shed one names an older one; the peer shows it."""
    async with sessions() as pair:
        face, eyes = await opened(pair, limen.Video(bitrate_bps=300_000, codec=codec))
        queued: list[Any] = []
        inner = face._session.send_object

        def send_object(obj: MediaObject, header: Any, **options: Any) -> None:
            queued.append(header)
            if len(queued) == 17:  # the link had no room for it
                now = limen.now()
                face.on_shed(Shed(obj, ShedReason.EXPIRED, now), now)
                face._session.core.scheduler.cancel(obj.id, now=now)
                return
            inner(obj, header, **options)

        face._session.send_object = send_object
        await play(face, range(30))
        gone, after = queued[16], queued[17]
        assert not after.keyframe
        assert after.depends_on[0] < ObjectId(gone.id.track, gone.id.group, gone.id.index - 1)
        assert face.counts["repairs"] == 1
        await face.finish()
        seen = {f.id for f in [f async for f in eyes]}
        assert gone.id not in seen
        assert after.id in seen
        assert sum(header.keyframe for header in queued) == 1


async def test_a_request_says_what_the_peer_has_and_gets_a_repair(sessions: Any) -> None:
    async with sessions() as pair:
        face, eyes = await opened(pair, limen.Video(bitrate_bps=300_000, codec="vp8"))
        await play(face, range(20))
        receiver = eyes.receiver
        receiver.session.core.request_keyframe(face.info.number, receiver._release.position)
        receiver.session.wake()
        async with asyncio.timeout(3):
            while not face.counts["keyframe_requests"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await play(face, range(20, 25))
        assert face.counts["repairs"] <= 1  # none when the peer had all there was
        face.on_keyframe_request(limen.now() + 10, face._ids.of((14,))[0])
        await play(face, range(25, 30))
        assert face.counts["repairs"] >= 1
        assert not face._keyframe_wanted


async def test_unknown_codecs_end_in_words_on_both_sides(sessions: Any) -> None:
    with pytest.raises(UsageError, match="codec is one of 'h264', 'vp8', 'vp9', 'av1', got 'h265'"):
        limen.Video(codec="h265")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="layers with h264 is a whole number from 1 to 1, got 2"):
        limen.Video(layers=2)
    async with sessions() as (client, server):
        announce = server.core.announce

        def other(info: limen.TrackInfo) -> None:  # what another program might announce
            announce(limen.TrackInfo(info.number, info.name, "video", {"codec": "theora"}))

        server.core.announce = other
        server.publish("face", limen.Video())
        with pytest.raises(PeerError, match="unknown video codec 'theora'"):
            await client.subscribe("face", "video").ready()
        assert not client.is_closed


def test_picture_ids_are_forgotten_in_time() -> None:
    ids = PictureIds()
    for number in range(REMEMBERED + 5):
        ids.add(number, ObjectId(1, 0, number))
    assert ids.of((4,)) is None
    assert ids.of((5, 6)) == (ObjectId(1, 0, 5), ObjectId(1, 0, 6))
    assert ids.number(ObjectId(1, 0, 4)) is None
    assert ids.number(ObjectId(1, 0, 9)) == 9
    assert ids.of(()) == ()
    assert ids.of(None) is None
    assert ids.number(None) is None
    ids.add(-1, ObjectId(1, 1, 0))
    assert ids.number(ObjectId(1, 1, 0)) is None
