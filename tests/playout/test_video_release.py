"""Dependency-aware video release, in virtual time."""

from __future__ import annotations

import pytest

from limen.scheduler.types import ObjectId
from limen.transport.playout.video_release import (
    Release,
    VideoArrival,
    VideoRelease,
    VideoSettings,
)

FRAME = 1 / 30


def vid(index: int, group: int = 0, layer: int = 0) -> ObjectId:
    return ObjectId(1, group, index, layer)


def frame(index: int, group: int = 0, *, deadline: float | None = None) -> VideoArrival:
    """A chain: each frame needs the one before it; index 0 is the keyframe."""
    needs = () if index == 0 else (vid(index - 1, group),)
    captured = group * 100 + index * FRAME
    return VideoArrival(vid(index, group), captured, FRAME, b"x", index == 0, needs, deadline)


def shown(releases: list[Release]) -> list[tuple[int, int, bool]]:
    return [(r.arrival.id.group, r.arrival.id.index, r.show) for r in releases]


def test_frames_leave_in_order_whatever_order_they_complete_in() -> None:
    video = VideoRelease()
    assert video.insert(frame(0), now=0.0)
    assert shown(video.poll(now=0.0)) == [(0, 0, True)]
    assert video.insert(frame(2), now=0.01)
    assert video.poll(now=0.01) == []
    due = video.next_time()
    assert due is not None
    assert due > 0.01
    assert video.insert(frame(1), now=0.02)
    assert shown(video.poll(now=0.02)) == [(0, 1, True), (0, 2, True)]
    assert not video.needs_keyframe(0.02)
    assert video.next_time() is None


def test_b22_a_missing_reference_freezes_and_asks() -> None:
    video = VideoRelease()
    video.set_rtt(0.05)
    released: list[int] = []
    asked: list[float] = []
    for i in range(30):
        now = i * FRAME
        if i == 10:
            video.lost(vid(10), now=now)  # the sender reset it
        else:
            video.insert(frame(i), now=now)
        released += [r.arrival.id.index for r in video.poll(now=now)]
        if video.needs_keyframe(now):
            asked.append(now)
    assert released == list(range(10))
    assert asked[0] - 10 * FRAME <= FRAME
    video.insert(frame(0, 1), now=1.01)
    assert shown(video.poll(now=1.01)) == [(1, 0, True)]
    assert not video.needs_keyframe(5.0)
    assert video.stats().freezes == 1
    assert video.stats().longest_freeze == pytest.approx(1.01 - 9 * FRAME)


def test_b22_untold_loss_is_given_up_after_a_round_trip() -> None:
    video = VideoRelease()
    video.set_rtt(0.05)
    for i in range(10):
        video.insert(frame(i), now=i * FRAME)
        video.poll(now=i * FRAME)
    video.insert(frame(11), now=11 * FRAME)
    assert video.poll(now=11 * FRAME) == []
    assert not video.needs_keyframe(11 * FRAME)
    due = video.next_time()
    assert due is not None
    assert due == pytest.approx(11 * FRAME + 1.25 * 0.05 + FRAME)
    assert video.poll(now=due) == []
    assert video.needs_keyframe(due)
    assert not video.insert(frame(12), now=due + 0.01)  # broken by ids alone
    assert video.stats().lost == 1
    assert video.stats().dropped == 2


def test_b22_a_lost_keyframe_shows_nothing_of_its_group() -> None:
    video = VideoRelease()
    for i in range(30):
        video.insert(frame(i), now=i * FRAME)
        video.poll(now=i * FRAME)
    now = 1.0
    asked = 0
    for i in range(1, 30):
        now = 1.0 + i * FRAME
        video.insert(frame(i, 1), now=now)
        assert video.poll(now=now) == []
        asked += video.needs_keyframe(now)
    assert asked >= 1


def test_b24_joining_in_mid_group_asks_at_once_and_shows_nothing() -> None:
    video = VideoRelease()
    video.insert(frame(5), now=0.0)
    assert video.poll(now=0.0) == []
    assert video.needs_keyframe(0.0)
    for i in range(6, 10):
        video.insert(frame(i), now=(i - 5) * FRAME)
        assert video.poll(now=(i - 5) * FRAME) == []
    video.insert(frame(0, 1), now=0.2)
    video.insert(frame(1, 1), now=0.2)
    assert shown(video.poll(now=0.2)) == [(1, 0, True), (1, 1, True)]
    assert video.stats().waiting == 0


def test_b38_requests_are_merged_and_the_one_inside_the_window_is_served_at_its_end() -> None:
    video = VideoRelease()
    video.set_rtt(0.05)
    video.insert(frame(5), now=0.0)
    assert video.needs_keyframe(0.0)
    assert not any(video.needs_keyframe(t / 1000) for t in range(1, 200))
    video.insert(frame(0, 1), now=0.2)
    video.poll(now=0.2)
    assert not video.needs_keyframe(0.3)
    video.lost(vid(1, 1), now=0.49)
    assert not video.needs_keyframe(0.49)
    assert video.next_time() == pytest.approx(0.5)
    assert video.needs_keyframe(0.5)
    assert video.stats().keyframe_requests == 2


def test_b38_a_long_round_trip_widens_the_window() -> None:
    video = VideoRelease()
    video.set_rtt(0.6)
    video.insert(frame(5), now=0.0)
    assert video.needs_keyframe(0.0)
    assert not video.needs_keyframe(1.19)
    assert video.needs_keyframe(1.2)


def test_b38_a_slow_source_is_no_reason_to_ask() -> None:
    video = VideoRelease()
    for i in range(20):
        now = i / 0.3
        video.insert(frame(i), now=now)
        assert len(video.poll(now=now)) == 1
        assert not any(video.needs_keyframe(now + t) for t in (0.0, 0.5, 1.0, 3.0))


def test_late_frames_are_decoded_for_later_ones_but_not_shown() -> None:
    video = VideoRelease()
    video.insert(frame(0, deadline=0.1), now=0.0)
    video.poll(now=0.0)
    video.insert(frame(2, deadline=0.25), now=0.11)
    assert video.poll(now=0.11) == []
    video.insert(frame(1, deadline=0.12), now=0.15)
    assert shown(video.poll(now=0.15)) == [(0, 1, False), (0, 2, True)]
    assert video.stats().late == 1


def test_a_frozen_picture_gives_way_to_a_late_one() -> None:
    video = VideoRelease(VideoSettings(show_late_after=0.3))
    video.insert(frame(0, deadline=0.1), now=0.0)
    video.poll(now=0.0)
    video.insert(frame(1, deadline=0.15), now=0.6)
    assert shown(video.poll(now=0.6)) == [(0, 1, True)]


def test_an_upper_layer_breaks_only_what_needs_it() -> None:
    video = VideoRelease()
    video.insert(frame(0), now=0.0)
    video.poll(now=0.0)
    video.lost(vid(0, layer=1), now=0.01)
    assert not video.needs_keyframe(0.01)
    video.insert(frame(1), now=FRAME)
    assert shown(video.poll(now=FRAME)) == [(0, 1, True)]


def test_a_frame_that_refers_to_an_older_good_one_ends_the_break() -> None:
    video = VideoRelease()
    for i in range(3):
        video.insert(frame(i), now=i * FRAME)
    assert len(video.poll(now=0.1)) == 3
    video.lost(vid(3), now=0.1)
    assert video.needs_keyframe(0.1)
    repair = VideoArrival(vid(4), 4 * FRAME, FRAME, b"x", False, (vid(2),))
    video.insert(repair, now=0.15)
    assert shown(video.poll(now=0.15)) == [(0, 4, True)]
    assert not video.needs_keyframe(2.0)


def test_a_failing_decoder_breaks_the_chain() -> None:
    video = VideoRelease()
    video.insert(frame(0), now=0.0)
    video.poll(now=0.0)
    video.refused(vid(0))
    assert video.needs_keyframe(0.0)
    assert not video.insert(frame(1), now=FRAME)


def test_duplicates_and_stragglers_are_of_no_use() -> None:
    video = VideoRelease()
    video.insert(frame(0), now=0.0)
    assert not video.insert(frame(0), now=0.0)
    video.poll(now=0.0)
    assert not video.insert(frame(0), now=0.1)
    video.insert(frame(0, 2), now=0.2)
    video.poll(now=0.2)
    assert not video.insert(frame(5, 1), now=0.3)
    assert video.stats().duplicate == 2


def test_memory_is_bounded() -> None:
    video = VideoRelease(VideoSettings(max_frames=16, max_bytes=1000))
    for i in range(2, 5000, 2):
        video.insert(frame(i, i % 7), now=0.0)
        assert video.stats().waiting <= 16
    assert video.needs_keyframe(0.0)


def test_reset_starts_over() -> None:
    video = VideoRelease()
    video.insert(frame(0), now=0.0)
    video.poll(now=0.0)
    video.reset()
    assert not video.needs_keyframe(0.0)
    assert video.stats().decoded == 0
    video.insert(frame(1), now=0.1)
    assert video.poll(now=0.1) == []
