"""WebRTC in Python: aiortc, with its own congestion control, jitter buffers, VP8 and Opus.

Tracks are fed on the schedule of all peers and tapped where an application takes pictures and
sound: `recv`. aiortc plays nothing, stretches nothing and makes nothing up; what it gives out at
once is taken as shown or played then. Pictures are known by barcode, sound is aligned with its
source later (`bench/runs/alignment.py`).

Its VP8 rate follows the receiver's estimate between 250 kbit/s and a ceiling, which is the plan's;
Opus has a fixed rate, 96 kbit/s until it is told the plan's. Media is sent from
`rehearsal.WARM_UP` seconds before run time 0, as for every WebRTC peer.
"""

from __future__ import annotations

import asyncio
import fractions
import gc
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import av
import numpy as np

from ..scene import SOUND_RATE, Floats
from .capture import BLOCK, PERIOD, load_source, wait_until
from .heard import HeardLog
from .parent import Parent
from .plan import RunPlan
from .program import report_live, run_peer
from .recorder import EventLog, LiveDelays
from .rehearsal import WARM_UP, RehearsedPictures, rehearse
from .shown_pictures import PictureSpool
from .webrtc import on_the_link, told

VIDEO_CLOCK = 90_000


def missing() -> str | None:
    """Why it cannot run here; None when it can."""
    if importlib.util.find_spec("aiortc") is None:
        return "aiortc is not installed (pip install 'limen[rivals]')"
    return None


async def send(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Feed the tracks on the schedule."""
    from aiortc import RTCPeerConnection, RTCSessionDescription  # noqa: PLC0415 - optional

    pictures, sounds = rehearse(load_source(plan.load_scene(), barcode=True))
    _set_rates(plan)
    connection = RTCPeerConnection(_configuration())
    feeds = _feeds(pictures, sounds)
    streams = {track: connection.addTransceiver(f, "sendonly") for track, f in feeds.items()}
    gc.collect()
    gc.freeze()
    parent.tell(ready=True)
    await told(parent, "connect")
    await connection.setLocalDescription(await connection.createOffer())
    parent.tell(
        relay={
            "offer": on_the_link(connection.localDescription.sdp),
            "captured": {track: rehearsed.captured for track, rehearsed in pictures.items()},
            "sizes": {track: rehearsed.size for track, rehearsed in pictures.items()},
        }
    )
    answer = (await told(parent, "relay"))["answer"]
    await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await _connected(connection)
    start = time.monotonic() + WARM_UP + 0.2
    for feed in feeds.values():
        feed.begin.set_result(start - WARM_UP)
    parent.tell(start=start)
    await wait_until(start + plan.duration)
    counted = {
        track: await _figures(stream.sender, "outbound-rtp", "packetsSent", "bytesSent")
        for track, stream in streams.items()
    }
    late = np.concatenate([feed.late for feed in feeds.values()]) * 1e3
    parent.tell(
        relay={
            "sender": {
                "hand_over_late_p99_ms": round(float(np.quantile(late, 0.99)), 3),
                "tracks": counted,
            }
        }
    )
    await wait_until(start + plan.duration + plan.drain)
    await connection.close()
    EventLog().write(folder / "sender.jsonl")


async def receive(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Take whatever comes out of the tracks."""
    from aiortc import RTCPeerConnection, RTCSessionDescription  # noqa: PLC0415 - optional

    scene = plan.load_scene()
    log, live, heard = EventLog(), LiveDelays(), HeardLog()
    connection = RTCPeerConnection(_configuration())
    parent.tell(ready=True)
    offered = await told(parent, "relay")
    captured: dict[str, list[float]] = offered["captured"]
    await connection.setRemoteDescription(RTCSessionDescription(offered["offer"], "offer"))
    await connection.setLocalDescription(await connection.createAnswer())
    parent.tell(relay={"answer": on_the_link(connection.localDescription.sdp)})
    tracks = [*captured, *(microphone.track for microphone in scene.microphones)]
    streams = dict(zip(tracks, connection.getTransceivers(), strict=True))
    taps: list[asyncio.Task[None]] = []
    begin: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    spools = {track: PictureSpool(folder, track) for track in captured}
    for track, stream in streams.items():
        if track in spools:
            tap = _watch(
                stream.receiver.track, track, spools[track], captured[track], begin, live=live
            )
        else:
            tap = _listen(stream.receiver.track, track, heard, begin)
        taps.append(asyncio.create_task(tap))
    start = float(await told(parent, "start"))
    begin.set_result(start)
    gc.collect()
    gc.freeze()
    await report_live(live, parent, start=start, end=start + plan.duration + plan.drain)
    for tap_task in taps:
        tap_task.cancel()
    await asyncio.gather(*taps, return_exceptions=True)
    counted = {
        track: await _figures(stream.receiver, "inbound-rtp", "packetsReceived", "packetsLost")
        for track, stream in streams.items()
    }
    sender = (await told(parent, "relay"))["sender"]
    await connection.close()
    shown = {
        track: spool.finish(
            log,
            captured=[start + at for at in captured[track]],
            width=offered["sizes"][track][0],
            height=offered["sizes"][track][1],
        )
        for track, spool in spools.items()
    }
    heard.write(folder)
    figures = {
        "tracks": counted,
        "sender": sender,
        "pictures": shown,
        "warm_up_s": WARM_UP,
        "concealed_share": 0.0,  # it makes nothing up: what is lost is left out
    }
    (folder / "peer.json").write_text(json.dumps(figures), encoding="utf-8")
    log.write(folder / "receiver.jsonl")


def _configuration() -> Any:
    from aiortc import RTCBundlePolicy, RTCConfiguration  # noqa: PLC0415 - optional

    # With its default policy the third track and all after it never leave.
    return RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)


def _set_rates(plan: RunPlan) -> None:
    """The plan's rates: aiortc has constants where others have settings."""
    from aiortc import codecs  # noqa: PLC0415 - optional
    from aiortc.codecs import opus, vpx  # noqa: PLC0415 - optional

    class Voice(opus.OpusEncoder):
        def __init__(self) -> None:
            super().__init__()
            self.codec.bit_rate = plan.voice_bps

    codecs.OpusEncoder = Voice  # type: ignore[attr-defined]  # where it looks encoders up
    vpx.MAX_BITRATE = plan.video_bps
    vpx.MIN_BITRATE = min(vpx.MIN_BITRATE, plan.video_bps)
    vpx.DEFAULT_BITRATE = min(vpx.DEFAULT_BITRATE, plan.video_bps)


def _feeds(
    pictures: dict[str, RehearsedPictures], sounds: dict[str, list[Floats]]
) -> dict[str, Any]:
    """aiortc's tracks over our media, pictures first."""
    from aiortc import MediaStreamTrack  # noqa: PLC0415 - optional
    from aiortc.mediastreams import MediaStreamError  # noqa: PLC0415 - optional

    class Feed(MediaStreamTrack):
        """Gives each item at its moment after `begin`."""

        def __init__(self, kind: str, times: list[float], items: list[Any]) -> None:
            self.kind = kind
            super().__init__()
            self.begin: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            self.late: list[float] = []
            self._times = times
            self._items = items

        async def recv(self) -> Any:
            begin = await asyncio.shield(self.begin)
            index = len(self.late)
            if index == len(self._times):
                self.stop()
                raise MediaStreamError
            moment = begin + self._times[index]
            await wait_until(moment)
            self.late.append(time.monotonic() - moment)
            return self._items[index]

    feeds: dict[str, Any] = {}
    for track, rehearsed in pictures.items():
        for at, frame in zip(rehearsed.times, rehearsed.frames, strict=True):
            frame.pts = round(at * VIDEO_CLOCK)
            frame.time_base = fractions.Fraction(1, VIDEO_CLOCK)
        feeds[track] = Feed("video", rehearsed.times, rehearsed.frames)
    for track, chunks in sounds.items():
        frames = [_audio_frame(chunk, index) for index, chunk in enumerate(chunks)]
        feeds[track] = Feed("audio", [(i + 1) * PERIOD for i in range(len(frames))], frames)
    return feeds


def _audio_frame(chunk: Floats, index: int) -> av.AudioFrame:
    samples = (np.clip(chunk, -1.0, 1.0) * 32767.0).astype(np.int16)
    frame = av.AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
    frame.sample_rate = SOUND_RATE
    frame.pts = index * BLOCK
    frame.time_base = fractions.Fraction(1, SOUND_RATE)
    return frame


async def _connected(connection: Any) -> None:
    while connection.connectionState != "connected":
        if connection.connectionState in ("failed", "closed"):
            raise ConnectionError("ICE found no path to the other end")
        await asyncio.sleep(0.01)


async def _watch(
    source: Any,
    track: str,
    spool: PictureSpool,
    captured: list[float],
    begin: asyncio.Future[float],
    *,
    live: LiveDelays,
) -> None:
    """Keep what a picture track gives out from run time 0 on."""
    while True:
        frame = await source.recv()
        now = time.monotonic()
        if not begin.done() or now < (start := begin.result()):
            continue
        number = spool.add(
            frame.reformat(format="yuv420p").to_ndarray().tobytes(),
            width=frame.width,
            height=frame.height,
            form="yuv420p",
            at=now,
        )
        if number is not None and number < len(captured):
            live.add(track, now - start - captured[number])


async def _listen(source: Any, track: str, heard: HeardLog, begin: asyncio.Future[float]) -> None:
    """Keep what a sound track gives out from run time 0 on."""
    while True:
        frame = await source.recv()
        now = time.monotonic()
        if begin.done() and now >= begin.result():
            channels = len(frame.layout.channels)
            samples = frame.to_ndarray().reshape(-1)[::channels]
            heard.add(track, samples, rate=frame.sample_rate, at=now)


async def _figures(end: Any, kind: str, *names: str) -> dict[str, Any]:
    """Some counts of aiortc's statistics."""
    for row in (await end.getStats()).values():
        if row.type == kind:
            return {name: getattr(row, name, None) for name in names}
    return {}


if __name__ == "__main__":
    run_peer(__doc__ or "", send=send, receive=receive)
