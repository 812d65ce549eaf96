"""Tags fuse in any order, fade, replace each other, and stay bounded."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.scheduler.importance import TagStore, weight
from limen.scheduler.types import Region, Scope, Tag, TagKind

regions = st.none() | st.builds(
    Region.around, st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 0.5)
)
tags = st.builds(
    Tag,
    kind=st.sampled_from(["speech", "gaze", "hint"]),
    value=st.floats(0, 1),
    time=st.floats(-5, 15),
    half_life=st.floats(0.01, 10) | st.just(math.inf),
    scope=st.builds(Scope, st.sampled_from("ab"), st.none() | st.integers(0, 1), regions),
    source=st.sampled_from(["", "x"]),
)


def tag(value: float = 0.5, *, time: float = 0.0, kind: str = "hint", **scope: object) -> Tag:
    return Tag(kind, value, time, 1.0, Scope("a", **scope))  # type: ignore[arg-type]


@settings(deadline=None, max_examples=100)
@given(st.lists(tags, max_size=12), st.randoms(), st.floats(0, 1), st.floats(0, 10))
def test_fusion_does_not_depend_on_order(
    told: list[Tag], random: object, base: float, now: float
) -> None:
    shuffled = list(told)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = TagStore(), TagStore()
    for item in told:
        one.add(item, now=10.0)
    for item in shuffled:
        other.add(item, now=10.0)
    for track in "ab":
        for layer in (None, 0, 1):
            first = one.importance(track, now=now, base=base, layer=layer)
            assert first == other.importance(track, now=now, base=base, layer=layer)
            assert base - 1e-12 <= first <= 1.0
        assert sorted(map(str, one.regions(track, now=now))) == sorted(
            map(str, other.regions(track, now=now))
        )


def test_fusion_is_a_noisy_or_of_decayed_values() -> None:
    store = TagStore()
    store.add(tag(0.5, kind="speech"), now=0.0)
    store.add(tag(0.8, kind="gaze"), now=0.0)
    assert store.importance("a", now=0.0, base=0.2) == pytest.approx(1 - 0.8 * 0.5 * 0.2)
    assert store.importance("a", now=1.0, base=0.2) == pytest.approx(1 - 0.8 * 0.75 * 0.6)
    assert store.importance("a", now=60.0, base=0.2) == pytest.approx(0.2)


def test_a_later_tag_replaces_and_an_earlier_one_does_not() -> None:
    store = TagStore()
    assert store.add(tag(0.9, time=1.0), now=2.0)
    assert not store.add(tag(1.0, time=0.5), now=2.0)
    assert store.add(tag(0.1, time=1.5), now=2.0)
    assert store.importance("a", now=1.5, base=0.0) == pytest.approx(0.1)
    assert len(store) == 1


def test_layers_hear_their_own_tags_and_those_of_the_track() -> None:
    store = TagStore()
    store.add(tag(0.5, layer=1), now=0.0)
    store.add(tag(0.2), now=0.0)
    assert store.importance("a", now=0.0, base=0.0, layer=0) == pytest.approx(0.2)
    assert store.importance("a", now=0.0, base=0.0, layer=1) == pytest.approx(0.6)
    assert store.importance("a", now=0.0, base=0.0) == pytest.approx(0.6)


def test_cancel_by_kind_and_source() -> None:
    store = TagStore()
    store.add(tag(kind="pause"), now=0.0)
    store.add(tag(kind="speech"), now=0.0)
    store.add(replace(tag(kind="speech"), source="x"), now=0.0)
    assert store.cancel("a", kind="pause") == 1
    assert store.cancel("a", source="x") == 1
    assert store.cancel("nobody") == 0
    assert store.importance("a", now=0.0, base=0.0) == pytest.approx(0.5)
    assert store.cancel("a") == 1
    assert len(store) == 0


def test_a_tag_stops_being_live_and_one_that_never_decays_is_not() -> None:
    store = TagStore()
    store.add(tag(1.0), now=0.0)
    assert store.is_live(7.9)
    assert not store.is_live(8.0)  # 2 ** -8 = 1 / 256
    store.add(Tag("hint", 1.0, 0.0, math.inf, Scope("b")), now=0.0)
    assert not store.is_live(8.0)
    assert store.importance("b", now=1e9, base=0.0) == 1.0


def test_a_tag_from_far_ahead_does_not_outlast_its_successors() -> None:
    store = TagStore()
    store.add(tag(1.0, time=1e6), now=0.0)
    assert store.add(tag(0.1, time=2.0), now=2.0)
    assert store.importance("a", now=2.0, base=0.0) == pytest.approx(0.1)


def test_regions_fade_out_below_the_threshold() -> None:
    store = TagStore()
    spot = Region.around(0.5, 0.5, 0.1)
    store.add(tag(0.8, kind=TagKind.GAZE, region=spot), now=0.0)
    store.add(tag(0.9, kind="speech"), now=0.0)
    ((region, value),) = store.regions("a", now=1.0)
    assert region == spot
    assert value == pytest.approx(0.4)
    assert store.regions("a", now=4.5) == []
    assert store.regions("nobody", now=0.0) == []


def test_breakdown_names_the_tag_and_shares_add_up() -> None:
    store = TagStore()
    store.add(tag(0.9, kind="gaze"), now=0.0)
    store.add(tag(0.5, kind="speech"), now=0.0)
    parts = store.breakdown("a", now=0.0)
    assert [part.tag.kind for part in parts] == ["gaze", "speech"]
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    with_base = store.breakdown("a", now=0.0, base=0.5)
    assert with_base[0].share == pytest.approx(math.log(0.1) / math.log(0.025))


def test_the_store_is_bounded_and_keeps_what_is_worth_most() -> None:
    store = TagStore(max_tags=64)
    for number in range(1000):
        value = 1.0 if number < 8 else 0.01 + 0.0005 * number
        store.add(Tag(f"k{number}", value, 0.0, math.inf, Scope(f"t{number % 7}")), now=0.0)
        assert len(store) <= 64
    kept = {part.tag.kind for t in range(7) for part in store.breakdown(f"t{t}", now=0.0)}
    assert {f"k{number}" for number in range(8)} <= kept


@settings(deadline=None, max_examples=100)
@given(st.floats(0, 1), st.floats(0, 1))
def test_equal_steps_of_importance_are_equal_ratios(a: float, b: float) -> None:
    assert 1.0 <= weight(a) <= 64.0
    assert weight(a) / weight(b) == pytest.approx(64.0 ** (a - b))
    assert weight(-1.0) == 1.0
    assert weight(2.0) == 64.0


def test_of_two_tags_at_one_time_the_higher_stands_in_either_order() -> None:
    for first, second in ((0.2, 0.7), (0.7, 0.2)):
        store = TagStore()
        store.add(tag(first), now=0.0)
        store.add(tag(second), now=0.0)
        assert store.importance("a", now=0.0, base=0.0) == pytest.approx(0.7)
