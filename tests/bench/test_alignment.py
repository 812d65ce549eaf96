"""Finding when sound was heard: known delays, stretching, losses and jumps, to two milliseconds."""

from __future__ import annotations

import numpy as np
import pytest

from limen.bench.generated import generate_media
from limen.bench.peers.capture import BLOCK, PERIOD
from limen.bench.peers.heard import HeardSound
from limen.bench.runs.alignment import align
from limen.bench.scene import SOUND_RATE, Floats, read_sound

START = 1000.0
SECONDS = 6.0
NO_COUNT = np.zeros((0, 2))


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Floats:
    media = generate_media(tmp_path_factory.mktemp("speech"), seed=3, seconds=SECONDS)
    return read_sound(media.voices, start=0.0, seconds=SECONDS)


def heard(
    sound: Floats,
    *,
    first: float,
    noise: float = 0.003,
    concealed: np.ndarray = NO_COUNT,
) -> HeardSound:
    """Played from `first` (run time) in blocks of 10 ms, handed over up to 8 ms late, noisy."""
    source = np.random.default_rng(5)
    noisy = sound + source.normal(0.0, noise, len(sound)).astype(np.float32)
    samples = (np.clip(noisy, -1, 1) * 32767).astype(np.int16)
    count = len(samples) // 480
    late = source.exponential(0.002, count).clip(0, 0.008)
    late[::10] = 0.0
    at = START + first + np.arange(count) * 0.01 + late
    return HeardSound(samples[: count * 480], np.full(count, 480), at, concealed)


def errors(blocks, truth) -> list[float]:  # type: ignore[no-untyped-def]
    """Of blocks with speech: seconds between where they were found and where they belong."""
    wrong = []
    for index, block in enumerate(blocks):
        wanted = truth(index)
        if wanted is None or np.isnan(block.captured) or np.abs(block.samples).max() < 2000:
            continue
        wrong.append(abs(block.captured - START - wanted))
    return wrong


@pytest.mark.parametrize("delay", [0.0303, 0.1717, 1.25])
def test_a_constant_delay(speech: Floats, delay: float) -> None:
    blocks = align(heard(speech, first=delay), speech, start=START)
    wrong = errors(blocks, lambda i: (i + 1) * PERIOD)
    assert len(wrong) > 100
    assert max(wrong) <= 0.002
    assert blocks[50].played == pytest.approx(START + delay + 1.0, abs=0.002)
    assert {block.kind for block in blocks} <= {"played", "stretched"}


def by_pitch_periods(
    sound: Floats, *, slower: tuple[float, float], faster: tuple[float, float]
) -> tuple[Floats, np.ndarray]:
    """Every 60 ms within a range of seconds a period of the voice is said twice, or left out.

    Returns the sound and each sample's place in the source.
    """
    pieces, position, places = [], 0, []

    def take(begin: int, end: int) -> None:
        pieces.append(sound[begin:end])
        places.append(np.arange(begin, end))

    while position + 6000 < len(sound):
        end = position + 2880
        take(position, end)
        here = sound[end - 720 : end]
        best = max(
            range(120, 720, 4), key=lambda lag: float(here @ sound[end - 720 + lag : end + lag])
        )
        time = position / SOUND_RATE
        if slower[0] <= time < slower[1]:
            end -= best
        elif faster[0] <= time < faster[1]:
            end += best
        position = end
    return np.concatenate(pieces), np.concatenate(places)


def test_sound_that_is_stretched(speech: Floats) -> None:
    sound, places = by_pitch_periods(speech, slower=(1.0, 2.5), faster=(3.0, 4.5))
    blocks = align(heard(sound, first=0.1), speech, start=START)

    def truth(index: int) -> float:
        return float(places[(index + 1) * BLOCK - 1] + 1) / SOUND_RATE

    most = max(abs((i + 1) * PERIOD - truth(i)) for i in range(len(blocks)))
    assert most > 0.1, "the test stretches little"
    # A block in which a period begins anew has two delays, and either is right.
    wrong = [
        min(
            abs(block.captured - START - (places[i * BLOCK + n] - n + BLOCK) / SOUND_RATE)
            for n in range(0, BLOCK, 60)
        )
        for i, block in enumerate(blocks)
        if np.abs(block.samples).max() >= 2000
    ]
    # Vowels made by a machine repeat exactly: at a seam it may be wrong by one period, no more.
    assert np.quantile(wrong, 0.7) <= 0.002
    assert max(wrong) <= 0.016
    assert max(errors(blocks[-40:], lambda i: truth(i + len(blocks) - 40))) <= 0.002


def test_a_buffer_that_is_filled_anew(speech: Floats) -> None:
    """After 2 s there are 150 ms of nothing, and all later sound is that much later."""
    at, gap = 2 * SOUND_RATE, int(0.15 * SOUND_RATE)
    sound = np.concatenate([speech[:at], np.zeros(gap, np.float32), speech[at:]])
    blocks = align(heard(sound, first=0.08), speech, start=START)

    def truth(index: int) -> float | None:
        end = (index + 1) * BLOCK
        if at < end <= at + gap + BLOCK:
            return None
        return end / SOUND_RATE - (0.15 if end > at else 0.0)

    wrong = errors(blocks, truth)
    assert np.quantile(wrong, 0.97) <= 0.002
    assert max(errors(blocks[120:], lambda i: truth(i + 120))) <= 0.002


def test_losses_are_found_where_the_peer_counted_them(speech: Floats) -> None:
    sound = speech.copy()
    blocks_of_speech = [
        i
        for i in range(20, 280)
        if np.sqrt((speech[i * BLOCK : (i + 1) * BLOCK] ** 2).mean()) > 0.03
    ]
    lost = blocks_of_speech[5::12]
    source = np.random.default_rng(8)
    for index in lost:
        sound[index * BLOCK : (index + 1) * BLOCK] = source.normal(0, 0.05, BLOCK)
    times = np.arange(0.0, SECONDS + 0.25, 0.25)
    totals = [BLOCK * sum(0.1 + i * PERIOD < t for i in lost) for t in times]
    counts = np.column_stack([START + times, totals])
    blocks = align(heard(sound, first=0.1, concealed=counts), speech, start=START)
    found = [i for i, block in enumerate(blocks) if block.kind == "concealed"]
    assert len(found) == len(lost)
    assert len(set(found) & set(lost)) >= 0.9 * len(lost)
    assert max(errors(blocks, lambda i: None if i in lost else (i + 1) * PERIOD)) <= 0.002


def test_silence_has_no_delay_of_its_own() -> None:
    nothing = np.zeros(SOUND_RATE, np.float32)
    blocks = align(heard(nothing, first=0.1, noise=0.0), nothing, start=START)
    assert all(np.isnan(block.captured) for block in blocks)
    assert align(heard(nothing[:0], first=0.1), nothing, start=START) == []
