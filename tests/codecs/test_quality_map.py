"""From regions to blocks: cut, grown outward, bounded, fading."""

from __future__ import annotations

import math
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.codecs.quality_map import (
    BLOCK,
    MAX_REGIONS,
    SLOTS,
    X264_AIM,
    AimLimits,
    QualityBlock,
    Saccade,
    pack_blocks,
    quality_blocks,
)
from limen.scheduler.types import Region, Scope, Tag

numbers = st.floats(-3, 3)
sides = st.floats(0, 3)
regions = st.builds(Region, numbers, numbers, sides, sides)
values = st.floats(allow_nan=True, allow_infinity=True)


@given(
    st.lists(st.tuples(regions, values), max_size=30), st.integers(16, 2000), st.integers(16, 2000)
)
def test_b49_whatever_the_regions_blocks_stay_inside_and_bounded(
    aimed: list[tuple[Region, float]], width: int, height: int
) -> None:
    blocks = quality_blocks(aimed, width, height)
    assert len(blocks) <= SLOTS
    for block in blocks:
        assert 0 <= block.left < block.right <= width
        assert 0 <= block.top < block.bottom <= height
        assert block.left % BLOCK == 0
        assert block.top % BLOCK == 0
        assert X264_AIM.inside <= block.offset <= X264_AIM.background
    if blocks:
        assert blocks[-1] == QualityBlock(0, 0, width, height, blocks[-1].offset)
        assert blocks[-1].offset > 0
    assert len(pack_blocks(blocks, SLOTS)) == 28 * SLOTS


@given(regions, st.integers(16, 2000), st.integers(16, 2000))
def test_b49_a_block_covers_its_region_and_no_more_than_the_grid_needs(
    region: Region, width: int, height: int
) -> None:
    blocks = quality_blocks([(region, 1.0)], width, height)
    cut = region.clipped()
    if cut is None:
        assert blocks == []
        return
    block = blocks[0]
    left, top = cut.x * width, cut.y * height
    right, bottom = (cut.x + cut.width) * width, (cut.y + cut.height) * height
    slack = 1e-6
    assert left - BLOCK - slack < block.left <= left + slack
    assert top - BLOCK - slack < block.top <= top + slack
    assert right - slack <= block.right < right + BLOCK + slack
    assert bottom - slack <= block.bottom < bottom + BLOCK + slack


def test_b49_the_named_regions() -> None:
    def box(x: float, y: float, w: float, h: float) -> tuple[int, int, int, int] | None:
        found = quality_blocks([(Region(x / 320, y / 240, w / 320, h / 240), 1.0)], 320, 240)
        return (found[0].left, found[0].top, found[0].right, found[0].bottom) if found else None

    assert box(3, 5, 151, 113) == (0, 0, 160, 128)
    assert box(-40, -40, 200, 160) == (0, 0, 160, 128)
    assert box(300, 200, 160, 120) == (288, 192, 320, 240)
    assert box(400, 300, 50, 50) is None
    assert box(10, 10, 0, 0) is None
    assert box(100, 100, 7, 7) == (96, 96, 112, 112)


@pytest.mark.parametrize("value", [math.nan, -1.0, 0.0, 0.049])
def test_what_is_worth_nothing_is_not_aimed_at(value: float) -> None:
    assert quality_blocks([(Region.around(0.5, 0.5, 0.1), value)], 320, 240) == []


def test_a_value_beyond_its_range_counts_as_full() -> None:
    region = Region.around(0.5, 0.5, 0.1)
    assert quality_blocks([(region, 7.0)], 320, 240) == quality_blocks([(region, 1.0)], 320, 240)


def test_b49_a_stale_gaze_fades_to_none() -> None:
    tag = Tag("gaze", 0.9, 10.0, 0.1, Scope("face", region=Region.around(0.5, 0.5, 0.1)))
    assert tag.scope.region is not None
    strengths = []
    for age in (0.0, 0.1, 0.2, 0.3, 0.5):
        blocks = quality_blocks([(tag.scope.region, tag.value_at(10.0 + age))], 320, 240)
        strengths.append(-blocks[0].offset if blocks else 0.0)
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[0] > 0.14
    assert strengths[-1] == 0.0


def test_the_order_of_regions_does_not_matter_and_the_strongest_come_first() -> None:
    rng = random.Random(1)
    many = [(Region.around(rng.random(), rng.random(), 0.05), rng.random()) for _ in range(40)]
    first = quality_blocks(many, 640, 360)
    rng.shuffle(many)
    assert quality_blocks(many, 640, 360) == first
    assert len(first) == MAX_REGIONS + 1
    assert [b.offset for b in first] == sorted(b.offset for b in first)


def test_the_packed_array_has_the_layout_of_ffmpeg_and_its_room_is_bounded() -> None:
    packed = pack_blocks([QualityBlock(16, 32, 48, 64, -0.125)], 2)
    fields = [
        int.from_bytes(packed[k : k + 4], sys.byteorder, signed=True) for k in range(0, 56, 4)
    ]
    assert fields == [28, 32, 64, 16, 48, -125, 1000, 28, 0, 0, 0, 0, 0, 1]
    with pytest.raises(ValueError, match="slots"):
        pack_blocks([QualityBlock(0, 0, 16, 16, 0.0)] * 3, 2)


def test_large_regions_are_raised_less_so_that_the_background_does_not_starve() -> None:
    def offset(radius: float) -> float:
        return quality_blocks([(Region.around(0.5, 0.5, radius), 1.0)], 640, 360)[0].offset

    assert offset(0.1) == pytest.approx(X264_AIM.inside)
    strengths = [-offset(radius) for radius in (0.1, 0.2, 0.3, 0.5)]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] < 0.06


def test_a_thousand_regions_give_what_the_strongest_of_them_give() -> None:
    rng = random.Random(2)
    strong = [(Region.around(0.1 * k + 0.05, 0.5, 0.04), 0.9 + k / 100) for k in range(9)]
    weak = [(Region.around(rng.random(), rng.random(), 0.05), 0.5) for _ in range(1000)]
    nothing = [(Region.around(0.5, 0.5, 0.5), math.nan)] * 3
    assert quality_blocks(nothing + weak + strong, 640, 360) == quality_blocks(strong, 640, 360)


def test_an_encoder_that_knows_few_levels_gets_few() -> None:
    limits = AimLimits(inside=-0.3, background=0.05, doublings=5, price=0.3, levels=3)
    many = [(Region.around(0.1 * k + 0.05, 0.5, 0.03), 0.1 + k / 10) for k in range(9)]
    blocks = quality_blocks(many, 640, 360, limits)
    assert len({b.offset for b in blocks}) <= 3
    assert min(b.offset for b in blocks) == blocks[0].offset


def test_a_jump_of_the_strongest_region_counts_for_two_pictures() -> None:
    saccade = Saccade()
    here, there = [(Region.around(0.2, 0.5, 0.1), 0.9)], [(Region.around(0.7, 0.5, 0.1), 0.9)]
    seen = [saccade.fresh(regions) for regions in [here] * 4 + [there] * 4 + [[]] + [there] * 2]
    assert seen == [2, 1, 0, 0, 2, 1, 0, 0, 0, 2, 1]
    drift = [[(Region.around(0.3 + k / 100, 0.5, 0.1), 0.9)] for k in range(20)]
    assert [Saccade().fresh(drift[0])] == [2]
    follower = Saccade()
    assert [follower.fresh(regions) for regions in drift][2:] == [0] * 18  # pursuit is no jump
