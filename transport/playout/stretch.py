"""Time stretching: play a little faster or slower without changing the pitch.

Waveform-similarity overlap-add (Verhelst and Roelands, ICASSP 1993) cut down to what a jitter
buffer needs: remove or repeat *one* pitch period at the head of what is about to be played, with a
cross-fade as long as the period allows. The period is the lag of highest normalised correlation,
searched coarsely at 6 kHz and refined at 48 kHz: about 0.1 ms in numpy, and only when it is used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

MIN_LAG = 120
"""2.5 ms at 48 kHz: 400 Hz, above which a voice's period is a multiple (as in NetEQ)."""
MAX_LAG = 720
"""15 ms: 67 Hz, below the deepest voices."""
FADE = 240
"""5 ms of cross-fade at most: longer smears consonants."""
_DECIMATE = 8


class Stretched(NamedTuple):
    """The new samples and by how many they became longer (above 0) or shorter (below 0)."""

    samples: Samples
    change: int


def best_lag(mono: Samples, *, max_lag: int, window: int = 480) -> tuple[int, float]:
    """The lag in [MIN_LAG, max_lag] at which `mono` best repeats itself, and how well (−1 to 1).

    Compares the first `window` samples with those `lag` later, over as much as there is.
    Needs at least `MIN_LAG + 2 * FADE` samples, else (0, -1).
    """
    max_lag = min(max_lag, len(mono) - FADE)
    if max_lag < MIN_LAG or len(mono) < MIN_LAG + 2 * FADE:
        return 0, -1.0
    window = min(window, len(mono) - max_lag)
    usable = (len(mono) // _DECIMATE) * _DECIMATE
    coarse = mono[:usable].reshape(-1, _DECIMATE).mean(axis=1)
    lag = _search(
        coarse,
        MIN_LAG // _DECIMATE,
        max(MIN_LAG // _DECIMATE, min(max_lag, usable - window) // _DECIMATE),
        max(8, window // _DECIMATE),
    )[0]
    low = max(MIN_LAG, (lag - 1) * _DECIMATE)
    high = min(max_lag, (lag + 1) * _DECIMATE)
    return _search(mono, low, max(low, high), window)


def _search(x: Samples, low: int, high: int, window: int) -> tuple[int, float]:
    window = min(window, len(x) - high)
    if window <= 0:
        return low, -1.0
    head = x[:window]
    tail = x[low : high + window]
    products = np.correlate(tail, head, mode="valid")
    squares = np.concatenate(([0.0], np.cumsum(np.square(tail, dtype=np.float64))))
    energies = squares[window:] - squares[:-window]
    norm = np.sqrt(np.maximum(energies * float(np.dot(head, head)), 1e-12))
    scores = products / norm
    best = int(np.argmax(scores))
    return low + best, float(scores[best])


def _fade(first: Samples, second: Samples) -> Samples:
    n = len(first)
    ramp = ((np.arange(n, dtype=np.float32) + 0.5) / n)[:, None]
    return np.asarray(first + (second - first) * ramp, dtype=np.float32)


def _mono(samples: Samples) -> Samples:
    return samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)


def accelerate(
    samples: Samples, *, max_change: int = MAX_LAG, min_correlation: float = 0.8
) -> Stretched:
    """Remove one pitch period of at most `max_change` samples from the head of (n, channels).

    Unchanged when nothing repeats well enough.
    """
    lag, score = best_lag(_mono(samples), max_lag=min(MAX_LAG, max_change))
    if lag == 0 or score < min_correlation:
        return Stretched(samples, 0)
    return cut(samples, lag)


def decelerate(
    samples: Samples, *, max_change: int = MAX_LAG, min_correlation: float = 0.8
) -> Stretched:
    """Repeat one pitch period of at most `max_change` samples at the head of (n, channels).

    Unchanged when nothing repeats well enough.
    """
    lag, score = best_lag(_mono(samples), max_lag=min(MAX_LAG, max_change))
    if lag == 0 or score < min_correlation:
        return Stretched(samples, 0)
    fade = min(lag, FADE, len(samples) - lag)
    middle = _fade(samples[lag : lag + fade], samples[:fade])
    return Stretched(np.concatenate((samples[:lag], middle, samples[fade:])), lag)


def cut(samples: Samples, n: int) -> Stretched:
    """Remove exactly `n` samples at the head with a cross-fade: for silence, whatever the wave.

    `n` at most the length less `MIN_LAG`.
    """
    fade = min(max(n, MIN_LAG), FADE, len(samples) - n)
    if n <= 0 or fade <= 0:
        return Stretched(samples, 0)
    middle = _fade(samples[:fade], samples[n : n + fade])
    return Stretched(np.concatenate((middle, samples[n + fade :])), -n)


def pad(samples: Samples, n: int) -> Stretched:
    """Lengthen by `n` samples by repeating the head with a cross-fade: for silence.

    `n` at most half the length.
    """
    n = min(n, len(samples) // 2)
    fade = min(n, FADE)
    if n <= 0:
        return Stretched(samples, 0)
    middle = _fade(samples[n : n + fade], samples[:fade])
    return Stretched(np.concatenate((samples[:n], middle, samples[fade:])), n)
