"""Text and marks on luma planes, drawn by Pillow (which matplotlib brings along)."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Luma = NDArray[np.uint8]
DARK, BRIGHT = 16, 235
"""Black and white in video's limited range."""


@functools.cache
def _font(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from matplotlib.font_manager import findfont  # noqa: PLC0415 - takes a second to import

    return ImageFont.truetype(findfont("DejaVu Sans Mono"), round(height * 0.82))


def text_width(text: str, height: int) -> int:
    """Pixels that `text` takes in a line of `height` pixels."""
    return round(_font(height).getlength(text))


def write(luma: Luma, text: str, *, x: int, y: int, height: int) -> None:
    """Write bright on dark over a plane, top left at (x, y); what does not fit is cut off."""
    line = Image.new("L", (max(1, text_width(text, height)), height), DARK)
    ImageDraw.Draw(line).text((0, height // 2), text, BRIGHT, _font(height), anchor="lm")
    place = luma[y : y + height, x : x + line.width]
    place[...] = np.asarray(line)[: place.shape[0], : place.shape[1]]


def draw_box(luma: Luma, left: int, top: int, right: int, bottom: int) -> None:
    """The corners of a rectangle, bright on a dark rim so that they show on any ground."""
    height, width = luma.shape
    left, right = max(1, left), min(width - 2, right)
    top, bottom = max(1, top), min(height - 2, bottom)
    arm = max(4, min(right - left, bottom - top) // 5)
    image = Image.fromarray(luma)
    draw = ImageDraw.Draw(image)
    for value, thick in ((DARK, 3), (BRIGHT, 1)):  # the bright lines last, whole at the corners
        for y in (top, bottom):
            draw.line([(left, y), (left + arm, y)], value, thick)
            draw.line([(right - arm, y), (right, y)], value, thick)
        for x in (left, right):
            draw.line([(x, top), (x, top + arm)], value, thick)
            draw.line([(x, bottom - arm), (x, bottom)], value, thick)
    luma[...] = np.asarray(image)
