"""Text in pictures, without a font library: glyphs are drawn once by matplotlib, then copied."""

from __future__ import annotations

import string

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

Luma = NDArray[np.uint8]
LETTERS = string.ascii_letters + string.digits + string.punctuation + " ·÷"
DARK, BRIGHT = 16, 235
"""Black and white in video's limited range."""


class Glyphs:
    """A monospaced alphabet of one height in pixels."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.width = round(height * 0.55)
        figure = Figure(figsize=(self.width * len(LETTERS) / 100, height / 100), dpi=100)
        canvas = FigureCanvasAgg(figure)
        for index, letter in enumerate(LETTERS):
            figure.text(
                (index + 0.5) / len(LETTERS),
                0.26,
                letter if letter != "$" else r"\$",
                fontsize=height * 0.62,
                family="DejaVu Sans Mono",
                ha="center",
                va="baseline",
            )
        canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib's
        drawn = canvas.buffer_rgba()  # type: ignore[no-untyped-call]  # matplotlib's
        darkness = 255 - np.asarray(drawn)[..., 0].astype(np.int32)
        strip = (DARK + darkness * (BRIGHT - DARK) // 255).astype(np.uint8)
        self._glyphs = {
            letter: strip[:height, index * self.width : (index + 1) * self.width]
            for index, letter in enumerate(LETTERS)
        }

    def write(self, luma: Luma, text: str, *, x: int, y: int) -> None:
        """Write over a luma plane, top left at (x, y); what does not fit is cut off."""
        blank = self._glyphs[" "]
        for letter in text:
            glyph = self._glyphs.get(letter, blank)
            place = luma[y : y + self.height, x : x + self.width]
            place[...] = glyph[: place.shape[0], : place.shape[1]]
            x += self.width


def draw_box(luma: Luma, left: int, top: int, right: int, bottom: int) -> None:
    """The corners of a rectangle, bright on a dark rim so that they show on any ground."""
    height, width = luma.shape
    left, right = max(1, left), min(width - 2, right)
    top, bottom = max(1, top), min(height - 2, bottom)
    arm = max(4, min(right - left, bottom - top) // 5)
    for spread, value in ((1, DARK), (0, BRIGHT)):
        for y in (top, bottom):
            for x, step in ((left, arm), (right, -arm)):
                begin, end = sorted((x, x + step))
                luma[y - spread : y + spread + 1, begin - spread : end + spread + 1] = value
        for x in (left, right):
            for y, step in ((top, arm), (bottom, -arm)):
                begin, end = sorted((y, y + step))
                luma[begin - spread : end + spread + 1, x - spread : x + spread + 1] = value
    for y in (top, bottom):  # the bright lines last, whole at the corners
        for x, step in ((left, arm), (right, -arm)):
            begin, end = sorted((x, x + step))
            luma[y, begin : end + 1] = BRIGHT
    for x in (left, right):
        for y, step in ((top, arm), (bottom, -arm)):
            begin, end = sorted((y, y + step))
            luma[begin : end + 1, x] = BRIGHT
