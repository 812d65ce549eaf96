"""Sound as it came out of a peer that carries no capture stamps: samples and when they were played.

Such a peer (a browser, aiortc) cannot say what it played, only when. It leaves `heard.npz` in the
run's folder; `bench/runs/alignment.py` finds what of the source it was and writes `sound.npz`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from ..scene import SOUND_RATE

Doubles = NDArray[np.float64]
HEARD_FILE = "heard.npz"


@dataclass(frozen=True, slots=True)
class HeardSound:
    """One track, in the order of playing."""

    samples: NDArray[np.int16]
    """48 kHz, mono, all blocks one after another."""
    counts: NDArray[np.int64]
    """Samples of each block."""
    at: Doubles
    """When each block was given to the output, seconds on the monotonic clock."""
    concealed: Doubles
    """(n, 2): time, and the samples made up until then as the peer counts them; may be empty."""


class HeardLog:
    """Collects what is heard while a run goes on; may be used from several threads."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[tuple[float, NDArray[np.int16]]]] = {}
        self._concealed: dict[str, list[tuple[float, float]]] = {}
        self._lock = threading.Lock()

    def add(self, track: str, samples: NDArray[Any], *, rate: int, at: float) -> None:
        """A block of mono sound, float in ±1 or int16, was given to the output at `at`."""
        if samples.dtype != np.int16:
            samples = (np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
        if rate != SOUND_RATE:
            samples = _at_48k(samples, rate)
        with self._lock:
            self._blocks.setdefault(track, []).append((at, samples))

    def conceal(self, track: str, total: float, *, at: float) -> None:
        """By `at` the peer had made up `total` samples of the track."""
        with self._lock:
            self._concealed.setdefault(track, []).append((at, total))

    def write(self, folder: Path) -> None:
        """Write `heard.npz`."""
        arrays: dict[str, NDArray[Any]] = {}
        for track, blocks in self._blocks.items():
            arrays[f"{track}:samples"] = np.concatenate([samples for _, samples in blocks])
            arrays[f"{track}:counts"] = np.array([len(samples) for _, samples in blocks])
            arrays[f"{track}:at"] = np.array([at for at, _ in blocks])
            made_up = np.array(self._concealed.get(track, []), np.float64).reshape(-1, 2)
            arrays[f"{track}:concealed"] = made_up
        np.savez(folder / HEARD_FILE, **arrays)  # type: ignore[arg-type]  # its stub, numpy 2.3


def read_heard(folder: Path) -> dict[str, HeardSound] | None:
    """What a HeardLog wrote, by track; None when the peer wrote none."""
    path = folder / HEARD_FILE
    if not path.exists():
        return None
    with np.load(path) as arrays:
        tracks = sorted({name.rpartition(":")[0] for name in arrays.files})
        parts = ("samples", "counts", "at", "concealed")
        return {
            track: HeardSound(*(arrays[f"{track}:{part}"] for part in parts)) for track in tracks
        }


def _at_48k(samples: NDArray[np.int16], rate: int) -> NDArray[np.int16]:
    frame = av.AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
    frame.sample_rate = rate
    resampler = av.AudioResampler(format="s16", layout="mono", rate=SOUND_RATE)
    pieces = [*resampler.resample(frame), *resampler.resample(None)]
    made: NDArray[np.int16] = np.concatenate([piece.to_ndarray()[0] for piece in pieces])
    return made
