"""Opus: exact lengths, live changes, repair, concealment, and what must be refused."""

from __future__ import annotations

import ctypes.util
import inspect

import numpy as np
import pytest

from limen.codecs import opus_library
from limen.codecs.audio_input import AudioFramer
from limen.codecs.errors import CodecError
from limen.codecs.opus import OpusDecoder, OpusEncoder, backend_name, is_dtx
from limen.codecs.opus_fallback import FallbackDecoder, FallbackEncoder

RATE = 48_000


def tone(seconds: float, hertz: float = 440.0, rate: int = RATE, level: float = 0.3) -> np.ndarray:
    t = np.arange(round(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * hertz * t)).astype(np.float32)


def babble(seconds: float) -> np.ndarray:
    """A voice-like sound: pitch harmonics under a syllable envelope, with breath."""
    rng = np.random.default_rng(7)
    t = np.arange(round(seconds * RATE)) / RATE
    pitch = 2 * np.pi * np.cumsum(120 + 20 * np.sin(2 * np.pi * 1.3 * t)) / RATE
    voice = sum(np.sin(k * pitch) / k for k in range(1, 20))
    envelope = 0.15 * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
    return (envelope * (voice + 0.05 * rng.standard_normal(len(t)))).astype(np.float32)


def frames(sound: np.ndarray, size: int = 960) -> list[np.ndarray]:
    return [part.reshape(-1, 1) for part in sound[: len(sound) // size * size].reshape(-1, size)]


def test_decoded_sound_is_the_same_length_and_lags_by_the_lookahead() -> None:
    sound = babble(1.0)
    with OpusEncoder(bitrate_bps=96_000) as encoder, OpusDecoder() as decoder:
        heard = np.concatenate([decoder.decode(encoder.encode(f)) for f in frames(sound)])[:, 0]
        assert heard.shape == sound.shape
        ahead = encoder.lookahead
    match = [float(heard[9600 + lag : 40_000 + lag] @ sound[9600:40_000]) for lag in range(600)]
    assert int(np.argmax(match)) == pytest.approx(ahead, abs=8)


def test_b19_clicks_at_both_ends_survive_and_stand_where_they_were() -> None:
    sound = np.zeros(RATE, np.float32)
    sound[0:24] = sound[-24:] = 0.9
    encoder, decoder = OpusEncoder(bitrate_bps=96_000, application="audio"), OpusDecoder()
    padded = np.concatenate([sound, np.zeros(960, np.float32)])  # the tail needs the look-ahead
    heard = np.concatenate([decoder.decode(encoder.encode(f)) for f in frames(padded)])[:, 0]
    aligned = np.abs(heard[encoder.lookahead :][: len(sound)])
    for expected in (12, RATE - 12):
        near = aligned[max(0, expected - 960) : expected + 960]
        where = max(0, expected - 960) + float(np.average(np.arange(len(near)), weights=near**2))
        assert near.max() > 0.3
        assert where == pytest.approx(expected, abs=48)


@pytest.mark.parametrize("frame_ms", [2.5, 5.0, 10.0, 20.0, 40.0, 60.0])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_frame_length_and_channel_count_round_trips(frame_ms: float, channels: int) -> None:
    size = round(48 * frame_ms)
    with (
        OpusEncoder(channels=channels, frame_ms=frame_ms) as encoder,
        OpusDecoder(channels=channels) as decoder,
    ):
        for _ in range(4):
            packet = encoder.encode(np.zeros((size, channels), np.float32))
            assert decoder.decode(packet).shape == (size, channels)


def test_the_bit_rate_follows_at_once() -> None:
    parts = frames(babble(4.0))
    encoder = OpusEncoder(bitrate_bps=48_000)
    before = sum(len(encoder.encode(f)) for f in parts[:100]) * 8 / 2
    encoder.set_bitrate(16_000)
    after = [len(encoder.encode(f)) for f in parts[100:]]
    assert before == pytest.approx(48_000, rel=0.15)
    assert sum(after) * 8 / 2 < 17_000
    assert max(after[:3]) < 80  # bytes: a frame at 48 kbit/s has 120, at 16 kbit/s 40
    encoder.set_bitrate(1)
    assert encoder.bitrate_bps == 6_000


def test_fec_repairs_the_frame_before_better_than_concealment() -> None:
    """Only with an expected loss does the encoder buy FEC; the copy beats a guess."""
    sound = babble(4.0)
    plain, reader = OpusEncoder(expected_loss=0.0, bitrate_bps=32_000), OpusDecoder()
    assert not any(reader.can_repair(plain.encode(f)) for f in frames(sound))
    encoder = OpusEncoder(expected_loss=0.02, bitrate_bps=32_000)
    packets = [encoder.encode(f) for f in frames(sound)]
    lost = range(20, len(packets) - 1, 10)
    carried: list[bool] = []

    def errors(mode: str) -> float:
        decoder, clean, total = OpusDecoder(), OpusDecoder(), 0.0
        for index, packet in enumerate(packets):
            wanted = clean.decode(packet)
            if index not in lost:
                decoder.decode(packet)
                continue
            if mode == "repair":
                carried.append(decoder.can_repair(packets[index + 1]))
                got = decoder.repair(packets[index + 1], 960)
            else:
                got = decoder.conceal(960)
            assert got.shape == (960, 1)
            total += float(((got - wanted) ** 2).sum())
        return total

    assert errors("repair") < 0.6 * errors("conceal")
    assert sum(carried) > 0.5 * len(lost)


@pytest.mark.parametrize("size", [1, 100, 480, 960, 2880, 5760])
def test_gaps_are_filled_with_exactly_the_samples_asked_for(size: int) -> None:
    encoder, decoder = OpusEncoder(expected_loss=0.2), OpusDecoder()
    packets = [encoder.encode(f) for f in frames(babble(0.4))]
    for packet in packets[:-1]:
        decoder.decode(packet)
    concealed = decoder.conceal(size)
    assert concealed.shape == (size, 1)
    assert size < 100 or np.abs(concealed[:100]).max() > 0.005
    assert decoder.repair(packets[-1], size).shape == (size, 1)
    with pytest.raises(ValueError, match="5760"):
        decoder.conceal(5761)


def test_dtx_marks_silence_that_need_not_be_sent() -> None:
    encoder = OpusEncoder(dtx=True)
    packets = [encoder.encode(np.zeros((960, 1), np.float32)) for _ in range(50)]
    assert sum(is_dtx(packet) for packet in packets) > 20
    assert not is_dtx(encoder.encode(babble(0.02).reshape(-1, 1)))


def test_wrong_shapes_and_foreign_bytes_are_refused_and_harm_nothing() -> None:
    encoder, decoder = OpusEncoder(), OpusDecoder()
    with pytest.raises(ValueError, match=r"\(960, 1\)"):
        encoder.encode(np.zeros((480, 1), np.float32))
    for bad in (b"", b"\xff", b"\xff\xff\xff\xff\xff"):
        with pytest.raises(CodecError):
            decoder.decode(bad)
    packet = encoder.encode(np.full((960, 1), np.nan, np.float32))
    assert np.isfinite(decoder.decode(packet)).all()
    encoder.close()
    decoder.close()
    encoder.close()
    with pytest.raises(CodecError, match="closed"):
        encoder.encode(np.zeros((960, 1), np.float32))
    with pytest.raises(CodecError, match="closed"):
        decoder.decode(packet)


@pytest.mark.parametrize(
    "settings",
    [
        {"channels": 3},
        {"frame_ms": 15.0},
        {"application": "x"},
        {"complexity": 11},
        {"expected_loss": 2},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(settings.values())))):
        OpusEncoder(**settings)  # type: ignore[arg-type]


def test_a_library_that_is_no_opus_is_not_trusted() -> None:
    other = ctypes.util.find_library("c") or ctypes.util.find_library("m")
    if other is None:
        pytest.skip("no C library can be named on this system")
    with pytest.raises((AttributeError, OSError)):
        opus_library.load_opus(other)


def test_without_any_library_pyav_steps_in_with_a_notice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opus_library, "find_opus", lambda: None)
    assert backend_name() == "PyAV (limited)"
    encoder, decoder = OpusEncoder(), OpusDecoder()
    assert "without live bit rate" in caplog.text
    sound = babble(1.0)
    packets = [encoder.encode(f) for f in frames(sound)]
    heard = np.concatenate([decoder.decode(p) for p in packets])
    assert heard.shape == (RATE, 1)
    assert np.corrcoef(heard[312:, 0], sound[:-312])[0, 1] > 0.6
    encoder.set_bitrate(12_000)
    assert sum(len(encoder.encode(f)) for f in frames(sound)) * 8 < 18_000
    assert decoder.conceal(960).shape == decoder.repair(packets[0], 960).shape == (960, 1)
    with pytest.raises(CodecError):
        decoder.decode(b"\xff\xff\xff\xff\xff")
    assert decoder.decode(packets[0]).shape == (960, 1)


def test_the_fallback_offers_what_the_real_one_offers() -> None:
    for name in ("encode", "set_bitrate", "close"):
        assert inspect.isfunction(getattr(FallbackEncoder, name))
    for name in ("decode", "conceal", "close"):
        assert inspect.isfunction(getattr(FallbackDecoder, name))


def test_framer_and_encoder_fit_together() -> None:
    framer, encoder = AudioFramer(channels=1), OpusEncoder()
    out = framer.push(tone(0.1, rate=16_000), sample_rate=16_000, captured=1.0) + framer.flush()
    assert [bool(encoder.encode(frame.samples)) for frame in out] == [True] * 5
