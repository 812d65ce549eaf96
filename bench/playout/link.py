"""When each audio object arrives over a cellular link, recorded or generated.

A trace is a list of milliseconds at which one 1500-byte packet may leave the bottleneck
(mahimahi's format). Sound shares the link with a video flow, as it does in a call: with priority,
as limen sends it, or in one queue with it. Everything is seeded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Milliseconds = NDArray[np.int64]

OPPORTUNITY_BYTES = 1500
"""What one line of a mahimahi trace lets pass."""
HEADERS = 40
"""Bytes of IP, UDP and QUIC around a payload."""
MAX_QUEUE = 400
"""Video packets that wait at the bottleneck at most; later ones are dropped."""
VIDEO_FPS = 30
KEYFRAME_EVERY = 120
"""Pictures from keyframe to keyframe: 4 s."""
KEYFRAME_SIZE = 4.0
"""Times the mean picture."""


class TraceError(ValueError):
    """A trace file cannot be used; the text names the line."""


def read_trace(path: str | Path) -> Milliseconds:
    """The delivery opportunities of a mahimahi trace, ms from its start.

    Raises TraceError for anything but one whole, non-decreasing number a line; OSError.
    """
    times: list[int] = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        word = line.strip()
        if not word:
            continue
        if not word.isdecimal():
            raise TraceError(f"{path}:{number}: expected a number of milliseconds, got {word!r}")
        if times and int(word) < times[-1]:
            raise TraceError(f"{path}:{number}: {word} comes after {times[-1]}: times only grow")
        times.append(int(word))
    if not times or times[-1] < 1000:
        raise TraceError(f"{path}: a trace lasts at least a second")
    return np.asarray(times, dtype=np.int64)


def generate_lte(*, seed: int, seconds: float, mean_bps: float = 5e6) -> Milliseconds:
    """Delivery opportunities like a moving LTE receiver's.

    The rate wanders (log-normal, a second of memory), slots come in 1 ms steps with bursts, and
    outages of 0.1 to 1.2 s (Pareto, as in the recorded ones) come every 6 s or so.
    """
    noise = np.random.default_rng(seed)
    total = round(seconds * 1000)
    steps = total // 20 + 1
    wander = np.zeros(steps)
    for i in range(1, steps):
        wander[i] = 0.98 * wander[i - 1] + noise.normal(0.0, 0.14)
    rate = np.repeat(mean_bps * np.exp(wander - 0.25), 20)[:total] / 8 / OPPORTUNITY_BYTES / 1000
    at = 0.0
    while (at := at + noise.exponential(6000.0)) < total:
        length = min(1200.0, 100.0 * (1.0 + noise.pareto(1.3)))
        rate[round(at) : round(at + length)] = 0.0
    counts = noise.poisson(rate)
    return np.repeat(np.arange(total, dtype=np.int64), counts)


def audio_arrivals(
    opportunities: Milliseconds,
    sizes: Sequence[int],
    *,
    frame_ms: int = 20,
    video_bps: float = 400_000.0,
    priority: bool = True,
    propagation_ms: float = 20.0,
    seed: int = 1,
) -> Floats:
    """Arrival time in seconds of each audio object, NaN for one that the queue dropped.

    Object i is captured whole at (i + 1) * `frame_ms` and offered then. A trace that is shorter
    than the sound is repeated.
    """
    noise = np.random.default_rng(seed)
    total = len(sizes) * frame_ms + 4000
    slots = _repeated(opportunities, total)
    offers: list[tuple[int, int, int]] = [
        ((i + 1) * frame_ms, size + HEADERS, i) for i, size in enumerate(sizes)
    ]
    for picture in range(total * VIDEO_FPS // 1000):
        scale = KEYFRAME_SIZE if picture % KEYFRAME_EVERY == 0 else 0.9
        size = video_bps / 8 / VIDEO_FPS * scale * noise.lognormal(0.0, 0.25)
        while size > 0:
            offers.append((picture * 1000 // VIDEO_FPS, round(min(1200.0, size)) + HEADERS, -1))
            size -= 1200
    offers.sort()
    first: deque[list[int]] = deque()
    rest: deque[list[int]] = deque()
    arrivals = np.full(len(sizes), np.nan)
    index = 0
    for ms in range(total):
        while index < len(offers) and offers[index][0] <= ms:
            _, size_left, number = offers[index]
            index += 1
            if number >= 0 and priority:
                first.append([size_left, number])
            elif len(rest) < MAX_QUEUE:
                rest.append([size_left, number])
        room = int(slots[ms]) * OPPORTUNITY_BYTES
        while room > 0 and (first or rest):
            queue = first or rest
            used = min(room, queue[0][0])
            queue[0][0] -= used
            room -= used
            if queue[0][0] == 0:
                number = queue.popleft()[1]
                if number >= 0:
                    arrivals[number] = (ms + propagation_ms) / 1000
    return arrivals


def _repeated(opportunities: Milliseconds, total: int) -> Milliseconds:
    period = int(opportunities[-1]) + 1
    counts = np.bincount(opportunities, minlength=period)
    return np.resize(counts, total).astype(np.int64)


def steady_arrivals(
    count: int, *, frame_ms: int = 20, transit: float = 0.03, jitter: float = 0.002, seed: int = 1
) -> Floats:
    """Arrivals over a clean link: `transit` seconds and up to `jitter` more."""
    noise = np.random.default_rng(seed)
    return np.asarray(
        (np.arange(count) + 1) * frame_ms / 1000 + transit + noise.uniform(0.0, jitter, count)
    )
