"""The speech that the Opus table is made of."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from ..generated import generate_media
from ..samples import SamplesUnavailable, sample_path

SECONDS = 12.0
"""Of speech: enough for a steady score, little enough for PESQ's time."""
RATE = 48_000


def read_speech(path: Path | None) -> NDArray[np.float32]:
    """`path`, else the sample's two talkers, else generated voices: mono at 48 kHz, in ±1."""
    if path is not None:
        return _read(path, skip=0.0)
    try:
        return _read(sample_path("two_speakers"), skip=6.5)  # it starts with silence
    except SamplesUnavailable:
        with tempfile.TemporaryDirectory() as folder:
            return _read(generate_media(folder, seed=1, seconds=SECONDS).voices, skip=0.0)


def _read(path: Path, *, skip: float) -> NDArray[np.float32]:
    options = {"sample_rate": "16000"} if path.suffix == ".g722" else {}
    with av.open(str(path), options=options) as container:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        frames = container.decode(audio=0)
        parts, wanted, have = [], round((skip + SECONDS) * RATE), 0
        for frame in itertools.chain(frames, [None]):
            for piece in resampler.resample(frame):
                parts.append(piece.to_ndarray()[0])
                have += len(parts[-1])
            if have >= wanted:
                break
    return np.concatenate(parts)[round(skip * RATE) : wanted].astype(np.float32)
