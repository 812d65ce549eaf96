"""Playout for peers that bring none: limen's own parts, driven by a few tasks.

So that two recordings differ by what arrived when, not by how well it was played. Over a transport
that is taken to be reliable (`PATIENT`), a picture's reference is waited for as long as it takes,
and none is ever asked for anew; over one that skips (`SKIPPING`), the next keyframe goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from ...codecs.errors import CodecError
from ...codecs.opus import OpusDecoder
from ...codecs.video import VideoDecoder
from ...codecs.worker import CodecWorker
from ...scheduler.types import ObjectId
from ...transport.playout.clock import PlayoutClock
from ...transport.playout.jitter import AudioArrival, JitterBuffer
from ...transport.playout.video_release import Release, VideoArrival, VideoRelease, VideoSettings
from .capture import wait_until
from .recorder import Viewer

PATIENT = VideoSettings(max_wait=60.0, round_trips=1000.0, max_frames=2000, max_bytes=64_000_000)
SKIPPING = VideoSettings()


class Player:
    """Feed `sound` and `picture` with whole objects; the viewer is told what was played."""

    def __init__(
        self,
        picture_track: str,
        sound_tracks: list[str],
        viewer: Viewer,
        *,
        waiting: VideoSettings = PATIENT,
    ) -> None:
        self._viewer = viewer
        self._picture_track = picture_track
        self._clock = PlayoutClock()
        if sound_tracks:
            self._clock.set_master(sound_tracks[0])
        self._buffers = {track: JitterBuffer(OpusDecoder(), channels=1) for track in sound_tracks}
        self._release = VideoRelease(waiting)
        self._skips = waiting is not PATIENT
        self._decoder = VideoDecoder()
        self._worker = CodecWorker("player")
        self._pictures: asyncio.Queue[Release] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._show())]
        self._master = sound_tracks[0] if sound_tracks else None

    def sound(
        self,
        track: str,
        payload: bytes,
        *,
        sequence: int,
        captured: float,
        duration: float,
        now: float,
    ) -> None:
        """One Opus frame has come."""
        buffer = self._buffers[track]
        is_first = buffer.next_time() is None
        buffer.insert(AudioArrival(sequence, captured, duration, payload), now=now)
        self._clock.observe(track, captured, now)
        self._clock.set_target(track, buffer.delay(now).target)
        buffer.set_extra_delay(self._clock.extra_delay())
        if is_first and buffer.next_time() is not None:
            self._tasks.append(asyncio.create_task(self._play(track, buffer)))

    def picture(
        self,
        payload: bytes,
        *,
        sequence: int,
        captured: float,
        duration: float,
        is_key: bool,
        now: float,
    ) -> None:
        """One picture has come; it waits for the one before, a keyframe too if all will come."""
        self._clock.observe(self._picture_track, captured, now)
        number = ObjectId(0, 0, sequence)
        alone = is_key if self._skips else sequence == 0
        needs = () if alone else (ObjectId(0, 0, sequence - 1),)
        self._release.insert(
            VideoArrival(number, captured, duration, payload, alone, needs), now=now
        )
        for release in self._release.poll(now=now):
            self._pictures.put_nowait(release)

    async def close(self) -> None:
        """Stop playing."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._worker.close()

    async def _play(self, track: str, buffer: JitterBuffer) -> None:
        while (due := buffer.next_time()) is not None:
            await wait_until(due)
            block = buffer.next_frame(now=time.monotonic())
            if block.captured is not None:
                self._clock.played(track, block.captured, due)
            self._viewer.hear(
                track, block.samples, captured=block.captured, played=due, kind=block.kind
            )

    async def _show(self) -> None:
        while True:
            release = await self._pictures.get()
            arrival = release.arrival
            try:
                pictures = await self._worker.run(self._decoder.decode, arrival.payload)
            except CodecError:
                continue
            if not pictures or not release.show:
                continue
            await wait_until(self._clock.play_time(arrival.captured, track=self._picture_track))
            self._viewer.see(pictures[-1], captured=arrival.captured, shown=time.monotonic())
