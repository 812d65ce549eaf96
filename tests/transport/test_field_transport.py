"""Field cases of the transport: in virtual time where that is possible, else over loopback."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import limen
from limen.scheduler.types import ObjectId
from limen.transport import api, wire
from limen.transport.errors import ConnectError, SessionClosedError
from limen.transport.events import Closed
from limen.transport.quic.tls import make_certificate
from limen.transport.settings import SessionSettings
from limen.transport.wire import ObjectHeader

RigMaker = Callable[..., Any]


# -- B27: what is queued leaves at once


def test_b27_each_frame_is_on_the_wire_within_2_ms(rig: RigMaker) -> None:
    r = rig(delay_ms=1)
    r.offer("server", 0, "voice")
    r.run(1.2)
    r.client.subscribe(0)
    r.run(3.5)  # 2 s of silence
    times = [3.5 + i * 0.02 for i in range(50)] + [9.5]  # a lone one, 5 s later
    wire_times: list[float] = []
    r.on_event = lambda who, e: (
        wire_times.append(e.sent.time - e.sent.object.captured)
        if who == "server" and hasattr(e, "sent")
        else None
    )
    for i, when in enumerate(times):
        r.at(when, lambda i=i: r.send("server", 0, i, 100, deadline=0.2, delivery="auto"))
    r.run(11.0)
    assert len(wire_times) == len(times)
    assert max(wire_times) <= 0.002


@pytest.mark.realtime
async def test_b27_each_frame_arrives_soon_over_loopback(sessions: Any) -> None:
    async with sessions() as (client, server):
        track = server.publish("x", limen.Data(deadline=1.0))
        ears = client.subscribe("x", "data")
        await ears.ready()
        await track.wait_subscribed()
        await asyncio.sleep(1.0)
        delays = []
        for i in range(30):
            sent = time.monotonic()
            await track.send(bytes([i]) * 100, captured=sent)
            frame = await asyncio.wait_for(anext(ears), 2.0)
            delays.append(frame.arrived - sent)
            await asyncio.sleep(0.02 if i < 28 else 1.0)
        # The fault was 15 s; half of a busy machine's frames within 20 ms is far from it.
        assert sorted(delays)[15] < 0.02, delays
        assert delays[-1] < 0.5, "the lone one after a pause"


# -- B29: DATAGRAMs only as far as the peer takes them


@pytest.mark.parametrize("limit", [None, 200])
def test_b29_a_peer_without_datagrams_gets_streams(
    rig: RigMaker, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from limen.transport.core import SessionCore

    inner = SessionCore._configuration

    def limited(self: SessionCore, certificate: Any, name: Any) -> Any:
        configuration = inner(self, certificate, name)
        if configuration.is_client:
            configuration.max_datagram_frame_size = limit
        return configuration

    monkeypatch.setattr(SessionCore, "_configuration", limited)
    r = rig(delay_ms=60)
    r.offer("server", 0, "voice")
    r.run(1.3)
    r.client.subscribe(0)
    for i in range(100):  # right after connecting, 100-byte and 400-byte frames
        size = 100 if i % 2 else 400
        r.at(1.4 + i * 0.02, lambda i=i, s=size: r.send("server", 0, i, s, delivery="datagram"))
    r.run(5.0)
    assert r.client.closed is None
    assert r.server.closed is None
    assert len(r.received("client")) == 100
    counts = r.server.outgoing.counts
    assert counts["datagram_fallback"] == (100 if limit is None else 50), "visible in the stats"
    assert counts["datagrams"] == (0 if limit is None else 50)


@pytest.mark.realtime
async def test_b29_audio_to_a_receiver_without_datagrams(sessions: Any) -> None:
    async with sessions(client=SessionSettings(datagrams=False)) as (client, server):
        voice = server.publish("voice", limen.Audio(delivery="datagram", hold=1.0))
        ears = client.subscribe("voice", "audio")
        await ears.ready()
        for _ in range(20):
            await voice.send(np.zeros(960, np.float32), captured=limen.now())
            await asyncio.sleep(0.02)
        await voice.finish()
        played = [f async for f in ears if f.kind == "played"]
        assert len(played) > 5
        assert server.stats()["objects_out"]["datagram_fallback"] >= 20
        assert server.stats()["link"]["datagram_limit"] == 0
        assert not client.is_closed


# -- B31: a stream per object, for long

B31_SECONDS = float(os.environ.get("LIMEN_B31_SECONDS", "20"))
"""Virtual seconds; the case says 600, which takes minutes (LIMEN_B31_SECONDS=600 runs it whole,
with `--timeout 900`). 1,600 streams are more than any bound there is (1,024 streams of credit,
1 MB of window), and memory is compared within the run."""


def test_b31_streams_come_and_go_without_stall_or_growth(rig: RigMaker) -> None:
    r = rig(rate_bps=8_000_000, delay_ms=20)
    r.offer("server", 0, "audio", base=0.6)
    r.offer("server", 1, "video", base=0.3)
    r.run(1.2)
    r.client.subscribe(0)
    r.client.subscribe(1)
    r.run(1.5)
    dice = random.Random(5)
    inner = r.client.incoming.on_stream

    def on_stream(stream_id: int, data: bytes, *, end: bool, quic: Any, now: float) -> Any:
        if not end and dice.random() < 0.05:
            quic.refuse_stream(stream_id, 0x11)  # by then the sender has sent its FIN
        return inner(stream_id, data, end=end, quic=quic, now=now)

    r.client.incoming.on_stream = on_stream
    count = [0, 0, 0]
    live: list[int] = []

    def audio() -> None:
        r.send("server", 0, count[0], 80)
        count[0] += 1
        if r.time < 1.5 + B31_SECONDS:
            r.at(r.time + 0.02, audio)

    def video() -> None:
        obj = r.send("server", 1, count[1], 4000)
        count[1] += 1
        live.append(max(r.server.quic.live_streams, r.client.quic.live_streams))
        if count[1] % 10 == 0:  # given up in mid-transfer

            def give_up() -> None:
                if r.server.scheduler.cancel(obj.id, now=r.clock("server")):
                    count[2] += obj.sent_bytes > 0

            r.at(r.time + 0.002, give_up)
        if r.time < 1.5 + B31_SECONDS:
            r.at(r.time + 1 / 30, video)

    r.at(1.5, audio)
    r.at(1.5, video)
    arrived, objects = 0, []
    for step in range(6):
        end = 1.6 + B31_SECONDS * (step + 1) / 6
        r.run(end)
        assert r.client.closed is None
        assert r.server.closed is None
        got = len(r.received("client"))
        assert got > 0.8 * 80 * B31_SECONDS / 6, f"stalled near {end:.0f} s"
        arrived += got
        for who in ("client", "server"):
            r.events[who].clear()
        r.sent.clear()
        gc.collect()
        objects.append(len(gc.get_objects()))
    r.run(B31_SECONDS + 4.0)
    assert count[2] > 8, "too few were given up in mid-transfer for this to be a test"
    assert r.server.outgoing.counts["refused_by_peer"] > 8
    assert max(live) < 300
    assert objects[-1] - objects[2] < 4000, f"Python objects grow: {objects}"
    assert r.server.quic.live_streams < 10
    assert r.client.quic.live_streams < 10
    assert r.server.outgoing.open_streams == 0
    assert r.server.scheduler.backlog_bytes == 0
    assert arrived > 0.85 * (count[0] + count[1])


# -- B32: one peer's fault is no other's

KILLED = """
import asyncio, sys
import limen

async def main():
    async with limen.connect("127.0.0.1", int(sys.argv[1]), fingerprint=sys.argv[2]) as session:
        async for frame in session.subscribe("ticks", "data"):
            print("got", flush=True)

asyncio.run(main())
"""


@pytest.mark.realtime
async def test_b32_a_killed_a_raising_and_a_hostile_peer_leave_the_fourth_alone(
    certificate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SessionSettings(idle_timeout=1.5)

    async def handler(session: limen.Session) -> None:
        track = session.publish("ticks", limen.Data())
        await track.wait_subscribed()
        for i in range(10_000):
            await track.send(bytes(100))
            if i == 20 and "boom" in session.offers:
                raise ZeroDivisionError("in the handler of one peer")
            await asyncio.sleep(0.02)

    async with limen.serve(handler, certificate=certificate, settings=settings) as server:
        to: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": server.port,
            "fingerprint": server.fingerprint,
        }
        arrivals: list[float] = []

        async def watch() -> None:
            async with limen.connect(**to) as session:
                async for frame in session.subscribe("ticks", "data"):
                    arrivals.append(frame.arrived)  # noqa: PERF401 - as it comes

        async def raising() -> str:
            async with limen.connect(**to) as session:
                session.publish("boom", limen.Data())
                with pytest.raises(SessionClosedError) as caught:
                    async for _ in session.subscribe("ticks", "data"):
                        pass
                return caught.value.reason

        async def hostile() -> str:
            async with limen.connect(**to) as session:
                subscription = session.subscribe("ticks", "data")
                await subscription.ready()
                session.core.quic.send_stream_data(0, b"\xff" * 100)
                session.wake()
                return await asyncio.wait_for(session.wait_closed(), 5)

        watching = asyncio.create_task(watch())
        killed = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-c", KILLED, str(server.port), server.fingerprint],
            stdout=subprocess.PIPE,
        )
        assert killed.stdout is not None
        try:
            assert await asyncio.to_thread(killed.stdout.readline)
            with caplog.at_level(logging.CRITICAL, logger="limen"):
                reasons = await asyncio.gather(raising(), hostile())
            os.kill(killed.pid, signal.SIGKILL)
        finally:
            killed.kill()
            await asyncio.to_thread(killed.wait)
            killed.stdout.close()
        begin = time.monotonic()
        wires = server._endpoint.wires
        while len(wires) > 1 and time.monotonic() - begin < 10:
            await asyncio.sleep(0.1)
            wires = server._endpoint.wires
        assert len(server.sessions) == 1, "the killed peer's session is ended at the idle limit"
        assert len(wires) == 1, "and its memory is free"
        assert "internal error" in reasons[0]
        assert "control message of 4294967295 bytes" in reasons[1]
        assert not watching.done()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    gaps = [b - a for a, b in itertools.pairwise(arrivals)]
    assert len(arrivals) > 60
    assert sorted(gaps)[len(gaps) // 2] < 0.05
    assert max(gaps) < 0.5, "the fourth was held up"  # 0.1 in virtual time: test_isolation.py


# -- B40: nobody there, the wrong one there, and going away


async def refuses(timeout: float, **arguments: Any) -> str:
    begin = time.monotonic()
    with pytest.raises(ConnectError) as caught:
        async with limen.connect("127.0.0.1", timeout=timeout, **arguments):
            pytest.fail("connected")
    assert time.monotonic() - begin < timeout + 1.0
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 300
    return text


@pytest.fixture
def sink() -> Any:
    """A UDP port that never answers."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    yield sock.getsockname()[1]
    sock.close()


async def test_b40_a_closed_port_is_named_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    begin = time.monotonic()
    text = await refuses(5.0, port=port, fingerprint="ab" * 32)
    assert str(port) in text
    if sys.platform == "linux":
        assert "nothing listens" in text
        assert time.monotonic() - begin < 2.0


async def test_b40_a_silent_port_ends_at_the_timeout(sink: int) -> None:
    text = await refuses(0.5, port=sink, fingerprint="ab" * 32)
    assert "no answer" in text
    assert "0.5 s" in text


async def test_b40_a_wrong_protocol_is_named(
    certificate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = api.Server._make_core

    def other(self: api.Server, destination: bytes) -> Any:
        monkeypatch.setattr(wire, "ALPN", "chat/9")
        try:
            return inner(self, destination)
        finally:
            monkeypatch.setattr(wire, "ALPN", "limen/1")

    monkeypatch.setattr(api.Server, "_make_core", other)

    async def handler(_session: limen.Session) -> None:
        pytest.fail("no session comes of this")

    async with limen.serve(handler, certificate=certificate) as server:
        text = await refuses(5.0, port=server.port, fingerprint=server.fingerprint)
        assert "does not speak limen/1" in text


async def test_b40_the_error_is_all_that_is_said(
    certificate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_session: limen.Session) -> None:
        pytest.fail("no session comes of this")

    async with limen.serve(handler, certificate=certificate) as server:
        assert "certificate" in await refuses(5.0, port=server.port)  # its authority is unknown
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.INFO] == []


async def test_b40_a_wrong_certificate_is_named(certificate: Any) -> None:
    async def handler(_session: limen.Session) -> None:
        pytest.fail("no session comes of this")

    async with limen.serve(handler, certificate=certificate) as server:
        text = await refuses(5.0, port=server.port, fingerprint=make_certificate().fingerprint)
        assert "not the one that was pinned" in text
        text = await refuses(5.0, port=server.port)
        assert "certificate was not accepted" in text


async def test_b40_cancelling_while_connecting_takes_effect_at_once(sink: int) -> None:
    async def attempt() -> None:
        async with limen.connect("127.0.0.1", sink, fingerprint="ab" * 32, timeout=60.0):
            pass

    before = len(asyncio.all_tasks())
    task = asyncio.create_task(attempt())
    await asyncio.sleep(0.2)
    begin = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begin < 1.0
    await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) == before


SERVER = """
import asyncio
import limen
from limen.transport.quic.tls import make_certificate

async def handler(session):
    await session.wait_closed()

async def main():
    async with limen.serve(handler, certificate=make_certificate()) as server:
        print(server.port, server.fingerprint, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.realtime
async def test_b40_a_servers_death_is_noticed_within_the_idle_limit() -> None:
    process = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        port, fingerprint = (await asyncio.to_thread(process.stdout.readline)).split()
        settings = SessionSettings(idle_timeout=1.0)
        async with limen.connect(
            "127.0.0.1", int(port), fingerprint=fingerprint, settings=settings
        ) as session:
            await asyncio.sleep(1.5)
            assert not session.is_closed, "an idle session stays up"
            begin = time.monotonic()
            process.kill()
            reason = await asyncio.wait_for(session.wait_closed(), 6.0)
            assert "nothing was heard" in reason
            assert time.monotonic() - begin < 4.0
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        process.stdout.close()


@pytest.mark.realtime
async def test_b40_leaving_tells_the_other_side_within_a_second(sessions: Any) -> None:
    async with sessions() as (client, server):
        begin = time.monotonic()
        await client.close("had enough")
        reason = await asyncio.wait_for(server.wait_closed(), 2.0)
        assert reason == "had enough"
        assert time.monotonic() - begin < 1.0


# -- B42: the first and the last syllable


def utterance(seconds: float = 0.8, *, end: int = 20) -> np.ndarray:
    """Quiet, with a click in the first and one in the last 5 ms (or `end` samples earlier)."""
    n = round(seconds * 48_000)
    sound = (np.random.default_rng(3).standard_normal(n) * 0.003).astype(np.float32)
    click = (0.9 * np.sin(2 * np.pi * 2000 * np.arange(192) / 48_000)).astype(np.float32)
    sound[20:212] += click
    sound[n - 192 - end : n - end] += click
    return sound


def clicks(blocks: list[np.ndarray]) -> list[float]:
    """Where loud bursts begin, in seconds."""
    sound = np.abs(np.concatenate(blocks)[:, 0])
    loud = np.flatnonzero(sound > 0.25) / 48_000
    return [t for i, t in enumerate(loud) if i == 0 or t - loud[i - 1] > 0.05]


async def clearly_heard(attempt: Callable[[], Any], expected: int) -> None:
    """A machine busy with other things may delay a frame; a fault is there every time."""
    heard = []
    for _ in range(3):
        heard.append(clicks(await attempt()))
        if len(heard[-1]) == expected:
            return
    pytest.fail(f"{expected} clicks were said, heard: {heard}")


async def speak(track: Any, sound: np.ndarray, *, paced: bool = True) -> None:
    begin = limen.now()
    for i in range(0, len(sound), 960):
        at = begin + (i + 960) / 48_000
        await asyncio.sleep(max(0.0, at - limen.now()) if paced else 0)
        await track.send(sound[i : i + 960], sample_rate=48_000, captured=at)


@pytest.mark.realtime
@pytest.mark.parametrize("lead_ms", [0, 300, 1000])
async def test_b42_both_clicks_come_out_however_late_the_subscriber(
    sessions: Any, lead_ms: int
) -> None:
    async def attempt() -> list[np.ndarray]:
        async with sessions() as (client, server):
            voice = server.publish("voice", limen.Audio(hold=2.0, deadline=0.5))

            async def say() -> None:
                await speak(voice, utterance())
                await voice.finish()

            talking = asyncio.create_task(say())
            await asyncio.sleep(lead_ms / 1000)
            blocks = [f.samples async for f in client.subscribe("voice", "audio", max_frames=500)]
            await talking
            assert voice.stats().get("unheard", 0) == 0
            return blocks

    await clearly_heard(attempt, 2)


@pytest.mark.realtime
async def test_b42_waiting_for_the_subscriber_keeps_both_clicks(sessions: Any) -> None:
    async def attempt() -> list[np.ndarray]:
        async with sessions() as (client, server):
            voice = server.publish("voice", limen.Audio())

            async def say() -> None:
                await voice.wait_subscribed()
                await speak(voice, utterance(0.3))
                await voice.finish()

            talking = asyncio.create_task(say())
            await asyncio.sleep(0.3)
            blocks = [f.samples async for f in client.subscribe("voice", "audio")]
            await talking
            return blocks

    await clearly_heard(attempt, 2)


@pytest.mark.realtime
async def test_b42_without_hold_what_nobody_heard_is_counted(sessions: Any) -> None:
    async with sessions() as (_client, server):
        voice = server.publish("voice", limen.Audio())
        await speak(voice, utterance(0.2), paced=False)
        assert voice.stats()["unheard"] == 10
        await voice.finish()


@pytest.mark.realtime
async def test_b42_the_last_frame_plays_without_a_following_one_also_after_silence(
    sessions: Any,
) -> None:
    async def attempt() -> list[np.ndarray]:
        async with sessions() as (client, server):
            voice = server.publish("voice", limen.Audio())
            ears = client.subscribe("voice", "audio", max_frames=1000)
            await ears.ready()
            await voice.wait_subscribed()
            for _ in range(2):  # nothing follows, and the track goes on
                # Opus itself keeps the last 6.5 ms until a next frame or the track's end.
                await speak(voice, utterance(0.2, end=400))
                await asyncio.sleep(1.0)  # the case says 20 s of silence; the path is the same
            blocks = [f.samples for f, _ in ears._frames]  # what has been played by now
            await voice.finish()
            return blocks

    await clearly_heard(attempt, 4)


# -- B43: cadence


def test_b43_send_times_do_not_slip_and_a_stall_makes_no_burst(rig: RigMaker) -> None:
    r = rig(rate_bps=1_000_000)
    r.offer("server", 0, "voice")
    r.run(1.2)
    r.client.subscribe(0)
    r.run(1.5)
    sent: list[tuple[float, int]] = []
    r.on_event = lambda who, e: (
        sent.append((e.sent.time - 100.0, e.sent.object.id.index))
        if who == "server" and hasattr(e, "sent")
        else None
    )
    stop, length = 20.0, 5.0
    for i in range(2000):
        due = 1.5 + i * 0.02
        woken = due + 0.001  # always a millisecond late
        if stop <= due < stop + length:
            woken = stop + length + 0.001  # all at once after the stop

        def emit(i: int = i, due: float = due) -> None:
            header = ObjectHeader(ObjectId(0, i, 0), 100 + due, 0.02, 0.2, 0.5, 80, sequence=i)
            from limen.scheduler.types import MediaObject

            obj = MediaObject(header.id, header.encode() + bytes(80), 100 + due, 100.2 + due)
            r.server.send_object(obj, delivery="stream", now=r.clock("server"))

        r.at(woken, emit)
    r.run(1.5 + 41)
    before = [t for t, _ in sent if t < stop]
    periods = np.diff(before)
    assert abs(float(periods.mean()) - 0.02) < 2e-5
    assert float(np.abs(np.array(before) - 1.5 - 0.02 * np.arange(len(before))).max()) < 0.02
    burst = [t for t, _ in sent if stop + length <= t < stop + length + 0.3]
    assert len(burst) <= 0.3 / 0.02 + 0.2 / 0.02 + 1, "overdue frames were sent"
    got = [(t, e.header.captured) for t, e in r.received("client")]
    assert max(t + 100 - captured for t, captured in got) < 0.3
    assert sum(t > stop + length + 0.5 for t, _ in got) > 0.95 * (41 - stop - length - 0.6) * 50


# -- B48: objects that are never completed


def uni_header(index: int, size: int, **changes: Any) -> bytes:
    fields: dict[str, Any] = {"deadline": 0.2, "sequence": index, **changes}
    header = ObjectHeader(ObjectId(0, index, 0), 1.0, 0.02, importance=0.5, size=size, **fields)
    return header.encode()


def test_b48_ten_thousand_unfinished_objects_stay_within_the_budget(rig: RigMaker) -> None:
    r = rig(rate_bps=40_000_000, delay_ms=10)
    r.offer("client", 0, "x")
    r.run(1.2)
    r.server.subscribe(0)
    r.run(1.4)
    quic, victim = r.client.quic, r.server.incoming
    opened, worst, worst_bytes = [0], [0], [0]

    def attack() -> None:
        for _ in range(6):
            if opened[0] < 10_000 and quic.can_open_stream():
                stream = quic.get_next_available_stream_id(is_unidirectional=True)
                header = uni_header(10**6 + opened[0], 4_000_000, deadline=None)
                quic.send_stream_data(stream, header + bytes(200))
                opened[0] += 1
        live = sum(not a.refused for a in victim._open.values())
        worst[0] = max(worst[0], live)
        worst_bytes[0] = max(worst_bytes[0], victim.held_bytes)
        if r.time < 12.0:
            r.at(r.time + 0.005, attack)

    r.at(1.5, attack)
    for i in range(400):  # good ones all the while
        r.at(1.6 + i * 0.025, lambda i=i: r.send("client", 0, i, 300, delivery="datagram"))
    r.run(13.5)
    assert r.server.closed is None
    assert opened[0] == 10_000
    assert worst[0] <= 65
    assert worst_bytes[0] <= 8_000_000 + 1200
    good = [e for _, e in r.received("server") if e.header.id.index < 1000]
    assert len(good) >= 396
    assert victim.counts["evicted"] > 9_000
    assert len(victim._open) <= 1024


def test_b48_an_unfinished_object_is_let_go_after_its_deadline(rig: RigMaker) -> None:
    r = rig()
    r.offer("client", 0, "x")
    r.run(1.2)
    r.server.subscribe(0)
    r.run(1.4)
    r.client.quic.send_stream_data(2, uni_header(1, 1000) + bytes(10))
    r.run(1.5)
    assert r.server.incoming.held_bytes > 0
    r.run(1.4 + 0.2 + 1.1)
    assert r.server.incoming.held_bytes == 0
    r.run(4.0)
    assert r.server.incoming.held_objects == 0


@pytest.mark.parametrize(
    ("data", "end", "words"),
    [
        (uni_header(0, 5) + bytes(6), False, "announced 5 bytes and carried 6"),
        (uni_header(0, 5) + bytes(4), True, "announced 5 bytes and carried 4"),
        (uni_header(0, 4 * 2**30), False, "size"),
        (uni_header(0, 5)[:7], True, "ended within its header"),
        (b"\xff\xff", False, "at most 512"),
        (b"", True, "ended within its header"),
        (b"\x00\x01\xc0", True, "array of 13"),
    ],
)
def test_b48_contradictions_end_that_session_in_words(
    rig: RigMaker, data: bytes, end: bool, words: str
) -> None:
    r = rig()
    r.offer("client", 0, "x")
    r.run(1.2)
    r.server.subscribe(0)
    r.run(1.4)
    r.client.quic.send_stream_data(2, data, end_stream=end)
    r.run(2.0)
    (closed,) = r.of("server", Closed)
    assert closed.error
    assert words in closed.reason


def test_b48_one_byte_at_a_time_is_still_an_object(rig: RigMaker) -> None:
    r = rig()
    r.offer("client", 0, "x")
    r.run(1.2)
    r.server.subscribe(0)
    data = uni_header(0, 40) + bytes(range(40))
    for i in range(len(data)):
        r.at(
            1.5 + i * 0.01,
            lambda i=i: r.client.quic.send_stream_data(
                2, data[i : i + 1], end_stream=i == len(data) - 1
            ),
        )
    r.run(4.0)
    assert [e.payload for _, e in r.received("server")] == [bytes(range(40))]
