"""A tiny arrival generator, a decoder that says what it was asked, and a player in virtual time."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from limen.transport.playout.jitter import AudioArrival, JitterBuffer, JitterStats, PlayedAudio

RATE = 48_000
Samples = npt.NDArray[np.float32]


def _periods() -> Samples:
    t = (np.arange(6000) / RATE)[:, None]
    harmonics = np.arange(1, 6)
    waves = 0.15 * np.sin(2 * np.pi * 125 * harmonics * t) / harmonics
    return np.asarray(waves.sum(axis=1, keepdims=True), dtype=np.float32)


_PERIODS = _periods()


def voice(start: int, count: int) -> Samples:
    """A voiced sound: harmonics of 125 Hz, as it is at sample `start` of the talk."""
    return _PERIODS[start % 384 : start % 384 + count]


class VoiceDecoder:
    """Decodes payloads made by `frame`; conceals with a lower copy, so that it can be told."""

    def __init__(self) -> None:
        self.decoded: list[int] = []
        self.repaired: list[int] = []
        self.concealed: list[int] = []

    def decode(self, payload: bytes) -> Samples:
        start, count = struct.unpack("<qi", payload)
        self.decoded.append(start)
        return voice(start, count)

    def conceal(self, n_samples: int) -> Samples:
        assert n_samples % 120 == 0
        self.concealed.append(n_samples)
        return np.full((n_samples, 1), 0.01, dtype=np.float32)

    def repair(self, next_payload: bytes, n_samples: int) -> Samples:
        start, _ = struct.unpack("<qi", next_payload)
        self.repaired.append(start - n_samples)
        return voice(start - n_samples, n_samples)


@dataclass
class Arriving:
    """Objects with their arrival times."""

    objects: list[tuple[float, AudioArrival]] = field(default_factory=list)

    def frame(
        self,
        sequence: int,
        captured: float,
        arrived: float,
        *,
        duration: float = 0.02,
        silence: bool = False,
        importance: float = 0.5,
    ) -> None:
        count = round(duration * RATE)
        payload = struct.pack("<qi", sequence * count, count)
        arrival = AudioArrival(sequence, captured, duration, payload, importance, silence)
        self.objects.append((arrived, arrival))


@dataclass
class Played:
    """What came out: wake-up time, deadline, block, target and current delay."""

    time: float
    due: float
    block: PlayedAudio
    target: float
    current: float


@dataclass
class Run:
    """A whole run."""

    blocks: list[Played]
    buffer: JitterBuffer
    decoder: VoiceDecoder
    accepted: int

    @property
    def stats(self) -> JitterStats:
        return self.buffer.stats()

    def between(self, start: float, end: float) -> list[Played]:
        return [b for b in self.blocks if start <= b.due < end]


def run_playout(
    objects: Iterable[tuple[float, AudioArrival]],
    *,
    until: float,
    wake_late: float = 0.0,
    stop: tuple[float, float] | None = None,
    settings: Any = None,
) -> Run:
    """Feed objects and take blocks in virtual time; `stop` = (from, to): nothing runs there."""
    decoder = VoiceDecoder()
    buffer = JitterBuffer(decoder, settings, channels=1)
    blocks: list[Played] = []
    accepted = 0
    pending = sorted(objects, key=lambda o: o[0])
    index = 0
    while True:
        due = buffer.next_time()
        wake = float("inf") if due is None else due + wake_late
        arrives = pending[index][0] if index < len(pending) else float("inf")
        now = min(wake, arrives)
        if now > until:
            break
        if stop is not None and stop[0] <= now < stop[1]:
            now = stop[1]
        if arrives <= wake:
            accepted += buffer.insert(pending[index][1], now=now)
            index += 1
        else:
            assert due is not None
            block = buffer.next_frame(now=now)
            assert block.samples.shape == (960, 1)
            assert block.samples.dtype == np.float32
            delay = buffer.delay(now)
            blocks.append(Played(now, due, block, delay.target, delay.current))
    return Run(blocks, buffer, decoder, accepted)


@pytest.fixture
def play() -> Callable[..., Run]:
    """`run_playout` above."""
    return run_playout


@pytest.fixture
def arriving() -> Callable[[], Arriving]:
    """An empty list of arrivals with a `frame` method."""
    return Arriving


@pytest.fixture
def rng() -> random.Random:
    """Seeded randomness."""
    return random.Random(20)
