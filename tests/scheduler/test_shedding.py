"""What cannot arrive in time costs no bytes, and takes with it what depends on it, once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.scheduler.scheduler import Scheduler
from limen.scheduler.settings import SchedulerSettings
from limen.scheduler.types import MediaObject, ObjectId, Sent, Shed, ShedReason


def video(
    index: int, *, size: int = 5000, deadline: float = 1.0, needs: bool = True
) -> MediaObject:
    needed = (ObjectId(1, 0, index - 1),) if needs and index else ()
    return MediaObject(ObjectId(1, 0, index), bytes(size), 0.0, deadline, depends_on=needed)


def scheduler_of(*bases: float, rate_bps: float | None = 1e6, delay: float = 0.02) -> Scheduler:
    scheduler = Scheduler()
    for number, base in enumerate(bases, start=1):
        scheduler.add_flow(number, track=f"t{number}", base=base)
    scheduler.set_link(rate_bps=rate_bps, one_way_delay=delay)
    return scheduler


def fits_in(room: int) -> Callable[[MediaObject], bool]:
    return lambda obj: obj.remaining <= room


def sheds(scheduler: Scheduler) -> list[tuple[int, str]]:
    return [(e.object.id.index, str(e.reason)) for e in scheduler.events() if isinstance(e, Shed)]


def test_an_expired_object_goes_with_its_dependents_each_once() -> None:
    scheduler = scheduler_of(0.5, rate_bps=None)
    for index in range(4):
        scheduler.enqueue(video(index, deadline=0.1 + index), now=0.0)
    both = MediaObject(
        ObjectId(1, 0, 9), b"x", 0.0, 9.0, depends_on=(ObjectId(1, 0, 1), ObjectId(1, 0, 3))
    )
    scheduler.enqueue(both, now=0.0)
    scheduler.tick(now=0.2)
    assert sheds(scheduler) == [
        (0, "expired"),
        (1, "dependency"),
        (2, "dependency"),
        (9, "dependency"),
        (3, "dependency"),
    ]
    assert scheduler.backlog_bytes == 0


def test_a_deadline_in_the_past_is_refused_at_once() -> None:
    scheduler = scheduler_of(0.5)
    assert not scheduler.enqueue(video(0, deadline=0.9), now=1.0)
    assert sheds(scheduler) == [(0, "expired")]
    assert not scheduler.is_busy(now=1.0)


def test_hopeless_is_bytes_ahead_over_rate_plus_the_way() -> None:
    # 1 Mbit/s: 12,500 bytes take 100 ms, and the way takes 20.
    scheduler = scheduler_of(0.5)
    assert scheduler.enqueue(video(0, size=12_500, deadline=0.121), now=0.0)
    assert not scheduler.enqueue(video(1, size=12_500, deadline=0.219, needs=False), now=0.0)
    assert scheduler.enqueue(video(2, size=12_500, deadline=0.221, needs=False), now=0.0)
    assert sheds(scheduler) == [(1, "hopeless")]
    scheduler.tick(now=0.0005)
    assert sheds(scheduler) == []
    scheduler.tick(now=0.002)  # nothing was sent meanwhile: neither can make it in its place
    assert sheds(scheduler) == [(0, "hopeless")]
    assert scheduler.pick(now=0.002) is not None


def test_pick_sheds_instead_of_returning_what_cannot_make_it() -> None:
    scheduler = scheduler_of(0.5, 0.5)
    scheduler.enqueue(video(0, size=12_500, deadline=0.13), now=0.0)
    scheduler.enqueue(video(1, size=10, deadline=9.0), now=0.0)
    other = MediaObject(ObjectId(2, 0, 0), bytes(100), 0.0, 9.0)
    scheduler.enqueue(other, now=0.0)
    assert scheduler.pick(now=0.05) is other
    while (obj := scheduler.pick(now=0.05)) is not None:
        scheduler.commit(obj, obj.remaining, now=0.05)
    assert sheds(scheduler) == [(0, "hopeless"), (1, "dependency")]


def test_while_the_rate_is_unknown_only_expiry_sheds() -> None:
    for unknown in (None, 0.0):
        scheduler = scheduler_of(0.5, rate_bps=unknown)
        assert scheduler.enqueue(video(0, size=1_000_000, deadline=0.05), now=0.0)
        assert scheduler.backlog_seconds() == 0.0
        scheduler.tick(now=0.05)
        assert scheduler.pick(now=0.05) is not None
        scheduler.tick(now=0.0501)
        assert sheds(scheduler) == [(0, "expired")]


def test_a_rate_that_becomes_known_or_falls_is_acted_on_at_the_next_tick() -> None:
    scheduler = scheduler_of(0.5, rate_bps=None)
    scheduler.enqueue(video(0, size=50_000, deadline=0.5), now=0.0)
    scheduler.set_link(rate_bps=1e6, one_way_delay=0.02)
    scheduler.tick(now=0.001)
    assert sheds(scheduler) == []
    scheduler.set_link(rate_bps=0.5e6, one_way_delay=0.02)
    scheduler.tick(now=0.002)
    assert sheds(scheduler) == [(0, "hopeless")]


def test_a_started_object_is_kept_while_the_whole_link_could_save_it() -> None:
    scheduler = scheduler_of(0.0, 1.0)
    scheduler.enqueue(video(0, size=2400, deadline=0.2), now=0.0)
    first = scheduler.pick(now=0.0)
    assert first is not None
    scheduler.commit(first, 1200, now=0.0)
    for index in range(100):  # far above it: leaves nothing over, so unstarted would be hopeless
        obj = MediaObject(ObjectId(2, 0, index), bytes(12_500), 0.0, 99.0)
        scheduler.enqueue(obj, now=0.0)
    scheduler.tick(now=0.1)
    assert sheds(scheduler) == []
    scheduler.tick(now=0.171)  # 1200 bytes take 9.6 ms, the way 20: 0.2006
    (shed,) = [event for event in scheduler.events() if isinstance(event, Shed)]
    assert shed.reason is ShedReason.HOPELESS
    assert shed.object.sent_bytes == 1200  # so its stream has to be reset
    assert scheduler.stats(0.2)["flows"][1]["wasted_bytes"] == 1200


def test_later_dependents_are_refused_until_an_independent_object() -> None:
    scheduler = scheduler_of(0.5)
    scheduler.enqueue(video(0), now=0.0)
    assert scheduler.cancel(ObjectId(1, 0, 0), now=0.0)
    assert not scheduler.cancel(ObjectId(1, 0, 0), now=0.0)
    for index in range(1, 2000):  # longer than the memory: the chain renews itself
        assert not scheduler.enqueue(video(index), now=0.0)
    assert Counter(reason for _, reason in sheds(scheduler)) == {"cancelled": 1, "dependency": 1999}
    keyframe = MediaObject(ObjectId(1, 1, 0), bytes(100), 0.0, 1.0)
    after = MediaObject(ObjectId(1, 1, 1), bytes(100), 0.0, 1.0, depends_on=(keyframe.id,))
    assert scheduler.enqueue(keyframe, now=0.0)
    assert scheduler.enqueue(after, now=0.0)


def test_an_object_lost_on_its_way_takes_its_dependents_across_flows() -> None:
    scheduler = scheduler_of(0.5, 0.5)
    enhancement = MediaObject(
        ObjectId(1, 0, 0, layer=1), b"e", 0.0, 1.0, depends_on=(ObjectId(1, 0, 0),)
    )
    scheduler.enqueue(enhancement, now=0.0, flow=2)
    scheduler.drop_dependents(ObjectId(1, 0, 0), now=0.0)
    assert [e.reason for e in scheduler.events() if isinstance(e, Shed)] == [ShedReason.DEPENDENCY]
    assert not scheduler.enqueue(video(1), now=0.0)


def test_an_id_made_anew_is_no_longer_lost() -> None:
    scheduler = scheduler_of(0.5)
    scheduler.enqueue(video(0), now=0.0)
    scheduler.cancel(ObjectId(1, 0, 0), now=0.0)
    assert scheduler.enqueue(video(0), now=0.0)
    assert scheduler.enqueue(video(1), now=0.0)


def test_removing_a_flow_cancels_what_it_had_and_tolerates_a_late_commit() -> None:
    scheduler = scheduler_of(0.5, 0.5)
    for index in range(3):
        scheduler.enqueue(video(index), now=0.0)
    picked = scheduler.pick(now=0.0)
    assert picked is not None
    scheduler.commit(picked, 100, now=0.0)
    scheduler.remove_flow(1, now=0.1)
    scheduler.remove_flow(1, now=0.1)
    events = [event for event in scheduler.events() if isinstance(event, Shed)]
    assert [e.object.id.index for e in events] == [0, 1, 2]
    assert [e.reason for e in events] == ["cancelled", "dependency", "dependency"]
    scheduler.commit(picked, 100, now=0.1)
    assert picked.sent_bytes == 200
    assert scheduler.backlog_bytes == 0
    assert scheduler.pick(now=0.1) is None
    with pytest.raises(ValueError, match="flow 1 does not exist"):
        scheduler.enqueue(video(5), now=0.1)


def test_overflow_sheds_the_expired_then_what_is_due_last() -> None:
    scheduler = Scheduler(SchedulerSettings(max_queue_objects=3))
    scheduler.add_flow(1, track="a", base=0.5)
    for index, deadline in enumerate((1.0, 3.0, 5.0)):
        scheduler.enqueue(video(index, deadline=deadline, needs=False), now=0.0)
    assert not scheduler.enqueue(video(3, deadline=6.0, needs=False), now=0.0)
    assert scheduler.enqueue(video(4, deadline=4.0, needs=False), now=0.0)
    assert scheduler.enqueue(video(5, deadline=6.0, needs=False), now=2.0)
    assert sheds(scheduler) == [(3, "overflow"), (2, "overflow"), (0, "expired")]
    assert len(scheduler._flows[1].queue) == 3


def test_an_object_larger_than_the_queue_is_refused_alone() -> None:
    scheduler = scheduler_of(0.5)
    scheduler.add_flow(9, track="b", base=0.5, max_queue_bytes=1000)
    assert not scheduler.enqueue(video(0, size=1001), now=0.0, flow=9)
    assert sheds(scheduler) == [(0, "overflow")]


def test_thousands_of_objects_leave_memory_bounded() -> None:
    scheduler = Scheduler(SchedulerSettings(max_queue_objects=100, max_events=1000))
    scheduler.add_flow(1, track="a", base=0.5)
    for index in range(20_000):
        scheduler.enqueue(
            video(index, size=10, deadline=1.0 + index, needs=index % 50 != 0), now=0.0
        )
    assert len(scheduler._flows[1].queue) == 100
    assert len(scheduler._where) == 100
    assert len(scheduler._dependents) <= 100
    assert len(scheduler._given_up) <= 512
    assert len(scheduler.events()) == 1000
    assert scheduler.backlog_bytes == 1000


def test_atomic_objects_that_do_not_fit_are_passed_over() -> None:
    scheduler = scheduler_of(0.9, 0.1)
    whole = MediaObject(ObjectId(1, 0, 0), bytes(1000), 0.0, 1.0, atomic=True)
    small = MediaObject(ObjectId(1, 0, 1), bytes(100), 0.0, 2.0, atomic=True)
    other = MediaObject(ObjectId(2, 0, 0), bytes(1000), 0.0, 1.0)
    scheduler.enqueue(whole, now=0.0)
    scheduler.enqueue(other, now=0.0)
    assert scheduler.pick(now=0.0, fits=lambda obj: obj.remaining <= 500) is other
    scheduler.enqueue(small, now=0.0)
    assert scheduler.pick(now=0.0, fits=lambda obj: obj.remaining <= 500) is small
    assert scheduler.pick(now=0.0, fits=lambda obj: obj.remaining <= 1100) is whole
    with pytest.raises(ValueError, match="atomic"):
        scheduler.commit(whole, 500, now=0.0)


def test_within_a_flow_the_earliest_deadline_goes_first_and_a_tie_does_not_interrupt() -> None:
    scheduler = scheduler_of(0.5)
    scheduler.enqueue(video(0, deadline=1.0, needs=False), now=0.0)
    started = scheduler.pick(now=0.0)
    assert started is not None
    scheduler.commit(started, 100, now=0.0)
    scheduler.enqueue(video(1, deadline=1.0, needs=False), now=0.0)
    assert scheduler.pick(now=0.0) is started
    urgent = video(2, deadline=0.5, needs=False)
    scheduler.enqueue(urgent, now=0.0)
    assert scheduler.pick(now=0.0) is urgent


def test_misuse_is_named() -> None:
    scheduler = scheduler_of(0.5)
    obj = video(0)
    scheduler.enqueue(obj, now=0.0)
    with pytest.raises(ValueError, match="queued already"):
        scheduler.enqueue(video(0), now=0.0)
    with pytest.raises(ValueError, match="deadline"):
        scheduler.enqueue(video(1, deadline=math.nan), now=0.0)
    with pytest.raises(ValueError, match="exists already"):
        scheduler.add_flow(1, track="a", base=0.5)
    with pytest.raises(ValueError, match="base"):
        scheduler.add_flow(7, track="a", base=1.5)
    with pytest.raises(ValueError, match="bytes left"):
        scheduler.commit(obj, 5001, now=0.0)
    for rate, delay in ((-1.0, 0.0), (math.nan, 0.0), (1e6, math.nan), (1e6, -1.0)):
        with pytest.raises(ValueError, match="at least 0"):
            scheduler.set_link(rate_bps=rate, one_way_delay=delay)


def test_a_clock_that_jumps_back_is_tolerated() -> None:
    scheduler = scheduler_of(0.5, 0.5)
    scheduler.enqueue(video(0, deadline=101.0), now=100.0)
    scheduler.tick(now=100.0)
    scheduler.enqueue(MediaObject(ObjectId(2, 0, 0), bytes(10), 0.0, 1.0), now=0.5)
    scheduler.tick(now=0.5)
    assert scheduler.queue_delay(1, 0.5) == 0.0
    while (obj := scheduler.pick(now=0.5)) is not None:
        scheduler.commit(obj, obj.remaining, now=0.5)
    assert all(isinstance(event, Sent) for event in scheduler.events())


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_no_byte_is_spent_on_what_could_not_arrive_and_nothing_is_lost_silently(
    data: st.DataObject,
) -> None:
    """Random arrivals over an exact link: each object is sent in time, or shed, exactly once."""
    rate = data.draw(st.sampled_from([0.3e6, 1e6, 4e6]))
    delay = data.draw(st.sampled_from([0.0, 0.025]))
    scheduler = scheduler_of(*data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=4)))
    scheduler.set_link(rate_bps=rate, one_way_delay=delay)
    flows = len(scheduler.stats(0.0)["flows"])
    plan = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, 400),
                st.integers(1, flows),
                st.integers(0, 6000),
                st.floats(-0.05, 0.4),
                st.booleans(),
                st.booleans(),
            ),
            max_size=60,
        )
    )
    plan.sort(key=lambda item: item[0])
    queued: list[MediaObject] = []
    arrived: dict[ObjectId, float] = {}
    busy_until = 0.0
    for ms in range(1000):
        now = ms / 1000
        while plan and plan[0][0] <= ms:
            _, flow, size, life, chained, atomic = plan.pop(0)
            needs = tuple(o.id for o in queued[-1:] if o.id.track == flow and chained)
            size = min(size, 1100) if atomic else size
            obj = MediaObject(
                ObjectId(flow, 0, len(queued)), bytes(size), now, now + life, needs, atomic
            )
            queued.append(obj)
            scheduler.enqueue(obj, now=now)
        scheduler.tick(now=now)
        while busy_until <= now:
            room = 1200
            while (obj_out := scheduler.pick(now=now, fits=fits_in(room))) is not None:
                # However little time was left, the whole link could have made it.
                assert now + obj_out.remaining * 8 / rate + delay <= obj_out.deadline + 1e-9
                n = min(room, obj_out.remaining)
                scheduler.commit(obj_out, n, now=now)
                room -= n
                arrived[obj_out.id] = now + (1200 - room) * 8 / rate + delay
                if room == 0:
                    break
            if room == 1200:
                break
            busy_until = max(busy_until, now) + (1200 - room) * 8 / rate
    events = scheduler.events()
    assert Counter(event.object.id for event in events) == Counter(obj.id for obj in queued)
    lost = {event.object.id for event in events if isinstance(event, Shed)}
    for obj in queued:
        if obj.id not in lost:
            assert obj.remaining == 0
            # The link was free when it was picked; one packet of others may share its packet.
            assert arrived[obj.id] <= obj.deadline + 1200 * 8 / rate + 1e-9
    assert scheduler.backlog_bytes == 0
    assert not scheduler._where
    assert len(scheduler._dependents) == 0


def test_a_rate_that_falls_counts_what_is_ahead() -> None:
    scheduler = scheduler_of(0.5, rate_bps=8e6, delay=0.0)
    for index in range(3):
        scheduler.enqueue(video(index, size=10_000, deadline=0.25, needs=False), now=0.0)
    scheduler.set_link(rate_bps=0.8e6, one_way_delay=0.0)  # 100 ms each
    scheduler.tick(now=0.001)
    assert sheds(scheduler) == [(2, "hopeless")]


def test_a_newcomer_due_earlier_can_make_a_later_one_hopeless() -> None:
    scheduler = scheduler_of(0.5, rate_bps=0.8e6, delay=0.0)
    scheduler.enqueue(video(0, size=10_000, deadline=0.15, needs=False), now=0.0)
    assert scheduler.enqueue(video(1, size=5_000, deadline=0.12, needs=False), now=0.0)
    scheduler.tick(now=0.0)
    assert sheds(scheduler) == []
    assert scheduler.enqueue(video(2, size=1_000, deadline=0.11, needs=False), now=0.0)
    scheduler.tick(now=0.0)
    assert sheds(scheduler) == [(0, "hopeless")]


def test_only_what_is_due_by_then_is_ahead_of_a_newcomer() -> None:
    scheduler = scheduler_of(0.5, rate_bps=0.8e6, delay=0.0)
    scheduler.enqueue(video(0, size=10_000, deadline=5.0, needs=False), now=0.0)
    scheduler.enqueue(video(1, size=10_000, deadline=0.2, needs=False), now=0.0)
    queue = scheduler._flows[1].queue
    assert [queue.bytes_due_by(due) for due in (0.1, 0.2, 4.0, 5.0)] == [0, 10_000, 10_000, 20_000]
    assert not scheduler.enqueue(video(2, size=10_100, deadline=0.2, needs=False), now=0.0)
    assert scheduler.enqueue(video(3, size=9_900, deadline=0.1, needs=False), now=0.0)


def test_a_flow_counts_on_what_heavier_flows_leave_over_or_on_its_share() -> None:
    scheduler = scheduler_of(1.0, 0.5, 0.0, rate_bps=1e6, delay=0.0)
    for index in range(100):  # 160 kbit/s for two seconds, on each of the two heavier flows
        for flow in (1, 2):
            obj = MediaObject(ObjectId(flow, 0, index), bytes(400), 0.0, math.inf)
            scheduler.enqueue(obj, now=index * 0.02)
    scheduler.tick(now=2.0)
    flows = scheduler.stats(2.0)["flows"]
    assert flows[1]["available_bps"] == pytest.approx(1e6)
    assert flows[2]["available_bps"] == pytest.approx(0.84e6, rel=0.05)
    assert flows[3]["available_bps"] == pytest.approx(0.68e6, rel=0.05)
    for index in range(100, 110):  # now the heaviest takes more than there is
        obj = MediaObject(ObjectId(1, 0, index), bytes(12_500), 0.0, math.inf)
        scheduler.enqueue(obj, now=2.0)
    scheduler.tick(now=2.01)
    flows = scheduler.stats(2.01)["flows"]
    assert flows[2]["available_bps"] == pytest.approx(1e6 * 8 / 72, rel=0.05)
    assert flows[3]["available_bps"] >= 0.0195e6


def test_figures_follow_the_bytes() -> None:
    scheduler = scheduler_of(0.5, rate_bps=0.8e6)
    scheduler.enqueue(video(0, size=5_000), now=0.0)
    obj = scheduler.pick(now=0.01)
    assert obj is not None
    scheduler.commit(obj, 1_000, now=0.01)
    figures = scheduler.stats(0.01)["flows"][1]
    assert (figures["queued_bytes"], figures["queued_objects"], figures["sent_bytes"]) == (
        4_000,
        1,
        1_000,
    )
    assert obj.first_sent == 0.01
    assert scheduler.backlog_bytes == 4_000
    assert scheduler.backlog_seconds() == pytest.approx(0.04)
    assert scheduler.backlog_seconds(1) == pytest.approx(0.04)
    assert scheduler.queue_delay(1, 0.01) == pytest.approx(0.01)
    scheduler.cancel(obj.id, now=0.02)
    assert scheduler.stats(0.02)["flows"][1]["queued_bytes"] == 0
    assert scheduler.backlog_bytes == 0
