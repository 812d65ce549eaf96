"""Link time that waits to be told: the first rate until then, the same chances afterwards."""

import pytest

from limen.bench.link.model import LinkModel
from limen.bench.link.rates import HeldCurve, RateCurve
from limen.bench.link.spec import LinkSpec, RandomLoss, RateStep

STEPS = (RateStep(0.0, 8000.0), RateStep(1.0, 80_000.0))


def arrivals(link: LinkModel[int], sends: list[tuple[float, int]]) -> dict[int, float]:
    """When each packet of 1,000 bytes arrived."""
    out: dict[int, float] = {}

    def drain(until: float) -> None:
        while (event := link.next_event()) is not None and event <= until:
            out.update((number, event) for number in link.pop(now=event))

    for at, number in sends:
        drain(at)
        link.push(number, now=at, size=1000)
    drain(1e9)
    return out


def test_the_first_rate_holds_until_the_link_is_released() -> None:
    link = LinkModel[int](LinkSpec(steps=STEPS, overhead_bytes=0), held=True)
    assert arrivals(link, [(10.0, 0), (20.0, 1)]) == pytest.approx({0: 11.0, 1: 21.0})
    link.release(now=30.0)
    assert link.started == 30.0
    assert arrivals(link, [(30.0, 2), (32.0, 3)]) == pytest.approx({2: 31.0, 3: 32.1})
    assert link.stats(now=33.0)["rate_bps"] == [[0.0, 8000.0], [1.0, 80_000.0]]


def test_what_was_before_the_release_is_no_part_of_the_account() -> None:
    link = LinkModel[int](LinkSpec(steps=STEPS, overhead_bytes=0, queue_bytes=1500), held=True)
    for number in range(5):
        link.push(number, now=10.0, size=1000)
    assert link.counters.queue_dropped_packets == 4
    link.release(now=12.0)
    link.push(5, now=12.5, size=500)
    stats = link.stats(now=14.0)
    assert stats["offered"] == {"packets": 1, "bytes": 500}
    assert stats["dropped"]["queue"]["packets"] == 0
    assert stats["series"]["queue_delay_ms"] == [[0.5, 0.0]]


def test_a_release_between_two_packets_catches_the_queue_in_the_middle() -> None:
    """The packet under way at the release keeps its time; the next has the profile's."""
    link = LinkModel[int](LinkSpec(steps=STEPS, overhead_bytes=0), held=True)
    link.push(0, now=10.0, size=1000)
    link.release(now=10.5)  # the faster rate from 11.5 on
    assert arrivals(link, [(10.5, 1)]) == pytest.approx({0: 11.0, 1: 11.55})


def test_losses_do_not_depend_on_what_set_up_before() -> None:
    spec = LinkSpec(loss=RandomLoss(0.3))
    lost = []
    for warm_up in (0, 7):
        link = LinkModel[int](spec, seed=5, held=True)
        for number in range(warm_up):
            link.push(number, now=number / 10, size=100)
        link.release(now=2.0)
        came = arrivals(link, [(2.0 + n / 10, 100 + n) for n in range(50)])
        lost.append({n for n in range(50) if 100 + n not in came})
    assert lost[0] == lost[1]
    assert 5 < len(lost[0]) < 25


def test_a_trace_begins_anew_at_the_release() -> None:
    spec = LinkSpec(opportunities=(100, 1000), overhead_bytes=0)
    link = LinkModel[int](spec, held=True)
    assert arrivals(link, [(10.0, 0)]) == pytest.approx({0: 10.1})
    link.release(now=20.0)
    assert arrivals(link, [(20.0, 1), (20.2, 2)]) == pytest.approx({1: 20.1, 2: 21.0})


def test_only_a_held_link_is_released() -> None:
    with pytest.raises(ValueError, match="held=True"):
        LinkModel[int](LinkSpec()).release(now=1.0)


def test_a_curve_that_begins_at_zero_is_the_curve_itself() -> None:
    curve = RateCurve(STEPS)
    held = HeldCurve(curve)
    for start in (0.0, 0.3, 0.999, 1.7):
        assert held.finish(start, 1234.5) == curve.finish(start, 1234.5)
        assert held.bits_by(start) == curve.bits_by(start)
