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

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Self, cast

import av
import av.error
import av.filter
from av.codec.context import Flags, ThreadType
from av.sidedata.sidedata import SideData, SideDataContainer
from av.sidedata.sidedata import Type as SideDataType
from av.video.codeccontext import VideoCodecContext

from ..scheduler.types import Region
from .errors import CodecError
from .pictures import Picture, as_frame, cut_to, to_even_yuv
from .quality_map import SLOTS, pack_blocks, quality_blocks
from .video_rate import KEYFRAME_BOOST, MAX_TRIM, FrameBudget

MIN_BITRATE_BPS = 20_000
"""Bits a second: x264 takes whole kbit/s and needs some for headers."""
_KEY = 1
_SEI, _NAL_TYPE = 6, 0x1F
_TINY_BUFFER = 1000
"""Bits: x264 raises a buffer this small to one frame at whatever the rate is (see video_rate)."""


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
    """x264's speed: each slower step costs about half as much time again."""
    threads: int = 1
    """Slice threads: more encode big pictures sooner, at a worse picture for the bits."""

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


@dataclass(frozen=True, slots=True)
class EncodedVideo:
    """One encoded picture."""

    payload: bytes
    """H.264 in Annex B form; a keyframe begins with its parameter sets."""
    keyframe: bool
    """Whether decoding can start here."""
    width: int
    """Pixels of the picture that went in; the coded one is even (see `pictures`)."""
    height: int
    """Pixels, as `width`."""


class VideoEncoder:
    """Pictures in, one H.264 packet out for each, at once.

    A picture of a new size or colour space opens a new encoder, which starts with a keyframe.
    """

    codec = "h264"

    def __init__(self, settings: VideoSettings | None = None) -> None:
        self.settings = settings or VideoSettings()
        self._budget = FrameBudget(self.settings.bitrate_bps, self.settings.fps)
        self._context: VideoCodecContext | None = None
        self._graph: av.filter.Graph | None = None
        self._shape: tuple[int, int, int, int] | None = None
        self._count = 0
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
        frame = as_frame(picture)
        if self.settings.width is not None and self.settings.height is not None:
            size = (self.settings.width, self.settings.height)
            if (frame.width, frame.height) != size:
                frame = frame.reformat(width=size[0], height=size[1], format="yuv420p")
        width, height = frame.width, frame.height
        coded = to_even_yuv(frame)
        shape = (coded.width, coded.height, int(coded.colorspace), int(coded.color_range))
        if shape != self._shape:
            self._open(shape)
        context, graph = self._context, self._graph
        if context is None or graph is None:
            raise CodecError("this video encoder is closed")
        first = self._count == 0
        keyframe = keyframe or first
        context.bit_rate = round(self._budget.rate_for(keyframe=keyframe))
        try:
            graph.vpush(coded)
            aimed = graph.vpull()
            blocks = quality_blocks(regions, coded.width, coded.height)
            _overwrite(_regions_of(aimed), pack_blocks(blocks, SLOTS))
            aimed.pict_type = _KEY if keyframe else 0
            aimed.pts = self._count
            aimed.time_base = context.time_base
            packets = context.encode(aimed)
        except av.error.FFmpegError as problem:
            raise CodecError(f"encoding a {width}x{height} picture failed: {problem}") from problem
        self._count += 1
        if len(packets) != 1:
            raise CodecError(f"the encoder gave {len(packets)} packets for one picture")
        packet = packets[0]
        payload = without_sei(bytes(packet)) if first else bytes(packet)
        self._budget.spend(len(payload))
        return EncodedVideo(payload, bool(packet.is_keyframe), width, height)

    def close(self) -> None:
        """Free the native state; a second call does nothing."""
        self._closed = True
        self._context = self._graph = self._shape = None

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
        context.gop_size = max(1, round(settings.gop_seconds * settings.fps))
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
        self._context, self._graph = context, _aiming_graph(width, height)
        self._shape, self._count = shape, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class VideoDecoder:
    """H.264 packets in, pictures out at once, true to the size the packets say."""

    codec = "h264"

    def __init__(self) -> None:
        self._context: VideoCodecContext | None = av.CodecContext.create("h264", "r")
        self._context.thread_type = ThreadType.SLICE
        self._context.flags |= Flags.low_delay

    def decode(self, payload: bytes, *, size: tuple[int, int] | None = None) -> list[av.VideoFrame]:
        """The pictures of one packet: one, or none where the packet needs what was never given.

        `size` is the (width, height) of the picture before it was made even. Raises CodecError
        for damaged or foreign bytes; the decoder stays usable.
        """
        if self._context is None:
            raise CodecError("this video decoder is closed")
        if not payload:
            raise CodecError("an empty packet is no H.264")
        try:
            frames = self._context.decode(av.Packet(payload))
        except (av.error.FFmpegError, EOFError) as problem:
            raise CodecError(f"a damaged H.264 packet: {problem}") from problem
        return frames if size is None else [cut_to(frame, *size) for frame in frames]

    def close(self) -> None:
        """Free the native state; a second call does nothing."""
        self._context = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def without_sei(payload: bytes) -> bytes:
    """An Annex B packet without its SEI units: x264's first one spends 700 bytes on its name."""
    units = payload.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1")[1:]
    kept = [unit for unit in units if unit and unit[0] & _NAL_TYPE != _SEI]
    return b"".join(b"\0\0\0\1" + unit for unit in kept)


def _regions_of(frame: av.VideoFrame) -> SideData:
    container = cast("SideDataContainer", frame.side_data)  # the type stub knows one entry only
    return container[SideDataType.REGIONS_OF_INTEREST]


def _overwrite(target: SideData, data: bytes) -> None:
    """Write into a frame's side data, which PyAV itself only reads."""
    if target.buffer_size != len(data):
        raise CodecError(f"{len(data)} bytes do not fit side data of {target.buffer_size}")
    ctypes.memmove(target.buffer_ptr, data, len(data))


def _aiming_graph(width: int, height: int) -> av.filter.Graph:
    """A chain whose only use is the room for `SLOTS` regions on each frame that passes.

    PyAV cannot add side data to a frame but can overwrite it; "addroi" adds it. A static graph
    costs microseconds where building one costs milliseconds.
    """
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=width,
        height=height,
        format=av.VideoFormat("yuv420p", width, height),
        time_base=Fraction(1, 30),
    )
    chain = [source, *(graph.add("addroi", "0:0:16:16:0") for _ in range(SLOTS))]
    chain.append(graph.add("buffersink"))
    for one, other in itertools.pairwise(chain):
        one.link_to(other)
    graph.configure()
    return graph
