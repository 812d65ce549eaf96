"""Shares follow weights, floors hold, and a flow that wakes up owes and is owed nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.scheduler.fair_share import MAX_OWED_BYTES, QUANTUM_BYTES, FairClock, Share, with_floors
from limen.scheduler.scheduler import Scheduler
from limen.scheduler.settings import SchedulerSettings
from limen.scheduler.types import MediaObject, ObjectId, Scope, Sent, Tag

PACKET = 1200


def backlog(scheduler: Scheduler, flow: int, *, count: int = 1, size: int = 1_000_000) -> None:
    for index in range(count):
        obj = MediaObject(ObjectId(flow, 0, index), bytes(size), 0.0, float("inf"))
        assert scheduler.enqueue(obj, now=0.0)


def serve(
    scheduler: Scheduler, *, start: float, seconds: float, rate_bps: float
) -> list[tuple[float, int, int]]:
    """Send whole packets at a rate; returns (time, flow, bytes) for each piece."""
    sent = []
    now = start
    next_tick = start
    while now < start + seconds:
        if now >= next_tick:
            scheduler.tick(now=now)
            next_tick += 0.001
        room = PACKET
        while room and (obj := scheduler.pick(now=now)) is not None:
            n = min(room, obj.remaining)
            scheduler.commit(obj, n, now=now)
            sent.append((now, obj.id.track, n))
            room -= n
        now += PACKET * 8 / rate_bps
    return sent


def share_of(sent: list[tuple[float, int, int]], flow: int, since: float, until: float) -> float:
    window = [(f, n) for t, f, n in sent if since <= t < until]
    return sum(n for f, n in window if f == flow) / sum(n for _, n in window)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=5),
    st.sampled_from([200, 700, 5000, 100_000]),
)
def test_shares_within_5_percent_over_any_200_ms(importances: list[float], size: int) -> None:
    scheduler = Scheduler(SchedulerSettings(floor_share=0.0))
    for flow, base in enumerate(importances):
        scheduler.add_flow(flow, track=str(flow), base=base, max_queue_objects=10**6)
        backlog(scheduler, flow, count=max(2, 1_000_000 // size), size=size)
    sent = serve(scheduler, start=0.0, seconds=0.5, rate_bps=10e6)
    weights = [64.0**value for value in importances]
    window_bytes = 0.2 * 10e6 / 8
    for flow, value in enumerate(weights):
        expected = value / sum(weights)
        for since in (0.0, 0.05, 0.13, 0.29):
            got = share_of(sent, flow, since, since + 0.2)
            # One packet cannot be split: what 5 % of a small share are is less than a packet.
            assert abs(got - expected) <= 0.05 * expected + 1.5 * PACKET / window_bytes


def test_an_object_that_arrives_mid_large_object_leaves_next_when_its_weight_says_so() -> None:
    for base, goes_next in ((0.8, True), (0.2, False)):
        scheduler = Scheduler()
        scheduler.add_flow(1, track="video", base=0.5)
        scheduler.add_flow(2, track="other", base=base)
        backlog(scheduler, 1, size=300_000)
        serve(scheduler, start=0.0, seconds=0.02, rate_bps=10e6)
        large = scheduler.pick(now=0.02)
        assert large is not None
        assert large.sent_bytes > 0
        small = MediaObject(ObjectId(2, 0, 0), bytes(1200), 0.02, 10.0)
        scheduler.enqueue(small, now=0.02)
        assert (scheduler.pick(now=0.02) is small) is goes_next


def test_weights_follow_a_tag_before_the_next_packet_and_fade_with_it() -> None:
    scheduler = Scheduler()
    for flow, track in ((1, "a"), (2, "b")):
        scheduler.add_flow(flow, track=track, base=0.2)
        backlog(scheduler, flow, count=4)
    sent = serve(scheduler, start=0.0, seconds=1.0, rate_bps=10e6)
    assert share_of(sent, 2, 0.5, 1.0) == pytest.approx(0.5, abs=0.02)
    scheduler.tag(Tag("gaze", 0.8, 1.0, 0.3, Scope("b")), now=1.0)
    scheduler.tick(now=1.0)
    after = scheduler.stats(1.0)["flows"]
    assert after[2]["weight"] / after[1]["weight"] == pytest.approx(64 ** (0.84 - 0.2))
    assert after[2]["breakdown"][0]["kind"] == "gaze"
    sent = serve(scheduler, start=1.0, seconds=3.0, rate_bps=8e6)
    assert share_of(sent, 2, 1.0, 1.03) > 0.85
    assert share_of(sent, 2, 3.5, 4.0) == pytest.approx(0.5, abs=0.03)


def test_a_tag_acts_without_a_tick() -> None:
    scheduler = Scheduler()
    scheduler.add_flow(1, track="a", base=0.3)
    scheduler.add_flow(2, track="b", base=0.2)
    backlog(scheduler, 1)
    backlog(scheduler, 2)
    first = scheduler.pick(now=0.0)
    assert first is not None
    assert first.id.track == 1
    scheduler.tag(Tag("hint", 1.0, 0.0, 1.0, Scope("b")), now=0.0)
    lifted = scheduler.pick(now=0.0)
    assert lifted is not None
    assert lifted.id.track == 2


def test_lifting_a_flow_that_has_waited_long_makes_no_burst() -> None:
    scheduler = Scheduler(SchedulerSettings(floor_share=0.0))
    scheduler.add_flow(1, track="a", base=1.0)
    scheduler.add_flow(2, track="b", base=0.0)
    backlog(scheduler, 1, count=4)
    backlog(scheduler, 2, count=4)
    sent = serve(scheduler, start=0.0, seconds=0.06, rate_bps=10e6)  # 62 packets: 2 is nearly due
    assert share_of(sent, 2, 0.0, 0.06) == 0.0
    scheduler.tag(Tag("hint", 1.0, 0.06, 100.0, Scope("b")), now=0.06)
    sent = serve(scheduler, start=0.06, seconds=0.2, rate_bps=10e6)
    assert share_of(sent, 2, 0.06, 0.08) == pytest.approx(0.5, abs=0.1)


def test_a_flow_that_wakes_up_takes_no_more_than_its_share() -> None:
    scheduler = Scheduler()
    scheduler.add_flow(1, track="a", base=0.5)
    scheduler.add_flow(2, track="b", base=0.5)
    backlog(scheduler, 1, count=4)
    serve(scheduler, start=0.0, seconds=2.0, rate_bps=10e6)
    scheduler.enqueue(MediaObject(ObjectId(2, 0, 0), bytes(1_000_000), 2.0, 1e9), now=2.0)
    sent = serve(scheduler, start=2.0, seconds=0.2, rate_bps=10e6)
    assert share_of(sent, 2, 2.0, 2.2) == pytest.approx(0.5, abs=0.02)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8))
def test_no_backlogged_flow_falls_below_its_floor(importances: list[float]) -> None:
    scheduler = Scheduler()
    for flow, base in enumerate(importances):
        scheduler.add_flow(flow, track=str(flow), base=base)
        backlog(scheduler, flow, count=2)
    sent = serve(scheduler, start=0.0, seconds=1.0, rate_bps=10e6)
    for flow in range(len(importances)):
        assert share_of(sent, flow, 0.0, 1.0) >= 0.02 * 0.95 - 1.5 * PACKET / 1.25e6


def test_a_flow_whose_objects_keep_expiring_is_still_served() -> None:
    # At the floor of 1 Mbit/s a packet's turn comes every 0.48 s; these objects live for 0.1 s.
    scheduler = Scheduler()
    scheduler.add_flow(1, track="a", base=1.0)
    scheduler.add_flow(2, track="b", base=0.0)
    backlog(scheduler, 1, count=4)
    served = 0
    for index in range(50):
        now = index * 0.1
        scheduler.enqueue(MediaObject(ObjectId(2, 0, index), bytes(1200), now, now + 0.09), now=now)
        served += sum(
            n for _, f, n in serve(scheduler, start=now, seconds=0.1, rate_bps=1e6) if f == 2
        )
    assert 0.5 * 0.02 <= served * 8 / 5e6 <= 1.5 * 0.02


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(1.0, 64.0), max_size=80), st.floats(0.0, 0.5))
def test_floors_hold_exactly_and_keep_the_order(weights: list[float], floor_share: float) -> None:
    raised = with_floors(weights, floor_share)
    assert len(raised) == len(weights)
    if not weights:
        return
    floor = min(floor_share, 0.5 / len(weights))
    assert min(raised) >= floor * sum(raised) * (1 - 1e-9)
    for before, after in zip(weights, raised, strict=True):
        assert after >= before
        assert after == before or after == min(raised)


def test_what_a_flow_is_owed_is_kept_in_bytes_and_bounded() -> None:
    clock, waiting, busy = FairClock(), Share(), Share()
    clock.charge(busy, 600)
    clock.reweigh_all([waiting], [8.0])
    assert (clock.virtual - waiting.start) * waiting.weight == pytest.approx(600)
    clock.charge(busy, 100_000)
    clock.reweigh_all([waiting], [2.0])
    assert (clock.virtual - waiting.start) * waiting.weight == pytest.approx(MAX_OWED_BYTES)
    waiting.lapsed = True
    clock.charge(busy, 100_000)
    clock.wake(waiting)
    assert (clock.virtual - waiting.start) * waiting.weight == pytest.approx(QUANTUM_BYTES)
    clock.charge(busy, 100_000)
    clock.wake(waiting)
    assert waiting.start == clock.virtual


def test_sent_events_come_once_and_bytes_add_up() -> None:
    scheduler = Scheduler()
    scheduler.add_flow(1, track="a", base=0.5)
    backlog(scheduler, 1, count=5, size=3000)
    scheduler.enqueue(MediaObject(ObjectId(1, 1, 0), b"", 0.0, 9.0), now=0.0)
    sent = serve(scheduler, start=0.0, seconds=0.1, rate_bps=10e6)
    events = scheduler.events()
    assert all(isinstance(event, Sent) for event in events)
    assert sorted(event.object.id for event in events) == [
        *(ObjectId(1, 0, index) for index in range(5)),
        ObjectId(1, 1, 0),
    ]
    assert sum(n for *_, n in sent) == 15000
    assert scheduler.events() == []
    assert scheduler.backlog_bytes == 0
