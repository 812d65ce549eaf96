"""What a viewer saw and heard, as a film: late where it was late, frozen where it was frozen.

The film's time is run time, so that two runs' films can be watched side by side. Below the
picture stand how old the picture and the sound were that moment, and what the link could carry;
corners mark where the viewer looked.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from ..peers.recorder import Pictures, PlayedBlock
from ..scene import SOUND_RATE, GazePoint
from .captions import DARK, draw_box, text_width, write

FPS = 25
BAR = 48
"""Pixels of the caption below the picture: two lines."""
LINE = BAR // 2 - 4
"""Pixels of one line of it."""
SOUND_FRAME = 1024
"""Samples of an AAC frame."""


@dataclass(frozen=True, slots=True)
class Film:
    """All that one run's film shows; times are run time but for those in `sound`."""

    title: str
    size: tuple[int, int]
    """(width, height), both even."""
    length: float
    """Seconds."""
    start: float
    """Run time 0 on the monotonic clock."""
    shown: Sequence[tuple[float, float]]
    """(captured, shown) of each picture, monotonic clock, in order of showing."""
    pictures: Pictures
    """The same pictures, yuv420p."""
    sound: Mapping[str, Sequence[PlayedBlock]]
    gaze: Sequence[GazePoint]
    rates: Sequence[tuple[float, float]]
    """(run time, bit/s): what the link could carry from then on."""


def write_film(film: Film, path: Path) -> None:
    """Write it as H.264 and AAC. Raises OSError when it cannot be written."""
    width, height = film.size
    sound = mix(film)
    with av.open(str(path), "w") as sink:
        video = sink.add_stream("libx264", rate=FPS, options={"crf": "20", "preset": "veryfast"})
        video.width, video.height, video.pix_fmt = width, height + BAR, "yuv420p"
        video.codec_context.time_base = Fraction(1, FPS)
        voice = sink.add_stream("aac", rate=SOUND_RATE, layout="mono", bit_rate=96_000)
        painter = _Painter(film)
        samples = 0
        for number in range(round(film.length * FPS)):
            frame = av.VideoFrame.from_ndarray(painter.paint(number / FPS), format="yuv420p")
            frame.pts = number
            sink.mux(video.encode(frame))
            while samples < len(sound) and samples / SOUND_RATE < (number + 1) / FPS:
                piece = sound[samples : samples + SOUND_FRAME]
                block = av.AudioFrame.from_ndarray(piece[None, :], format="fltp", layout="mono")
                block.sample_rate, block.pts = SOUND_RATE, samples
                block.time_base = Fraction(1, SOUND_RATE)
                sink.mux(voice.encode(block))
                samples += len(piece)
        for stream in (video, voice):
            sink.mux(stream.encode(None))


def mix(film: Film) -> NDArray[np.float32]:
    """All tracks as they were heard, on the film's time."""
    total = np.zeros(round(film.length * SOUND_RATE), np.float32)
    for blocks in film.sound.values():
        for block in blocks:
            begin = round((block.played - film.start) * SOUND_RATE)
            first, last = max(0, begin), min(len(total), begin + len(block.samples))
            if first < last:
                total[first:last] += block.samples[first - begin : last - begin] / 32768.0
    return np.clip(total, -1.0, 1.0)


class _Painter:
    def __init__(self, film: Film) -> None:
        self._film = film
        self._shown = [at - film.start for _, at in film.shown]
        self._heard = {
            track: [
                (b.played - film.start, b.played - b.captured)
                for b in blocks
                if math.isfinite(b.captured)
            ]
            for track, blocks in film.sound.items()
        }
        width, height = film.size
        self._canvas = np.full(((height + BAR) * 3 // 2, width), 128, np.uint8)
        self._canvas[: height + BAR] = DARK

    def paint(self, time: float) -> NDArray[np.uint8]:
        """The picture at one moment, yuv420p as PyAV takes it."""
        film, canvas = self._film, self._canvas
        width, height = film.size
        whole = height + BAR
        index = bisect.bisect_right(self._shown, time) - 1
        age = "none yet"
        if index >= 0:
            picture = film.pictures[index]
            canvas[:height] = picture[:height]
            # Chroma planes follow luma as half-size pictures, two of their rows in each of ours.
            quarter, whole_quarter = height // 4, whole // 4
            for plane in (0, 1):
                source = picture[height + plane * quarter :][:quarter]
                canvas[whole + plane * whole_quarter :][:quarter] = source
            age = f"{(time - film.shown[index][0] + film.start) * 1e3:.0f} ms"
        point = self._gaze_at(time)
        if point is not None and point.region is not None:
            region = point.region
            draw_box(
                canvas[:height],
                round(region.x * width),
                round(region.y * height),
                round((region.x + region.width) * width),
                round((region.y + region.height) * height),
            )
        canvas[height:whole] = DARK
        right = f"{time:.1f} s   link {self._rate_at(time) / 1e3:4.0f} kbit/s"
        below = f"picture shown {age:>8} old   sound played {self._sound_age(time):>8} old"
        ground, upper = canvas[:whole], height + 3
        write(ground, film.title, x=8, y=upper, height=LINE)
        write(ground, right, x=width - 8 - text_width(right, LINE), y=upper, height=LINE)
        write(ground, below, x=8, y=height + BAR // 2 + 1, height=LINE)
        return canvas

    def _gaze_at(self, time: float) -> GazePoint | None:
        index = bisect.bisect_right(self._film.gaze, time, key=lambda p: p.time) - 1
        return self._film.gaze[index] if index >= 0 else None

    def _rate_at(self, time: float) -> float:
        rates = self._film.rates
        index = bisect.bisect_right(rates, time, key=lambda step: step[0]) - 1
        return rates[max(0, index)][1]

    def _sound_age(self, time: float) -> str:
        ages = []
        for heard in self._heard.values():
            index = bisect.bisect_right(heard, (time, math.inf)) - 1
            if index >= 0 and time - heard[index][0] < 0.1:
                ages.append(heard[index][1])
        return f"{max(ages) * 1e3:.0f} ms" if ages else "-"
