"""Sound first, minimums by importance, the rest by weight, never more than there is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.scheduler.rates import RateDemand, split_rate


def test_audio_first_then_minimums_then_the_rest_by_weight() -> None:
    demands = [
        RateDemand("face", 0.8, 100e3, 2e6),
        RateDemand("slides", 0.3, 100e3, 2e6),
        RateDemand("voice", 0.5, 8e3, 32e3, is_audio=True),
    ]
    given_bps = split_rate(1e6, demands)
    assert given_bps["voice"] == 32e3
    assert sum(given_bps.values()) == pytest.approx(1e6)
    rest = (given_bps["face"] - 100e3) / (given_bps["slides"] - 100e3)
    assert rest == pytest.approx(64**0.5)
    starved = split_rate(150e3, demands)
    assert starved == {"voice": 32e3, "face": 100e3, "slides": pytest.approx(18e3)}
    assert split_rate(20e3, demands) == {"voice": 20e3, "face": 0.0, "slides": 0.0}


def test_what_one_cannot_use_goes_to_the_others() -> None:
    demands = [RateDemand(1, 1.0, 0.0, 100e3), RateDemand(2, 0.0, 0.0, 5e6)]
    assert split_rate(1e6, demands) == {1: 100e3, 2: pytest.approx(900e3)}
    assert split_rate(9e6, demands) == {1: 100e3, 2: 5e6}
    assert split_rate(math.inf, demands) == {1: 100e3, 2: 5e6}


demands_st = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1e6), st.floats(0, 5e6), st.booleans()), max_size=12
)


@settings(deadline=None, max_examples=100)
@given(st.floats(0, 1e7), demands_st)
def test_bounds_hold_and_nothing_usable_is_left(
    total: float, wanted: list[tuple[float, float, float, bool]]
) -> None:
    demands = [
        RateDemand(key, importance, low, low + more, audio)
        for key, (importance, low, more, audio) in enumerate(wanted)
    ]
    given_bps = split_rate(total, demands)
    asked = sum(demand.maximum_bps for demand in demands)
    assert sum(given_bps.values()) == pytest.approx(min(total, asked), rel=1e-6, abs=1e-3)
    for demand in demands:
        assert -1e-6 <= given_bps[demand.key] <= demand.maximum_bps + 1e-6
    sound_is_short = any(d.is_audio and given_bps[d.key] < d.maximum_bps - 1e-3 for d in demands)
    if sound_is_short:
        assert sum(given_bps[d.key] for d in demands if not d.is_audio) <= 1e-3
    for a in demands:
        for b in demands:
            if a.importance > b.importance and a.is_audio == b.is_audio:
                short = given_bps[a.key] < a.minimum_bps - 1e-3
                assert not (short and given_bps[b.key] > 1e-3)


def test_misuse_is_named() -> None:
    with pytest.raises(ValueError, match="minimum_bps <= maximum_bps"):
        RateDemand("a", 0.5, 2.0, 1.0)
    with pytest.raises(ValueError, match="importance"):
        RateDemand("a", 1.5, 0.0, 1.0)
    with pytest.raises(ValueError, match="total"):
        split_rate(math.nan, [])
    with pytest.raises(ValueError, match="key"):
        split_rate(1.0, [RateDemand("a", 0.5, 0.0, 1.0)] * 2)
    assert split_rate(1e6, []) == {}
