"""The small parts of playout: deadlines, timeline, arrival model; and the buffer under abuse."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from limen.transport.playout.arrivals import ArrivalModel
from limen.transport.playout.cover import best_cover
from limen.transport.playout.grid import DeadlineGrid
from limen.transport.playout.jitter import AudioArrival, JitterBuffer, JitterSettings
from limen.transport.playout.timeline import Timeline


def test_deadlines_do_not_drift_over_days() -> None:
    grid = DeadlineGrid(0.02, max_overdue=0.06)
    grid.start(5.0)
    for _ in range(1_000_000):
        grid.take(0.0)
    assert grid.next == pytest.approx(5.0 + 20_000.0, abs=1e-6)


def test_a_short_hiccup_is_served_and_a_stop_is_skipped() -> None:
    grid = DeadlineGrid(0.02, max_overdue=0.06)
    grid.start(1.0)
    assert grid.take(1.05) == (1.0, 0)
    assert grid.overdue(1.05) == pytest.approx(0.03)
    due, skipped = grid.take(2.0)
    assert skipped == 49
    assert due == pytest.approx(2.0)
    assert grid.next == pytest.approx(2.02)


def test_taking_before_the_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="nothing has arrived"):
        DeadlineGrid(0.02, max_overdue=0.06).take(1.0)


def test_a_gap_stays_a_gap_and_a_jump_does_not() -> None:
    timeline = Timeline()
    timeline.place(0, 10.0, 0.02, floor=None, now=1.0)
    gap = timeline.place(1, 10.5, 0.02, floor=-9.0, now=1.5)
    jump = timeline.place(2, 50.0, 0.02, floor=-9.0, now=1.52)
    back = timeline.place(3, 3.0, 0.02, floor=-9.0, now=1.54)
    assert gap is not None
    assert jump is not None
    assert back is not None
    assert gap.end == pytest.approx(10.5)
    assert not gap.jumped
    assert jump.jumped
    assert jump.end == pytest.approx(10.52)
    assert jump.end + jump.offset == pytest.approx(50.0)
    assert back.end == pytest.approx(10.54)
    assert timeline.jumps == 2


def test_reordered_objects_keep_their_places_across_a_jump() -> None:
    timeline = Timeline()
    timeline.place(0, 10.0, 0.02, floor=None, now=1.0)
    timeline.place(2, 50.02, 0.02, floor=-9.0, now=1.04)
    older = timeline.place(1, 10.02, 0.02, floor=-9.0, now=1.05)
    assert older is not None
    assert older.end == pytest.approx(10.02)


def test_a_sender_that_starts_anew_is_recognised_by_three_objects() -> None:
    timeline = Timeline()
    timeline.place(5000, 100.0, 0.02, floor=None, now=1.0)
    placed = [
        timeline.place(i, 700.0 + 0.02 * i, 0.02, floor=-99.0, now=1.5 + 0.02 * i) for i in range(4)
    ]
    assert placed[:2] == [None, None]
    assert placed[2] is not None
    assert placed[2].restarted
    assert placed[3] is not None
    assert placed[3].end == pytest.approx(placed[2].end + 0.02)


def test_one_spike_does_not_move_the_target_and_two_do_at_once() -> None:
    model = ArrivalModel()
    for i in range(1000):
        model.observe(0.1, now=i * 0.02)
    model.observe(0.4, now=20.0)
    assert model.cover == pytest.approx(0.0)
    model.observe(0.1, now=20.3)
    model.observe(0.4, now=20.6)
    assert model.cover == pytest.approx(0.3)


def test_a_slower_path_is_learnt_without_lasting_delay() -> None:
    model = ArrivalModel()
    for i in range(2000):
        model.observe(0.1 if i < 1000 else 0.25, now=i * 0.02)
    assert model.floor == pytest.approx(0.25)
    assert model.cover == pytest.approx(0.0)


def test_restarted_sender_plays_on(play: Any, arriving: Any) -> None:
    talk = arriving()
    for i in range(3000):
        talk.frame(i, 100 + 0.02 * (i + 1), 100.03 + 0.02 * (i + 1))
    for i in range(200):
        talk.frame(i, 9000 + 0.02 * (i + 1), 161.03 + 0.02 * (i + 1))
    run = play(talk.objects, until=165.05)
    assert [b.block.kind for b in run.blocks[-150:]] == ["played"] * 150
    assert run.stats.played >= 3000 + 198


def test_first_frames_are_not_trimmed_when_they_arrive_out_of_order(
    play: Any, arriving: Any
) -> None:
    talk = arriving()
    for i in range(50):
        talk.frame(i, 100 + 0.02 * (i + 1), 100.03 + 0.02 * (i + 1))
    talk.objects[0] = (100.055, talk.objects[0][1])
    talk.objects[1] = (100.05, talk.objects[1][1])
    run = play(talk.objects, until=101.1)
    assert run.decoder.decoded == [960 * i for i in range(50)]


def test_duplicates_are_counted_and_ignored(play: Any, arriving: Any) -> None:
    talk = arriving()
    for i in range(50):
        for copy in range(2):
            talk.frame(i, 100 + 0.02 * (i + 1), 100.03 + 0.02 * (i + 1 + copy))
    run = play(talk.objects, until=101.055)
    assert run.stats.duplicate == 50
    assert {b.block.kind for b in run.blocks} == {"played"}


@pytest.mark.parametrize(
    "arrival",
    [
        AudioArrival(0, float("nan"), 0.02, b""),
        AudioArrival(0, 1.0, 0.0, b""),
        AudioArrival(0, 1.0, 5.0, b""),
        AudioArrival(-1, 1.0, 0.02, b""),
    ],
    ids=["no time", "no length", "too long", "negative sequence"],
)
def test_senseless_objects_are_refused(arrival: AudioArrival) -> None:
    buffer = JitterBuffer(_Failing())
    assert not buffer.insert(arrival, now=1.0)
    assert buffer.stats().refused == 1
    assert buffer.next_time() is None


class _Failing:
    """A decoder that can do nothing."""

    def decode(self, payload: bytes) -> Any:
        raise ValueError("bad payload")

    def conceal(self, n_samples: int) -> Any:
        raise ValueError("no")

    def repair(self, next_payload: bytes, n_samples: int) -> Any:
        raise ValueError("no")


def test_a_failing_decoder_gives_silence_not_errors() -> None:
    buffer = JitterBuffer(_Failing(), channels=2)
    for i in range(20):
        if i not in {3, 7}:
            buffer.insert(AudioArrival(i, 0.02 * (i + 1), 0.02, b"?"), now=0.02 * i)
    for _ in range(20):
        due = buffer.next_time()
        assert due is not None
        block = buffer.next_frame(now=due)
        assert block.samples.shape == (960, 2)
        assert not block.samples.any()


@pytest.mark.parametrize("seed", range(12))
def test_any_arrivals_give_whole_blocks_in_bounded_memory(
    play: Any, arriving: Any, seed: int
) -> None:
    rng = random.Random(seed)
    talk = arriving()
    duration = rng.choice([0.0025, 0.005, 0.01, 0.02, 0.04, 0.06])
    captured = sequence = 0
    shift = 0.0
    for _ in range(1500):
        captured += 1
        sequence += 1
        dice = rng.random()
        if dice < 0.02:
            continue  # lost
        if dice < 0.025:
            captured += rng.randint(1, 100)  # silence
        elif dice < 0.03:
            shift = rng.choice([-1, 1]) * rng.uniform(0, 100)
        elif dice < 0.032:
            sequence = rng.randint(0, 10_000)
        elif dice < 0.034:
            sequence += rng.randint(1, 2**40)
        at = captured * duration
        late = rng.expovariate(30) if rng.random() < 0.3 else 0.0
        for _ in range(1 + (rng.random() < 0.05)):
            talk.frame(
                sequence,
                at + shift,
                at + late,
                duration=duration,
                silence=rng.random() < 0.2,
                importance=rng.random(),
            )
    settings = JitterSettings(max_objects=50)
    run = play(talk.objects, until=captured * duration + 1, settings=settings)
    assert all(np.isfinite(b.block.samples).all() for b in run.blocks)
    stats = run.stats
    assert stats.played > 0
    assert min(stats.lost, stats.late, stats.skipped, stats.duplicate) >= 0
    assert stats.target_delay < 5.0
    assert stats.lost < 3 * 1500 + 10_000


def test_cover_weighs_delay_against_damage() -> None:
    ages = np.linspace(11.5, 0.0, 24, dtype=np.float64)
    calm = np.full(24, 0.004, dtype=np.float64)
    grid = (0.006, 0.02)
    assert best_cover(calm, ages, price=15.0, grid=grid) == pytest.approx(0.006)
    lone = calm.copy()
    lone[20] = 0.7
    assert best_cover(lone, ages, price=15.0, grid=grid) == pytest.approx(0.006)
    often = calm.copy()
    often[::3] = 0.1
    covered = best_cover(often, ages, price=15.0, grid=grid)
    assert 0.06 <= covered <= 0.106
    assert (covered - 0.006) / 0.02 == pytest.approx(round((covered - 0.006) / 0.02))
    assert best_cover(often, ages, price=0.1, grid=grid) < covered
    assert best_cover(often, ages, price=0.1, grid=grid, least=0.1) == pytest.approx(0.106)


def test_an_outage_is_slowed_down_for_before_it_is_concealed(play: Any, arriving: Any) -> None:
    """68 ms in hand and nothing for 140 ms: without slowing down, four blocks are made up."""
    talk = arriving()
    for i in range(750):
        captured = 100 + 0.02 * (i + 1)
        spread = 0.08 if i % 40 == 0 else 0.0
        stuck = 112.2 <= captured < 112.34
        talk.frame(i, captured, 112.37 if stuck else captured + 0.03 + spread)
    run = play(talk.objects, until=114.9)
    made_up = [b for b in run.between(112.2, 112.6) if b.block.kind in {"concealed", "silence"}]
    slowed = [b for b in run.between(112.2, 112.4) if b.block.kind == "stretched"]
    assert slowed
    assert len(made_up) <= 3
