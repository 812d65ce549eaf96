"""Live AV1 over SVT-AV1: the best picture for the bits, with the least to steer.

SVT-AV1 in its low-delay mode gives a packet for each picture at once. Through FFmpeg nothing in
it can be changed while it runs: not the rate, not the references, not where the bits go. So a new
rate opens a new encoder, which starts with a keyframe; that is done only where it matters
(`RATE_DOWN`, `RATE_UP`), and never twice within `REOPEN_INTERVAL` but for a fall. It suits links
whose rate stands still; on others x264 and VP9 serve better.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import av
import av.error
from av.video.codeccontext import VideoCodecContext

from ..scheduler.types import Region
from .closing import Closing
from .errors import CodecError
from .pictures import Picture, to_even_yuv
from .video import (
    MIN_BITRATE_BPS,
    Abilities,
    EncodedVideo,
    VideoSettings,
    fit,
    only_packet,
    shape_of,
)

AV1_ABILITIES = Abilities("reopen", 1, regions=False, repair="keyframe", keyframe_ratio=3.1)
RATE_DOWN, RATE_UP = 0.85, 1.25
"""Ratios of the rate wanted to the rate opened with beyond which a new encoder is opened."""
REOPEN_INTERVAL = 1.0
"""Seconds of pictures between two new encoders for more rate; a fall is followed at once."""
_KEY = 1


class Av1Encoder(Closing):
    """Pictures in, one AV1 temporal unit out for each, at once."""

    codec = "av1"
    abilities = AV1_ABILITIES

    def __init__(self, settings: VideoSettings | None = None) -> None:
        self.settings = settings or VideoSettings()
        if self.settings.temporal_layers > 1:
            raise ValueError("SVT-AV1 has no droppable layers here: use vp8 or vp9 for them")
        self._bps = self.settings.bitrate_bps
        self._fps = self.settings.fps
        self._opened_bps = 0.0
        self._context: VideoCodecContext | None = None
        self._shape: tuple[int, int, int, int] | None = None
        self._count = 0
        self._number = 0
        self._repair = False
        self._closed = False

    @property
    def bitrate_bps(self) -> float:
        """The target now, bits a second; what is coded at may differ by up to 25 %."""
        return self._bps

    def set_bitrate(self, bps: float, *, fps: float | None = None) -> None:
        """Aim at `bps` bits a second: at once when it falls by 15 %, in a while when it rises."""
        if not bps > 0:
            raise ValueError(f"a bit rate is above 0, got {bps!r}")
        self._bps = min(max(bps, MIN_BITRATE_BPS), self.settings.max_bitrate_bps)
        if fps is not None:
            if not fps > 0:
                raise ValueError(f"a frame rate is above 0, got {fps!r}")
            self._fps = fps

    def lost(self, number: int) -> None:
        """Picture `number` never got through: the next one is a keyframe."""
        if 0 <= number < self._number:
            self._repair = True

    def lost_after(self, number: int) -> None:
        """The receiver has picture `number` and nothing usable after it."""
        if number < self._number - 1:
            self._repair = True

    def encode(
        self,
        picture: Picture,
        *,
        keyframe: bool = False,
        regions: Sequence[tuple[Region, float]] = (),
    ) -> EncodedVideo:
        """As `VideoEncoder.encode`; `regions` change nothing here."""
        del regions
        if self._closed:
            raise CodecError("this video encoder is closed")
        frame = fit(picture, self.settings)
        width, height = frame.width, frame.height
        coded = to_even_yuv(frame)
        shape = shape_of(coded)
        if shape != self._shape or self._wants_new_rate():
            self._open(shape)
        context = self._context
        if context is None:
            raise CodecError("this video encoder is closed")
        keyframe = keyframe or self._repair or self._count == 0
        own = coded.pict_type, coded.pts, coded.time_base
        try:
            coded.pict_type = _KEY if keyframe else 0
            coded.pts, coded.time_base = self._count, context.time_base
            packets = context.encode(coded)
        except av.error.FFmpegError as problem:
            raise CodecError(f"encoding a {width}x{height} picture failed: {problem}") from problem
        finally:  # the frame may be the caller's own
            coded.pict_type, coded.pts = own[0], own[1]
            if own[2] is not None:
                coded.time_base = own[2]
        packet = only_packet(packets)
        is_key = bool(packet.is_keyframe)
        self._count += 1
        number, self._number = self._number, self._number + 1
        repaired, self._repair = self._repair and is_key, False
        references = () if is_key else (number - 1,)
        return EncodedVideo(
            bytes(packet), is_key, width, height, number, references, repair=repaired
        )

    def close(self) -> None:
        """Free the native state; a second call does nothing."""
        self._closed = True
        self._context = self._shape = None

    def _wants_new_rate(self) -> bool:
        ratio = self._per_picture() / self._opened_bps
        if ratio < RATE_DOWN:
            return True
        return ratio > RATE_UP and self._count >= REOPEN_INTERVAL * self.settings.fps

    def _per_picture(self) -> float:
        """The rate that gives each picture its share, were they as many as the settings say."""
        return self._bps * self.settings.fps / self._fps

    def _open(self, shape: tuple[int, int, int, int]) -> None:
        width, height, colorspace, color_range = shape
        settings = self.settings
        rate = self._per_picture()
        context = av.CodecContext.create("libsvtav1", "w")
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        fps = Fraction(settings.fps).limit_denominator(1001)
        context.framerate, context.time_base = fps, 1 / fps
        context.colorspace, context.color_range = colorspace, color_range
        context.bit_rate = round(rate)
        context.gop_size = max(1, round(settings.gop_seconds * settings.fps))
        context.options = {
            "preset": "11",
            "svtav1-params": (
                f"pred-struct=1:rc=2:lp={settings.threads}:rtc=1:hierarchical-levels=0:"
                "buf-sz=100:buf-initial-sz=50:buf-optimal-sz=60"
            ),
        }
        try:
            context.open()
        except (av.error.FFmpegError, ValueError) as problem:
            raise CodecError(f"SVT-AV1 cannot open {width}x{height}: {problem}") from problem
        self._context, self._shape = context, shape
        self._opened_bps, self._count = rate, 0
