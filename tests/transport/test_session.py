"""The public interface over real loopback: what users hold in their hands."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limen
from limen.scheduler.errors import UsageError
from limen.scheduler.types import ObjectId
from limen.transport.errors import SessionClosedError, TrackNotOfferedError

pytestmark = pytest.mark.realtime


def picture(step: int = 0) -> np.ndarray:
    image = np.zeros((96, 128, 3), np.uint8)
    image[:, :, 1] = (np.arange(128) + step * 5) % 255
    return image


async def collect(frames: Any, count: int, seconds: float = 5.0) -> list[Any]:
    async def some() -> list[Any]:
        got: list[Any] = []
        async for frame in frames:
            got.append(frame)
            if len(got) == count:
                break
        return got

    return await asyncio.wait_for(some(), seconds)


async def until(condition: Any, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - anything may change it
            await asyncio.sleep(0.01)


# -- both ways, all kinds


async def test_data_both_ways_whole_and_in_order_of_sending(sessions: Any) -> None:
    async with sessions() as (client, server):
        up, down = client.publish("up", limen.Data()), server.publish("down", limen.Data())
        ears, eyes = server.subscribe("up", "data"), client.subscribe("down", "data")
        await asyncio.gather(ears.ready(), eyes.ready())
        await asyncio.gather(up.wait_subscribed(), down.wait_subscribed())
        sizes = [0, 1, 1500, 40_000]
        for size in sizes:
            await up.send(bytes([size % 251]) * size, captured=5.25)
            await down.send(bytes([size % 241]) * size)
        heard, seen = await collect(ears, 4), await collect(eyes, 4)
        assert sorted(len(f.payload) for f in heard) == sizes
        assert sorted(len(f.payload) for f in seen) == sizes
        assert {f.captured for f in heard} == {5.25}
        assert all(f.payload == bytes([len(f.payload) % 241]) * len(f.payload) for f in seen)
        assert abs(seen[-1].arrived - seen[-1].captured) < 3


async def test_audio_and_video_both_ways(sessions: Any) -> None:
    async with sessions() as (client, server):

        async def one_way(sender: Any, receiver: Any) -> tuple[int, int]:
            voice = sender.publish("voice", limen.Audio(hold=1.0))
            face = sender.publish("face", limen.Video(bitrate_bps=300_000))
            ears, eyes = receiver.subscribe("voice", "audio"), receiver.subscribe("face", "video")
            await asyncio.gather(ears.ready(), eyes.ready(), face.wait_subscribed())
            tone = 0.3 * np.sin(np.arange(960) * 0.05).astype(np.float32)
            for step in range(20):
                stamp = limen.now()
                await voice.send(tone, sample_rate=48_000, captured=stamp)
                await face.send(picture(step), captured=stamp)
                await asyncio.sleep(0.03)
            await asyncio.gather(voice.finish(), face.finish())
            heard = [f async for f in ears if f.kind == "played"]
            seen = [f async for f in eyes]
            assert heard[3].samples.shape == (960, 1)
            assert float(np.abs(heard[5].samples).max()) > 0.1
            image = seen[-1].picture.to_ndarray(format="rgb24")
            assert image.shape == (96, 128, 3)
            assert seen[0].keyframe
            return len(heard), len(seen)

        results = await asyncio.gather(one_way(client, server), one_way(server, client))
        for heard, seen in results:
            assert heard >= 6
            assert seen >= 4


async def test_encoded_media_passes_unopened(sessions: Any) -> None:
    from limen.codecs.opus import OpusEncoder

    async with sessions() as (client, server):
        voice = server.publish("voice", limen.Audio(hold=1.0))
        with OpusEncoder() as encoder:
            packet = encoder.encode(np.zeros((960, 1), np.float32))
        ears = client.subscribe("voice", "audio")
        await ears.ready()
        for i in range(10):
            await voice.send_encoded(packet, captured=limen.now() + i * 0.02)
        await voice.finish()
        assert sum([f.kind == "played" async for f in ears]) >= 4
        with pytest.raises(UsageError, match="finished"):
            await voice.send_encoded(packet, captured=1.0)


# -- finding tracks


async def test_a_track_nobody_offers_is_named_with_those_that_are(sessions: Any) -> None:
    async with sessions() as (client, server):
        server.publish("voice", limen.Data())
        server.publish("face", limen.Data())
        await until(lambda: len(client.offers) == 2)
        with pytest.raises(TrackNotOfferedError, match=r"'ears'.*offered: face, voice"):
            await anext(client.subscribe("ears", wait=0.1))
        gc.collect()
        assert not list(client._waiting), "failed subscriptions are not kept"
        assert not client.is_closed


async def test_a_track_may_be_offered_after_it_is_asked_for(sessions: Any) -> None:
    async with sessions() as (client, server):
        asked = asyncio.create_task(client.subscribe("late", wait=5).ready())
        await asyncio.sleep(0.05)
        server.publish("late", limen.Data())
        info = await asyncio.wait_for(asked, 3)
        assert (info.name, info.media) == ("late", "data")


async def test_names_and_kinds_are_checked(sessions: Any) -> None:
    async with sessions() as (client, server):
        server.publish("x", limen.Data())
        for name in ("x", "", "n" * 65):
            with pytest.raises(UsageError):
                server.publish(name, limen.Data())
        with pytest.raises(UsageError, match="Audio, Video or Data"):
            server.publish("y", "audio")
        with pytest.raises(UsageError, match="is data, not audio"):
            await client.subscribe("x", "audio").ready()
        subscription = client.subscribe("x")
        await subscription.ready()
        with pytest.raises(UsageError, match="already"):
            await client.subscribe("x").ready()
        for number in range(63):
            server.publish(f"t{number}", limen.Data())
        with pytest.raises(UsageError, match="at most 64 tracks"):
            server.publish("one more", limen.Data())
        await asyncio.sleep(0.05)
        assert not client.is_closed


async def test_unsubscribing_and_subscribing_again(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data())
        for turn in range(3):
            subscription = client.subscribe("x", "data")
            await subscription.ready()
            await track.wait_subscribed()
            await track.send(bytes([turn]))
            assert (await collect(subscription, 1))[0].payload == bytes([turn])
            subscription.close()
            subscription.close()
            with pytest.raises(StopAsyncIteration):
                await anext(subscription)
            await until(lambda: not track.is_subscribed)
        await track.send(b"nobody")
        assert track.stats()["unheard"] == 1
        assert not client._subscriptions


async def test_closing_a_subscription_that_waits_for_its_offer(sessions: Any) -> None:
    async with sessions() as (client, server):
        subscription = client.subscribe("x", wait=30)
        waiting = asyncio.create_task(anext(subscription))
        await asyncio.sleep(0.05)
        subscription.close()
        with pytest.raises((StopAsyncIteration, SessionClosedError)):
            await asyncio.wait_for(waiting, 2)
        server.publish("x", limen.Data())
        await until(lambda: "x" in client.offers)
        await asyncio.sleep(0.02)
        assert not client._subscriptions, "a closed subscription must not come to life"


async def test_an_object_is_counted_once_however_often_it_is_given_up(sessions: Any) -> None:
    """A reset stream and the message about it name the same object; the end waits for others."""
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data())
        eyes = client.subscribe("x", "data")
        await eyes.ready()
        await track.wait_subscribed()
        gone = ObjectId(track.info.number, 7, 0)
        for _ in range(3):
            client._on_gone((gone,), limen.now())
        client._on_gone((ObjectId(track.info.number, 8, 0),), limen.now())
        stats = client.stats()["subscribed"]["x"]
        assert stats["objects"] == 2
        assert stats["gone"] == 2


# -- pressure, cancellation, bounds


async def test_sending_data_waits_for_the_link_and_loses_nothing(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data(queue_bytes=20_000))
        eyes = client.subscribe("x", "data", max_frames=10_000)
        await eyes.ready()
        await track.wait_subscribed()
        peak = 0
        for i in range(60):
            await track.send(i.to_bytes(4, "big") * 500)
            peak = max(peak, track.stats()["queued_bytes"])
        assert peak < 20_000 + 2 * 2100
        await track.finish()
        got = [int.from_bytes(f.payload[:4], "big") async for f in eyes]
        assert sorted(got) == list(range(60))


async def test_many_small_objects_are_not_shed_but_waited_for(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data())
        eyes = client.subscribe("x", "data", max_frames=10_000)
        await eyes.ready()
        await track.wait_subscribed()
        for i in range(1500):
            await track.send(i.to_bytes(4, "big"))
        await track.finish()
        got = [int.from_bytes(f.payload, "big") async for f in eyes]
        assert sorted(got) == list(range(1500))
        assert not any(key.startswith("shed") for key in track.stats())


async def test_a_cancelled_send_leaves_the_track_usable(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data(queue_bytes=1000))
        eyes = client.subscribe("x", "data", max_frames=1000)
        await eyes.ready()
        await track.wait_subscribed()
        await track.send(bytes(60_000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(track.send(b"cancelled"), 0.02)
        await track.send(b"after")
        got = await collect(eyes, 2)
        assert sorted(len(f.payload) for f in got) == [5, 60_000]


async def test_finishing_wakes_a_waiting_send(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data(queue_bytes=1000))
        await client.subscribe("x", "data").ready()
        await track.wait_subscribed()
        await track.send(bytes(100_000))
        waiting = asyncio.create_task(track.send(b"x"))
        await asyncio.sleep(0.01)
        await track.finish()
        with pytest.raises(UsageError, match="finished"):
            await asyncio.wait_for(waiting, 2)


async def test_a_cancelled_finish_still_ends_the_track(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data())
        eyes = client.subscribe("x", "data")
        await eyes.ready()
        await track.wait_subscribed()
        await track.send(bytes(2_000_000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(track.finish(), 0.05)
        await until(lambda: "x" not in client.offers)
        again = server.publish("x", limen.Data())
        await until(lambda: "x" in client.offers)
        eyes.close()
        eyes = client.subscribe("x", "data")
        await eyes.ready()
        await again.wait_subscribed()
        await again.send(b"fresh")
        assert (await collect(eyes, 1))[0].payload == b"fresh"


async def test_cancelling_an_iteration_leaves_the_subscription_usable(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data())
        eyes = client.subscribe("x", "data")
        await eyes.ready()
        await track.wait_subscribed()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(eyes), 0.05)
        await track.send(b"later")
        assert (await collect(eyes, 1))[0].payload == b"later"


async def test_a_reader_that_never_reads_is_bounded(sessions: Any) -> None:
    settings = limen.SessionSettings(limits=limen.Limits(queued_frames=8, queued_bytes=50_000))
    async with sessions(client=settings) as (client, server):
        track = server.publish("x", limen.Data())
        eyes = client.subscribe("x", "data")
        await eyes.ready()
        await track.wait_subscribed()
        for i in range(60):
            await track.send(bytes([i]) * 100)
        await until(lambda: client.stats()["subscribed"]["x"]["objects"] == 60)
        stats = client.stats()["subscribed"]["x"]
        assert stats["waiting_frames"] == 8
        assert stats["unread"] == 52
        for i in range(10):
            await track.send(bytes([100 + i]) * 10_000)
        await until(lambda: client.stats()["subscribed"]["x"]["objects"] == 70)
        assert eyes._bytes <= 50_000
        assert max(f.payload[0] for f in await collect(eyes, 5)) == 109, "the newest are kept"


@pytest.mark.parametrize("captured", [math.nan, math.inf, -math.inf, 1e12])
async def test_impossible_capture_times_are_refused_here(sessions: Any, captured: float) -> None:
    async with sessions() as (client, server):
        with pytest.raises(UsageError, match="captured"):
            await server.publish("d", limen.Data()).send(b"x", captured=captured)
        with pytest.raises(UsageError, match="captured"):
            await server.publish("a", limen.Audio()).send(np.zeros(960), captured=captured)
        with pytest.raises(UsageError, match="captured"):
            await server.publish("v", limen.Video()).send(picture(), captured=captured)
        assert not client.is_closed


async def test_what_is_no_media_is_refused_in_words(sessions: Any) -> None:
    async with sessions() as (client, server):
        data = server.publish("d", limen.Data())
        with pytest.raises(UsageError, match="bytes, got str"):
            await data.send("text")
        with pytest.raises(UsageError, match="at most 4000000 bytes"):
            await data.send(bytes(4_000_001))
        voice = server.publish("v", limen.Audio(hold=1))
        with pytest.raises(UsageError, match="'v'"):
            await voice.send(np.zeros((3, 3, 3), np.float32))
        face = server.publish("f", limen.Video())
        await client.subscribe("f", "video").ready()
        await face.wait_subscribed()
        with pytest.raises(UsageError, match="'f'"):
            await face.send(np.zeros((4, 4), np.uint8))


# -- tags


async def test_tags_on_own_and_on_the_others_tracks(sessions: Any) -> None:
    region = limen.Region.around(0.5, 0.5, 0.1)
    async with sessions() as (client, server):
        face = server.publish("face", limen.Video(bitrate_bps=200_000))
        seen: list[Any] = []
        inner = face._encoder.encode

        def encode(image: Any, **options: Any) -> Any:
            seen.append(options["regions"])
            return inner(image, **options)

        face._encoder.encode = encode
        eyes = client.subscribe("face", "video")
        await eyes.ready()
        await face.wait_subscribed()
        client.tag("gaze", 0.9, track="face", region=region, half_life=60)
        await until(lambda: server.stats()["scheduler"]["flows"][0]["breakdown"])
        (part,) = server.stats()["scheduler"]["flows"][0]["breakdown"]
        assert part["kind"] == "gaze"
        assert part["source"] == "peer:app"
        await face.send(picture())
        assert [r for r, _ in seen[-1]] == [region], "the region reaches the encoder"
        before = server.stats()["scheduler"]["flows"][0]["importance"]
        server.tag("hint", 0.8, track="face", half_life=60)
        assert face.importance(limen.now()) > before
        with pytest.raises(UsageError, match="neither end offers"):
            client.tag("gaze", 0.5, track="nothing")
        with pytest.raises(UsageError):
            client.tag("gaze", 1.5, track="face")
        with pytest.raises(UsageError):
            client.tag("gaze", 0.5, track="face", half_life=0)


# -- the end


async def test_closing_ends_iterators_in_order(sessions: Any) -> None:
    async with sessions() as (client, server):
        server.publish("x", limen.Data())
        first = client.subscribe("x", "data")
        await first.ready()
        never = client.subscribe("y", wait=30)

        async def read(frames: Any) -> int:
            return len([f async for f in frames])

        tasks = [asyncio.create_task(read(s)) for s in (first, never)]
        await asyncio.sleep(0.05)
        await client.close()
        assert await asyncio.wait_for(asyncio.gather(*tasks), 2) == [0, 0]
        await client.close()
        with pytest.raises(SessionClosedError):
            client.publish("z", limen.Data())
        with pytest.raises(SessionClosedError):
            client.subscribe("z")
        assert await asyncio.wait_for(server.wait_closed(), 2) == "closed by the peer"


async def test_what_waits_learns_why_the_peer_ended_the_session(sessions: Any) -> None:
    from limen.transport.close_reasons import CloseCode

    async with sessions() as (client, server):
        voice = client.publish("up", limen.Data(queue_bytes=1))
        server.publish("x", limen.Data())
        eyes = client.subscribe("x", "data")
        await eyes.ready()
        reading = asyncio.create_task(anext(eyes))
        waiting = asyncio.create_task(voice.wait_subscribed())
        asking = asyncio.create_task(client.subscribe("later", wait=30).ready())
        await asyncio.sleep(0.05)
        server.close_now("fell over", code=CloseCode.INTERNAL)
        for task in (reading, waiting, asking):
            with pytest.raises(SessionClosedError, match="fell over"):
                await asyncio.wait_for(task, 3)
        with pytest.raises(SessionClosedError, match="fell over") as caught:
            await voice.send(b"x")
        assert "fell over" in caught.value.reason
        assert "fell over" in client.stats()["closed"]


async def test_a_session_that_ends_while_media_is_encoded(sessions: Any) -> None:
    async with sessions() as (client, server):
        voice = server.publish("v", limen.Audio())
        face = server.publish("f", limen.Video())
        await asyncio.gather(
            client.subscribe("v", "audio").ready(), client.subscribe("f", "video").ready()
        )
        await asyncio.gather(voice.wait_subscribed(), face.wait_subscribed())

        async def forever(track: Any, item: Any) -> None:
            while True:
                await track.send(item)
                await asyncio.sleep(0)

        tasks = [
            asyncio.create_task(forever(voice, np.zeros(960, np.float32))),
            asyncio.create_task(forever(face, picture())),
        ]
        await asyncio.sleep(0.1)
        await client.close("bye")
        for task in tasks:
            with pytest.raises((SessionClosedError, UsageError)):
                await asyncio.wait_for(task, 3)


async def test_a_failing_handler_ends_its_own_session_alone(
    certificate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(session: limen.Session) -> None:
        await until(lambda: session.offers)
        if "bad" in session.offers:
            raise RuntimeError("a fault in the handler")
        await session.wait_closed()

    async with limen.serve(handler, certificate=certificate) as server:
        to = ("127.0.0.1", server.port)
        async with (
            limen.connect(*to, fingerprint=server.fingerprint) as good,
            limen.connect(*to, fingerprint=server.fingerprint) as bad,
        ):
            good.publish("good", limen.Data())
            with caplog.at_level(logging.ERROR, logger="limen"):
                bad.publish("bad", limen.Data())
                reason = await asyncio.wait_for(bad.wait_closed(), 3)
            assert "internal error" in reason
            assert "a fault in the handler" in caplog.text
            await asyncio.sleep(0.05)
            assert not good.is_closed
            assert len(server.sessions) == 1


async def test_a_fault_inside_one_session_is_that_sessions_end(
    sessions: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data())
        eyes = client.subscribe("x", "data")
        await eyes.ready()
        await track.wait_subscribed()

        def broken(_received: Any) -> None:
            raise ZeroDivisionError

        eyes.receiver.on_object = broken
        with caplog.at_level(logging.CRITICAL, logger="limen"):
            await track.send(b"x")
            assert "internal error" in await asyncio.wait_for(client.wait_closed(), 3)
            assert "internal error" in await asyncio.wait_for(server.wait_closed(), 3)


async def test_a_handler_that_returns_ends_its_session(certificate: Any) -> None:
    async def handler(_session: limen.Session) -> str:
        return "ignored"

    async with (
        limen.serve(handler, certificate=certificate) as server,
        limen.connect("127.0.0.1", server.port, fingerprint=server.fingerprint) as session,
    ):
        assert await asyncio.wait_for(session.wait_closed(), 3) == "closed by the peer"
        assert session.core.closed is not None
        assert not session.core.closed.error


async def test_a_handshake_that_never_completes_leaves_nothing(
    certificate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    from limen.transport import api
    from limen.transport.core import SessionCore
    from limen.transport.quic.tls import Trust

    monkeypatch.setattr(api, "HANDSHAKE_TIMEOUT", 0.2)

    async def handler(_session: limen.Session) -> None:
        pytest.fail("never set up")

    async with limen.serve(handler, certificate=certificate) as server:
        core = SessionCore(
            settings=limen.SessionSettings(), trust=Trust(fingerprint=server.fingerprint)
        )
        core.connect(("127.0.0.1", server.port), now=1.0)
        ((hello, address), *_) = core.transmit(now=1.0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(hello, address)
            sock.sendto(hello[:30] + bytes(1170), address)  # garbage that looks like an Initial
            sock.sendto(b"\x40" + bytes(100), address)
            sock.sendto(bytes(5), address)
            await until(lambda: len(server._endpoint.wires) >= 1)
            await until(lambda: not server._endpoint.wires, 3.0)
        assert not server._tasks
        assert server.counts["handshakes_given_up"] >= 1
        assert not server._endpoint._by_id


async def test_a_hundred_sessions_leave_nothing_behind(certificate: Any) -> None:
    async def handler(session: limen.Session) -> None:
        track = session.publish("x", limen.Audio())
        session.publish("y", limen.Data())
        await session.wait_closed()
        assert track.name == "x"

    def fds() -> int:
        return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0

    async with limen.serve(handler, certificate=certificate) as server:
        before: tuple[int, int, int] | None = None
        for turn in range(100):
            async with limen.connect(
                "127.0.0.1", server.port, fingerprint=server.fingerprint
            ) as session:
                await session.subscribe("x").ready()
            if turn == 4:
                await until(lambda: not server.sessions)
                await asyncio.sleep(0.05)
                before = (len(asyncio.all_tasks()), threading.active_count(), fds())
        await until(lambda: not server.sessions)
        await asyncio.sleep(0.05)
        after = (len(asyncio.all_tasks()), threading.active_count(), fds())
        assert before is not None
        assert all(b <= a + 1 for a, b in zip(before, after, strict=True)), (before, after)
        assert not server._endpoint.wires
        assert not server._endpoint._by_id
        gc.collect()
        live = [o for o in gc.get_objects() if isinstance(o, limen.Session)]
        assert len(live) <= 3


async def test_stats_are_plain_values(sessions: Any) -> None:
    import json

    async with sessions() as (client, server):
        server.publish("v", limen.Audio())
        server.publish("f", limen.Video())
        await client.subscribe("v", "audio").ready()
        await client.subscribe("f", "video").ready()
        for session in (client, server):
            stats = session.stats()
            json.dumps(stats)
            assert stats["closed"] is None
            assert stats["link"]["target_bps"] > 0


async def test_a_tag_the_peer_would_refuse_is_the_callers_error(sessions: Any) -> None:
    async with sessions() as (client, server):
        server.publish("face", limen.Video())
        await until(lambda: "face" in client.offers)
        wrongs: list[dict[str, Any]] = [
            {"half_life": 0.0005},
            {"source": "x" * 65},
            {"at": limen.now() - 4000.0},
            {"region": limen.Region(0, 0, 20, 20)},
            {"layer": 300},
        ]
        for wrong in wrongs:
            with pytest.raises(limen.UsageError):
                client.tag("gaze", 0.5, track="face", **wrong)
        assert not client.is_closed
        client.tag("gaze", 0.5, track="face")
        await until(lambda: bool(server.core.scheduler.tags.breakdown("face", now=limen.now())))


async def test_played_out_tracks_give_everything_back(sessions: Any) -> None:
    async with sessions() as (client, server):
        before = threading.active_count()
        for index in range(10):
            name = f"track-{index}"
            published = server.publish(name, limen.Audio(hold=1.0))
            heard = client.subscribe(name, "audio")
            await heard.ready()
            await published.send(np.zeros(960, np.float32), captured=limen.now())
            await published.finish()
            assert [block async for block in heard]
        assert client.core.incoming.wanted == set()
        assert client.stats()["subscribed"]["track-9"]["objects"] >= 1
        assert threading.active_count() <= before


async def test_slips_that_would_end_the_session_are_the_callers_errors(sessions: Any) -> None:
    async with sessions() as (client, server):
        for name in (b"x", None, 5, "\ud800"):
            with pytest.raises(limen.UsageError):
                client.publish(name, limen.Data())
        face = client.publish("face", limen.Video())
        eyes = server.subscribe("face", "video")
        await eyes.ready()
        await face.wait_subscribed()
        with pytest.raises(limen.UsageError, match="ahead"):
            await face.send(picture(), captured=limen.now() + 1e6)
        for size in ((-1, 5), (64.0, 48.0), (0, 0)):
            with pytest.raises(limen.UsageError):
                await face.send_encoded(b"x", captured=limen.now(), keyframe=True, size=size)
        assert await face.send(picture())
        assert not client.is_closed
