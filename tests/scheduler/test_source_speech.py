"""Speech-like sound with known turns: onsets soon, pauses once, noise taken for neither."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from limen.scheduler.sources.speech import SpeechEvent, SpeechSettings, SpeechSource
from limen.scheduler.types import Tag, TagKind

RATE = 48000
TURNS = ((1.0, 3.0), (3.8, 5.0), (5.12, 6.0))
"""Seconds of speech: gaps of 0.8 s (a pause) and 0.12 s (between words)."""


def talker(
    turns: tuple[tuple[float, float], ...] = TURNS,
    *,
    seconds: float = 7.5,
    noise_db: float = -60.0,
    rate: int = RATE,
    seed: int = 1,
) -> NDArray[np.float32]:
    """A voiced buzz through three formants, syllables at 4 Hz, over noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    pitch = 120.0 + 15.0 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = np.zeros_like(t)
    for k in range(1, 28):
        formants = sum(math.exp(-(((120 * k - f) / 180.0) ** 2)) for f in (500, 1500, 2500))
        voice += (0.05 + formants) / math.sqrt(k) * np.sin(k * phase)
    voice *= 0.1 / np.sqrt(np.mean(voice**2))  # -20 dBFS
    active = np.zeros_like(t)
    for start, end in turns:
        inside = (t >= start) & (t < end)
        syllables = 0.35 + 0.65 * np.sin(np.pi * ((t - start) * 4.0 % 1.0)) ** 0.5
        active[inside] = syllables[inside]
    noise = rng.standard_normal(t.size) * 10 ** (noise_db / 20)
    return (voice * active + noise).astype(np.float32)


def run(
    samples: NDArray[np.float32], *, detector: str = "energy", chunk: int = 960, rate: int = RATE
) -> tuple[list[Tag], list[SpeechEvent], SpeechSource]:
    source = SpeechSource("voice", SpeechSettings(detector=detector))  # type: ignore[arg-type]
    tags: list[Tag] = []
    for start in range(0, samples.size, chunk):
        piece = samples[start : start + chunk]
        tags += source.feed(piece, sample_rate=rate, time=(start + piece.size) / rate)
    return tags, source.take_events(), source


@pytest.mark.parametrize("detector", ["energy", "webrtc"])
@pytest.mark.parametrize("noise_db", [-70.0, -50.0])
def test_onsets_soon_and_pauses_once(detector: str, noise_db: float) -> None:
    if detector == "webrtc":
        pytest.importorskip("webrtcvad", exc_type=ImportError)
    tags, events, _ = run(talker(noise_db=noise_db), detector=detector)
    onsets = [event for event in events if event.kind is TagKind.ONSET]
    pauses = [event for event in events if event.kind is TagKind.PAUSE]
    assert len(onsets) == 2
    assert len(pauses) == 2
    most_lag = 0.03 if detector == "energy" else 0.08
    for event, (start, _) in zip(onsets, TURNS, strict=False):
        assert start < event.time <= start + most_lag
    assert onsets[0].length == math.inf
    for event, end in zip(pauses, (3.0, 6.0), strict=True):
        # webrtcvad holds on for some frames after speech has ended
        assert end + 0.25 <= event.time <= end + (0.33 if detector == "energy" else 0.5)
        assert event.length == pytest.approx(0.3, abs=0.02)
    assert onsets[1].length == pytest.approx(0.8, abs=0.05 if detector == "energy" else 0.2)
    speech = [tag.time for tag in tags if tag.kind == TagKind.SPEECH]
    said = sum(any(start <= at <= end + 0.16 for start, end in TURNS) for at in speech)
    assert said >= (0.98 if detector == "energy" else 0.9) * len(speech)
    assert len(speech) * 0.02 >= 0.95 * sum(end - start for start, end in TURNS)


def test_speech_that_resumes_takes_the_pause_back() -> None:
    tags, _, source = run(talker())
    pauses = [(tag.time, tag.value) for tag in tags if tag.kind == TagKind.PAUSE]
    assert [value for _, value in pauses] == [0.9, 0.0, 0.9]
    assert pauses[1][0] == pytest.approx(3.8, abs=0.05)
    assert not source.is_speech


def test_peaks_stand_out_and_are_rare() -> None:
    samples = talker(((0.5, 4.5),), seconds=5.0)
    loud = slice(int(2.5 * RATE), int(2.7 * RATE))
    samples[loud] *= 4.0
    tags, _, _ = run(samples)
    peaks = [tag.time for tag in tags if tag.kind == TagKind.PEAK]
    assert any(2.5 <= at <= 2.6 for at in peaks)
    assert min(np.diff(peaks), default=1.0) >= 0.099


@pytest.mark.parametrize("noise_db", [-70.0, -45.0, -40.0])
def test_steady_noise_silence_and_a_click_are_not_speech(noise_db: float) -> None:
    samples = talker((), seconds=4.0, noise_db=noise_db)
    samples[RATE * 2 : RATE * 2 + 48] = 0.9
    tags, events, source = run(samples)
    assert tags == []
    assert events == []
    assert source.detector == "energy"
    assert run(np.zeros(RATE, np.float32))[0] == []


def test_a_stream_that_begins_in_speech_is_speech() -> None:
    tags, _, _ = run(talker(((0.0, 1.0),), seconds=1.0))
    assert any(tag.kind == TagKind.ONSET and tag.time <= 0.04 for tag in tags)


@pytest.mark.parametrize(("rate", "chunk"), [(44100, 441), (16000, 1000), (48000, 7), (8000, 8000)])
def test_any_rate_and_chunk_size_tells_the_same(rate: int, chunk: int) -> None:
    samples = talker(rate=rate, seconds=5.0)
    if chunk == 7:
        samples = samples[: 2 * rate]
    _, events, _ = run(samples, chunk=chunk, rate=rate)
    onset = next(event for event in events if event.kind is TagKind.ONSET)
    assert 1.0 < onset.time <= 1.03


def test_bad_samples_are_named_or_survived() -> None:
    source = SpeechSource("voice", SpeechSettings(detector="energy"))
    bad = np.full(960, np.nan, np.float32)
    bad[1] = np.inf
    assert source.feed(bad, sample_rate=RATE, time=0.02) == []
    assert source.feed(np.empty(0, np.float32), sample_rate=RATE, time=0.02) == []
    with pytest.raises(ValueError, match="one-dimensional float"):
        source.feed(np.zeros((2, 480), np.float32), sample_rate=RATE, time=0.0)
    with pytest.raises(ValueError, match="one-dimensional float"):
        source.feed(np.zeros(480, np.int16), sample_rate=RATE, time=0.0)
    with pytest.raises(ValueError, match="sample rate"):
        source.feed(np.zeros(480, np.float32), sample_rate=0, time=0.0)
    with pytest.raises(ValueError, match="pause"):
        SpeechSettings(pause_seconds=0.1, hold_seconds=0.2)
