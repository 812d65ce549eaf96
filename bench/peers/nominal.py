"""A scene encoded at its nominal rates, for peers that adapt nothing: each object as soon as it is.

Objects carry their stamps in a header of their own, since such transports know only bytes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

import av

from ...codecs.opus import OpusEncoder
from ...codecs.video import VideoEncoder, VideoSettings
from ...codecs.worker import CodecWorker
from ..scene import Floats
from .capture import PERIOD, Source, capture
from .plan import RunPlan
from .player import Player
from .recorder import EventLog, LiveDelays

HEADER = struct.Struct("!BI?dd")
"""Track's index, sequence, whether nothing before it is needed, capture time, duration (s)."""


class NominalObject(NamedTuple):
    """One audio frame or picture."""

    track: int
    """0: the picture; 1 and up: the microphones in the scene's order."""
    sequence: int
    is_key: bool
    """It can be decoded without what came before."""
    captured: float
    duration: float
    payload: bytes

    def encode(self) -> bytes:
        """What is sent."""
        return HEADER.pack(*self[:5]) + self.payload

    @classmethod
    def decode(cls, data: bytes) -> NominalObject:
        """What `encode` made. Raises struct.error for less than a header."""
        track, sequence, is_key, captured, duration = HEADER.unpack_from(data)
        return cls(track, sequence, is_key, captured, duration, data[HEADER.size :])


class NominalSender:
    """Encodes a source as it is captured and hands every object to `emit`, on the event loop."""

    def __init__(
        self,
        source: Source,
        plan: RunPlan,
        log: EventLog,
        emit: Callable[[NominalObject], None],
        *,
        gop_seconds: float,
    ) -> None:
        self.tracks = [source.picture_track, *source.sounds]
        """Names, in the order of `NominalObject.track`."""
        self._source = source
        self._log = log
        self._emit = emit
        self._video = VideoEncoder(
            VideoSettings(
                bitrate_bps=plan.video_bps,
                max_bitrate_bps=plan.video_bps,
                fps=source.fps,
                gop_seconds=gop_seconds,
            )
        )
        self._voices = {t: OpusEncoder(bitrate_bps=plan.voice_bps) for t in source.sounds}
        self._workers = {track: CodecWorker(track) for track in self.tracks}
        self._sequences = dict.fromkeys(self.tracks, 0)

    async def run(self, start: float) -> None:
        """Capture, encode and emit everything; run time 0 is `start` on the monotonic clock."""
        track, seconds = self._source.picture_track, 1 / self._source.fps

        async def on_picture(picture: av.VideoFrame, captured: float) -> None:
            coded = await self._workers[track].run(self._video.encode, picture)
            self._take(track, coded.payload, captured, seconds, is_key=coded.keyframe)

        async def on_sound(track: str, chunk: Floats, captured: float) -> None:
            payload = await self._workers[track].run(self._voices[track].encode, chunk[:, None])
            self._take(track, payload, captured, PERIOD, is_key=True)

        await capture(self._source, start=start, on_picture=on_picture, on_sound=on_sound)

    def _take(
        self, track: str, payload: bytes, captured: float, duration: float, *, is_key: bool
    ) -> None:
        number, sequence = self.tracks.index(track), self._sequences[track]
        self._sequences[track] += 1
        self._emit(NominalObject(number, sequence, is_key, captured, duration, payload))
        at = time.monotonic()
        self._log.add("queued", track=track, captured=captured, at=at, bytes=len(payload))

    def close(self) -> None:
        """End the encoders' threads."""
        for worker in self._workers.values():
            worker.close()


class NominalSink:
    """Notes each object's arrival and hands it to the player."""

    def __init__(self, tracks: list[str], player: Player, log: EventLog, live: LiveDelays) -> None:
        self._tracks = tracks
        self._player = player
        self._log = log
        self._live = live

    def take(self, obj: NominalObject) -> None:
        """One object is whole."""
        now = time.monotonic()
        track = self._tracks[obj.track]
        size = len(obj.payload)
        self._log.add("received", track=track, captured=obj.captured, at=now, bytes=size)
        self._live.add(track, now - obj.captured)
        if obj.track == 0:
            self._player.picture(
                obj.payload,
                sequence=obj.sequence,
                captured=obj.captured,
                duration=obj.duration,
                is_key=obj.is_key,
                now=now,
            )
        else:
            self._player.sound(
                track,
                obj.payload,
                sequence=obj.sequence,
                captured=obj.captured,
                duration=obj.duration,
                now=now,
            )
