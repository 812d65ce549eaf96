"""PSNR of what is looked at and of the rest, apart.

Each captured picture is compared with what the viewer had instead of it: its decoded self, or,
when it never came, the last one shown before (the screen stands still). Errors are squared, summed
over the run, and only then turned into decibels, as ffmpeg's psnr filter averages: a few ruined
pictures cannot hide behind many good ones. Luma only: sharpness is seen there.
"""

from __future__ import annotations

import math

import av
import numpy as np
from numpy.typing import NDArray

from ..scheduler.types import Region

MAX_PSNR_DB = 100.0
"""Stands for identical pictures, whose PSNR is infinite; 8-bit luma cannot otherwise pass 100."""

Luma = NDArray[np.uint8]


def luma(picture: av.VideoFrame) -> Luma:
    """The picture's luma plane without its alignment padding, as (height, width) uint8."""
    if picture.format.name != "yuv420p":  # one range of luma for all, whatever the source's
        picture = picture.reformat(format="yuv420p")
    plane = picture.planes[0]
    rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
    return rows[:, : plane.width]


class PictureQuality:
    """Collects the pictures of one run, in order of capture."""

    def __init__(self) -> None:
        self._errors = {"region": 0.0, "background": 0.0}
        self._pixels = {"region": 0, "background": 0}
        self._screen: Luma | None = None

    def add(
        self, source: Luma, shown: Luma | None, region: Region | None, *, unjudged_rows: int = 0
    ) -> None:
        """One captured picture, what was decoded of it (None: it never came), what was looked at.

        Before anything was shown the screen is black. With `region` None all is background. The
        bottom `unjudged_rows` count nowhere: there is a barcode in them.
        Raises ValueError when the sizes differ.
        """
        if shown is not None:
            self._screen = shown
        screen = self._screen if self._screen is not None else np.zeros_like(source)
        if screen.shape != source.shape:
            raise ValueError(
                f"a shown picture has the size of its source {source.shape}, got {screen.shape}"
            )
        judged = source.shape[0] - unjudged_rows
        squared = np.square(source[:judged].astype(np.int32) - screen[:judged])
        total, count = float(squared.sum()), squared.size
        inside, within = 0.0, 0
        cut = region.clipped() if region is not None else None
        if cut is not None:
            height, width = source.shape
            rows = slice(round(cut.y * height), round((cut.y + cut.height) * height))
            columns = slice(round(cut.x * width), round((cut.x + cut.width) * width))
            part = squared[rows, columns]
            inside, within = float(part.sum()), part.size
        self._errors["region"] += inside
        self._pixels["region"] += within
        self._errors["background"] += total - inside
        self._pixels["background"] += count - within

    @property
    def region_psnr_db(self) -> float | None:
        """Of what was looked at; None when nothing was."""
        return self._psnr("region")

    @property
    def background_psnr_db(self) -> float | None:
        """Of all else."""
        return self._psnr("background")

    def _psnr(self, part: str) -> float | None:
        if not self._pixels[part]:
            return None
        mean = self._errors[part] / self._pixels[part]
        return MAX_PSNR_DB if mean == 0.0 else min(MAX_PSNR_DB, 10.0 * math.log10(255.0**2 / mean))
