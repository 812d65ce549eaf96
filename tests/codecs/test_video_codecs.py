"""Every codec behind the one interface does what its abilities say, and no more."""

from __future__ import annotations

import functools

import av
import numpy as np
import pytest

from limen.codecs.errors import CodecError
from limen.codecs.pictures import as_frame, plane_rows, to_even_yuv
from limen.codecs.video import EncodedVideo, VideoDecoder, VideoSettings
from limen.codecs.video_codecs import ABILITIES, CODECS, AnyVideoEncoder, make_encoder
from limen.scheduler.types import Region

LAYERED = [codec for codec in CODECS if ABILITIES[codec].temporal_layers > 1]
REGION = [(Region(0.25, 0.25, 0.25, 0.25), 1.0)]


@functools.cache
def scene(count: int = 60, width: int = 320, height: int = 240) -> list[np.ndarray]:
    """A textured ground that drifts under a disc that moves."""
    rng = np.random.default_rng(5)
    coarse = rng.integers(0, 256, (height // 8 + 2, (width + 2 * count) // 8 + 2, 3))
    ground: np.ndarray = np.kron(coarse.astype(np.float32), np.ones((8, 8, 1), np.float32))
    for axis in (0, 1):
        ground = (ground + np.roll(ground, 2, axis) + np.roll(ground, 4, axis)) / 3
    y, x = np.mgrid[:height, :width]
    out = []
    for index in range(count):
        picture: np.ndarray = ground[:height, 2 * index : 2 * index + width].copy()
        cx, cy = width * (0.3 + 0.4 * index / count), height * (0.5 + 0.2 * np.sin(index / 5))
        picture[(x - cx) ** 2 + (y - cy) ** 2 < (height / 6) ** 2] = (220, 150, 120)
        out.append((picture + rng.integers(-4, 5, picture.shape)).clip(0, 255).astype(np.uint8))
    return out


def luma(picture: np.ndarray | av.VideoFrame) -> np.ndarray:
    return plane_rows(to_even_yuv(as_frame(picture)), 0).astype(np.float32)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / max(float(((a - b) ** 2).mean()), 1e-9)))


def settings(layers: int = 1, bps: float = 600_000) -> VideoSettings:
    return VideoSettings(bitrate_bps=bps, temporal_layers=layers)


def shown(codec: str, pictures: list[EncodedVideo]) -> dict[int, np.ndarray]:
    """What a decoder shows that gets only these."""
    decoder = VideoDecoder(codec)
    out = {}
    for coded in pictures:
        (frame,) = decoder.decode(coded.payload)
        out[coded.number] = luma(frame).copy()
    return out


@pytest.mark.parametrize("codec", CODECS)
def test_b21_one_in_one_out_at_once_and_it_is_this_picture(codec: str) -> None:
    encoder, decoder = make_encoder(codec, settings()), VideoDecoder(codec)
    assert encoder.abilities.delay_frames == 0
    for index, picture in enumerate(scene()[:20]):
        coded = encoder.encode(picture)
        (frame,) = decoder.decode(coded.payload)
        assert psnr(luma(picture), luma(frame)) > 24
        assert coded.number == index
        assert coded.keyframe == (index == 0)
        assert coded.references == (() if index == 0 else (index - 1,))


@pytest.mark.parametrize("codec", CODECS)
def test_a_step_of_the_rate_holds_as_soon_as_the_abilities_say(codec: str) -> None:
    encoder = make_encoder(codec, settings(bps=800_000))
    sizes, keys = [], []
    for index, picture in enumerate(scene()):
        if index == 30:
            encoder.set_bitrate(300_000)
        coded = encoder.encode(picture)
        sizes.append(8 * len(coded.payload))
        keys.append(coded.keyframe)
    live = encoder.abilities.live_rate == "frame"
    assert any(keys[1:]) != live  # what cannot be steered live starts anew with a keyframe
    assert np.mean(sizes[5:30]) == pytest.approx(800_000 / 30, rel=0.15)
    assert np.mean(sizes[31:] if live else sizes[35:]) == pytest.approx(300_000 / 30, rel=0.15)
    if live:
        assert sizes[31] < 1.6 * 300_000 / 30


@pytest.mark.parametrize("codec", CODECS)
def test_keyframes_come_when_asked_and_are_as_small_as_said(codec: str) -> None:
    encoder = make_encoder(codec, settings())
    coded = [encoder.encode(p, keyframe=index == 40) for index, p in enumerate(scene())]
    assert [c.number for c in coded if c.keyframe] == [0, 40]
    mean = np.mean([len(c.payload) for c in coded[5:]])
    assert len(coded[40].payload) < 1.35 * encoder.abilities.keyframe_ratio * mean
    late = VideoDecoder(codec)
    for c in coded[40:]:
        assert len(late.decode(c.payload)) == 1


@pytest.mark.parametrize("codec", [c for c in CODECS if ABILITIES[c].regions])
def test_regions_are_honoured_where_the_abilities_say_so(codec: str) -> None:
    inside = np.zeros((240, 320), bool)
    inside[60:120, 80:160] = True

    def errors(aimed: bool) -> tuple[float, float, int]:
        encoder, decoder = make_encoder(codec, settings(bps=400_000)), VideoDecoder(codec)
        total, error = 0, np.zeros((240, 320), np.float64)
        for picture in scene():
            coded = encoder.encode(picture, regions=REGION if aimed else ())
            total += len(coded.payload)
            (frame,) = decoder.decode(coded.payload)
            error += (luma(picture) - luma(frame)) ** 2
        return float(error[inside].mean()), float(error[~inside].mean()), total

    plain, aimed = errors(False), errors(True)
    assert 10 * np.log10(plain[0] / aimed[0]) > 1.5  # noise everywhere: 3 dB and more on faces
    assert 10 * np.log10(aimed[1] / plain[1]) < 2.5
    assert aimed[2] == pytest.approx(plain[2], rel=0.05)


@pytest.mark.parametrize("codec", LAYERED)
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("aimed", [False, True])
def test_without_the_upper_layers_the_rest_is_bit_identical(
    codec: str, layers: int, aimed: bool
) -> None:
    """Regions too: they travel as segments, which a decoder remembers from picture to picture."""
    if layers > ABILITIES[codec].temporal_layers:
        with pytest.raises(ValueError, match="at most 2"):
            make_encoder(codec, settings(layers))
        return
    encoder = make_encoder(codec, settings(layers))
    coded = []
    for index, picture in enumerate(scene()):
        x = 0.2 + 0.6 * (index % 7) / 7
        regions = [(Region.around(x, 0.5, 0.15), 0.9)] if aimed else []
        coded.append(encoder.encode(picture, regions=regions))
    whole = shown(codec, coded)
    assert {c.layer for c in coded} == set(range(layers))
    for kept in range(1, layers):
        part = shown(codec, [c for c in coded if c.layer < kept])
        assert len(part) < len(whole)
        for number, picture in part.items():
            assert (picture == whole[number]).all(), number
    dropped = sum(len(c.payload) for c in coded if c.layer) / sum(len(c.payload) for c in coded)
    assert dropped > 0.2  # worth dropping


def lossy(
    codec: str, layers: int, gone: set[int], told_at: int, keyframe_at: int | None = None
) -> tuple[list[EncodedVideo], dict[int, np.ndarray]]:
    """Pictures, and what a receiver shows that goes by the references alone."""
    encoder: AnyVideoEncoder = make_encoder(codec, settings(layers))
    decoder = VideoDecoder(codec)
    coded, seen = [], {}
    for index, picture in enumerate(scene()):
        if index == told_at:
            for number in sorted(gone):
                encoder.lost(number)
        coded.append(encoder.encode(picture, keyframe=index == keyframe_at))
        got = coded[-1]
        assert got.references is not None
        if index not in gone and all(r in seen for r in got.references):
            (frame,) = decoder.decode(got.payload)
            seen[index] = luma(frame).copy()
    return coded, seen


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("gone", [{30}, {29, 30, 31}])
def test_b22_a_lost_reference_is_never_shown_as_good_and_repaired_when_told(
    codec: str, gone: set[int]
) -> None:
    """Told 4 pictures later (a round trip of 130 ms): the very next picture is whole again."""
    coded, seen = lossy(codec, 1, gone, told_at=34)
    pictures = scene()
    assert not set(range(min(gone), 34)) & set(seen)
    assert set(range(34, 60)) <= set(seen)
    for number, picture in seen.items():
        assert psnr(luma(pictures[number]), picture) > 23  # a small keyframe is that coarse here
    # Bit-identical to a receiver that lost nothing: no trace of the loss is left.
    whole = shown(codec, coded)
    assert all((seen[n] == whole[n]).all() for n in range(34, 60))
    repair = coded[34]
    mean = np.mean([len(c.payload) for c in coded[5:]])
    assert repair.repair
    assert repair.keyframe == (ABILITIES[codec].repair == "keyframe")
    assert len(repair.payload) < 1.35 * ABILITIES[codec].keyframe_ratio * mean


@pytest.mark.parametrize("codec", CODECS)
def test_b22_a_lost_keyframe_is_repaired_too(codec: str) -> None:
    coded, seen = lossy(codec, 1, {30}, told_at=33, keyframe_at=30)
    assert coded[30].keyframe
    assert not {30, 31, 32} & set(seen)
    assert set(range(33, 60)) <= set(seen)


@pytest.mark.parametrize("codec", LAYERED)
def test_a_lost_upper_layer_needs_no_repair(codec: str) -> None:
    coded, seen = lossy(codec, 2, {31}, told_at=34)
    assert coded[31].layer == 1
    assert set(seen) == set(range(60)) - {31}
    assert not any(c.repair or c.keyframe for c in coded[1:])


@pytest.mark.parametrize("codec", CODECS)
def test_b24_a_receiver_without_anything_gets_a_keyframe(codec: str) -> None:
    encoder = make_encoder(codec, settings())
    pictures = scene()
    for picture in pictures[:10]:
        encoder.encode(picture)
    encoder.lost_after(-1)
    assert encoder.encode(pictures[10]).keyframe
    encoder.lost_after(10)  # it has the newest: nothing to repair
    assert not encoder.encode(pictures[11]).keyframe


@pytest.mark.parametrize("codec", CODECS)
def test_b25_a_new_size_starts_with_a_keyframe_and_comes_out_true(codec: str) -> None:
    encoder, decoder = make_encoder(codec, settings()), VideoDecoder(codec)
    for width, height in ((320, 240), (640, 360), (240, 320), (321, 241)):
        picture = np.zeros((height, width, 3), np.uint8)
        picture[: height // 2] = 200
        for index in range(3):
            coded = encoder.encode(picture, regions=REGION)
            assert coded.keyframe == (index == 0)
            (frame,) = decoder.decode(coded.payload, size=(coded.width, coded.height))
            assert (frame.width, frame.height) == (width, height)


@pytest.mark.parametrize("codec", CODECS)
def test_the_callers_frame_is_not_changed(codec: str) -> None:
    frame = as_frame(scene()[0]).reformat(format="yuv420p")
    frame.pts = 1234
    make_encoder(codec, settings()).encode(frame)
    assert (frame.pts, frame.pict_type) == (1234, 0)


def test_codecs_say_clearly_what_they_cannot_do() -> None:
    with pytest.raises(CodecError, match="unknown video codec 'h265': known are h264, vp8"):
        make_encoder("h265")
    with pytest.raises(CodecError, match="unknown video codec 'theora'"):
        VideoDecoder("theora")
    for codec in set(CODECS) - set(LAYERED):
        with pytest.raises(ValueError, match="use vp8 or vp9"):
            make_encoder(codec, settings(2))
    for codec in CODECS:
        encoder = make_encoder(codec)
        encoder.close()
        with pytest.raises(CodecError, match="closed"):
            encoder.encode(scene()[0])


@pytest.mark.parametrize("codec", CODECS)
def test_foreign_bytes_raise_and_harm_nothing(codec: str) -> None:
    encoder, decoder = make_encoder(codec, settings()), VideoDecoder(codec)
    for bad in (b"", b"\xff" * 40, np.random.default_rng(9).bytes(300)):
        try:
            frames = decoder.decode(bad)
        except CodecError:
            continue
        assert frames == []
    (frame,) = decoder.decode(encoder.encode(scene()[0]).payload)
    assert psnr(luma(scene()[0]), luma(frame)) > 24
