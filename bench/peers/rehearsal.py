"""Media for peers that must warm up: WebRTC's rate control takes seconds to find the link's rate.

They send the scene's beginning first, for `WARM_UP` seconds before run time 0, and only what is
captured from then on counts. Others start at their nominal rate and need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import av
import numpy as np

from ..barcode import stamp
from ..scene import Floats
from .capture import BLOCK, PERIOD, Source
from .shown_pictures import WARM_UP_INDEX

WARM_UP = 8.0
"""Seconds. WebRTC starts at 300 kbit/s and grows by about 8 % a second, faster after its probes."""


@dataclass(frozen=True, slots=True)
class RehearsedPictures:
    """One picture track with its warm-up in front; times count from the warm-up's begin."""

    track: str
    times: list[float]
    frames: list[av.VideoFrame]
    """With barcodes."""
    captured: list[float]
    """Run times of the pictures that count, by their number."""

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self.frames[0].width, self.frames[0].height


def rehearse(source: Source) -> tuple[dict[str, RehearsedPictures], dict[str, list[Floats]]]:
    """The pictures and sounds of a source with barcodes by track, with their warm-up."""
    pictures = {
        source.picture_track: _pictures(source.picture_track, source.pictures, fps=source.fps)
    }
    return pictures, {track: _sound(chunks) for track, chunks in source.sounds.items()}


def _pictures(
    track: str, pictures: Sequence[tuple[float, av.VideoFrame]], *, fps: float
) -> RehearsedPictures:
    early = int(WARM_UP * fps)
    times = [WARM_UP - (early - number) / fps for number in range(early)]
    frames = [
        stamp(pictures[number % len(pictures)][1], WARM_UP_INDEX + number)
        for number in range(early)
    ]
    captured = [at for at, _ in pictures]
    times += [WARM_UP + at for at in captured]
    frames += [frame for _, frame in pictures]
    return RehearsedPictures(track, times, frames, captured)


def _sound(chunks: Sequence[Floats]) -> list[Floats]:
    early = round(WARM_UP / PERIOD)
    silence = np.zeros(BLOCK, np.float32)
    return [chunks[n % len(chunks)] if chunks else silence for n in range(early)] + list(chunks)
