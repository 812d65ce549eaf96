import math
import random

import pytest

from limen.bench.link.loss import LossProcess
from limen.bench.link.model import LinkModel
from limen.bench.link.profile import ProfileError, load_profile, parse_profile, profile_names
from limen.bench.link.series import BinnedBytes, DelayHistogram, PeakSeries
from limen.bench.link.spec import GilbertElliottLoss, LinkSpec, RandomLoss, RateStep


def run(spec: LinkSpec, sends: list[tuple[float, int]], seed: int = 1) -> list[tuple[float, int]]:
    """Step virtual time through all sends; (arrival, index) of what got through."""
    link = LinkModel[int](spec, seed=seed)
    out: list[tuple[float, int]] = []

    def drain(until: float) -> None:
        while (event := link.next_event()) is not None and event <= until:
            popped = link.pop(now=event)
            assert popped, "a due event must yield a packet, or a driver would spin"
            out.extend((event, packet) for packet in popped)

    for index, (time, size) in enumerate(sends):
        drain(time)
        link.push(index, now=time, size=size)
    drain(math.inf)
    return out


def steady(rate_bps: float, **more: object) -> LinkSpec:
    return LinkSpec(steps=(RateStep(0.0, rate_bps),), overhead_bytes=0, **more)  # type: ignore[arg-type]


def test_one_packet_takes_its_serialization_once_and_then_the_delay() -> None:
    [(arrived, _)] = run(steady(100_000, delay=0.025), [(1000.0, 1200)])
    assert arrived == pytest.approx(1000.0 + 0.096 + 0.025)


def test_headers_count_on_the_wire() -> None:
    spec = LinkSpec(steps=(RateStep(0.0, 8000.0),), overhead_bytes=28)
    [(arrived, _)] = run(spec, [(0.0, 72)])
    assert arrived == pytest.approx(0.1)


def test_a_packet_across_a_rate_step_is_served_at_both_rates() -> None:
    spec = LinkSpec(steps=(RateStep(0.0, 8000.0), RateStep(0.5, 4000.0)), overhead_bytes=0)
    [(arrived, _)] = run(spec, [(0.0, 1000)])  # 500 bytes in the first half second, 500 in 1 s
    assert arrived == pytest.approx(1.5)


def test_an_outage_holds_packets_and_its_end_releases_them_in_order() -> None:
    spec = LinkSpec(
        steps=(RateStep(0.0, 8e6), RateStep(1.0, 0.0), RateStep(1.5, 8e6)), queue_seconds=0.2
    )
    got = run(spec, [(0.0, 100), (1.1, 100), (1.2, 100)])
    assert [index for _, index in got] == [0, 1, 2]
    assert got[1][0] > 1.5


def test_a_link_that_stops_for_good_names_no_event() -> None:
    link = LinkModel[bytes](LinkSpec(steps=(RateStep(0.0, 0.0),)))
    assert link.push(b"x", now=0.0)
    assert link.next_event() is None
    assert link.pop(now=1e9) == []


def test_b44_a_long_delay_drops_nothing() -> None:
    sends = [(index / 1500, 1000) for index in range(7500)]
    assert len(run(LinkSpec(delay=1.0), sends)) == 7500


def test_b44_a_byte_limit_bounds_the_queue_delay() -> None:
    link = LinkModel[int](steady(1e6, queue_bytes=30_000))
    for index in range(1000):  # 2 Mbit/s
        link.push(index, now=index * 0.004, size=1000)
    assert 0.22 < link.queue_delay.maximum <= 0.240
    counters = link.counters
    assert counters.queue_dropped_packets > 400
    assert counters.lost_packets == 0


def test_a_limit_in_time_follows_the_rate() -> None:
    spec = LinkSpec(
        steps=(RateStep(0.0, 1e6), RateStep(10.0, 4e5)), queue_seconds=0.2, overhead_bytes=0
    )
    for begin, rate in ((0.0, 1e6), (10.0, 4e5)):
        link = LinkModel[int](spec)
        link.start(now=0.0)
        accepted = sum(link.push(index, now=begin, size=500) for index in range(200))
        assert accepted == pytest.approx(0.2 * rate / 8 / 500, abs=1)


def test_in_an_outage_the_rate_before_it_sets_the_limit() -> None:
    steps = (RateStep(0.0, 1e6), RateStep(1.0, 0.0), RateStep(2.0, 8e6))
    spec = LinkSpec(steps=steps, queue_seconds=0.2)
    assert [spec.limit_bytes(t) for t in (0.5, 1.5, 2.5)] == [25_000, 25_000, 200_000]


def test_an_empty_queue_takes_a_packet_larger_than_its_limit() -> None:
    link = LinkModel[bytes](steady(8000.0, queue_bytes=100))
    assert link.push(bytes(500), now=0.0)
    assert not link.push(b"x", now=0.1)
    assert link.push(bytes(500), now=0.6)


def test_offered_packets_are_all_accounted_for() -> None:
    link = LinkModel[int](steady(1e6, queue_seconds=0.1, loss=RandomLoss(0.1)))
    for index in range(2000):
        link.push(index, now=index * 0.005, size=1000)
    stats = link.stats(now=100.0)
    dropped = stats["dropped"]["queue"]["packets"], stats["dropped"]["loss"]["packets"]
    assert stats["offered"]["packets"] == stats["through"]["packets"] + sum(dropped)
    assert min(dropped) > 0
    assert sum(stats["series"]["through_bytes"]["bins"]) == stats["through"]["bytes"]


def test_b45_gilbert_elliott_has_the_mean_and_the_burst_that_were_set() -> None:
    for seed in range(1, 6):
        process = LossProcess(GilbertElliottLoss(0.05, 4.0), seed=seed)
        lost = [process.lost() for _ in range(200_000)]
        bursts, length = [], 0
        for hit in [*lost, False]:
            if hit:
                length += 1
            elif length:
                bursts.append(length)
                length = 0
        assert sum(lost) / len(lost) == pytest.approx(0.05, abs=0.003)
        assert sum(bursts) / len(bursts) == pytest.approx(4.0, abs=0.3)


def test_an_impossible_burst_is_refused() -> None:
    with pytest.raises(ValueError, match="bursts of at least 4"):
        GilbertElliottLoss(0.8, 1.0)


def test_same_seed_same_fate_bit_for_bit_and_another_seed_another() -> None:
    source = random.Random(3)
    sends = [(index * 0.01, source.randrange(40, 1400)) for index in range(3000)]
    spec = steady(6e5, delay=0.02, queue_seconds=0.2, loss=GilbertElliottLoss(0.05, 4.0))
    assert run(spec, sends, seed=7) == run(spec, sends, seed=7)
    assert run(spec, sends, seed=7) != run(spec, sends, seed=8)


def test_loss_hits_the_same_packets_whatever_the_clock_did() -> None:
    """Late wake-ups change queues and times, never which packet of the sequence is lost."""
    spec = LinkSpec(loss=RandomLoss(0.2))
    exact = [index for _, index in run(spec, [(i * 0.01, 100) for i in range(500)])]
    bunched = [index for _, index in run(spec, [(i // 7 * 0.1, 100) for i in range(500)])]
    assert exact == bunched


def test_order_is_kept() -> None:
    source = random.Random(5)
    got = run(steady(1e6, delay=0.01), [(source.random() * 0, source.randrange(1, 1400))] * 50)
    assert [index for _, index in got] == list(range(50))


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_load(name: str) -> None:
    profile = load_profile(name, duration=20.0)
    assert profile.title
    assert profile.to_dict()["profile"] == name


def test_the_demo_link_falls_for_five_seconds_in_the_middle() -> None:
    down = load_profile("demo", duration=20.0).down
    rates = [down.rate_at(t) for t in (0.0, 7.4, 7.6, 12.4, 12.6, 20.0)]
    assert rates == [1e6, 1e6, 4e5, 4e5, 1e6, 1e6]
    assert down.capacity_bytes(0.0, 20.0) == pytest.approx((15 * 1e6 + 5 * 4e5) / 8)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"up": {}}, "lacks"),
        ({"up": {}, "down": {"queue": 3}}, "unknown keys"),
        ({"up": {}, "down": {"delay_ms": "fast"}}, "delay_ms is a number"),
        ({"up": {}, "down": {"rate_bps": -1}}, "at least 0"),
        ({"up": {}, "down": {"rate_bps": 1, "steps": [{"at_fraction": 1, "rate_bps": 1}]}}, "run"),
        ({"up": {}, "down": {"loss": {"model": "random", "p": 1}}}, "loss is"),
    ],
)
def test_a_bad_profile_says_what_is_wrong_and_where(table: dict[str, object], words: str) -> None:
    with pytest.raises(ProfileError, match="profile bad") as caught:
        parse_profile(table, name="bad")
    assert words in str(caught.value)


def test_an_unknown_profile_names_the_known() -> None:
    with pytest.raises(ProfileError, match="tight"):
        load_profile("tihgt")


def test_histogram_quantiles_round_up_by_at_most_a_bin() -> None:
    histogram = DelayHistogram()
    assert histogram.quantile(0.5) is None
    for value in range(1, 101):
        histogram.add(value / 1000)
    assert histogram.quantile(0.95) == pytest.approx(0.095, abs=0.0006)
    assert histogram.quantile(1.0) == pytest.approx(0.1)


@pytest.mark.parametrize("peak", [0, 1, 777, 6789, 9999])
def test_series_stay_bounded_and_keep_the_peak(peak: int) -> None:
    series = PeakSeries(limit=64)
    for index in range(10_000):
        series.add(index, 99.0 if index == peak else index % 7)
    assert len(series.points) <= 64
    assert (peak, 99.0) in series.points
    times = [time for time, _ in series.points]
    assert times == sorted(times)


def test_bins_double_when_full_and_lose_no_byte() -> None:
    bins = BinnedBytes(width=0.1, limit=8)
    for index in range(100):
        bins.add(index * 0.1, 10)
    assert len(bins.bins) <= 8
    assert sum(bins.bins) == 1000
