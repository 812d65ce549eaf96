"""Pictures in: released by their dependencies, decoded in a thread, shown with the sound."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import deque
from typing import Any

from ...codecs.errors import CodecError
from ...codecs.video import VideoDecoder
from ...codecs.worker import CodecWorker
from ...scheduler.types import ObjectId
from ..errors import PeerError
from ..events import ObjectReceived, TrackInfo
from ..playout.video_release import Release, VideoArrival, VideoRelease
from ..quic.timer import make_timer
from .kinds import VideoFrame
from .subscription import Receiver, Subscription

MAX_UNDECODED = 30
"""Pictures waiting for the decoder beyond which all are given up and a keyframe is asked for."""
HOLD_MARGIN = 0.0015
"""Seconds before its time at which a picture is handed over rather than slept for again."""


class VideoReceiver(Receiver[VideoFrame]):
    """Decodes and shows one video track."""

    def __init__(
        self,
        session: Any,
        info: TrackInfo,
        subscription: Subscription[VideoFrame],
    ) -> None:
        super().__init__(session, info, subscription)
        loop = asyncio.get_running_loop()
        self._release = VideoRelease()
        codec = info.params.get("codec", "h264")
        try:
            self._decoder = VideoDecoder(codec)
        except (CodecError, TypeError) as error:
            raise PeerError(f"track {info.name!r} cannot be decoded: {error}") from error
        self._worker = CodecWorker(f"decode-{info.name}")
        self._timer = make_timer(loop, self._poll)
        self._waiting: deque[tuple[Release, tuple[int, int] | None]] = deque()
        self._sizes: dict[ObjectId, tuple[int, int] | None] = {}
        self._more = asyncio.Event()
        self._finished = False
        self._closed = False
        self._task = loop.create_task(self._decode_all(), name=f"limen-video-{info.name}")

    def on_object(self, received: ObjectReceived) -> None:
        """See Receiver."""
        if self._closed:
            return
        header, now = received.header, received.arrived
        round_trip = self.session.core.quic.smoothed_rtt
        if round_trip is not None:
            self._release.set_rtt(round_trip)
        self.session.playout_clock.observe(self.info.name, header.captured, now)
        self._sizes[header.id] = header.picture
        self._release.insert(
            VideoArrival(
                id=header.id,
                captured=header.captured,
                duration=header.duration,
                payload=received.payload,
                keyframe=header.keyframe,
                depends_on=header.depends_on,
            ),
            now=now,
        )
        self._poll()
        self.out.check_settled()

    def on_gone(self, object_id: ObjectId, now: float) -> None:
        """See Receiver."""
        if not self._closed:
            self._release.lost(object_id, now=now)
            self._poll()
        self.out.check_settled()

    def on_finished(self) -> None:
        """Decode and show what is left."""
        self._finished = True
        self._more.set()

    def close(self) -> None:
        """See Receiver."""
        if self._closed:
            return
        self._closed = True
        self._timer.close()
        self._task.cancel()
        self._worker.close()
        self._decoder.close()

    def _poll(self) -> None:
        if self._closed:
            return
        now = time.monotonic()
        for release in self._release.poll(now=now):
            size = self._sizes.get(release.arrival.id)
            self._waiting.append((release, size))
            self._more.set()
        if len(self._waiting) > MAX_UNDECODED:
            self.out.counts["decoder_behind"] += len(self._waiting)
            first = self._waiting[0][0].arrival.id
            self._waiting.clear()
            self._release.refused(first)
        while len(self._sizes) > 512:
            del self._sizes[next(iter(self._sizes))]
        if self._release.needs_keyframe(now):
            self.session.core.request_keyframe(self.info.number, self._release.position)
            self.session.wake()
        when = self._release.next_time()
        if when is None:
            self._timer.cancel()
        else:
            self._timer.arm(max(when, now + 0.001))

    async def _decode_all(self) -> None:
        while True:
            while not self._waiting:
                if self._finished:
                    self.out.end()
                    return
                self._more.clear()
                await self._more.wait()
            release, size = self._waiting.popleft()
            arrival = release.arrival
            try:
                pictures = await self._worker.run(self._decoder.decode, arrival.payload, size=size)
            except CodecError:
                self.out.counts["undecodable"] += 1
                self._release.refused(arrival.id)
                self._poll()
                continue
            if not release.show or not pictures:
                continue
            due = self.session.playout_clock.play_time(arrival.captured, track=self.info.name)
            wait = due - time.monotonic()
            if wait > HOLD_MARGIN:
                await asyncio.sleep(wait)
            shown = time.monotonic()
            self.out.push(
                VideoFrame(
                    picture=pictures[-1],
                    captured=arrival.captured,
                    shown=shown,
                    delay=self.session.delay_of(arrival.captured, shown),
                    id=arrival.id,
                    keyframe=arrival.keyframe,
                )
            )
            self.session.trace(
                "video_shown", track=self.info.name, captured=arrival.captured, at=shown
            )

    def stats(self) -> dict[str, Any]:
        """See Receiver."""
        return {
            "media": "video",
            "objects": self.objects,
            **dataclasses.asdict(self._release.stats()),
        }
