"""Live VP8 and VP9: layers that can be dropped, losses repaired without a keyframe.

libvpx has no option for a live rate that FFmpeg passes on, but it takes the length of each
picture seriously: a picture that lasts half as long gets half the bits. So the encoder is opened
once at its ceiling and lied to about time: each picture's duration is its budget in bits over the
ceiling. A rate step holds from that very picture on (libvpx forgets its average when a duration
changes by 10 % or more).

Which earlier picture is used and replaced is set for each picture by flags (`references` has the
rules, `aiming` the way in). Predictions rest on pictures only, never on probabilities carried
over: "error-resilient" and the no-entropy flag see to that, at 0.1 dB (VP8: none).

A keyframe in mid-run takes libvpx four to eight mean pictures, and nothing reaches that choice.
So each keyframe opens a new encoder, whose first picture is bounded by what its buffer starts
with. That costs a few picture times of computing, which is seldom: losses are repaired from kept
pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import av
import av.error
from av.video.codeccontext import VideoCodecContext

from ..scheduler.types import Region
from .aiming import Aiming
from .closing import Closing
from .errors import CodecError
from .pictures import Picture, to_even_yuv
from .quality_map import AimLimits, QualityBlock, Saccade, quality_blocks
from .references import Plan, ReferencePlan, Slot
from .video import (
    MIN_BITRATE_BPS,
    Abilities,
    EncodedVideo,
    VideoSettings,
    fit,
    only_packet,
    shape_of,
)
from .video_rate import FrameBudget

VP8_ABILITIES = Abilities("frame", 3, regions=True, repair="reference", keyframe_ratio=2.0)
VP9_ABILITIES = Abilities("frame", 2, regions=True, repair="reference", keyframe_ratio=4.0)
"""VP9's keyframes are one mean picture for a face, four for noise that drifts. Three layers work
in VP9 too, but its rate control then starves the base: 5 dB, where VP8 pays 1.3."""
_TICKS = 900_000
"""Time base: fine enough for 1 % of a picture at 20 kbit/s below a ceiling of 50 Mbit/s."""
_NO_USE = {Slot.LAST: 1 << 16, Slot.GOLDEN: 1 << 17, Slot.ALTREF: 1 << 21}
_NO_STORE = {Slot.LAST: 1 << 18, Slot.GOLDEN: 1 << 22, Slot.ALTREF: 1 << 23}
_STORE = {Slot.LAST: 0, Slot.GOLDEN: 1 << 19, Slot.ALTREF: 1 << 24}
_NO_ENTROPY = 1 << 20
"""VP8_EFLAG_* of libvpx's vp8cx.h; its VP9 obeys the same ones."""
_REPAIR_BUDGET = 0.4
"""Share of a mean picture's bits that libvpx is told for a repair: VP8 spends two or three times
what it is told."""
_REPAIR_OFFSET = 0.2
"""VP9 never codes a picture much coarser than the ones before, whatever it is told to spend; a
quality offset on all of the picture gets past that."""
_VP9_SHARPEN = 1.2
"""How much harder VP9 is aimed for two pictures at a place the gaze has jumped to. VP8 codes it
sharply by itself, for twice the bits of a mean picture."""
_KEY, _NO_TYPE = 1, 0
_VP9_AIM = AimLimits(inside=-0.28, background=0.02, doublings=6.0, price=0.30, levels=3)
_VP8_FINE = AimLimits(inside=-0.40, background=0.03, doublings=5.0, price=0.25, levels=3)
_VP8_COARSE = AimLimits(inside=-0.42, background=0.04, doublings=3.6, price=0.26, levels=3)
"""Chosen on three clips for +3 dB inside at 1.5 dB outside; on other pictures the outside paid up
to 3 dB (docs/codecs.md). libvpx knows four segments, one of which is "no
offset". VP8's quantiser steps are even in size, so where the quantiser is coarse a step weighs
less; how coarse it is, the bits per pixel say."""
_FINE_BITS = 0.12
"""Bits per pixel from which on VP8 counts as fine."""
_LIBRARY = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
_SPEED = {"vp8": "-8", "vp9": "7"}


class VpxEncoder(Closing):
    """Pictures in, one VP8 or VP9 frame out for each, at once. `codec` is "vp8" or "vp9"."""

    def __init__(self, codec: str, settings: VideoSettings | None = None) -> None:
        if codec not in _LIBRARY:
            raise CodecError(f"libvpx codes vp8 and vp9, not {codec!r}")
        self.codec = codec
        self.abilities = VP8_ABILITIES if codec == "vp8" else VP9_ABILITIES
        self.settings = settings or VideoSettings()
        if self.settings.temporal_layers > self.abilities.temporal_layers:
            most = self.abilities.temporal_layers
            raise ValueError(f"{codec} has at most {most} useful temporal layers here")
        self._budget = FrameBudget(
            self.settings.bitrate_bps, self.settings.fps, headroom=1.0, keyframe_boost=1.0, gain=0.1
        )
        self._references = ReferencePlan(self.settings.temporal_layers)
        self._context: VideoCodecContext | None = None
        self._aiming: Aiming | None = None
        self._saccade = Saccade()
        self._shape: tuple[int, int, int, int] | None = None
        self._ticks = 0
        self._since_key = 0
        self._closed = False

    @property
    def bitrate_bps(self) -> float:
        """The target now, bits a second."""
        return self._budget.bitrate_bps

    def set_bitrate(self, bps: float, *, fps: float | None = None) -> None:
        """As `VideoEncoder.set_bitrate`: from the next picture on."""
        if not bps > 0:
            raise ValueError(f"a bit rate is above 0, got {bps!r}")
        bounded = min(max(bps, MIN_BITRATE_BPS), self.settings.max_bitrate_bps)
        self._budget.set_target(bounded, fps)

    def lost(self, number: int) -> None:
        """Picture `number` never got through: the next ones do without all that rests on it."""
        self._references.lost(number)

    def lost_after(self, number: int) -> None:
        """The receiver has picture `number` and nothing usable after it."""
        self._references.lost_after(number)

    def encode(
        self,
        picture: Picture,
        *,
        keyframe: bool = False,
        regions: Sequence[tuple[Region, float]] = (),
    ) -> EncodedVideo:
        """As `VideoEncoder.encode`."""
        if self._closed:
            raise CodecError("this video encoder is closed")
        frame = fit(picture, self.settings)
        width, height = frame.width, frame.height
        coded = to_even_yuv(frame)
        gop = max(1, round(self.settings.gop_seconds * self.settings.fps))
        plan = self._references.plan(keyframe=keyframe or self._since_key >= gop)
        if shape_of(coded) != self._shape or plan.source is None:
            self._references.restart()
            plan = self._references.plan()
            self._open(shape_of(coded))
        packet = self._encode(coded, plan, regions)
        is_key = bool(packet.is_keyframe)
        if plan.source is None and not is_key:
            raise CodecError("the encoder made no keyframe where one was asked for")
        payload = bytes(packet)
        plan = self._references.commit(plan, keyframe=is_key)
        self._budget.spend(len(payload))
        self._since_key = 1 if is_key else self._since_key + 1
        return EncodedVideo(
            payload,
            is_key,
            width,
            height,
            number=plan.number,
            references=plan.references,
            layer=plan.layer,
            repair=plan.repair,
        )

    def close(self) -> None:
        """Free the native state; a second call does nothing."""
        self._closed = True
        self._context = self._aiming = self._shape = None

    def _encode(
        self,
        coded: av.VideoFrame,
        plan: Plan,
        regions: Sequence[tuple[Region, float]],
    ) -> av.Packet[Any]:
        context, aiming = self._context, self._aiming
        if context is None or aiming is None:
            raise CodecError("this video encoder is closed")
        length = self._length(plan)
        fresh = self._saccade.fresh(regions) > 0
        sharpen = _VP9_SHARPEN if fresh and self.codec == "vp9" else 1.0
        limits = self._aim_limits(coded.width * coded.height)
        blocks = quality_blocks(regions, coded.width, coded.height, limits, sharpen=sharpen)
        if plan.repair and self.codec == "vp9":
            blocks = _coarser(blocks, coded.width, coded.height)
        self._ticks += length
        try:
            aimed = aiming.attach(coded, blocks, _flags(plan))
            aimed.pict_type = _KEY if plan.source is None else _NO_TYPE
            aimed.time_base = context.time_base
            aimed.pts, aimed.duration = self._ticks, length
            return only_packet(context.encode(aimed))
        except av.error.FFmpegError as problem:
            size = f"{coded.width}x{coded.height}"
            raise CodecError(f"encoding a {size} picture failed: {problem}") from problem

    def _aim_limits(self, pixels: int) -> AimLimits:
        if self.codec == "vp9":
            return _VP9_AIM
        fine = self._budget.frame_bits >= _FINE_BITS * pixels
        return _VP8_FINE if fine else _VP8_COARSE

    def _length(self, plan: Plan) -> int:
        """How long libvpx is to think that this picture lasts, in ticks."""
        share = 1.0
        if plan.repair:
            share = _REPAIR_BUDGET
        bits = self._budget.rate_for(keyframe=False) / self.settings.fps * share
        return max(1, round(bits / self.settings.max_bitrate_bps * _TICKS))

    def _open(self, shape: tuple[int, int, int, int]) -> None:
        width, height, colorspace, color_range = shape
        settings = self.settings
        ceiling = round(settings.max_bitrate_bps)
        frame_bits = self._budget.frame_bits
        buffer_bits = round(max(settings.max_bitrate_bps / settings.fps, 4.0 * frame_bits))
        context = cast("VideoCodecContext", av.CodecContext.create(_LIBRARY[self.codec], "w"))
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.framerate = Fraction(settings.fps).limit_denominator(1001)
        context.time_base = Fraction(1, _TICKS)
        context.colorspace, context.color_range = colorspace, color_range
        context.bit_rate = ceiling
        context.gop_size = 1 << 24  # keyframes come when we say so
        context.thread_count = 1
        context.options = {
            "deadline": "realtime",
            "cpu-used": _SPEED[self.codec],
            "lag-in-frames": "0",
            "auto-alt-ref": "0",
            "error-resilient": "default",
            "minrate": str(ceiling),
            "maxrate": str(ceiling),
            "bufsize": str(buffer_bits),
            "rc_init_occupancy": str(round(min(3.0 * frame_bits, buffer_bits))),
            "undershoot-pct": "100",
            "overshoot-pct": "100",
        }
        if self.codec == "vp9":
            context.options["aq-mode"] = "0"  # the segments are ours
        try:
            context.open()
        except (av.error.FFmpegError, ValueError) as problem:
            raise CodecError(f"{self.codec} cannot open {width}x{height}: {problem}") from problem
        self._context, self._aiming = context, Aiming(width, height)
        self._shape, self._ticks = shape, 0


def _coarser(blocks: list[QualityBlock], width: int, height: int) -> list[QualityBlock]:
    """The same aim, all of it coarser by `_REPAIR_OFFSET`."""
    if not blocks:
        return [QualityBlock(0, 0, width, height, _REPAIR_OFFSET)]
    return [replace(block, offset=block.offset + _REPAIR_OFFSET) for block in blocks]


def _flags(plan: Plan) -> int:
    """libvpx's flags for one picture."""
    if plan.source is None:
        return 0
    flags = _NO_ENTROPY
    for slot in Slot:
        flags |= 0 if slot is plan.source else _NO_USE[slot]
        flags |= _STORE[slot] if slot in plan.updates else _NO_STORE[slot]
    return flags
