"""From regions that matter to what an encoder is told: blocks with a quality offset.

Encoders that can aim take a list of rectangles with a quality offset in -1..1 (FFmpeg's
AVRegionOfInterest; libx264 reads it as a share of its 51 quantiser steps). This part turns any
number of (region, value) pairs, as importance tags give them, into such a list:

* a region is cut to the picture and grown outward to whole 16-pixel blocks, never shifted;
* its offset follows its value, so a stale gaze fades out as its tag decays;
* the background is given up only as far as the strongest region asks, and never below a floor:
  large regions are raised less, so that it does not starve;
* overlapping regions do not add up: the strongest one decides.

Measured on a talking face (640x360, a region of 6 % of the picture, value 1, equal bytes), gain
inside / loss outside in dB of luma PSNR:

    inside, outside    300 kbit/s     500 kbit/s     1000 kbit/s
    -0.10, +0.05       +4.1 / -0.7    +4.4 / -0.7    +4.6 / -0.6
    -0.20, +0.05       +6.0 / -1.7    +6.5 / -1.6    +7.2 / -1.4
    -0.20, +0.08       +6.4 / -2.0    +6.9 / -1.9    +7.7 / -1.7

The limits of x264 lie between the first two. -0.3 with +0.2 starved the background to 27 dB.
VP8 and VP9 read an offset as a share of 63 steps of other widths, and know few different offsets
in one picture, so each encoder has `AimLimits` of its own.

Cost: only the strongest regions are looked at closely, so a thousand of them cost little more
than a dozen. `Saccade` tells an encoder that the gaze has
jumped, so that it can sharpen the new place at once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter

from ..scheduler.types import Region

BLOCK = 16
"""Pixels: the side of an H.264 macroblock, the finest step a quality offset can have."""


@dataclass(frozen=True, slots=True)
class AimLimits:
    """How far one encoder may be aimed; offsets are in -1..1."""

    inside: float
    """The strongest offset inside a region; beyond it the background starves."""
    background: float
    """The offset outside while something matters fully: its floor."""
    doublings: float
    """Doublings of the bits per unit of offset, measured: 51 / 6 for x264."""
    price: float
    """Doublings of coarseness that the background is made to pay at most (about 5.5 dB each, so
    that 0.27 is 1.5 dB); small pictures pay less, see `SMALL_SHARE`."""
    levels: int = 0
    """Different offsets the encoder tells apart besides none; 0 for any number."""


X264_AIM = AimLimits(inside=-0.17, background=0.05, doublings=51 / 6, price=0.27)
MIN_VALUE = 0.05
"""Regions worth less than this are not aimed at any more."""
SMALL_PICTURE = 320 * 240
"""Pixels below which a picture is small: few of its blocks are flat, and bits taken from the
background show more than the arithmetic says (176 × 144: 1.9 dB where 1.5 was meant)."""
SMALL_SHARE = 0.8
"""Share of the price that a small picture's background pays."""
MAX_REGIONS = 9
"""Rectangles an encoder gets besides the background; the strongest win."""
_SLACK = 4
FRESH_PICTURES = 2
"""Pictures during which a place that the gaze has jumped to counts as new."""
_SPAN = 1000
"""Offsets travel as thousandths (AVRational)."""
_ROI = struct.Struct("=Iiiiiii")


@dataclass(slots=True)
class QualityBlock:
    """A rectangle in pixels (right and bottom exclusive) and its quality offset in -1..1.

    Negative offsets mean better.
    """

    left: int
    top: int
    right: int
    bottom: int
    offset: float


def quality_blocks(
    regions: Sequence[tuple[Region, float]],
    width: int,
    height: int,
    limits: AimLimits = X264_AIM,
    *,
    sharpen: float = 1.0,
) -> list[QualityBlock]:
    """What to tell an encoder of a `width` × `height` picture; the first match of a block wins.

    Values are clipped to 0..1. Empty when nothing inside the picture matters. `sharpen` above 1
    scales the offset inside, for a region that is new.
    """
    aimed: dict[tuple[int, int, int, int], float] = {}
    if len(regions) > MAX_REGIONS:
        if math.isnan(sum(map(itemgetter(1), regions))):  # NaN would sort anywhere
            regions = [pair for pair in regions if not math.isnan(pair[1])]
        # Of equal ones the slack is for what lies off the picture;
        regions = nlargest(MAX_REGIONS + _SLACK, regions, key=itemgetter(1))
    for region, value in regions:
        if not value >= MIN_VALUE:  # NaN too
            continue
        worth = 1.0 if value > 1.0 else value
        left, top = max(0.0, region.x), max(0.0, region.y)
        right = min(1.0, region.x + region.width)
        bottom = min(1.0, region.y + region.height)
        if right <= left or bottom <= top:
            continue
        key = (
            int(left * width) // BLOCK * BLOCK,
            int(top * height) // BLOCK * BLOCK,
            min(width, math.ceil(right * width / BLOCK) * BLOCK),
            min(height, math.ceil(bottom * height / BLOCK) * BLOCK),
        )
        if worth > aimed.get(key, 0.0):
            aimed[key] = worth
    if not aimed:
        return []
    ranked = sorted(aimed.items(), key=lambda item: (-item[1], item[0]))[:MAX_REGIONS]
    if limits.levels:
        ranked = _few_levels(ranked, limits.levels - 1)
    areas = [((b[2] - b[0]) * (b[3] - b[1]), worth) for b, worth in ranked]
    reach = _reach(areas, width * height, limits)
    outside = limits.background * reach * ranked[0][1]
    inside_most = limits.inside * reach * sharpen
    blocks = [
        QualityBlock(*box, offset=outside * (1 - worth) + inside_most * worth)
        for box, worth in ranked
    ]
    blocks.append(QualityBlock(0, 0, width, height, outside))
    return blocks


_Ranked = list[tuple[tuple[int, int, int, int], float]]


def _few_levels(ranked: _Ranked, levels: int) -> _Ranked:
    """Values brought to at most `levels` different ones; the strongest stays what it is."""
    top = ranked[0][1]
    steps = [top * (levels - k) / levels for k in range(levels)]
    return [(box, min(steps, key=lambda step: abs(step - worth))) for box, worth in ranked]


def _reach(areas: Sequence[tuple[int, float]], whole: int, limits: AimLimits) -> float:
    """How much of the offsets to apply, 0.2..1, so that the background pays a bounded price.

    At a held rate, the encoder's quantiser moves until the bits are what they were. So the
    background's own step comes out as its offset plus the log of the sum of area share x
    2^(-offset x doublings). The larger the regions, the more it is.
    """
    covered = sum(area for area, _ in areas) / whole
    squeeze = 1.0 / max(covered, 1.0)  # overlaps are counted twice: never more than all of it
    strongest = areas[0][1]

    most = limits.price * (SMALL_SHARE if whole < SMALL_PICTURE else 1.0)

    def price(reach: float) -> float:
        outside = limits.background * reach * strongest
        bits = (1.0 - min(covered, 1.0)) * 2.0 ** (-outside * limits.doublings)
        for area, worth in areas:
            offset = outside * (1 - worth) + limits.inside * reach * worth
            bits += squeeze * area / whole * 2.0 ** (-offset * limits.doublings)
        return outside * limits.doublings + math.log2(bits)

    if price(1.0) <= most:
        return 1.0
    low, high = 2, 10  # tenths; the price grows with the reach
    while high - low > 1:
        middle = (low + high) // 2
        if price(middle / 10) <= most:
            low = middle
        else:
            high = middle
    return low / 10


class Saccade:
    """Notices that the strongest region has jumped. Ask `fresh` once a picture."""

    def __init__(self) -> None:
        self._left = 0
        self._box: tuple[float, float, float, float] | None = None

    def fresh(self, regions: Sequence[tuple[Region, float]]) -> int:
        """2 for the first picture after a jump, 1 for the second, 0 when nothing is new."""
        strongest = max(regions, key=itemgetter(1), default=None)
        if strongest is None or not strongest[1] >= MIN_VALUE:
            self._box, self._left = None, 0
            return 0
        region = strongest[0]
        x, y = region.x + region.width / 2, region.y + region.height / 2
        box = self._box
        if box is None or not (box[0] <= x <= box[2] and box[1] <= y <= box[3]):
            self._left = FRESH_PICTURES + 1
        self._box = (region.x, region.y, region.x + region.width, region.y + region.height)
        self._left = max(0, self._left - 1)
        return self._left


def pack_blocks(blocks: Sequence[QualityBlock], slots: int) -> bytes:
    """The blocks as an array of `slots` AVRegionOfInterest; unused slots cover nothing.

    Layout: libavutil/frame.h, 28 bytes each: size, top, bottom, left, right, offset as a fraction.
    """
    if len(blocks) > slots:
        raise ValueError(f"{len(blocks)} quality blocks do not fit into {slots} slots")
    size = _ROI.size
    packed = [
        _ROI.pack(
            size,
            block.top,
            block.bottom,
            block.left,
            block.right,
            round(_SPAN * min(max(block.offset, -1.0), 1.0)),
            _SPAN,
        )
        for block in blocks
    ]
    return b"".join(packed) + _NOTHING * (slots - len(blocks))


_NOTHING = _ROI.pack(_ROI.size, 0, 0, 0, 0, 0, 1)
SLOTS = MAX_REGIONS + 1
"""Rectangles in one packed array: the regions and the background."""
