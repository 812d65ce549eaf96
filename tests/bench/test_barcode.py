"""A number drawn into a picture comes back, also small and through a coarse encoder."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest

from limen.bench.barcode import ROWS, read, stamp
from limen.bench.peers.capture import load_source
from limen.bench.picture_quality import MAX_PSNR_DB, PictureQuality, luma
from limen.bench.scene import load_scene
from limen.scheduler.types import Region


def picture(width: int = 640, height: int = 360) -> av.VideoFrame:
    noise = np.random.default_rng(2).integers(16, 236, (height * 3 // 2, width), dtype=np.uint8)
    return av.VideoFrame.from_ndarray(noise, format="yuv420p")


@pytest.mark.parametrize("index", [0, 1, 0x5555, 0x8000, 0xFFFF])
@pytest.mark.parametrize("size", [(640, 360), (1280, 720), (320, 180), (480, 270), (160, 90)])
def test_numbers_survive_scaling(index: int, size: tuple[int, int]) -> None:
    plain = picture()
    drawn = stamp(plain, index)
    assert np.array_equal(luma(drawn)[:-ROWS], luma(plain)[:-ROWS]), "only the rows are its own"
    assert read(luma(drawn.reformat(width=size[0], height=size[1]))) == index


def test_numbers_survive_a_coarse_encoder() -> None:
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = 640, 360, "yuv420p"
    encoder.time_base = Fraction(1, 25)
    encoder.options = {"qp": "46", "tune": "zerolatency", "preset": "ultrafast"}
    decoder = av.CodecContext.create("h264", "r")
    came = []
    for number in range(40):
        frame = stamp(picture(), number * 1627 % 65536)
        frame.pts = number
        for packet in encoder.encode(frame):
            came += [read(luma(shown)) for shown in decoder.decode(packet)]
    came += [read(luma(shown)) for shown in decoder.decode(None)]
    assert came == [number * 1627 % 65536 for number in range(40)]


def test_what_carries_no_number_has_none() -> None:
    assert read(np.zeros((360, 640), np.uint8)) is None
    assert read(np.full((360, 640), 235, np.uint8)) is None
    hits = [read(luma(picture(640, 360 + 2 * n))) for n in range(10)]
    assert hits.count(None) >= 8  # 8 check bits: one in 256 passes by chance, three tries each


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="65535"):
        stamp(picture(), 65536)
    with pytest.raises(ValueError, match="at least"):
        stamp(picture(64, 32), 1)


def test_its_rows_are_no_part_of_a_pictures_quality() -> None:
    plain = picture()
    source, shown = luma(plain), luma(stamp(plain, 77))
    for rows, same in ((ROWS, True), (ROWS - 1, False)):
        quality = PictureQuality()
        quality.add(source, shown, Region(0.0, 0.5, 1.0, 0.5), unjudged_rows=rows)
        assert (quality.region_psnr_db == MAX_PSNR_DB) == same
        assert quality.background_psnr_db == MAX_PSNR_DB


def test_every_peer_of_a_barcoded_run_captures_numbered_pictures() -> None:
    scene = load_scene("talk", media="generated", seed=1, duration=1.0)
    plain, numbered = (load_source(scene, barcode=wanted) for wanted in (False, True))
    assert [read(luma(frame)) for _, frame in numbered.pictures] == list(range(len(plain.pictures)))
    assert {read(luma(frame)) for _, frame in plain.pictures} == {None}
