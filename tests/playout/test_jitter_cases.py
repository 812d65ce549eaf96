"""Field cases of the audio jitter buffer, by id, in virtual time."""

from __future__ import annotations

import itertools
import random
import statistics
from typing import Any

import pytest

from limen.transport.playout.jitter import JitterSettings

TRANSIT = 0.03


def clean(talk: Any, count: int, *, lost: Any = lambda i: False) -> Any:
    for i in range(count):
        if not lost(i):
            captured = 100 + 0.02 * (i + 1)
            talk.frame(i, captured, captured + TRANSIT)
    return talk


def kinds(run: Any) -> list[str]:
    return [b.block.kind for b in run.blocks]


def test_b01_one_lost_frame_costs_one_concealed_block(play: Any, arriving: Any) -> None:
    run = play(clean(arriving(), 500, lost=lambda i: i == 8).objects, until=110.045)
    assert kinds(run)[:12] == ["played"] * 8 + ["concealed"] + ["played"] * 3
    assert run.stats.lost == run.stats.concealed == run.stats.gaps == 1
    assert run.stats.played == 499
    before, after = run.blocks[7].current, run.blocks[60].current
    assert after == pytest.approx(before, abs=0.02)


def test_b01_every_hundredth_lost(play: Any, arriving: Any) -> None:
    run = play(clean(arriving(), 500, lost=lambda i: i % 100 == 50).objects, until=110.045)
    assert run.stats.concealed == run.stats.lost == run.stats.gaps == 5
    assert run.stats.played == 495
    assert max(b.current for b in run.blocks) <= 0.025


def test_b01_ten_seconds_lost_are_one_gap(play: Any, arriving: Any) -> None:
    run = play(clean(arriving(), 1100, lost=lambda i: 300 <= i < 800).objects, until=122.045)
    stats = run.stats
    assert (stats.gaps, stats.lost) == (1, 500)
    assert stats.concealed <= 5
    assert stats.played == 600
    resumed = [b for b in run.between(116.05, 122.0) if b.block.kind == "played"]
    assert len(resumed) >= 290
    assert all(b.current <= 0.025 for b in resumed)


def test_last_frame_plays_without_a_following_one(play: Any, arriving: Any) -> None:
    run = play(clean(arriving(), 10).objects, until=100.5)
    assert kinds(run)[:10] == ["played"] * 10
    assert run.blocks[9].block.captured == pytest.approx(100.2)
    assert run.stats.lost == 0


@pytest.mark.parametrize("duration", [0.0025, 0.005, 0.01, 0.02, 0.04, 0.06])
def test_clean_link_delay_for_every_object_length(
    play: Any, arriving: Any, rng: random.Random, duration: float
) -> None:
    talk = arriving()
    for i in range(round(20 / duration)):
        captured = 100 + duration * (i + 1)
        talk.frame(i, captured, captured + TRANSIT + rng.uniform(0, 0.002), duration=duration)
    run = play(talk.objects, until=119.9)
    assert {b.block.kind for b in run.blocks} == {"played"}
    # One object (or, shorter than that, one block of output) and 5 ms above the fastest arrival.
    longest = max(duration, 0.02)
    assert statistics.mean(b.current for b in run.blocks) <= longest + 0.005
    heard = [b.time - (b.block.captured - 0.02) - TRANSIT - longest for b in run.blocks]
    assert max(heard) <= longest + 0.005


def test_b04_timeline_jumps_cost_no_sound(play: Any, arriving: Any) -> None:
    talk = arriving()
    for i in range(1000):
        now = 100 + 0.02 * (i + 1)
        jump = -10.0 if 250 <= i < 500 else 2390.0 if i >= 500 else 0.0
        talk.frame(i, now + jump, now + TRANSIT)
    run = play(talk.objects, until=120.045)
    assert run.stats.jumps == 2
    dead = [b for b in run.blocks if b.block.kind != "played"]
    assert len(dead) <= 1
    assert run.stats.lost == run.stats.skipped == 0
    assert run.blocks[300].block.captured == pytest.approx(
        run.blocks[300].due - TRANSIT - 10, abs=0.04
    )
    assert run.blocks[700].block.captured == pytest.approx(
        run.blocks[700].due - TRANSIT + 2390, abs=0.04
    )
    assert max(b.current for b in run.blocks) <= 0.03


@pytest.mark.parametrize("rewind", [1.0, 5.0, 10.0])
def test_b04_rewind_of_any_length(play: Any, arriving: Any, rewind: float) -> None:
    talk = arriving()
    for i in range(500):
        now = 100 + 0.02 * (i + 1)
        talk.frame(i, now - (rewind if i >= 250 else 0.0), now + TRANSIT)
    run = play(talk.objects, until=110.045)
    assert sum(b.block.kind != "played" for b in run.blocks) <= 1


def bursts(talk: Any, *, start: float, seconds: float, every: float, first: int) -> int:
    """Frames captured each 20 ms, flushed together each `every` seconds."""
    sequence = first
    for _ in range(round(seconds / 0.02)):
        captured = start + 0.02 * (sequence - first + 1)
        passed = captured - start
        flush = start + (int((passed - 1e-9) / every) + 1) * every if every > 0.021 else captured
        talk.frame(sequence, captured, flush + 0.0025)
        sequence += 1
    return sequence


def test_b07_bursts_are_covered_after_convergence(play: Any, arriving: Any) -> None:
    talk = arriving()
    n = bursts(talk, start=100, seconds=60, every=0.1, first=0)
    n = bursts(talk, start=160, seconds=60, every=0.162, first=n)
    n = bursts(talk, start=220, seconds=60, every=0.02, first=n)
    run = play(talk.objects, until=279.9)
    for start, end, spread in ((105, 160, 0.08), (165, 220, 0.162)):
        part = run.between(start, end)
        assert {b.block.kind for b in part} == {"played"}
        assert max(b.current for b in part) <= spread + 0.045
        assert all(b.target >= spread - 0.005 for b in part)
    smooth = run.between(240, 279)
    assert {b.block.kind for b in smooth} == {"played"}
    assert max(b.current for b in smooth) <= 0.045


def interruptions(blocks: list[Any]) -> int:
    made_up = [b.block.kind in {"concealed", "silence"} for b in blocks]
    return sum(b and not a for a, b in itertools.pairwise([False, *made_up]))


def test_b09_delay_falls_after_an_episode_and_the_next_ones_hurt_less(
    play: Any, arriving: Any
) -> None:
    rough = [(160.0, 180.0), (240.0, 242.0), (262.0, 264.0), (284.0, 286.0)]
    hurt = [0, 0, 0, 0]
    for seed in range(10):
        rng = random.Random(seed)
        talk = arriving()
        for i in range(9500):
            captured = 100 + 0.02 * (i + 1)
            worst = 0.3 if any(a <= captured < b for a, b in rough) else 0.004
            talk.frame(i, captured, captured + TRANSIT + rng.uniform(0, worst))
        run = play(talk.objects, until=289.9)
        falling = run.between(181, 239)
        assert {b.block.kind for b in falling} <= {"played", "stretched"}
        stamps = [b.block.captured for b in falling]
        assert max(b - a for a, b in itertools.pairwise(stamps)) <= 0.04  # no skip above 20 ms
        assert max(b.current for b in run.between(195, 239)) <= 0.06
        hurt = [
            h + interruptions(run.between(a, a + 3)) for h, (a, _) in zip(hurt, rough, strict=True)
        ]
    # Summed over the seeds: what the first ones taught is taken up at the first sign of the next.
    assert hurt[1] < hurt[0]
    assert max(hurt[2:]) < hurt[1]


def test_an_outage_is_caught_up_with_and_leaves_no_delay(play: Any, arriving: Any) -> None:
    talk = arriving()
    for i in range(600):
        captured = 100 + 0.02 * (i + 1)
        stuck = 105.2 <= captured < 105.6
        talk.frame(i, captured, 105.63 if stuck else captured + TRANSIT)
    run = play(talk.objects, until=112)
    assert run.stats.lost == 0
    assert run.stats.skipped + run.stats.late <= 10
    assert max(b.current for b in run.between(105.7, 112)) <= 0.4  # all of it is played
    assert max(b.current for b in run.between(108, 112)) <= 0.03
    assert run.stats.dropped_samples >= 0.15 * 48_000


@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
def test_b10_deliberate_silence_is_not_loss(
    play: Any, arriving: Any, rng: random.Random, told: bool
) -> None:
    talk = arriving()
    sequence = 0
    captured = 100.0
    resumes = []
    for _ in range(10):
        resumes.append(sequence)
        for _ in range(100):
            captured += 0.02
            talk.frame(sequence, captured, captured + TRANSIT + rng.uniform(0, 0.003))
            sequence += 1
        for _ in range(7):
            captured += 0.4
            arrived = captured + TRANSIT + rng.uniform(0, 0.003)
            talk.frame(sequence, captured, arrived, silence=told)
            sequence += 1
        captured += 0.2
    run = play(talk.objects, until=captured)
    assert run.stats.lost == run.stats.late == run.stats.skipped == 0
    assert run.stats.played == sequence
    assert sorted(run.decoder.decoded) == [i * 960 for i in range(sequence)]
    targets = [b.target for b in run.blocks[50:]]
    assert max(targets) - min(targets) <= 0.02
    longest = current = 0
    for b in run.blocks:
        current = current + 1 if b.block.kind == "concealed" else 0
        longest = max(longest, current)
    assert longest <= 5
    assert run.stats.concealed <= (10 if told else 80) * 5
    assert statistics.mean(b.current for b in run.blocks[-90:]) <= 0.03


@pytest.mark.parametrize("rate", [1.0002, 0.9998])
def test_b12_clock_skew(play: Any, arriving: Any, rng: random.Random, rate: float) -> None:
    talk = arriving()
    for i in range(30 * 60 * 50):
        real = 100 + 0.02 * (i + 1) / rate
        talk.frame(i, 100 + 0.02 * (i + 1), real + TRANSIT + rng.uniform(0, 0.005))
    run = play(talk.objects, until=100 + 1799)
    steady = run.blocks[250:]
    assert {b.block.kind for b in steady} <= {"played", "stretched"}
    # A frame either way, and what one pitch period overshoots.
    assert min(b.current - b.target for b in steady) >= -0.02
    assert max(b.current - b.target for b in steady) <= 0.02 + 0.007
    assert statistics.mean(b.current - b.target for b in steady) <= 0.015
    assert run.stats.skew_ppm == pytest.approx((rate - 1) * 1e6, abs=50)
    assert run.stats.stalls == run.stats.jumps == run.stats.lost == 0


def test_b12_skew_is_known_after_three_minutes(
    play: Any, arriving: Any, rng: random.Random
) -> None:
    talk = arriving()
    for i in range(181 * 50):
        captured = 0.02 * (i + 1)
        talk.frame(i, captured, captured / 1.0002 + TRANSIT + rng.uniform(0, 0.005))
    assert play(talk.objects, until=180).stats.skew_ppm == pytest.approx(200, abs=50)


def test_b13_mute_cycles_leave_the_delay_alone(play: Any, arriving: Any) -> None:
    talk = arriving()
    sequence, captured = 0, 100.0
    for _ in range(5):
        for _ in range(35):
            captured += 0.02
            talk.frame(sequence, captured, captured + TRANSIT)
            sequence += 1
        captured += 0.3
    for _ in range(100):
        captured += 0.02
        talk.frame(sequence, captured, captured + TRANSIT)
        sequence += 1
    run = play(talk.objects, until=captured + TRANSIT + 0.015)
    assert run.stats.lost == run.stats.late == 0
    assert run.stats.played == sequence
    heard = [b.time - b.block.captured for b in run.blocks if b.block.captured is not None]
    assert heard[-1] == pytest.approx(heard[10], abs=0.02)


def test_b13_stall_with_counted_stamps_recovers(play: Any, arriving: Any) -> None:
    talk = arriving()
    for i in range(1000):
        captured = 100 + 0.02 * (i + 1)
        talk.frame(i, captured, captured + TRANSIT + (2.0 if i >= 300 else 0.0))
    run = play(talk.objects, until=122.05)
    assert run.stats.played == 1000
    after = run.between(110, 121.8)
    assert {b.block.kind for b in after} <= {"played", "stretched"}
    assert max(b.current for b in run.between(116, 121.8)) <= 0.03


def test_b26_length_is_kept_and_repair_goes_to_the_right_frame(play: Any, arriving: Any) -> None:
    # C lost; D, E, F of the second ten; the last of the third; C of the fourth 60 ms late.
    lost = {2, 13, 14, 15, 29}
    talk = arriving()
    for i in range(40):
        captured = 100 + 0.02 * (i + 1)
        late = 0.06 if i == 32 else 0.0
        if i not in lost:
            talk.frame(i, captured, captured + TRANSIT + late)
    # 30 ms of delay: a following frame is there when it is needed for repair.
    settings = JitterSettings(start_delay=0.03, margin=0.015)
    run = play(talk.objects, until=100.87, settings=settings)
    assert [b.block.kind for b in run.blocks[:40]].count("played") == 34
    assert run.blocks[39].block.captured == pytest.approx(100.8)
    assert run.decoder.repaired == [960 * i for i in (2, 15, 29, 32)]
    assert run.stats.concealed == 2
    assert (run.stats.lost, run.stats.late, run.stats.repaired) == (5, 1, 4)


def test_b43_late_wakeups_do_not_add_up(play: Any, arriving: Any) -> None:
    run = play(clean(arriving(), 3010).objects, until=160.1, wake_late=0.001)
    times = [b.time for b in run.blocks[:3001]]
    period = (times[-1] - times[0]) / (len(times) - 1)
    assert period == pytest.approx(0.02, abs=0.00002)
    first = run.blocks[0]
    worst = max(abs(b.time - first.time - 0.02 * i) for i, b in enumerate(run.blocks[:3001]))
    assert worst <= 0.0011
    assert {b.block.kind for b in run.blocks[:3000]} == {"played"}
    assert run.blocks[2900].current == pytest.approx(run.blocks[10].current, abs=0.001)


def test_b43_a_stop_is_skipped_not_caught_up(play: Any, arriving: Any) -> None:
    run = play(clean(arriving(), 3010).objects, until=160.0, wake_late=0.001, stop=(130.0, 135.0))
    after = [b for b in run.blocks if b.time >= 135.0]
    steps = [b.time - a.time for a, b in itertools.pairwise(after)]
    assert min(steps) > 0.0
    assert sum(s < 0.019 for s in steps) <= 1  # the first wake-up is late within its own period
    assert len([b for b in after if b.time < 136.0]) <= 51
    lag = [b.time - b.block.captured for b in after[25:] if b.block.captured is not None]
    assert max(lag) <= TRANSIT + 0.02 + 0.3
    assert max(b.current for b in after[50:]) <= 0.03
    assert len([b for b in after[2:] if b.block.kind == "played"]) >= len(after) - 6
    stamps = [b.block.captured for b in run.blocks if b.block.captured is not None]
    assert max(b - a for a, b in itertools.pairwise(stamps)) == pytest.approx(5, abs=0.1)
