"""The delay controller on simulated links, in virtual time, and the parts it is made of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.transport.congestion.base import Arrival
from limen.transport.congestion.base_delay import WINDOW, BaseDelay
from limen.transport.congestion.delay import DelayController, DelaySettings
from limen.transport.congestion.delivery import DeliveryRate
from limen.transport.congestion.feedback import (
    INTERVAL,
    LONE_INTERVAL,
    MAX_ARRIVALS,
    ArrivalRecorder,
    decode_report,
)
from limen.transport.settings import SessionSettings

RigMaker = Callable[..., Any]
LINK = 1_000_000.0


class Fluid:
    """A controller, a bottleneck and a receiver: packets of 1200 bytes, steps of a millisecond."""

    def __init__(
        self,
        *,
        rate: Callable[[float], float] = lambda _t: LINK,
        delay: Callable[[float], float] = lambda _t: 0.025,
        demand: Callable[[float], float] = lambda _t: math.inf,
        offset: float = 0.0,
        skew: float = 0.0,
        loss: float = 0.0,
        reports: bool = True,
        limit: float = 0.3,
    ) -> None:
        self.control = DelayController(DelaySettings())
        self.rate, self.delay, self.demand = rate, delay, demand
        self.offset, self.skew, self.loss, self.reports = offset, skew, loss, reports
        self.limit = limit
        self.history: list[tuple[float, float, float]] = []
        """(time, queue delay of the link, target)."""
        self.delivered = 0.0

    def run(self, seconds: float) -> Fluid:
        control, numbers = self.control, itertools.count()
        queue_until, tokens, allowance, in_flight = 0.0, 0.0, 0.0, 0
        flying: list[tuple[float, float, int, bool]] = []  # back at, received, number, lost
        pending: list[Arrival] = []
        dice = itertools.cycle([1.0] * round(1 / self.loss - 1) + [0.0]) if self.loss else None
        for step in range(round(seconds * 1000)):
            now = 10.0 + step / 1000
            t = step / 1000
            tokens = min(2400.0, tokens + control.pacing_bps / 8000)
            allowance = min(4800.0, allowance + self.demand(t) / 8000)
            waiting = allowance >= 1200
            while tokens >= 1200 and allowance >= 1200 and in_flight < control.window_bytes:
                tokens, allowance, in_flight = tokens - 1200, allowance - 1200, in_flight + 1200
                number = next(numbers)
                control.on_sent(number, 1200, in_flight=in_flight, now=now)
                begin = max(queue_until, now)
                lost = begin - now > self.limit or (dice is not None and next(dice) == 0.0)
                if begin - now <= self.limit:
                    queue_until = begin + 1200 * 8 / self.rate(t)
                arrived = queue_until + self.delay(t)
                flying.append((arrived + self.delay(t), arrived, number, lost))
            if waiting and allowance >= 1200:
                control.on_backlog(True, now=now)
            back = [f for f in flying if f[0] <= now]
            flying = [f for f in flying if f[0] > now]
            for at, arrived, number, lost in back:
                in_flight -= 1200
                if lost:
                    control.on_lost(number, 1200, now=now)
                    continue
                self.delivered += 1200
                control.on_rtt(at - arrived + self.delay(t) + 0.0, now=now)
                control.on_acked(number, 1200, now=now)
                clock = (arrived - 10.0) * (1 + self.skew) + 10.0 + self.offset
                pending.append(Arrival(number, clock))
            if self.reports and pending and step % 10 == 0:
                control.on_arrivals(pending, now=now)
                pending = []
            self.history.append((t, max(0.0, queue_until - now), control.target_bps))
        return self

    def queue_p95(self, start: float, end: float = math.inf) -> float:
        waits = sorted(q for t, q, _ in self.history if start <= t < end)
        return waits[int(len(waits) * 0.95)]

    def target(self, start: float, end: float = math.inf) -> float:
        values = [r for t, _, r in self.history if start <= t < end]
        return sum(values) / len(values)


# -- on a link


@pytest.mark.parametrize("rate", [0.4e6, 1e6, 5e6])
def test_it_fills_a_steady_link_and_keeps_the_queue_short(rate: float) -> None:
    fluid = Fluid(rate=lambda _t: rate).run(15)
    assert fluid.target(8) > 0.8 * rate
    assert fluid.queue_p95(8) < 0.03 + 2 * 9600 / rate


def test_the_whole_stack_fills_a_steady_link(rig: RigMaker) -> None:
    r = rig(rate_bps=LINK)
    r.offer("server", 0, "x")
    r.run(1.2)
    r.client.subscribe(0)
    for i in range(400):
        r.at(1.5 + i * 0.03, lambda i=i: r.send("server", 0, i, 6000, deadline=1.0))
    r.run(6.0)
    before = r.down.stats(now=r.now)["through"]["bytes"]
    r.run(12.0)
    stats = r.down.stats(now=r.now)
    used = (stats["through"]["bytes"] - before) * 8 / 6.0
    assert used > 0.85 * LINK, f"{used / LINK:.0%} of the link"
    late = [v for t, v in stats["series"]["queue_delay_ms"] if t > 6.0]
    assert sorted(late)[int(len(late) * 0.95)] < 45


@pytest.mark.parametrize("offset", [0.0, 5000.0, -3000.0])
def test_a_falling_link_drains_within_a_second_and_a_rising_one_is_used(offset: float) -> None:
    fluid = Fluid(rate=lambda t: 0.4e6 if 10 <= t < 15 else LINK, offset=offset).run(25)
    worst = max(q for t, q, _ in fluid.history if 11.0 <= t < 15)
    assert worst < 0.1, f"{worst * 1e3:.0f} ms of queue a second after the fall"
    assert fluid.target(12, 15) > 0.6 * 0.4e6
    assert fluid.target(19, 25) > 0.75 * LINK


def test_where_nothing_is_sent_nothing_is_learnt() -> None:
    """Application-limited: first busy for a while, then 100 kbit/s on a 1 Mbit/s link."""
    fluid = Fluid(demand=lambda t: math.inf if t < 6 else 100_000).run(40)
    assert fluid.target(35) < 2 * LINK
    fluid = Fluid(demand=lambda _t: 100_000).run(30)
    assert fluid.target(25) < 600_000


def test_random_loss_is_no_congestion() -> None:
    fluid = Fluid(loss=0.05).run(15)
    assert fluid.target(8) > 0.7 * LINK


def test_heavy_loss_is() -> None:
    fluid = Fluid(loss=0.5).run(15)
    assert fluid.target(10) < 0.4 * LINK


def test_clocks_that_drift_do_not_look_like_a_queue() -> None:
    for skew in (200e-6, -200e-6):
        fluid = Fluid(skew=skew).run(40)
        assert fluid.target(20) > 0.75 * LINK, f"skew {skew}"
        assert fluid.queue_p95(20) < 0.06


def test_a_path_that_becomes_longer_is_believed_within_its_window() -> None:
    fluid = Fluid(delay=lambda t: 0.025 if t < 12 else 0.125).run(50)
    assert fluid.target(12 + WINDOW + 8) > 0.7 * LINK
    assert fluid.queue_p95(30) < 0.1


@pytest.mark.parametrize("offset", [0.0, 5000.0])
def test_without_reports_round_trips_do(offset: float) -> None:
    fluid = Fluid(reports=False, offset=offset).run(15)
    assert fluid.target(8) > 0.6 * LINK
    assert fluid.queue_p95(8) < 0.08


@pytest.mark.parametrize("offset", [0.0, 1000.0, -5000.0])
def test_a_pause_does_not_mix_the_two_ends_clocks(offset: float) -> None:
    """After a quiet second the first acknowledgement comes before the first report."""
    fluid = Fluid(offset=offset, demand=lambda t: math.inf if t < 8 or t > 11 else 0.0).run(16)
    assert fluid.target(8.5, 10.9) > 0.7 * LINK
    assert fluid.target(11.5, 16) > 0.75 * LINK
    delivered = fluid.control.estimate().delivered_bps
    assert delivered is not None
    assert 0.7 * LINK < delivered < 1.1 * LINK


def test_packets_that_are_never_reported_are_forgotten() -> None:
    control = DelayController()
    for number in range(20_000):
        control.on_sent(number, 1200, in_flight=1200, now=number * 0.001)
    assert len(control._sent) <= 4096


def test_a_path_that_was_gone_starts_low_again() -> None:
    fluid = Fluid().run(10)
    before = fluid.control.target_bps
    fluid.control.on_persistent_congestion()
    assert fluid.control.target_bps < 0.6 * before


def test_what_it_decides_stays_within_its_bounds() -> None:
    settings_ = DelaySettings(minimum_bps=100_000, maximum_bps=500_000, initial_bps=400_000)
    fluid = Fluid(rate=lambda _t: 50e6)
    fluid.control = DelayController(settings_)
    fluid.run(10)
    assert fluid.control.target_bps <= 500_000
    assert fluid.control.window_bytes >= 4 * 1200
    fluid = Fluid(rate=lambda _t: 20_000)
    fluid.control = DelayController(settings_)
    fluid.run(10)
    assert fluid.control.target_bps >= 0.95 * 100_000


def test_nothing_leaves_in_bursts(rig: RigMaker) -> None:
    """A 100 kB object at 1 Mbit/s is spread by the pacer, not dumped on the queue."""
    r = rig(rate_bps=10_000_000)
    r.offer("server", 0, "x")
    r.run(1.2)
    r.client.subscribe(0)
    r.run(1.5)
    r.send("server", 0, 0, 100_000, deadline=10.0)
    r.run(4.0)
    sent = [(t, n) for t, who, n in r.sent if who == "server" and t > 101.5]
    worst = max(
        sum(n for u, n in sent[i : i + 40] if u < t + 0.01) for i, (t, _) in enumerate(sent)
    )
    pacing = r.server.controller.pacing_bps
    assert worst <= pacing / 8 * 0.012 + 2 * 1250


# -- a peer without DATAGRAMs sends no reports


def test_media_flows_to_a_peer_that_sends_no_reports(rig: RigMaker) -> None:
    r = rig(rate_bps=LINK, client=SessionSettings(datagrams=False))
    r.offer("server", 0, "x")
    r.run(1.2)
    r.client.subscribe(0)
    for i in range(200):
        r.at(1.5 + i * 0.04, lambda i=i: r.send("server", 0, i, 4000, deadline=1.0))
    r.run(11.0)
    sizes = sum(len(e.payload) for t, e in r.received("client") if t > 5.5)
    assert sizes * 8 / 4.0 > 0.7 * min(LINK, 800_000)
    stats = r.down.stats(now=r.now)
    late = [v for t, v in stats["series"]["queue_delay_ms"] if t > 5.0]
    assert sorted(late)[int(len(late) * 0.95)] < 80


# -- arrival reports


arrivals = st.lists(
    st.tuples(st.integers(1, 70_000), st.integers(0, 700_000)), min_size=1, max_size=300
)


@given(st.integers(0, 2**40), arrivals)
@settings(max_examples=100, deadline=None)
def test_reports_survive_the_trip(first: int, gaps: list[tuple[int, int]]) -> None:
    recorder, sent = ArrivalRecorder(), []
    number, micros = first, 5_000_000
    for gap, step in gaps:
        number, micros = number + gap, micros + step
        sent.append(Arrival(number, micros / 1e6))
        recorder.add(number, now=micros / 1e6)
    reports = recorder.take()
    assert recorder.due_at() is None
    got = [a for r in reports for a in decode_report(r, newest_sent=number)]
    if number - first > 2**31:
        return
    assert [a.packet_number for a in got] == [a.packet_number for a in sent]
    assert all(abs(a.received - b.received) < 2e-5 for a, b in zip(got, sent, strict=True))
    assert all(len(r) <= 13 + 4 * (MAX_ARRIVALS - 1) for r in reports)


@given(st.binary(max_size=60), st.integers(0, 2**34))
@settings(max_examples=200, deadline=None)
def test_hostile_reports_are_refused_or_harmless(data: bytes, newest: int) -> None:
    try:
        got = decode_report(data, newest_sent=newest)
    except ValueError:
        return
    assert got
    assert all(0 <= a.packet_number <= newest for a in got)


def test_reports_of_packets_never_sent_are_refused() -> None:
    recorder = ArrivalRecorder()
    recorder.add(50, now=1.0)
    (report,) = recorder.take()
    assert decode_report(report, newest_sent=50)[0].packet_number == 50
    with pytest.raises(ValueError, match="never sent"):
        decode_report(report, newest_sent=49)
    with pytest.raises(ValueError, match="length"):
        decode_report(report[:-1], newest_sent=50)


def test_a_report_is_due_soon_and_a_lone_one_a_little_later() -> None:
    recorder = ArrivalRecorder()
    assert recorder.due_at() is None
    recorder.add(1, now=1.0)
    assert recorder.due_at() == 1.0 + LONE_INTERVAL
    recorder.add(2, now=1.001)
    assert recorder.due_at() == 1.0 + INTERVAL


# -- small parts


def test_the_base_delay_is_a_minimum_that_is_forgotten() -> None:
    base = BaseDelay()
    with pytest.raises(ValueError, match="empty"):
        _ = base.value
    assert base.add(-3.0, now=0.0) == -3.0
    assert base.add(-2.0, now=0.1) == -3.0
    assert base.add(-2.5, now=WINDOW / 2) == -3.0
    assert base.add(-2.0, now=WINDOW + 0.01) == -2.5
    for step in range(10_000):
        base.add(0.0, now=100 + step * 0.01)
    assert len(base._buckets) <= WINDOW / 0.5 + 2


def test_delivery_is_measured_on_the_receivers_clock() -> None:
    rate = DeliveryRate()
    assert rate.bps is None
    for i in range(100):
        rate.add(7000 + i * 0.01, 1250)
    assert rate.bps == pytest.approx(1_000_000)
    assert len(rate._arrivals) < 25
