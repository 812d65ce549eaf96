"""Live H.264: every picture becomes one packet at once, at a rate that can change each frame.

x264 runs with "superfast" and "zerolatency": one thread, no look-ahead, no B-frames. Three things
are steered per frame and cost nothing: the bit rate (`video_rate` says how), whether it is a
keyframe, and where the bits go (`quality_map`). A keyframe is no larger than about two mean
frames, because the rate buffer bounds it; its picture sharpens over the frames that follow. Every
keyframe is an IDR picture that carries its parameter sets, so decoding can start at any.

The decoder runs with slice threads only: frame threads would hold whole pictures back. It says
nothing about lost references (H.264 decoders conceal in silence); who needs to know keeps track
of object ids.

Measured, 640×360, one core: 1.3 ms to encode, 0.5 ms to decode. One encoder or decoder belongs to
one caller at a time (see `worker`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

import av
import av.error
from av.codec.context import Flags, ThreadType
from av.video.codeccontext import VideoCodecContext

from ..scheduler.types import Region
from .aiming import Aiming
from .closing import Closing
from .errors import CodecError
from .pictures import Picture, as_frame, cut_to, to_even_yuv
from .quality_map import Saccade, quality_blocks
from .video_rate import KEYFRAME_BOOST, MAX_TRIM, FrameBudget

MIN_BITRATE_BPS = 20_000
"""Bits a second: x264 takes whole kbit/s and needs some for headers."""
KEYFRAME_BITS_PER_PIXEL = 0.05
"""What a keyframe may have whatever the target is: 1.4 kB at 640×360. With less, most of its blocks
stay grey (12 dB at 60 kbit/s, measured), and every later picture is built on them. At starved
rates it is worth several pictures' time; the scheduler skips those."""
SHARPEN = 1.25
"""How much more a region is aimed at for two pictures after the gaze has jumped there: with it
the first one of a face is within 1 dB of a region looked at all along, without it 1.4 short."""
DECODERS = {"h264": "h264", "vp8": "vp8", "vp9": "vp9", "av1": "libdav1d"}
"""FFmpeg's decoder for each codec: its own ones are the fastest but for AV1."""
_KEY = 1
_SEI, _NAL_TYPE = 6, 0x1F
_TINY_BUFFER = 1000
"""Bits: x264 raises a buffer this small to one frame at whatever the rate is (see video_rate)."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an encoder can really do, measured through the library it is reached by."""

    live_rate: Literal["frame", "reopen"]
    """"frame": a new rate holds from the next picture on. "reopen": a new encoder has to be
    opened for it, which costs a keyframe, so small changes are saved up."""
    temporal_layers: int
    """Most temporal layers; 1 for none. Dropping the higher ones leaves the lower bit-identical."""
    regions: bool
    """Whether regions of interest are honoured."""
    repair: Literal["reference", "keyframe"]
    """How a loss is repaired: by a picture that refers to one before the loss, or a keyframe."""
    keyframe_ratio: float
    """A keyframe's size against the mean picture's, about."""
    delay_frames: int = 0
    """Pictures held back: always 0 here, whatever the cores; it is checked with each picture."""


X264_ABILITIES = Abilities("frame", 1, regions=True, repair="keyframe", keyframe_ratio=1.8)
"""x264 can step around lost references, but not through FFmpeg: its keyframes are small instead."""


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """What a video encoder is opened with. Raises ValueError when a field is out of range."""

    width: int | None = None
    """Pixels; None takes each picture's own. Pictures of another size are scaled to it."""
    height: int | None = None
    """Pixels, as `width`: both are given or neither."""
    bitrate_bps: float = 600_000
    """Bits a second at the start."""
    max_bitrate_bps: float = 2_500_000
    """Bits a second: the ceiling of `set_bitrate`. A high one costs nothing."""
    fps: float = 30.0
    """Pictures a second that the bit rate is spread over."""
    gop_seconds: float = 10.0
    """Seconds between keyframes that come by themselves; others come when asked for."""
    preset: str = "superfast"
    """x264's speed: each slower step costs about half as much time again. Others ignore it."""
    threads: int = 1
    """Slice threads: more encode big pictures sooner, at a worse picture for the bits. libvpx
    keeps to one: two once took it 80 ms."""
    temporal_layers: int = 1
    """1 to 3. More let pictures be dropped without harm; see `Abilities.temporal_layers`."""

    def __post_init__(self) -> None:
        if (self.width is None) != (self.height is None):
            raise ValueError("give both width and height, or neither")
        for side in (self.width, self.height):
            if side is not None and not 16 <= side <= 8192:
                raise ValueError(f"a video's sides are 16..8192 pixels, got {side}")
        if not MIN_BITRATE_BPS <= self.bitrate_bps <= self.max_bitrate_bps:
            raise ValueError(
                f"bitrate_bps is in {MIN_BITRATE_BPS}..max_bitrate_bps, got {self.bitrate_bps}"
            )
        if not 0 < self.fps <= 240:
            raise ValueError(f"fps is in 0..240, got {self.fps}")
        if not self.gop_seconds > 0:
            raise ValueError(f"gop_seconds is above 0, got {self.gop_seconds}")
        if not 1 <= self.threads <= 16:
            raise ValueError(f"threads is in 1..16, got {self.threads}")
        if self.temporal_layers not in (1, 2, 3):
            raise ValueError(f"temporal_layers is in 1..3, got {self.temporal_layers}")


@dataclass(frozen=True, slots=True)
class EncodedVideo:
    """One encoded picture."""

    payload: bytes
    """H.264 in Annex B form, or a whole VP8, VP9 or AV1 frame; a keyframe begins with all that a
    decoder needs."""
    keyframe: bool
    """Whether decoding can start here."""
    width: int
    """Pixels of the picture that went in; the coded one is even (see `pictures`)."""
    height: int
    """Pixels, as `width`."""
    number: int = -1
    """Counts the encoder's pictures from 0; -1 when coded elsewhere."""
    references: tuple[int, ...] | None = None
    """Numbers of the pictures this one needs; None: the one before, unless it is a keyframe."""
    layer: int = 0
    """Temporal layer: nothing in lower layers needs this picture."""
    repair: bool = False
    """Whether it steps around a loss by an older reference."""


class VideoEncoder(Closing):
    """Pictures in, one H.264 packet out for each, at once.

    A picture of a new size or colour space opens a new encoder, which starts with a keyframe.
    """

    codec = "h264"
    abilities = X264_ABILITIES

    def __init__(self, settings: VideoSettings | None = None) -> None:
        self.settings = settings or VideoSettings()
        if self.settings.temporal_layers > self.abilities.temporal_layers:
            raise ValueError("x264 has no temporal layers without delay: use vp8 or vp9 for them")
        self._budget = FrameBudget(self.settings.bitrate_bps, self.settings.fps)
        self._context: VideoCodecContext | None = None
        self._aiming: Aiming | None = None
        self._saccade = Saccade()
        self._shape: tuple[int, int, int, int] | None = None
        self._count = 0
        self._number = 0
        self._repair = False
        self._closed = False

    @property
    def bitrate_bps(self) -> float:
        """The target now, bits a second."""
        return self._budget.bitrate_bps

    def set_bitrate(self, bps: float, *, fps: float | None = None) -> None:
        """Aim at `bps` bits a second (clamped to 20 000..the ceiling) from the next picture on.

        `fps` tells the real number of pictures a second where it differs from the settings, so
        that a halved frame rate gives each picture twice the bits.
        """
        if not bps > 0:
            raise ValueError(f"a bit rate is above 0, got {bps!r}")
        bounded = min(max(bps, MIN_BITRATE_BPS), self.settings.max_bitrate_bps)
        self._budget.set_target(bounded, fps)

    def encode(
        self,
        picture: Picture,
        *,
        keyframe: bool = False,
        regions: Sequence[tuple[Region, float]] = (),
    ) -> EncodedVideo:
        """The packet for one picture: an av.VideoFrame or rgb24 uint8 array (height, width, 3).

        `regions` are parts of the picture that matter, each with a value in 0..1. Raises
        ValueError for what is no picture, CodecError when the encoder fails or is closed.
        """
        if self._closed:
            raise CodecError("this video encoder is closed")
        frame = fit(picture, self.settings)
        width, height = frame.width, frame.height
        coded = to_even_yuv(frame)
        shape = shape_of(coded)
        # A keyframe in mid-run could only have what one mean picture has; a new encoder's first
        # picture may have the two that are allowed, and is 3 dB better for it.
        gop = max(1, round(self.settings.gop_seconds * self.settings.fps))
        if shape != self._shape or keyframe or self._repair or self._count >= gop:
            self._open(shape)
        context, aiming = self._context, self._aiming
        if context is None or aiming is None:
            raise CodecError("this video encoder is closed")
        first = self._count == 0
        rate = self._budget.rate_for(keyframe=first)
        if first:
            least = KEYFRAME_BITS_PER_PIXEL * coded.width * coded.height * self.settings.fps
            rate = max(rate, min(least, self.settings.max_bitrate_bps))
        context.bit_rate = round(rate)
        sharpen = SHARPEN if self._saccade.fresh(regions) else 1.0
        blocks = quality_blocks(regions, coded.width, coded.height, sharpen=sharpen)
        try:
            aimed = aiming.attach(coded, blocks)
            aimed.pict_type = _KEY if first else 0
            aimed.pts = self._count
            aimed.time_base = context.time_base
            packets = context.encode(aimed)
        except av.error.FFmpegError as problem:
            raise CodecError(f"encoding a {width}x{height} picture failed: {problem}") from problem
        packet = only_packet(packets)
        payload = without_sei(bytes(packet)) if first else bytes(packet)
        self._count += 1
        self._budget.spend(len(payload))
        is_key = bool(packet.is_keyframe)
        number, self._number = self._number, self._number + 1
        repaired, self._repair = self._repair and is_key, False
        references = () if is_key else (number - 1,)
        return EncodedVideo(payload, is_key, width, height, number, references, repair=repaired)

    def lost(self, number: int) -> None:
        """Picture `number` never got through: the next one is a small keyframe."""
        if 0 <= number < self._number:
            self._repair = True

    def lost_after(self, number: int) -> None:
        """The receiver has picture `number` and nothing usable after it."""
        if number < self._number - 1:
            self._repair = True

    def close(self) -> None:
        """Free the native state; a second call does nothing."""
        self._closed = True
        self._context = self._aiming = self._shape = None

    def _open(self, shape: tuple[int, int, int, int]) -> None:
        width, height, colorspace, color_range = shape
        settings = self.settings
        fps = Fraction(settings.fps).limit_denominator(1001)
        ceiling = round(settings.max_bitrate_bps * MAX_TRIM * KEYFRAME_BOOST)
        context = av.CodecContext.create("libx264", "w")
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.framerate, context.time_base = fps, 1 / fps
        context.colorspace, context.color_range = colorspace, color_range
        context.bit_rate = ceiling
        context.gop_size = 1 << 24  # keyframes come when we say so
        context.max_b_frames = 0
        context.thread_count = settings.threads
        context.options = {
            "preset": settings.preset,
            "tune": "zerolatency",
            "maxrate": str(ceiling),
            "bufsize": str(_TINY_BUFFER),
            "aq-mode": "1",
            "forced-idr": "1",
            "sc_threshold": "0",
        }
        try:
            context.open()
        except (av.error.FFmpegError, ValueError) as problem:
            raise CodecError(f"x264 cannot open {width}x{height}: {problem}") from problem
        self._context, self._aiming = context, Aiming(width, height)
        self._shape, self._count = shape, 0


class VideoDecoder(Closing):
    """Packets of one codec in, pictures out at once, true to the size the packets say.

    `codec` is "h264", "vp8", "vp9" or "av1". Raises CodecError for another.
    """

    def __init__(self, codec: str = "h264") -> None:
        name = DECODERS.get(codec)
        if name is None:
            raise CodecError(f"unknown video codec {codec!r}: known are {', '.join(DECODERS)}")
        self.codec = codec
        context = cast("VideoCodecContext", av.CodecContext.create(name, "r"))
        self._context: VideoCodecContext | None = context
        self._context.thread_type = ThreadType.SLICE
        self._context.flags |= Flags.low_delay  # dav1d: one frame in flight at any core count

    def decode(self, payload: bytes, *, size: tuple[int, int] | None = None) -> list[av.VideoFrame]:
        """The pictures of one packet: one, or none where the packet needs what was never given.

        `size` is the (width, height) of the picture before it was made even. Raises CodecError
        for damaged or foreign bytes; the decoder stays usable.
        """
        if self._context is None:
            raise CodecError("this video decoder is closed")
        if not payload:
            raise CodecError(f"an empty packet is no {self.codec}")
        try:
            frames = self._context.decode(av.Packet(payload))
        except (av.error.FFmpegError, EOFError) as problem:
            raise CodecError(f"a damaged {self.codec} packet: {problem}") from problem
        return frames if size is None else [cut_to(frame, *size) for frame in frames]

    def close(self) -> None:
        """Free the native state; a second call does nothing."""
        self._context = None


def without_sei(payload: bytes) -> bytes:
    """An Annex B packet without its SEI units: x264's first one spends 700 bytes on its name."""
    units = payload.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1")[1:]
    kept = [unit for unit in units if unit and unit[0] & _NAL_TYPE != _SEI]
    return b"".join(b"\0\0\0\1" + unit for unit in kept)


def fit(picture: Picture, settings: VideoSettings) -> av.VideoFrame:
    """The picture as a frame of the settings' size, or of its own where they name none."""
    frame = as_frame(picture)
    if settings.width is None or settings.height is None:
        return frame
    if (frame.width, frame.height) == (settings.width, settings.height):
        return frame
    return frame.reformat(width=settings.width, height=settings.height, format="yuv420p")


def shape_of(coded: av.VideoFrame) -> tuple[int, int, int, int]:
    """All that an encoder is opened for: a change of it needs a new one."""
    return coded.width, coded.height, int(coded.colorspace), int(coded.color_range)


def only_packet(packets: list[av.Packet[Any]]) -> av.Packet[Any]:
    """The one packet for one picture. Raises CodecError when the encoder held it back."""
    if len(packets) != 1:
        raise CodecError(f"the encoder gave {len(packets)} packets for one picture")
    return packets[0]
