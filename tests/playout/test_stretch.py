"""Time stretching: pitch stays, length changes by whole periods, no clicks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from limen.transport.playout import stretch

RATE = 48_000


def tone(hertz: float, seconds: float = 0.04, channels: int = 1) -> npt.NDArray[np.float32]:
    t = np.arange(round(seconds * RATE)) / RATE
    wave = sum(0.3 / k * np.sin(2 * np.pi * hertz * k * t) for k in (1, 2, 3))
    return np.repeat(np.asarray(wave, dtype=np.float32)[:, None], channels, axis=1)


def steepest(samples: npt.NDArray[np.float32]) -> float:
    return float(np.abs(np.diff(samples[:, 0])).max())


@pytest.mark.parametrize("hertz", [80.0, 125.0, 210.0, 330.0])
def test_a_voice_is_shortened_and_lengthened_by_whole_periods(hertz: float) -> None:
    wave = tone(hertz)
    period = RATE / hertz
    for done, sign in ((stretch.accelerate(wave), -1), (stretch.decelerate(wave), 1)):
        assert done.change * sign >= stretch.MIN_LAG
        assert len(done.samples) == len(wave) + done.change
        periods = abs(done.change) / period
        assert abs(periods - round(periods)) * period <= 2
        assert steepest(done.samples) <= 1.2 * steepest(wave)


def test_pitch_is_kept() -> None:
    wave = tone(200.0, 0.2)
    for _ in range(4):
        wave = stretch.accelerate(wave).samples
    spectrum = np.abs(np.fft.rfft(wave[:, 0] * np.hanning(len(wave))))
    peak = float(np.argmax(spectrum)) * RATE / len(wave)
    assert peak == pytest.approx(200, abs=RATE / len(wave))


def test_noise_is_left_alone_unless_similar_enough() -> None:
    noise = np.random.default_rng(1).standard_normal((1920, 1)).astype(np.float32)
    assert stretch.accelerate(noise).change == 0
    assert stretch.decelerate(noise).change == 0


def test_the_change_is_bounded() -> None:
    wave = tone(330.0)
    assert -200 <= stretch.accelerate(wave, max_change=200).change < 0


@pytest.mark.parametrize("count", [120, 300, 480])
def test_silence_is_cut_and_padded_exactly(count: int) -> None:
    wave = tone(90.0)
    assert len(stretch.cut(wave, count).samples) == len(wave) - count
    assert len(stretch.pad(wave, count).samples) == len(wave) + count
    assert steepest(stretch.cut(wave, count).samples) <= 3 * steepest(wave)


def test_channels_stay_together() -> None:
    wave = tone(125.0, channels=2)
    done = stretch.accelerate(wave)
    assert done.samples.shape == (len(wave) + done.change, 2)
    assert np.array_equal(done.samples[:, 0], done.samples[:, 1])


@pytest.mark.parametrize("count", [0, 100, 400, 599])
def test_too_little_sound_is_left_alone(count: int) -> None:
    few = np.zeros((count, 1), dtype=np.float32)
    assert stretch.accelerate(few).change == 0
    assert stretch.decelerate(few).change == 0


def test_digital_silence_gives_no_warning() -> None:
    assert stretch.accelerate(np.zeros((1920, 1), dtype=np.float32)).change == 0
