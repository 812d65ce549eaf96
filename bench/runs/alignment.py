"""When each moment of sound was heard, for peers whose sound carries no capture stamps.

What was played is laid beside what was captured. For every 20 ms of it, the normalized correlation
of the 60 ms around with the source says how well each delay fits; the delays of a whole run are
then chosen together (Viterbi): a fit is worth its correlation, a change of delay costs by its size
up to a limit, so that neither the period of a voice nor one bad match moves it, while stretching
and a re-filled buffer do. Silence fits nothing and everything: there the delay goes in a straight
line from the speech before to the speech after.

Correlation tells badly whether 20 ms were made up, as that is what concealment tries to hide. So
the peer's own count says how much was made up, and when to a quarter of a second; correlation only
says which blocks those were.

Tested on known delays, losses and jumps to 2 ms; where voiced sound is being stretched it may be
wrong by one period of the voice, for as long as that lasts (tests/bench/test_alignment.py).
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..peers.capture import BLOCK, PERIOD
from ..peers.heard import HeardSound, read_heard
from ..peers.recorder import PlayedBlock, write_sound
from ..scene import SOUND_RATE, Floats, Scene

Doubles = NDArray[np.float64]

FACTOR = 6
RATE = SOUND_RATE // FACTOR
"""8 kHz: speech's waveform is below 4, and a sample is 0.125 ms."""
HOP = BLOCK // FACTOR
WINDOW = 3 * HOP
BIN = RATE // 1000
"""Delays are compared by the millisecond; within it, the best sample counts."""
MAX_DELAY = 3.0
"""Seconds of delay that are looked for; the runs' drain."""
MOVE = 0.02
"""Correlation that a millisecond's change of delay must win over the run."""
JUMP = 1.0
"""The most a change costs: two windows of speech pay for a buffer filled anew."""
LOUD_DB = 30.0
"""Windows this much below the loudest speech say nothing of the delay."""
DEAF = 1e-6
"""A window's energy, full scale being 1, below which nothing was recorded. A room's noise is more,
and codecs keep enough of its shape to find it: a microphone nobody spoke into has a delay, too."""
STILL = 0.25
"""Seconds around a block over which its output's clock is taken to stand still."""
STRETCH = 0.001
"""Seconds by which 20 ms of playing may differ from 20 ms of source and not be stretched."""


def align_run(folder: Path, scene: Scene, *, start: float) -> bool:
    """Make `sound.npz` of the `heard.npz` in a run's folder; `start` is its run time 0.

    False, and nothing done, when the peer left no `heard.npz`: its sound has stamps of its own.
    """
    heard = read_heard(folder)
    if heard is None:
        return False
    blocks = {
        track: align(sound, scene.sound(track), start=start) for track, sound in heard.items()
    }
    write_sound(folder, {track: found for track, found in blocks.items() if found})
    return True


def align(heard: HeardSound, source: Floats, *, start: float) -> list[PlayedBlock]:
    """What was heard, in blocks of 20 ms with the moments their last samples were captured.

    `start` is run time 0, when the source's first sample was captured, on the clock of `heard`.
    Kinds are `played`, `stretched` (also: with a piece of the source left out of less than 20 ms)
    and `concealed`.
    """
    count = len(heard.samples) // BLOCK
    if count == 0:
        return []
    blocks = heard.samples[: count * BLOCK].reshape(count, BLOCK)
    begins = _play_times(heard, np.arange(count) * BLOCK)
    quiet_source = _decimate(source)
    played = _decimate(heard.samples[: count * BLOCK].astype(np.float32) / 32767.0)
    delays = _delays(played, quiet_source, begins - start)
    if delays is None:
        return [
            PlayedBlock(b, np.nan, float(at), "played")
            for b, at in zip(blocks, begins, strict=True)
        ]
    ends = begins + PERIOD - delays
    made_up = _made_up(heard.concealed, begins, _fits(played, quiet_source, ends - start))
    steps = np.diff(ends, prepend=ends[0] - PERIOD)
    result = []
    for index in range(count):
        kind, captured = "played", float(ends[index])
        if made_up[index]:
            kind, captured = "concealed", np.nan
        elif STRETCH < abs(steps[index] - PERIOD) < PERIOD:
            kind = "stretched"
        result.append(PlayedBlock(blocks[index], captured, float(begins[index]), kind))
    return result


def _play_times(heard: HeardSound, positions: NDArray[np.int64]) -> Doubles:
    """When samples began to be heard: outputs run evenly, only their hand-over is uneven.

    Of the hand-overs within STILL the earliest, relative to the samples before it, is the output's.
    """
    first = np.concatenate([[0], np.cumsum(heard.counts)[:-1]])
    shift = heard.at - first / SOUND_RATE
    low = np.searchsorted(heard.at, heard.at - STILL)
    high = np.searchsorted(heard.at, heard.at + STILL, side="right")
    even = np.array([shift[a:b].min() for a, b in zip(low, high, strict=True)])
    index = np.searchsorted(first, positions, side="right") - 1
    times: Doubles = positions / SOUND_RATE + even[index]
    return times


def _decimate(sound: Floats) -> Floats:
    """To 8 kHz through a windowed sinc, delay taken off."""
    taps = np.arange(-8 * FACTOR, 8 * FACTOR + 1)
    kernel = np.sinc(taps / FACTOR * 0.9) * np.hamming(len(taps))
    smooth = np.convolve(sound, kernel / kernel.sum(), "same") if len(sound) else sound
    made: Floats = smooth[::FACTOR].astype(np.float32)
    return made


def _delays(played: Floats, source: Floats, begins: Doubles) -> Doubles | None:
    """The delay (s) of every block of `played`, whose blocks began at run times `begins`."""
    count, reach = len(begins), int(MAX_DELAY * RATE)
    padded = np.pad(played, (HOP, 2 * HOP))
    windows = [padded[i * HOP : i * HOP + WINDOW] for i in range(count)]
    energy = np.array([float(np.dot(w, w)) for w in windows])
    loud = energy > np.quantile(energy, 0.98) * 10 ** (-LOUD_DB / 10)
    loud &= energy > DEAF
    if not loud.any():
        return None
    scores = np.zeros((count, reach // BIN), np.float32)
    within = np.zeros((count, reach // BIN), np.uint8)
    room = np.pad(source, (reach + WINDOW, reach + WINDOW))
    squares = np.concatenate([[0.0], np.cumsum(np.square(room, dtype=np.float64))])
    size = 1 << (reach + WINDOW - 1).bit_length()
    for index in np.flatnonzero(loud):
        # Where the window would start in the source without any delay; earlier by a delay.
        latest = round((begins[index] - PERIOD) * RATE) + reach + WINDOW
        first = latest - reach + 1
        if first < 0 or latest + WINDOW > len(room):
            continue
        stretch = room[first : latest + WINDOW]
        spectrum = np.fft.rfft(stretch, size) * np.conj(np.fft.rfft(windows[index], size))
        product = np.fft.irfft(spectrum, size)[:reach]
        norm = squares[first + WINDOW : first + WINDOW + reach] - squares[first : first + reach]
        fit = product / np.sqrt(np.maximum(norm, 1e-6) * energy[index])
        by_delay = fit[::-1].reshape(-1, BIN)  # from no delay on
        within[index] = by_delay.argmax(axis=1)
        scores[index] = np.clip(by_delay.max(axis=1), 0.0, 1.0)
    chosen = _best_path(scores)
    # A window's place in the source was rounded to a sample; the delay is told without that.
    fine = chosen * BIN + within[np.arange(count), chosen]
    exact = (begins - PERIOD) - (np.round((begins - PERIOD) * RATE) - fine) / RATE
    known = np.flatnonzero(loud)
    delays: Doubles = np.interp(np.arange(count), known, exact[known])
    return delays


def _best_path(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """The row of delays whose sum of scores less its changes is greatest."""
    count, width = scores.shape
    ramp: Doubles = MOVE * np.arange(width, dtype=np.float64)
    totals = np.zeros((count, width), np.float32)
    best = scores[0].astype(np.float64)
    totals[0] = best
    for index in range(1, count):
        best = scores[index] + _after_moving(best, ramp)
        totals[index] = best
    path = np.zeros(count, np.int64)
    path[-1] = int(totals[-1].argmax())
    for index in range(count - 2, -1, -1):
        cost = np.minimum(np.abs(ramp - ramp[path[index + 1]]), JUMP)
        path[index] = int((totals[index] - cost).argmax())
    return path


def _after_moving(best: Doubles, ramp: Doubles) -> Doubles:
    """For each delay the best of all delays less what moving from there costs."""
    up = np.maximum.accumulate(best + ramp) - ramp
    down = (np.maximum.accumulate((best - ramp)[::-1])[::-1]) + ramp
    moved: Doubles = np.maximum(np.maximum(up, down), best.max() - JUMP)
    return moved


def _fits(played: Floats, source: Floats, ends: Doubles) -> Doubles:
    """How well each block fits the place in the source it was found at, 2 ms to either side."""
    fits = np.ones(len(ends))
    slack = 2 * BIN
    room = np.pad(source, (HOP + slack, HOP + slack))
    for index, end in enumerate(ends):
        block = played[index * HOP : (index + 1) * HOP]
        first = round(end * RATE)  # of the source's block, less slack, in the padded source
        stretch = room[max(0, first) : max(0, first) + HOP + 2 * slack]
        if len(stretch) < HOP or len(block) < HOP:
            continue
        views = np.lib.stride_tricks.sliding_window_view(stretch, HOP)
        norms = np.sqrt((views**2).sum(axis=1) * float(np.dot(block, block)))
        fits[index] = float((views @ block / np.maximum(norms, 1e-9)).max())
    return fits


def _made_up(concealed: Doubles, begins: Doubles, fits: Doubles) -> NDArray[np.bool_]:
    """Which blocks were made up: in each stretch of counting as many as were, the worst fits."""
    chosen = np.zeros(len(begins), np.bool_)
    owed = 0.0
    for (before, less), (now, more) in itertools.pairwise(concealed):
        owed += (more - less) / BLOCK
        count = int(owed + 0.5)
        if count < 1:
            continue
        low, high = np.searchsorted(begins, (before - PERIOD, now))
        free = [i for i in range(low, high) if not chosen[i]]
        worst = sorted(free, key=lambda i: fits[i])[:count]
        chosen[worst] = True
        owed -= count
    return chosen
