"""NetEQ's rules (libwebrtc, modules/audio_coding/neteq), modelled tick by tick with real sound.

What is modelled: 10 ms ticks; the relative delay over a 2 s minimum; the underrun histogram of 100
buckets of 20 ms that takes the largest delay of each half second (quantile 0.95, forget factor
0.983, start weight 2) and the reorder histogram; a target of one bucket at least; slowing down
below the target and speeding up above target + largest recent delay + 20 ms, at most once per
60 ms, one pitch period of 2.5 to 15 ms that correlates by more than 0.9 (anything in silence);
fast acceleration from four times the upper limit; expansion for as long as nothing is there, kept
up after it has been muted until half the target is buffered; in-band FEC for a single hole.

What is in its favour: concealment is Opus's own, where NetEQ for Opus extrapolates by itself;
the sender's silence flags stand in for its detection of passive speech.
"""

from __future__ import annotations

import time
from collections import deque

import numpy as np
from numpy.typing import NDArray

from ...transport.playout import stretch
from ...transport.playout.sound import Kind, Mark, SoundQueue
from .outcome import Outcome
from .players import DRAIN, WatchedDecoder
from .speech import FRAME, FRAME_S, RATE, Speech

TICK_S = 0.01
TICK = 480
BUCKETS = 100
BUCKET_MS = 20.0
START_TARGET_MS = 80.0
HISTORY_MS = 2000.0
RESAMPLE_MS = 500.0
STRETCH_TICKS = 6
CORRELATION = 0.9
FAST_CORRELATION = 0.5
MUTED_AFTER_TICKS = 8
"""Ticks of expansion after which less than half of the sound is left."""
NEEDED = 3 * TICK
"""Samples that NetEQ wants before it stretches: 30 ms."""


class _Histogram:
    """Forgetting histogram with NetEQ's start: geometric weights, memory that grows."""

    def __init__(self, forget: float, start_weight: float) -> None:
        self.shares = 0.5 ** (np.arange(BUCKETS) + 1.0)
        self.shares /= self.shares.sum()
        self._forget_final = forget
        self._start_weight = start_weight
        self._forget = 0.0
        self._count = 0

    def add(self, bucket: int) -> None:
        self.shares *= self._forget
        self.shares[min(bucket, BUCKETS - 1)] += 1.0 - self._forget
        self.shares /= self.shares.sum()
        self._count += 1
        grown = 1.0 - self._start_weight / (self._count + 1)
        self._forget = max(0.0, min(self._forget_final, grown))

    def quantile(self, share: float) -> int:
        return int(np.searchsorted(np.cumsum(self.shares), share))


class DelayManager:
    """Feed `add` with each packet's send and arrival time in ms; read `target` and `limits`."""

    def __init__(self, *, quantile: float = 0.95) -> None:
        self._quantile = quantile
        self._underrun = _Histogram(0.983, 2.0)
        self._reorder = _Histogram(0.9993, 2.0)
        self._recent: deque[tuple[float, float]] = deque()
        self._largest = 0.0
        self._since: float | None = None
        self._newest = -1.0
        self.target = START_TARGET_MS

    @property
    def base(self) -> float:
        """The fastest transit of the last 2 s, ms on mixed clocks."""
        return min(transit for _, transit in self._recent)

    def add(self, sent: float, now: float) -> None:
        """One packet captured at `sent` arrived at `now`."""
        self._recent.append((sent, now - sent))
        while self._recent[0][0] < sent - HISTORY_MS:
            self._recent.popleft()
        relative = now - sent - self.base
        if self._since is None:
            self._since = now
        if now - self._since > RESAMPLE_MS:
            self._underrun.add(int(self._largest // BUCKET_MS))
            self._largest = 0.0
            self._since = now
        self._largest = max(self._largest, relative)
        reordered = sent < self._newest
        self._newest = max(self._newest, sent)
        self._reorder.add(int(relative // BUCKET_MS) if reordered else 0)
        self.target = (1 + self._underrun.quantile(self._quantile)) * BUCKET_MS
        if reordered:
            # Minimises delay + 20 ms per per cent of reordered packets that would be lost.
            tail = 1.0 - np.cumsum(self._reorder.shares)
            costs = np.arange(BUCKETS) * BUCKET_MS + 20.0 * 100.0 * tail
            self.target = max(self.target, (1 + int(np.argmin(costs))) * BUCKET_MS)

    def limits(self) -> tuple[float, float]:
        """Playout delay in ms above the base: slow down below, speed up above."""
        largest = max(transit for _, transit in self._recent) - self.base
        return self.target, self.target + largest + 20.0


class _NetEq:
    def __init__(self, speech: Speech, *, quantile: float, with_sound: bool) -> None:
        self.manager = DelayManager(quantile=quantile)
        self.decoder = WatchedDecoder(speech, with_sound=with_sound)
        self.held: set[int] = set()
        self._speech = speech
        self._queue = SoundQueue(1)
        self._next = -1
        self._passive = False
        self._expanded = 0
        self._countdown = 0
        self._hole = 0

    def hold(self, number: int) -> None:
        if self._next < 0:
            self._next = number
        if number >= self._next:
            self.held.add(number)

    @property
    def begun(self) -> bool:
        return self._next >= 0

    def tick(self, now_ms: float) -> tuple[NDArray[np.float32], float, float, bool]:
        """10 ms: samples, capture time at their end (NaN), made-up seconds, stretched."""
        self._countdown -= 1
        change = 0
        if self._postponed() or not self._fill(TICK):
            self._expand()
        else:
            change = self._stretch(now_ms)
            self._expanded = 0
        taken = self._queue.take(TICK)
        captured = np.nan if taken.captured is None else taken.captured
        return taken.samples[:, 0], captured, taken.concealed / RATE, change != 0

    def _postponed(self) -> bool:
        if self._expanded < MUTED_AFTER_TICKS:
            return False
        run = 0
        while self._next + run in self.held:
            run += 1
        return (run * FRAME + len(self._queue)) * 1000 / RATE < self.manager.target / 2

    def _fill(self, samples: int) -> bool:
        while len(self._queue) < samples:
            if self._next in self.held:
                self._decode()
            elif self._next + 1 in self.held:
                sound = self.decoder.repair(self._speech.payloads[self._next + 1], FRAME)
                self._append(sound, FRAME_S, made_up=not self.decoder.heard[self._next])
            elif self.held and self._hole >= 2 * (min(self.held) - self._next):
                self._next = min(self.held)  # its time has been expanded over
            else:
                return False
        return True

    def _decode(self) -> None:
        self.held.discard(self._next)
        self._passive = bool(self._speech.silence[self._next])
        self._append(self.decoder.decode(self._speech.payloads[self._next]), FRAME_S)
        self._hole = 0

    def _append(self, sound: NDArray[np.float32], media: float, *, made_up: bool = False) -> None:
        if media:
            self._next += 1
        captured = self._next * FRAME_S if media else None
        kind: Kind = "concealed" if made_up else "played"
        self._queue.append(sound, Mark(len(sound), kind, 0.5, captured=captured))

    def _expand(self) -> None:
        short = TICK - len(self._queue)
        padded = -(-short // 120) * 120
        self._append(self.decoder.conceal(padded)[:short], 0.0, made_up=True)
        self._expanded += 1
        self._hole += 1

    def _stretch(self, now_ms: float) -> int:
        if self._expanded or self._countdown > 0:
            return 0
        low, high = self.manager.limits()
        head = self._next * FRAME_S * 1000 - len(self._queue) * 1000 / RATE
        playout = now_ms - head - self.manager.base - FRAME_S * 1000
        fast = playout >= 4 * high
        if low <= playout < high or (not fast and self._countdown > 0):
            return 0
        if not self._fill(NEEDED):
            return 0
        piece = self._queue.head(NEEDED)
        similar = -1.0 if self._passive else FAST_CORRELATION if fast else CORRELATION
        if playout >= high:
            done = stretch.accelerate(piece, min_correlation=similar)
        else:
            done = stretch.decelerate(piece, min_correlation=similar)
        if done.change:
            self._queue.replace_head(len(piece), done.samples)
            self._countdown = STRETCH_TICKS
        return done.change


def play_neteq(
    speech: Speech,
    arrivals: NDArray[np.float64],
    *,
    quantile: float = 0.95,
    with_sound: bool = True,
    name: str = "NetEQ rules",
) -> Outcome:
    """Play through the model."""
    model = _NetEq(speech, quantile=quantile, with_sound=with_sound)
    outcome = Outcome(name, TICK_S, model.decoder.heard)
    order = [int(i) for i in np.argsort(arrivals, kind="stable") if np.isfinite(arrivals[i])]
    stop = float(np.nanmax(arrivals)) + DRAIN
    done = 0
    tick = 0
    started = time.process_time()
    while tick * TICK_S < stop:
        now = tick * TICK_S
        while done < len(order) and arrivals[order[done]] <= now + 1e-9:
            number = order[done]
            model.hold(number)
            model.manager.add((number + 1) * FRAME_S * 1000, float(arrivals[number]) * 1000)
            done += 1
        tick += 1
        if not model.begun:
            continue
        samples, captured, made, stretched = model.tick(now * 1000)
        outcome.ends.append(now + TICK_S)
        outcome.captured.append(captured)
        outcome.made_up.append(made)
        outcome.stretched.append(stretched)
        outcome.sound.append(samples)
    outcome.cpu_s = time.process_time() - started
    return outcome
