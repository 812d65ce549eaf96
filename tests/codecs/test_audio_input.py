"""Sound of any shape in, frames out: nothing lost, nothing shifted, nothing guessed."""

from __future__ import annotations

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.codecs.audio_input import AudioFramer, FramedAudio, frame_to_float, to_float
from limen.codecs.opus import OpusDecoder, OpusEncoder

RATE = 48_000


def joined(frames: list[FramedAudio]) -> np.ndarray:
    parts = [f.samples[: len(f.samples) - f.pad] for f in frames]
    return np.concatenate(parts) if parts else np.empty((0, 1))


def frequency(sound: np.ndarray) -> float:
    """The strongest frequency, refined by a parabola through the peak of the spectrum."""
    window = np.hanning(len(sound))
    power = np.log(np.abs(np.fft.rfft(sound * window, 8 * len(sound))) + 1e-12)
    k = int(power.argmax())
    a, b, c = power[k - 1 : k + 2]
    return float((k + 0.5 * (a - c) / (a - 2 * b + c)) * RATE / (8 * len(sound)))


def test_b14_a_frame_of_opus_is_read_without_its_alignment_padding() -> None:
    sound = av.AudioFrame(format="s16", layout="stereo", samples=480)
    sound.sample_rate = RATE
    values = np.arange(1, 961, dtype=np.int16)
    sound.planes[0].update(values.tobytes().ljust(sound.planes[0].buffer_size, b"\x7f"))
    read = frame_to_float(sound)
    assert read.shape == (480, 2)
    assert (read.ravel() * 32768 == values).all()


def test_b16_44100_comes_out_whole_at_48000_and_in_tune() -> None:
    framer = AudioFramer(channels=1)
    t = np.arange(44_100) / 44_100
    sound = (np.sin(2 * np.pi * 1000 * t) * 20_000).astype(np.int16)
    out: list[FramedAudio] = []
    for start in range(0, 44_100, 441):
        out += framer.push(
            sound[start : start + 441], sample_rate=44_100, captured=5 + (start + 441) / 44_100
        )
    out += framer.flush()
    whole = joined(out)
    assert len(whole) == pytest.approx(48_000, abs=20)
    assert len(out) == 50 or (len(out) == 51 and out[-1].pad > 0)
    encoder, decoder = OpusEncoder(bitrate_bps=64_000), OpusDecoder()
    heard = np.concatenate([decoder.decode(encoder.encode(f.samples)) for f in out])[:, 0]
    assert frequency(heard[4800:43_200]) == pytest.approx(1000, abs=1)
    steps = np.diff([f.captured for f in out if f.pad == 0])
    assert steps == pytest.approx(np.full(len(steps), 0.02), abs=1e-4)
    assert out[0].captured == pytest.approx(5.02, abs=1e-3)


def test_b16_a_source_that_changes_its_rate_goes_on_without_a_hole() -> None:
    framer = AudioFramer(channels=1)
    out: list[FramedAudio] = []
    now = 0.0
    for rate, channels in ((44_100, 2), (16_000, 1)):
        size = rate // 100
        for _ in range(100):
            now += 0.01
            chunk = np.full((size, channels), 0.25, np.float32)
            out += framer.push(chunk, sample_rate=rate, captured=now, channels=channels)
    out += framer.flush()
    assert len(joined(out)) == pytest.approx(2 * RATE, abs=960)
    assert framer.gaps == 0
    steps = np.diff([f.captured for f in out if f.pad == 0])
    assert steps == pytest.approx(np.full(len(steps), 0.02), abs=1e-3)


def test_b17_chunks_of_any_size_are_coded_once_and_the_tail_is_declared() -> None:
    framer = AudioFramer(channels=2)
    numbers = (np.arange(6825, dtype=np.float32) / 8192).repeat(2).reshape(-1, 2)
    out: list[FramedAudio] = []
    at = 0
    for size in (320, 480, 1024, 0, 1, 5000):
        chunk = numbers[at : at + size]
        at += size
        got = framer.push(chunk, sample_rate=RATE, captured=1 + at / RATE)
        assert size or not got
        out += got
    held = at - sum(len(f.samples) for f in out)
    assert 0 <= held < 960
    out += framer.flush()
    assert (joined(out) == numbers).all()
    assert out[-1].pad == 8 * 960 - 6825
    assert [f.captured for f in out[:-1]] == pytest.approx([1 + 0.02 * (k + 1) for k in range(7)])
    assert out[-1].captured == pytest.approx(1 + 6825 / RATE)
    assert framer.flush() == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=20), st.sampled_from([2.5, 10.0, 20.0, 60.0]))
def test_every_sample_goes_through_once_whatever_the_chunks(
    sizes: list[int], frame_ms: float
) -> None:
    framer = AudioFramer(channels=1, frame_ms=frame_ms)
    numbers = np.arange(sum(sizes), dtype=np.float32) / 65_536
    out: list[FramedAudio] = []
    at = 0
    for size in sizes:
        chunk = numbers[at : at + size]
        at += size
        out += framer.push(chunk, sample_rate=RATE, captured=at / RATE)
    out += framer.flush()
    assert (joined(out)[:, 0] == numbers).all()
    assert all(len(f.samples) == framer.frame_samples for f in out)
    assert all(f.pad == 0 for f in out[:-1])


def stereo_tones(dtype: str) -> np.ndarray:
    t = np.arange(960) / RATE
    sound = np.stack([np.sin(2 * np.pi * 440 * t), np.sin(2 * np.pi * 880 * t)], axis=1) * 0.5
    return (sound * 32768).astype(np.int16) if dtype == "int16" else sound.astype(np.float32)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_b18_both_layouts_are_taken_and_channels_keep_their_place(dtype: str) -> None:
    sound = stereo_tones(dtype)
    for array in (sound, sound.T):
        (frame,) = AudioFramer(channels=2).push(array, sample_rate=RATE, captured=0.02)
        assert frame.samples.shape == (960, 2)
        assert frame.samples == pytest.approx(stereo_tones("float32"), abs=1e-4)


@pytest.mark.parametrize("shape", [(1, 1920), (1920,), (960, 3), (2, 480, 2)])
def test_b18_a_shape_that_does_not_say_its_channels_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"shape"):
        AudioFramer(channels=2).push(np.zeros(shape, np.int16), sample_rate=RATE, captured=0.0)


def test_b18_a_square_array_needs_its_layout_declared() -> None:
    square = np.array([[1, 2], [3, 4]], np.int16)
    with pytest.raises(ValueError, match="declare the layout"):
        to_float(square, 2)
    assert (to_float(square, 2, "planar") == to_float(square, 2, "interleaved").T).all()


def test_b18_mono_and_stereo_turn_into_each_other_at_full_length() -> None:
    mono = np.full(960, 0.5, np.float32)
    (both,) = AudioFramer(channels=2).push(mono, sample_rate=RATE, captured=0.02, channels=1)
    assert (both.samples == 0.5).all()
    assert both.samples.shape == (960, 2)
    (one,) = AudioFramer(channels=1).push(
        stereo_tones("float32"), sample_rate=RATE, captured=0.02, channels=2
    )
    assert one.samples.shape == (960, 1)
    assert one.samples[:, 0] == pytest.approx(stereo_tones("float32").mean(axis=1), abs=1e-6)


def test_b18_clipping_saturates_and_nan_is_silence() -> None:
    wild = np.array([1.5, -1.5, np.nan, np.inf, 0.25], np.float32)
    assert to_float(wild, 1)[:, 0].tolist() == [1.0, -1.0, 0.0, 1.0, 0.25]


def test_a_capture_that_stalled_shows_as_a_gap_and_its_rest_is_padded() -> None:
    framer = AudioFramer(channels=1)
    chunk = np.full(480, 0.5, np.float32)
    out = [*framer.push(chunk, sample_rate=RATE, captured=0.01)]
    out += framer.push(chunk, sample_rate=RATE, captured=0.51)
    out += framer.push(chunk, sample_rate=RATE, captured=0.52)
    assert framer.gaps == 1
    assert [f.pad for f in out] == [480, 0]
    assert [f.captured for f in out] == pytest.approx([0.01, 0.52])


def test_jitter_of_the_capture_is_smoothed_and_drift_followed() -> None:
    """A device clock 500 ppm fast, stamps with ±5 ms of jitter: frames follow within 6 ms."""
    rng = np.random.default_rng(3)
    framer = AudioFramer(channels=1)
    out: list[FramedAudio] = []
    for index in range(6000):
        true = (index + 1) * 0.01 / 1.0005
        stamp = true + rng.uniform(-0.005, 0.005)
        out += framer.push(np.zeros(480, np.float32), sample_rate=RATE, captured=stamp)
    assert framer.gaps == 0
    true_end = np.array([(k + 1) * 0.02 / 1.0005 for k in range(len(out))])
    stamps = np.array([f.captured for f in out])
    assert np.abs(stamps - true_end)[500:].max() < 0.006
    assert (np.diff(stamps) > 0.019).all()


@pytest.mark.parametrize("captured", [float("nan"), float("inf")])
def test_times_that_are_no_times_are_refused(captured: float) -> None:
    with pytest.raises(ValueError, match="captured"):
        AudioFramer(channels=1).push(np.zeros(960, np.int16), sample_rate=RATE, captured=captured)


def test_an_array_needs_its_rate_and_a_known_type() -> None:
    framer = AudioFramer(channels=1)
    with pytest.raises(ValueError, match="sample_rate"):
        framer.push(np.zeros(960, np.int16), captured=0.0)
    with pytest.raises(ValueError, match="int16, int32 or float"):
        framer.push(np.zeros(960, np.int64), sample_rate=RATE, captured=0.0)
    with pytest.raises(ValueError, match="Hz"):
        framer.push(np.zeros(960, np.int16), sample_rate=10, captured=0.0)


def test_float_samples_on_another_scale_are_refused() -> None:
    framer = AudioFramer(channels=1)
    loud = np.full(960, 1.5, np.float32)  # over full scale, as a mix may be: clipped
    (frame,) = framer.push(loud, sample_rate=48000, captured=1.0)
    assert float(frame.samples.max()) == 1.0
    speech = np.zeros(960, np.float32)
    speech[7] = -327.0  # 1 % of 16 bits, taken as float
    with pytest.raises(ValueError, match=r"within ±1, got one of 327: divide by full scale"):
        framer.push(speech, sample_rate=48000, captured=1.02)
