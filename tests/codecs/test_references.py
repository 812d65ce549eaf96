"""Which picture needs which, without any codec: layers, kept pictures, losses."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.codecs.references import LONG_TERM_EVERY, Plan, ReferencePlan, Slot


def run(plan: ReferencePlan, count: int) -> list[Plan]:
    out = []
    for _ in range(count):
        step = plan.plan()
        out.append(plan.commit(step, keyframe=step.source is None))
    return out


@pytest.mark.parametrize(
    ("layers", "pattern"), [(1, [0] * 9), (2, [0, 1] * 4 + [0]), (3, [0, 2, 1, 2] * 2 + [0])]
)
def test_layers_follow_their_pattern_and_nothing_lower_needs_higher(
    layers: int, pattern: list[int]
) -> None:
    plans = run(ReferencePlan(layers), 9)
    assert [p.layer for p in plans] == pattern
    layer_of = {p.number: p.layer for p in plans}
    for p in plans[1:]:
        (needed,) = p.references
        assert layer_of[needed] < p.layer or layer_of[needed] == p.layer == 0
    assert [p.source is None for p in plans] == [True] + [False] * 8


def test_a_lost_base_picture_is_stepped_around_by_the_newest_kept_one() -> None:
    references = ReferencePlan()
    run(references, 40)
    references.lost(38)
    assert references.is_broken(39)
    repair = references.plan()
    assert repair.repair
    assert repair.source is not Slot.LAST
    assert repair.references[0] < 38
    assert repair.references[0] >= 38 - 2 * LONG_TERM_EVERY
    references.commit(repair, keyframe=False)
    following = references.plan()
    assert following.references == (40,)
    assert not following.repair


def test_a_loss_of_a_top_layer_breaks_nothing() -> None:
    references = ReferencePlan(2)
    run(references, 8)
    references.lost(7)  # layer 1
    assert not references.plan().repair


def test_without_anything_whole_the_next_picture_is_a_keyframe() -> None:
    references = ReferencePlan()
    run(references, 40)
    references.lost_after(0)
    assert references.plan().source is None


def test_a_report_that_comes_late_spares_what_was_kept_before_the_loss() -> None:
    """The newer kept picture already rests on the loss; the older one does not."""
    references = ReferencePlan()
    run(references, 2 * LONG_TERM_EVERY + 2)  # kept: 12 and 24
    references.lost(LONG_TERM_EVERY + 5)
    assert references.plan().references == (LONG_TERM_EVERY,)


def test_a_restarted_encoder_has_nothing_to_refer_to() -> None:
    references = ReferencePlan()
    run(references, 5)
    references.restart()
    assert references.plan().source is None
    assert references.plan().number == 5


def test_a_keyframe_the_encoder_makes_by_itself_is_believed() -> None:
    references = ReferencePlan()
    run(references, 5)
    done = references.commit(references.plan(), keyframe=True)
    assert done.references == ()
    references.lost(3)
    assert not references.plan().repair


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3]))
def test_no_picture_ever_needs_one_that_is_known_to_be_lost(seed: int, layers: int) -> None:
    """What is planned can be decoded from what got through, whatever got lost and when."""
    rng = random.Random(seed)
    references = ReferencePlan(layers)
    decodable: set[int] = set()
    pending: list[int] = []
    for number in range(120):
        while pending and rng.random() < 0.5:
            references.lost(pending.pop(0))
        plan = references.plan()
        assert not any(references.is_broken(n) for n in plan.references)
        plan = references.commit(plan, keyframe=plan.source is None)
        assert plan.number == number
        assert all(n < number for n in plan.references)
        if not pending:  # all losses are known: the picture must be decodable
            assert all(n in decodable for n in plan.references)
        if rng.random() < 0.15:
            pending.append(number)
        elif all(n in decodable for n in plan.references):
            decodable.add(number)


def test_only_three_layers_are_known() -> None:
    with pytest.raises(ValueError, match="1, 2 or 3"):
        ReferencePlan(4)
