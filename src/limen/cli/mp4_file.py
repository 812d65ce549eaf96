"""An MP4 that plays although its writer was killed.

It is written in fragments of half a second, each complete in itself, behind a header that needs
nothing from the end. On an orderly close FFmpeg turns it into an ordinary MP4 in place
(`hybrid_fragmented`), which seeks faster. Picture times are kept as they were shown (variable
frame rate): a picture that froze stays.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.stream import AudioStream
from av.video.frame import PictureType
from av.video.stream import VideoStream
from numpy.typing import NDArray

from .sound_timeline import CHANNELS, RATE

PICTURE_CLOCK = 90_000
"""Ticks a second of picture times: MPEG's, fine enough for any frame rate."""
OPTIONS = {
    "movflags": "hybrid_fragmented+empty_moov+default_base_moof",
    "frag_duration": "500000",
    "flush_packets": "1",
}
PICTURE_OPTIONS = {"preset": "superfast", "tune": "zerolatency", "crf": "20", "g": "60"}
"""CRF 20 shows no trace of a second encoding, and superfast costs a tenth of a core at 640x360."""


class Mp4File:
    """Writes H.264 pictures and AAC sound; times are seconds from the start of the file."""

    def __init__(self, path: Path, *, size: tuple[int, int] | None, sound: bool) -> None:
        self.path = path
        self.size = size
        self.pictures = 0
        self.rescaled: set[tuple[int, int]] = set()
        """Other sizes that were brought to the file's."""
        self.seconds = 0.0
        self._last_tick = -1
        self._samples = 0
        self._container = av.open(str(path), "w", format="mp4", options=OPTIONS)
        self._video: VideoStream | None = None
        self._audio: AudioStream | None = None
        if size is not None:
            video = self._container.add_stream("libx264", rate=30, options=PICTURE_OPTIONS)
            video.width, video.height = size
            video.pix_fmt = "yuv420p"
            video.codec_context.time_base = Fraction(1, PICTURE_CLOCK)
            self._video = video
        if sound:
            audio = self._container.add_stream("aac", rate=RATE)
            audio.layout = "stereo"
            audio.bit_rate = 128_000
            self._audio = audio
        self._container.start_encoding()

    def picture(self, frame: av.VideoFrame, time: float) -> None:
        """Show `frame` from `time` on."""
        if self._video is None or self.size is None:
            return
        if (frame.width, frame.height) != self.size:
            self.rescaled.add((frame.width, frame.height))
        out = frame.reformat(width=self.size[0], height=self.size[1], format="yuv420p")
        tick = max(round(time * PICTURE_CLOCK), self._last_tick + 1)
        out.pts, out.time_base = tick, Fraction(1, PICTURE_CLOCK)
        out.pict_type = PictureType.NONE  # as decoded it may say keyframe
        self._last_tick = tick
        self._container.mux(self._video.encode(out))
        self.pictures += 1
        self.seconds = max(self.seconds, tick / PICTURE_CLOCK)

    def sound(self, samples: NDArray[np.float32]) -> None:
        """Append (n, 2) samples at 48 kHz."""
        if self._audio is None or len(samples) == 0:
            return
        packed = np.ascontiguousarray(samples).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout="stereo")
        frame.sample_rate = RATE
        frame.pts, frame.time_base = self._samples, Fraction(1, RATE)
        self._samples += packed.size // CHANNELS
        self._container.mux(self._audio.encode(frame))
        self.seconds = max(self.seconds, self._samples / RATE)

    def close(self) -> None:
        """Write what the encoders still hold and finish the file."""
        try:
            if self._video is not None and self.pictures:
                self._container.mux(self._video.encode(None))
            if self._audio is not None and self._samples:
                self._container.mux(self._audio.encode(None))
        finally:
            self._container.close()


def even_size(frame: av.VideoFrame) -> tuple[int, int]:
    """The size of a file that begins with this picture: 4:2:0 needs even sides."""
    return max(2, frame.width + frame.width % 2), max(2, frame.height + frame.height % 2)


def free_path(folder: Path, stem: str) -> Path:
    """FOLDER/STEM.mp4, or STEM-2.mp4 and so on: nothing is ever overwritten."""
    path, number = folder / f"{stem}.mp4", 1
    while True:
        try:
            path.touch(exist_ok=False)  # taken at once: sessions may begin together
        except FileExistsError:
            number += 1
            path = folder / f"{stem}-{number}.mp4"
        else:
            return path
