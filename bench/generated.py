"""Media made from a seed, for when no recordings can be had: a drawn face and two synthetic voices.

They are built to load a codec and a scheduler as the recordings do, not to please: a textured
wall, a head that moves and blinks, a mouth that follows the voice, a hand that comes up to the
face every few seconds; two talkers of different pitch with syllables, pauses, turns and now and
then an overlap. The face stands where the recorded one does, so one gaze path fits both. Being
generated, the turns are known exactly.
"""

from __future__ import annotations

import math
import random
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from .turns import Turn, write_rttm

SIZE = (640, 360)
FPS = 24
SAMPLE_RATE = 16_000
TALKERS = ("talker-1", "talker-2")
PITCH_HZ = {"talker-1": 195.0, "talker-2": 112.0}
VOWELS_HZ = ((730, 1090, 2440), (270, 2290, 3010), (530, 1840, 2480), (570, 840, 2410))
"""First three formants of a, i, e, o (Peterson and Barney 1952, means of men)."""
HAND_PERIOD = 8.0
"""Seconds between two gestures."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class GeneratedMedia:
    """Files of one generated scene."""

    face: Path
    """MP4, 640x360 at 24 fps, no sound."""
    voices: Path
    """WAV, 16 kHz, mono, both talkers mixed."""
    turns: Path
    """RTTM: who speaks when."""


def generate_media(folder: str | Path, *, seed: int = 1, seconds: float = 20.0) -> GeneratedMedia:
    """Write a face, two voices and their turns into `folder`; the same seed, the same content.

    Takes about a third of the media's length. Raises OSError when the folder cannot be written.
    """
    if not 1.0 <= seconds <= 600.0:
        raise ValueError(f"generated media last 1 to 600 s, got {seconds!r}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    media = generated_paths(folder)
    turns = make_turns(seed=seed, seconds=seconds)
    voices = _speak(turns, seed=seed, seconds=seconds)
    with wave.open(str(media.voices), "wb") as sink:
        sink.setnchannels(1)
        sink.setsampwidth(2)
        sink.setframerate(SAMPLE_RATE)
        sink.writeframes((np.clip(voices, -1.0, 1.0) * 32767).astype("<i2").tobytes())
    _write_video(media.face, _draw(voices, seed=seed, seconds=seconds))
    write_rttm(media.turns, turns, recording=media.voices.stem)
    return media


def generated_paths(folder: Path) -> GeneratedMedia:
    """Where `generate_media` puts its files in a folder."""
    return GeneratedMedia(
        folder / "face_generated.mp4", folder / "voices_generated.wav", folder / "voices.rttm"
    )


def make_turns(*, seed: int, seconds: float) -> list[Turn]:
    """Talkers taking turns of 1.5 to 4 s with short gaps; every third change overlaps a little."""
    source = random.Random(seed)
    turns: list[Turn] = []
    start, count = 0.3, 0
    while start < seconds - 0.5:
        end = min(seconds, start + source.uniform(1.5, 4.0))
        turns.append(Turn(TALKERS[count % 2], round(start, 3), round(end, 3)))
        count += 1
        gap = -source.uniform(0.2, 0.4) if count % 3 == 0 else source.uniform(0.2, 0.7)
        start = end + gap
    return turns


def _speak(turns: list[Turn], *, seed: int, seconds: float) -> Floats:
    source = random.Random(seed + 1)
    noise = np.random.default_rng(seed)
    out = noise.normal(0.0, 0.0008, int(seconds * SAMPLE_RATE)).astype(np.float32)
    for turn in turns:
        at = turn.start
        while at < turn.end - 0.06:
            length = min(source.uniform(0.12, 0.26), turn.end - at)
            pitch = PITCH_HZ[turn.talker] * source.uniform(0.88, 1.14)
            piece = _syllable(
                length, pitch, source.choice(VOWELS_HZ), source.uniform(0.4, 1.0), noise
            )
            begin = int(at * SAMPLE_RATE)
            piece = piece[: len(out) - begin]
            out[begin : begin + len(piece)] += piece
            at += length + (source.uniform(0.05, 0.12) if source.random() < 0.25 else 0.01)
    return out


def _syllable(
    length: float,
    pitch: float,
    formants: tuple[int, int, int],
    loudness: float,
    noise: np.random.Generator,
) -> Floats:
    """A consonant's hiss and a vowel: harmonics of a falling pitch under formant resonances."""
    n = int(length * SAMPLE_RATE)
    time = np.arange(n) / SAMPLE_RATE
    glide = pitch * (1.0 + 0.06 * (0.5 - time / length))
    phase = 2.0 * np.pi * np.cumsum(glide) / SAMPLE_RATE
    count = int(3800 / pitch)
    voice = np.zeros(n)
    for harmonic in range(1, count + 1):
        hertz = harmonic * pitch
        gain = sum(
            weight / (1.0 + ((hertz - formant) / (60.0 + 0.06 * formant)) ** 2)
            for formant, weight in zip(formants, (1.0, 0.5, 0.25), strict=True)
        )
        voice += (gain + 0.01) / math.sqrt(harmonic) * np.sin(harmonic * phase)
    voice *= np.sin(np.pi * np.clip(time / length, 0.0, 1.0)) ** 0.6
    hiss = np.diff(noise.normal(0.0, 0.12, n + 1)) * np.exp(-time / 0.03)
    piece = voice / max(1e-9, float(np.abs(voice).max())) + hiss
    return (0.35 * loudness * piece).astype(np.float32)


class _Canvas:
    """A float picture to draw soft-edged ellipses on."""

    def __init__(self, background: Floats) -> None:
        self.picture = background.copy()
        height, width = background.shape[:2]
        self._y, self._x = np.mgrid[0:height, 0:width].astype(np.float32)

    def ellipse(
        self,
        centre: tuple[float, float],
        radii: tuple[float, float],
        colour: tuple[int, int, int] | Floats,
        *,
        tilt: float = 0.0,
    ) -> None:
        """Centre and radii in pixels; `colour` is one, or a picture to take it from."""
        (cx, cy), (rx, ry) = centre, radii
        reach = max(rx, ry) + 2
        top, bottom = (int(np.clip(v, 0, SIZE[1])) for v in (cy - reach, cy + reach + 1))
        left, right = (int(np.clip(v, 0, SIZE[0])) for v in (cx - reach, cx + reach + 1))
        if top >= bottom or left >= right:
            return
        box = np.s_[top:bottom, left:right]
        x, y = self._x[box] - cx, self._y[box] - cy
        c, s = math.cos(tilt), math.sin(tilt)
        distance = np.sqrt(((x * c + y * s) / rx) ** 2 + ((y * c - x * s) / ry) ** 2)
        alpha = np.clip((1.0 - distance) * min(rx, ry) + 0.5, 0.0, 1.0)[..., None]
        paint = colour[box] if isinstance(colour, np.ndarray) else np.array(colour, np.float32)
        self.picture[box] += alpha * (paint - self.picture[box])


def _texture(noise: np.random.Generator, tint: tuple[float, float, float], depth: float) -> Floats:
    """Smooth noise on three scales in one tint: wood, skin and hair need detail that costs bits."""
    width, height = SIZE
    grey = np.zeros((height, width))
    for step, weight in ((4, 0.3), (12, 0.4), (40, 0.5)):
        coarse = noise.normal(0.0, 1.0, (height // step + 2, width // (step * 3) + 2))
        rows = np.linspace(0, coarse.shape[0] - 1.001, height)
        columns = np.linspace(0, coarse.shape[1] - 1.001, width)
        r, c = rows.astype(int), columns.astype(int)
        fr, fc = (rows - r)[:, None], (columns - c)[None, :]
        upper = coarse[np.ix_(r, c)] * (1 - fc) + coarse[np.ix_(r, c + 1)] * fc
        lower = coarse[np.ix_(r + 1, c)] * (1 - fc) + coarse[np.ix_(r + 1, c + 1)] * fc
        grey += weight * (upper * (1 - fr) + lower * fr)
    grey += noise.normal(0.0, 0.15, grey.shape)
    picture = np.array(tint) * (1.0 + depth * grey[..., None])
    return np.clip(picture, 0, 255).astype(np.float32)


def _draw(voices: Floats, *, seed: int, seconds: float) -> Iterator[NDArray[np.uint8]]:
    noise = np.random.default_rng(seed + 2)
    wall = _texture(noise, (84.0, 74.0, 70.0), 0.14)
    skin = _texture(noise, (214.0, 168.0, 146.0), 0.05)
    hair = _texture(noise, (92.0, 66.0, 48.0), 0.35)
    per_picture = SAMPLE_RATE // FPS
    blink_at = float(noise.uniform(1.0, 3.0))
    for number in range(int(seconds * FPS)):
        time = number / FPS
        canvas = _Canvas(wall)
        x = SIZE[0] * (0.69 + 0.02 * math.sin(0.9 * time) + 0.01 * math.sin(2.3 * time))
        y = SIZE[1] * (0.50 + 0.025 * math.sin(0.7 * time + 1.0))
        tilt = 0.07 * math.sin(0.6 * time)
        loud = float(np.sqrt(np.mean(voices[number * per_picture :][:per_picture] ** 2)))
        if time > blink_at + 0.15:
            blink_at = time + float(noise.uniform(1.5, 4.0))
        eye_height = 2.0 if blink_at <= time <= blink_at + 0.15 else 9.0
        look = 5.0 * math.sin(0.5 * time) + 2.0 * math.sin(1.7 * time)
        canvas.ellipse((x, y + 18), (112, 178), hair, tilt=tilt)
        canvas.ellipse((x, y + 5), (76, 118), skin, tilt=tilt)
        for side in (-1, 1):
            eye = (x + side * 31, y - 38 + side * 31 * tilt)
            canvas.ellipse((eye[0], eye[1] - 17), (20, 4), hair, tilt=tilt)
            canvas.ellipse(eye, (16, eye_height), (240, 238, 235))
            canvas.ellipse((eye[0] + look, eye[1]), (6, min(6.5, eye_height)), (58, 42, 34))
        canvas.ellipse((x - 2, y + 8), (9, 22), (190, 142, 122), tilt=tilt)
        opening = 4.0 + 110.0 * min(0.18, loud)
        canvas.ellipse((x - 55 * tilt, y + 58), (30, opening + 4), (168, 86, 84), tilt=tilt)
        canvas.ellipse((x - 55 * tilt, y + 58), (23, opening), (72, 28, 30), tilt=tilt)
        _draw_hand(canvas, time, skin)
        yield np.clip(canvas.picture, 0, 255).astype(np.uint8)


def _draw_hand(canvas: _Canvas, time: float, skin: Floats) -> None:
    """Up to the face and down again within 3.5 s, from 2.4 s on and every HAND_PERIOD."""
    phase = (time - 2.4) % HAND_PERIOD if time >= 2.4 else HAND_PERIOD
    if phase > 3.5:
        return
    lift = math.sin(math.pi * phase / 3.5) ** 0.5
    x = SIZE[0] * (0.60 + 0.02 * math.sin(6.0 * time))
    y = SIZE[1] * (1.25 - 0.50 * lift)
    for finger in range(4):
        spread = -0.35 + 0.2 * finger + 0.05 * math.sin(5.0 * time + finger)
        centre = (x - 27 + 17 * finger + 45 * spread, y - 52)
        canvas.ellipse(centre, (9, 38), (198, 152, 130), tilt=spread)
    canvas.ellipse((x, y), (42, 50), skin)


def _write_video(path: Path, pictures: Iterator[NDArray[np.uint8]]) -> None:
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=FPS, options={"crf": "16", "preset": "veryfast"})
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, FPS)
        stream.codec_context.thread_count = 1  # the same bytes on any number of cores
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = number
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode(None))
