"""The pictures that are coded: a few seconds of a clip, decoded, with the place that is looked at.

All of it is held in memory as yuv420p, so that a measurement times the codec and nothing else.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from ...codecs.pictures import plane_rows
from ...scheduler.types import Region
from ..generated import generate_media
from ..samples import SamplesUnavailable, sample_path

GAZE_RADIUS = 0.13
"""Half the side of what is looked at, in picture widths and heights: 7 % of the picture."""
FACE = (0.66, 0.5)
"""Where the eyes are in the sample clip; the generated face stands at the same place."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Pictures in order, and where the viewer looks."""

    name: str
    pictures: list[av.VideoFrame]
    fps: float
    gaze: Region
    elsewhere: Region
    """Where the gaze jumps to or from."""

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        return self.pictures[0].width, self.pictures[0].height

    @property
    def pixels(self) -> int:
        """Pixels of one picture."""
        return self.size[0] * self.size[1]

    def mask(self, region: Region) -> NDArray[np.bool_]:
        """The pixels inside a region, shape (height, width)."""
        inside = np.zeros((self.size[1], self.size[0]), bool)
        cut = region.clipped()
        if cut is not None:
            left, top = round(cut.x * self.size[0]), round(cut.y * self.size[1])
            right = round((cut.x + cut.width) * self.size[0])
            bottom = round((cut.y + cut.height) * self.size[1])
            inside[top:bottom, left:right] = True
        return inside


def load_clip(
    path: Path, *, count: int, gaze: tuple[float, float] = FACE, name: str | None = None
) -> Clip:
    """The first `count` pictures of a video file. Raises FFmpegError for what is none."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        fps = float(stream.average_rate or 30)
        pictures = [
            frame.reformat(format="yuv420p")
            for frame in itertools.islice(container.decode(stream), count)
        ]
    x, y = gaze
    other = (x - 0.4 if x > 0.5 else x + 0.4, y)
    return Clip(
        name or path.stem,
        pictures,
        fps,
        Region.around(x, y, GAZE_RADIUS),
        Region.around(*other, GAZE_RADIUS),
    )


def default_clip(*, count: int) -> Clip:
    """The sample clip of a face where it is cached or can be fetched, else the generated one."""
    try:
        return load_clip(sample_path("face_gesture"), count=count)
    except SamplesUnavailable:
        with tempfile.TemporaryDirectory() as folder:
            media = generate_media(folder, seed=1, seconds=count / 24 + 1)
            return load_clip(media.face, count=count, name="generated face")


def luma(frame: av.VideoFrame) -> NDArray[np.float32]:
    """The luma plane as floats, without padding."""
    return plane_rows(frame, 0).astype(np.float32)


def psnr(error: float) -> float:
    """Decibels of a mean squared error; 100 for none."""
    return 100.0 if error <= 0 else min(100.0, float(10 * np.log10(255.0**2 / error)))
