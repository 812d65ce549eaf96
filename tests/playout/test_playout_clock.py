"""One clock for sound and picture, and the offset between two hosts' clocks."""

from __future__ import annotations

import random

import pytest

from limen.transport.playout.clock import ClockOffset, PlayoutClock

AUDIO, VIDEO = "voice", "face"


def feed(
    clock: PlayoutClock,
    *,
    start: float,
    seconds: float,
    audio: float = 0.03,
    video: float = 0.05,
    delay: float = 0.03,
    audio_shift: float = 0.0,
    video_shift: float = 0.0,
    sound: bool = True,
) -> list[float]:
    """Both tracks for a while; returns picture time minus sound time for each picture."""
    offsets = []
    for step in range(round(seconds * 100)):
        now = start + step / 100
        if sound and step % 2 == 0:
            clock.observe(AUDIO, now + audio_shift, now + audio)
            clock.set_target(AUDIO, delay, 0.9)
            clock.played(AUDIO, now + audio_shift, now + audio + delay)
        if step % 3 == 0:
            clock.observe(VIDEO, now + video_shift, now + video)
            due = clock.play_time(now + video_shift, track=VIDEO)
            seen = max(due, now + video)
            offsets.append(seen - (now + audio + delay))
    return offsets


def test_picture_is_shown_with_the_sound() -> None:
    offsets = feed(PlayoutClock(AUDIO), start=10, seconds=5)
    assert all(-0.045 <= o <= 0.08 for o in offsets)
    assert offsets[-1] == pytest.approx(0.0, abs=0.002)


def test_a_slower_picture_is_not_held_at_all() -> None:
    clock = PlayoutClock(AUDIO)
    offsets = feed(clock, start=10, seconds=5, video=0.09, delay=0.03)
    assert offsets[-1] == pytest.approx(0.03, abs=0.002)  # shown on arrival
    assert clock.extra_delay() == pytest.approx(0.015, abs=0.002)


def test_sound_waits_for_a_much_slower_picture_as_far_as_that_matters() -> None:
    extra = []
    for importance in (0.9, 0.25, 0.0):
        clock = PlayoutClock(AUDIO)
        clock.set_target(VIDEO, 0.0, importance)
        feed(clock, start=10, seconds=3, video=0.23)
        extra.append(clock.extra_delay())
    assert extra[0] == pytest.approx(0.23 - 0.03 - 0.045, abs=0.002)
    assert extra[1] == pytest.approx(extra[0] / 2, abs=0.002)
    assert extra[2] == 0.0


def test_b13_faster_picture_waits_for_the_sound() -> None:
    clock = PlayoutClock(AUDIO)
    offsets = feed(clock, start=10, seconds=5, audio=0.15, video=0.03)
    assert all(abs(o) <= 0.04 for o in offsets[5:])
    assert clock.extra_delay() == 0.0


def test_b13_picture_goes_on_while_the_sound_is_muted() -> None:
    clock = PlayoutClock(AUDIO)
    feed(clock, start=10, seconds=3)
    during = feed(clock, start=13, seconds=5, sound=False)
    # At its own pace after a second: on arrival, 20 ms after the sound's floor, 10 before its play.
    assert during[-1] == pytest.approx(0.05 - 0.06, abs=0.002)
    after = feed(clock, start=18, seconds=2)
    assert abs(after[-1]) <= 0.04


def test_b04_jumps_of_both_and_of_one_keep_them_in_step() -> None:
    clock = PlayoutClock(AUDIO)
    feed(clock, start=100, seconds=5)
    parts = [
        (105.0, -10.0, -10.0),
        (110.0, 2390.0, 2390.0),
        (115.0, 2390.0, 2392.0),
    ]
    for start, audio_shift, video_shift in parts:
        offsets = feed(
            clock, start=start, seconds=5, audio_shift=audio_shift, video_shift=video_shift
        )
        assert all(abs(o) <= 0.08 for o in offsets[3:])
        assert all(abs(o) <= 0.04 for o in offsets[15:])


def test_without_observations_time_is_taken_as_it_is() -> None:
    clock = PlayoutClock()
    assert clock.play_time(5.0) == 5.0
    assert clock.extra_delay() == 0.0


def test_without_sound_the_picture_goes_at_its_own_pace() -> None:
    clock = PlayoutClock()
    for i in range(100):
        clock.observe(VIDEO, i / 30, i / 30 + 0.05)
    assert clock.play_time(100 / 30, track=VIDEO) == pytest.approx(100 / 30 + 0.05)


def test_the_picture_is_never_held_beyond_its_bound() -> None:
    clock = PlayoutClock(AUDIO, max_hold=0.5)
    feed(clock, start=10, seconds=2, audio=2.0, video=0.05)
    assert clock.play_time(12.0, track=VIDEO) <= 12.0 + 0.05 + 0.5 + 1e-9


def test_clock_offset_takes_the_fastest_exchange() -> None:
    rng = random.Random(3)
    estimate = ClockOffset()
    assert estimate.offset is None
    assert estimate.rtt is None
    for i in range(40):
        there, back = 0.025 + rng.expovariate(50), 0.025 + rng.expovariate(50)
        t0 = float(i)
        t1 = t0 + there + 1234.5
        assert estimate.add(t0, t1, t1 + 0.001, t0 + there + 0.001 + back)
    assert estimate.offset == pytest.approx(1234.5, abs=0.005)
    assert estimate.rtt == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    "stamps",
    [(0.0, 1.0, 1.5, 0.2), (0.0, 2.0, 1.0, 3.0), (float("nan"), 0.0, 0.0, 0.0)],
    ids=["negative round trip", "answered before received", "not a number"],
)
def test_impossible_exchanges_are_refused(stamps: tuple[float, float, float, float]) -> None:
    estimate = ClockOffset()
    assert not estimate.add(*stamps)
    assert estimate.offset is None


def test_a_second_voice_does_not_move_the_clock() -> None:
    clock = PlayoutClock(AUDIO)
    for step in range(100):
        now = step * 0.02
        for name, transit in ((AUDIO, 0.05), ("other", 0.25)):
            clock.observe(name, now, now + transit)
            clock.played(name, now, now + transit + 0.03)
        assert clock.offset() == pytest.approx(0.08)
    assert clock.is_master(AUDIO)
    assert not clock.is_master("other")
