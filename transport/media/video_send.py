"""Pictures out: skipped early, aimed by tags, coded in a thread of their own.

A frame that the link has no room for is skipped *before* it is encoded: dropping it afterwards
would break every later frame's reference and cost a keyframe.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from numpy.typing import NDArray

from ...codecs.errors import CodecError
from ...codecs.video import EncodedVideo, VideoSettings
from ...codecs.video_codecs import make_encoder
from ...codecs.worker import CodecWorker
from ...scheduler.checks import flag, instance, whole
from ...scheduler.errors import UsageError
from ...scheduler.rates import RateDemand
from ...scheduler.sources.gesture import GestureSource
from ...scheduler.types import ObjectId, Region, Shed, Tag
from .kinds import Video
from .picture_ids import PictureIds
from .publication import Pending, Publication

if TYPE_CHECKING:
    from ..session import Session

MAX_AHEAD = 10.0
"""Seconds a picture's stamp may lie ahead of now. One further ahead would have every later picture
skipped as older."""
MAX_BACKLOG_FRAMES = 1.5
"""Frame intervals of queued video beyond which the next frame is skipped."""
KEYFRAME_INTERVAL = 0.5
"""Seconds between keyframes that are asked for, at least (or two round trips)."""
OBJECT_OVERHEAD_BYTES = 70
"""Object header, frames and packets' own bytes around one small video object, on the wire."""
PACKET_EFFICIENCY = 0.96
"""Payload's share of a full packet: 1200 bytes less 27 of packet and about 20 of frames."""


class VideoPublication(Publication):
    """A track of pictures."""

    media = "video"

    def __init__(self, session: Session, number: int, name: str, kind: Video) -> None:
        super().__init__(
            session,
            number,
            name,
            importance=kind.importance,
            deadline=kind.deadline,
            delivery="stream",
            hold=0.0,
            params={"codec": kind.codec, "fps": kind.fps},
        )
        self._kind = kind
        self._rate = min(kind.bitrate_bps, session.settings.congestion.initial_bps * 0.7)
        self._encoder = make_encoder(
            kind.codec,
            VideoSettings(
                bitrate_bps=max(kind.minimum_bps, self._rate),
                max_bitrate_bps=kind.bitrate_bps,
                fps=kind.fps,
                gop_seconds=kind.gop_seconds,
                threads=kind.threads,
                temporal_layers=kind.layers,
            ),
        )
        self._ids = PictureIds()
        self._steps_around = self._encoder.abilities.repair == "reference"
        self._lost: list[int] = []
        self._lost_after: int | None = None
        self._last_repair = float("-inf")
        self._gesture = GestureSource(name) if kind.gesture_tags else None
        self._worker = CodecWorker(f"video-{name}")
        self._keyframe_wanted = False
        self._last_keyframe = float("-inf")
        self._last_captured = float("-inf")

    async def send(
        self, picture: av.VideoFrame | NDArray[Any], *, captured: float | None = None
    ) -> bool:
        """Send a picture captured at `captured` (None: now). False when it was skipped.

        `picture` is an av.VideoFrame or a uint8 array (height, width, 3) in RGB. It is skipped,
        and counted, while nobody is subscribed, the link or the encoder is behind, or its
        stamp does not lie after the one before. Raises UsageError for what is no picture.
        """
        self._check_open()
        words = "an av.VideoFrame or a NumPy array of uint8 and shape (height, width, 3)"
        instance(f"track {self.name!r}: a picture", picture, (av.VideoFrame, np.ndarray), words)
        stamp = self._stamp(captured)
        if stamp > time.monotonic() + MAX_AHEAD:
            raise UsageError(
                f"track {self.name!r}: captured lies {stamp - time.monotonic():.0f} s ahead; it is "
                "a time as limen.now() gives it, not wall-clock time"
            )
        reason = self._why_skip(stamp)
        if reason is not None:
            self.counts[f"skipped_{reason}"] += 1
            self._session.trace("frame_skipped", track=self.name, captured=stamp, reason=reason)
            return False
        self._last_captured = stamp
        now = time.monotonic()
        regions = self._session.core.scheduler.tags.regions(self.name, now=now)
        keyframe = self._keyframe_due(now)
        losses = self._lost, self._lost_after
        self._lost, self._lost_after = [], None
        try:
            encoded, tags = await self._worker.run(
                self._encode, picture, stamp, keyframe, regions, rate=self._rate, losses=losses
            )
        except (ValueError, TypeError) as error:
            raise UsageError(f"track {self.name!r}: {error}") from error
        except CodecError:
            self._session.check_open()  # the codec was closed because the session has ended
            if self._finished:
                return False
            raise
        for tag in tags:
            self._session.tag_own(tag, now=time.monotonic())
        if encoded.keyframe:
            self._last_keyframe = now
            self._keyframe_wanted = False
        if encoded.keyframe or encoded.repair:
            self._last_repair = now
            self.counts["repairs"] += not encoded.keyframe
        self._emit_picture(encoded, stamp)
        return True

    async def send_encoded(
        self, payload: bytes, *, captured: float, keyframe: bool, size: tuple[int, int]
    ) -> None:
        """Send one picture coded elsewhere with the track's codec, which needs the one before.

        H.264 comes as an access unit in Annex B form. B-frames are not for live use: decoding
        must give one picture for each, at once.
        """
        self._check_open()
        data = self._checked(payload, "an access unit")
        if not data:
            raise UsageError("an access unit has at least one byte")
        flag("keyframe", keyframe)
        sides = instance("size", size, (tuple, list), "a pair of width and height in pixels")
        if len(sides) != 2:
            raise UsageError(f"size is width and height in pixels, got {size!r}")
        width, height = (whole("a side of size", side, 1, 16384, "pixels") for side in sides)
        self._emit_picture(EncodedVideo(data, keyframe, width, height), self._stamp(captured))

    def _emit_picture(self, encoded: EncodedVideo, captured: float) -> None:
        if not encoded.keyframe and self._previous is None:
            self.counts["skipped_no_keyframe"] += 1
            self._lose(encoded.number)
            return
        needs = self._ids.of(encoded.references)
        if encoded.references and needs is None:  # one of them never became an object
            self.counts["skipped_reference"] += 1
            self._lose(encoded.number)
            return
        before = self._sequence
        self._emit(
            Pending(
                encoded.payload,
                captured,
                1.0 / self._kind.fps,
                keyframe=encoded.keyframe,
                picture=(encoded.width, encoded.height),
                needs=needs,
                layer=encoded.layer,
                number=encoded.number,
            )
        )
        if self._sequence == before:  # nobody wanted it any more
            self._lose(encoded.number)

    def _numbered(self, pending: Pending, object_id: ObjectId) -> None:
        self._ids.add(pending.number, object_id)

    def _encode(
        self,
        picture: av.VideoFrame | NDArray[Any],
        captured: float,
        keyframe: bool,
        regions: list[tuple[Region, float]],
        *,
        rate: float,
        losses: tuple[list[int], int | None],
    ) -> tuple[EncodedVideo, list[Tag]]:
        """In the worker's thread."""
        if rate != self._encoder.bitrate_bps:
            self._encoder.set_bitrate(rate)
        if self._steps_around:
            for number in losses[0]:
                self._encoder.lost(number)
            if losses[1] is not None:
                self._encoder.lost_after(losses[1])
        encoded = self._encoder.encode(picture, keyframe=keyframe, regions=regions)
        tags: list[Tag] = []
        if self._gesture is not None:
            if isinstance(picture, av.VideoFrame):
                luma = picture.to_ndarray(format="gray")
            else:
                luma = picture[:, :, 1]  # green carries most of the brightness
            tags = self._gesture.feed(luma, time=captured)
        return encoded, tags

    def _why_skip(self, captured: float) -> str | None:
        if not self.is_subscribed:
            return "unheard"
        if captured <= self._last_captured:
            return "stamp"
        if self._worker.pending >= 1:
            return "encoder_behind"
        scheduler = self._session.core.scheduler
        if scheduler.backlog_seconds(self.info.number) > MAX_BACKLOG_FRAMES / self._kind.fps:
            return "link_behind"
        if self._rate < self._kind.minimum_bps:
            # Spend the little there is on fewer frames, not on worse ones.
            interval = self._kind.minimum_bps / max(self._rate, 1.0) / self._kind.fps
            if captured - self._last_captured < min(interval, 1.0) * 0.9:
                return "rate"
        return None

    def _keyframe_due(self, now: float) -> bool:
        if self._previous is None:
            return True
        if not self._keyframe_wanted:
            return False
        round_trip = self._session.core.quic.smoothed_rtt or 0.1
        return now - self._last_keyframe >= max(KEYFRAME_INTERVAL, 2 * round_trip)

    def on_keyframe_request(self, now: float, since: ObjectId | None = None) -> None:
        """Served at once, or at the end of the interval since the last keyframe.

        An encoder that can step around a loss does so instead, from what the peer says it has.
        What was asked while a repair is on its way asks for that one.
        """
        self.counts["keyframe_requests"] += 1
        number = self._ids.number(since)
        if not self._steps_around or number is None:
            self._keyframe_wanted = True
            return
        round_trip = self._session.core.quic.smoothed_rtt or 0.1
        if now - self._last_repair > round_trip:
            last = self._lost_after
            self._lost_after = number if last is None else max(last, number)

    def _lose(self, number: int) -> None:
        """A picture that the peer cannot have: the encoder is told before the next one."""
        if not self._steps_around:
            self._keyframe_wanted = True
        elif number >= 0:
            self._lost.append(number)

    def on_subscribe(self, now: float) -> None:
        """A new subscriber can decode nothing but a keyframe."""
        self._previous = None
        super().on_subscribe(now)

    def on_shed(self, shed: Shed, now: float) -> None:
        """Later frames need what was given up: the next one steps around it or is a keyframe."""
        super().on_shed(shed, now)
        number = self._ids.number(shed.object.id)
        if self._steps_around and number is not None:
            self._lose(number)
        else:
            self._keyframe_wanted = True

    def demand(self, now: float) -> RateDemand[int]:
        """Between its minimum and its ceiling, on the wire."""
        overhead = OBJECT_OVERHEAD_BYTES * 8.0 * self._kind.fps
        return RateDemand(
            self.info.number,
            self.importance(now),
            self._kind.minimum_bps / PACKET_EFFICIENCY + overhead,
            self._kind.bitrate_bps / PACKET_EFFICIENCY + overhead,
        )

    def set_rate(self, bps: float) -> None:
        """Takes effect with the next picture."""
        overhead = OBJECT_OVERHEAD_BYTES * 8.0 * self._kind.fps
        payload = (bps - overhead) * PACKET_EFFICIENCY
        self._rate = max(20_000.0, min(payload, self._kind.bitrate_bps))

    async def _close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        """See Publication."""
        super().close_now()
        self._worker.close()
        self._encoder.close()

    def stats(self) -> dict[str, Any]:
        """See Publication."""
        return {**super().stats(), "target_bps": self._rate}
