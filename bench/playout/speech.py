"""The sound that is played through every buffer: encoded once, with what a sender says of it.

Speech is coded with Opus as a session does, flagged silent and weighed by the same speech source
a sender runs. What is *audible* is decided apart from that, from the source alone, so that no
buffer is judged by its own sender's opinion.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from ...codecs.opus import OpusEncoder
from ...scheduler.importance import TagStore
from ...scheduler.sources.speech import SpeechSettings, SpeechSource
from ..generated import generate_media
from ..samples import SamplesUnavailable, sample_path

Sound = NDArray[np.float32]
Flags = NDArray[np.bool_]

RATE = 48_000
FRAME = 960
FRAME_S = 0.02
AUDIBLE_DB = 35.0
"""A frame this far below the loudest tenth is not heard as speech."""
HANG_FRAMES = 2
"""Frames beside an audible one that count with it: the ear hears gaps at the edges of words."""


@dataclass(frozen=True, slots=True)
class Speech:
    """One talk, cut in 20 ms objects; object i ends at (i + 1) * 0.02 s."""

    sound: Sound
    """48 kHz, mono, what was captured."""
    payloads: list[bytes]
    audible: Flags
    silence: Flags
    """What the sender's own speech source says."""
    importance: NDArray[np.float64]
    lookahead: int
    """Samples by which decoded sound lags."""

    def __len__(self) -> int:
        return len(self.payloads)


def read_sound(path: str | Path) -> Sound:
    """A recording as mono float at 48 kHz. Raises OSError and PyAV's errors."""
    pieces: list[Sound] = []
    with av.open(str(path)) as container:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        for frame in container.decode(audio=0):
            pieces += [out.to_ndarray()[0] for out in resampler.resample(frame)]
        pieces += [out.to_ndarray()[0] for out in resampler.resample(None)]
    return np.concatenate(pieces).astype(np.float32)


def default_sound(*, seed: int) -> Sound:
    """The recorded conversation of `limen samples`, or a generated one where it cannot be had."""
    try:
        return read_sound(sample_path("two_speakers"))
    except SamplesUnavailable:
        with tempfile.TemporaryDirectory() as folder:
            return read_sound(generate_media(folder, seed=seed, seconds=30.0).voices)


def make_speech(sound: Sound, *, seconds: float, bitrate_bps: int = 32_000) -> Speech:
    """Repeat `sound` to `seconds` and encode it. Takes about 3 % of that time."""
    count = round(seconds / FRAME_S)
    sound = np.resize(sound, count * FRAME).astype(np.float32)
    sound *= 0.5 / max(1e-6, float(np.percentile(np.abs(sound), 99.9)))
    source = SpeechSource("voice", SpeechSettings(detector="energy"))
    tags = TagStore()
    payloads: list[bytes] = []
    silence = np.zeros(count, dtype=np.bool_)
    importance = np.zeros(count)
    with OpusEncoder(bitrate_bps=bitrate_bps, expected_loss=0.0, complexity=5) as encoder:
        lookahead = encoder.lookahead
        for i in range(count):
            frame = sound[i * FRAME : (i + 1) * FRAME]
            at = (i + 1) * FRAME_S
            for tag in source.feed(frame, sample_rate=RATE, time=at):
                tags.add(tag, now=at)
            silence[i] = not source.is_speech
            importance[i] = tags.importance("voice", now=at, base=0.3)
            payloads.append(encoder.encode(frame[:, None]))
    return Speech(sound, payloads, _audible(sound, count), silence, importance, lookahead)


def _audible(sound: Sound, count: int) -> Flags:
    power = np.square(sound.reshape(count, FRAME), dtype=np.float64).mean(axis=1)
    level = 10 * np.log10(power + 1e-12)
    loud = level > np.percentile(level, 90) - AUDIBLE_DB
    near: Flags = loud.copy()
    for shift in range(1, HANG_FRAMES + 1):
        near[shift:] |= loud[:-shift]
        near[:-shift] |= loud[shift:]
    return near
