"""Every parameter of the link model on a virtual clock, from a table to its effect."""

import statistics
from pathlib import Path

import pytest

from limen.bench.link.distance import distance
from limen.bench.link.loss import LossProcess, burst_lengths
from limen.bench.link.packets import carries_ecn, mark_congestion
from limen.bench.link.path import flip_bit
from limen.bench.link.profile import ProfileError, load_profile, parse_profile, profile_names
from limen.bench.link.spec import (
    CoDelSpec,
    FourStateLoss,
    GilbertElliottLoss,
    LinkSpec,
    RandomLoss,
    RateStep,
    ReorderSpec,
    StepMarkingSpec,
)
from limen.bench.link.tables import DISTRIBUTIONS, SCALE, table
from limen.bench.link.trace import TraceError, generate_lte, read_trace
from limen.bench.link.virtual import play


def every(spacing: float, count: int, size: int = 972) -> list[tuple[float, int]]:
    return [(index * spacing, size) for index in range(count)]


def rate(bps: float, **more: object) -> LinkSpec:
    return LinkSpec(steps=(RateStep(0.0, bps),), **more)  # type: ignore[arg-type]


def delays(spec: LinkSpec, sends: list[tuple[float, int]], seed: int = 1) -> list[float]:
    return [d.arrived - d.sent for d in play(spec, sends, seed=seed)]


# B44: the queue's limit is what was set, and serialization is counted once


def test_b44_delay_times_rate_overflows_no_hidden_limit() -> None:
    assert len(play(LinkSpec(delay=1.0), every(1 / 1500, 7500))) == 7500


def test_b44_thirty_kilobytes_at_one_megabit_are_240_ms() -> None:
    got = delays(rate(1e6, queue_bytes=30_000), every(0.004, 2000))
    assert 0.22 < max(got) <= 0.240 + 1e-9


def test_b44_serialization_stands_before_propagation_once() -> None:
    [one] = delays(rate(1e5, delay=0.05, overhead_bytes=0), [(0.0, 1200)])
    assert one == pytest.approx(0.096 + 0.05)


# B45: order, reordering, bursts, repeatability


def test_b45_jitter_above_the_spacing_keeps_order() -> None:
    spec = LinkSpec(delay=0.05, jitter=0.02, distribution="normal")
    got = [d.index for d in play(spec, every(0.005, 10_000))]
    assert got == list(range(10_000))


def test_b45_reordering_without_a_delay_is_refused() -> None:
    with pytest.raises(ProfileError, match="give it a delay"):
        parse_profile({"up": {}, "down": {"reorder": {"probability": 0.25}}}, name="x")


def test_b45_mean_loss_and_bursts_are_those_set_and_repeat() -> None:
    for seed in range(1, 6):
        runs = []
        for _ in range(2):
            process = LossProcess(GilbertElliottLoss(0.05, 4.0), seed=seed)
            runs.append([process.lost() for _ in range(200_000)])
        assert runs[0] == runs[1]
        assert sum(runs[0]) / 200_000 == pytest.approx(0.05, abs=0.003)
        assert statistics.mean(burst_lengths(runs[0])) == pytest.approx(4.0, abs=0.3)


def test_b45_equal_due_times_keep_the_order_of_input() -> None:
    spec = LinkSpec(delay=0.01)
    assert [d.index for d in play(spec, [(1.0, 10)] * 500)] == list(range(500))


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_repeats_bit_for_bit(name: str) -> None:
    spec = load_profile(name, duration=20.0).down
    sends = every(0.002, 3000, 700)
    assert play(spec, sends, seed=5) == play(spec, sends, seed=5)


def test_chances_fall_on_the_same_packets_whatever_the_clock_did() -> None:
    """Bunched wake-ups change times; who is lost, doubled or damaged stays."""
    spec = LinkSpec(delay=0.02, jitter=0.01, loss=RandomLoss(0.1), duplicate=0.1, corrupt=0.1)
    exact = play(spec, every(0.01, 1000), seed=3)
    bunched = play(spec, [(i // 7 * 0.07, 972) for i in range(1000)], seed=3)
    assert sorted((d.index, d.corrupted) for d in exact) == sorted(
        (d.index, d.corrupted) for d in bunched
    )


# tables


@pytest.mark.parametrize("name", [n for n in DISTRIBUTIONS if n != "uniform"])
def test_tables_have_mean_zero_and_spread_one(name: str) -> None:
    values = [value / SCALE for value in table(name)]
    assert statistics.mean(values) == pytest.approx(0.0, abs=0.05)
    assert statistics.pstdev(values) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("name", ["normal", "pareto", "paretonormal"])
def test_tables_are_those_of_iproute2(name: str) -> None:
    for folder in Path("/usr/lib").glob("*/tc"):
        lines = (folder / f"{name}.dist").read_text().splitlines()
        theirs = [int(w) for line in lines if not line.startswith("#") for w in line.split()]
        apart = distance(sorted(table(name)), sorted(theirs), tolerance=0.005 * SCALE)
        assert apart < 0.002
        return
    pytest.skip("iproute2's tables are not installed here")


def test_a_bound_truncates() -> None:
    spec = LinkSpec(delay=0.05, jitter=0.005, distribution="normal", jitter_bound=0.015)
    got = delays(spec, every(0.1, 5000))
    assert 0.035 <= min(got) < 0.037
    assert 0.063 < max(got) <= 0.065 + 1e-9


def test_correlation_is_netems_and_hardly_correlates() -> None:
    """netem takes the low bits of a correlated draw: neighbours are as unlike as without."""

    def likeness(correlation: float) -> float:
        spec = LinkSpec(delay=0.1, jitter=0.01, jitter_correlation=correlation)
        got = delays(spec, every(0.2, 4000))
        return statistics.correlation(got[:-1], got[1:])

    assert abs(likeness(0.0)) < 0.06
    assert abs(likeness(0.5)) < 0.06


# loss, reorder, duplicate, corrupt, limit


def test_four_states_lose_alone_and_in_bursts() -> None:
    alone = LossProcess(FourStateLoss(0.0, 1.0, p14=0.05), seed=1)
    lost = [alone.lost() for _ in range(50_000)]
    assert sum(lost) / 50_000 == pytest.approx(0.05 / 1.05, abs=0.004)
    assert max(burst_lengths(lost)) == 1
    bursts = LossProcess(FourStateLoss(0.01, 0.25), seed=1)
    assert statistics.mean(burst_lengths([bursts.lost() for _ in range(100_000)])) == (
        pytest.approx(4.0, abs=0.4)
    )


def test_transitions_and_means_describe_the_same_chain() -> None:
    loss = GilbertElliottLoss.from_transitions(0.01, 0.2, bad_loss=0.8, good_loss=0.001)
    assert loss.enter == pytest.approx(0.01)
    assert loss.leave == pytest.approx(0.2)


def test_reordered_packets_skip_the_delay_in_their_turn() -> None:
    spec = LinkSpec(delay=0.02, reorder=ReorderSpec(1.0, gap=5))
    early = [d.index for d in play(spec, every(0.001, 500)) if d.arrived == d.sent]
    assert early == list(range(4, 500, 5))


def test_duplicates_come_twice_and_corrupt_ones_are_damaged() -> None:
    spec = LinkSpec(delay=0.02, duplicate=0.1, corrupt=0.2)
    got = play(spec, every(0.001, 5000))
    assert len(got) - 5000 == pytest.approx(500, abs=70)
    assert sum(d.corrupted for d in got) / len(got) == pytest.approx(0.2, abs=0.02)
    assert flip_bit(b"\0\0", 9) == b"\0\2"


def test_a_limit_counts_the_packets_under_way() -> None:
    got = play(LinkSpec(delay=1.0, limit_packets=10), every(0.001, 100))
    assert [d.index for d in got] == list(range(10))


# bottleneck


def test_a_bucket_sends_its_burst_at_once_and_then_its_rate() -> None:
    spec = rate(8e5, burst_bytes=10_000)
    got = delays(spec, [(0.0, 972)] * 20)
    assert got[:10] == [0.0] * 10
    assert got[19] == pytest.approx(0.1)


def test_a_queue_of_packets() -> None:
    assert len(play(rate(8e5, queue_packets=5), [(0.0, 100)] * 50)) == 5


def test_steps_repeat() -> None:
    spec = LinkSpec(steps=(RateStep(0.0, 8e5), RateStep(0.5, 0.0)), repeat=1.0, queue_seconds=5.0)
    arrivals = [d.arrived for d in play(spec, every(0.02, 400))]
    assert all(at % 1.0 <= 0.5 + 1e-6 or at % 1.0 > 1.0 - 1e-6 for at in arrivals)
    assert spec.capacity_bytes(0.0, 10.0) == pytest.approx(500_000)


def test_codel_brings_the_wait_down_and_marks_instead_of_dropping() -> None:
    sends = every(0.009, 3000)  # 11 % too much
    plain = delays(rate(8e5, queue_seconds=2.0), sends)
    managed = delays(rate(8e5, queue_seconds=2.0, aqm=CoDelSpec()), sends)
    assert statistics.median(managed) < 0.2 * statistics.median(plain)
    marking = play(rate(8e5, queue_seconds=9.0, aqm=CoDelSpec(ecn=True)), sends, ect=True)
    assert len(marking) == 3000
    assert not marking[0].marked
    assert sum(d.marked for d in marking) > 100


def test_a_step_marks_exactly_what_waited_longer() -> None:
    spec = rate(8e5, aqm=StepMarkingSpec(0.025))
    got = play(spec, [(0.0, 972)] * 6, ect=True)  # waits 0, 10, 20, 30, 40, 50 ms
    assert [d.marked for d in got] == [False, False, False, True, True, True]
    assert not any(d.marked for d in play(spec, [(0.0, 972)] * 6, ect=False))


def test_marks_keep_the_header_checksum_right() -> None:
    header = bytearray.fromhex("4502003c1c4640004006b1e6ac100a63ac100a0c")

    def checksum(data: bytes) -> int:
        total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, 20, 2))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF

    header[10:12] = b"\0\0"
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    assert carries_ecn(bytes(header))
    marked = mark_congestion(bytes(header))
    assert marked[1] & 3 == 3
    assert checksum(marked) == 0
    six = bytes([0x60, 0x20]) + bytes(38)
    assert carries_ecn(six)
    assert mark_congestion(six)[1] >> 4 & 3 == 3


def test_flows_have_their_own_delays() -> None:
    from limen.bench.link.model import LinkModel

    link = LinkModel[bytes](LinkSpec(flow_delays=(0.01, 0.1)))
    for flow in (1, 0):
        link.push(bytes([flow]), now=0.0, flow=flow)
    assert link.pop(now=0.05) == [b"\0"]
    assert link.pop(now=0.1) == [b"\1"]


# traces


def test_a_mahimahi_trace_serves_1500_bytes_at_its_times_and_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("10\n10\n20\n")
    trace = read_trace(path)
    spec = LinkSpec(opportunities=trace.opportunities, overhead_bytes=0)
    got = [round(d.arrived * 1e3) for d in play(spec, [(0.0, 1500)] * 5)]
    assert got == [10, 10, 20, 30, 30]
    assert [round(d.arrived * 1e3) for d in play(spec, [(0.0, 750)] * 2)] == [10, 10]
    assert [round(d.arrived * 1e3) for d in play(spec, [(0.0, 2000)])] == [10]
    assert [round(d.arrived * 1e3) for d in play(spec, [(0.0, 1), (0.0155, 1500)])] == [10, 20]


def test_a_rate_trace_becomes_steps_from_zero(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("100.2 8\n100.4 4\n100.6 0.5\n")
    trace = read_trace(path)
    assert [step.rate_bps for step in trace.steps] == [8e6, 4e6, 5e5]
    assert [step.at for step in trace.steps] == pytest.approx([0.0, 0.2, 0.4])
    assert trace.repeat == pytest.approx(0.6)


@pytest.mark.parametrize("text", ["", "1\n2 3\n", "5\n4\n", "a\n", "1 2 3\n", "1 x\n", "0\n"])
def test_a_bad_trace_says_where(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(TraceError, match="bad"):
        read_trace(path)


def test_the_generated_trace_has_its_mean_and_varies() -> None:
    times = generate_lte(seed=1, seconds=30.0).opportunities
    assert generate_lte(seed=1, seconds=30.0).opportunities == times
    assert generate_lte(seed=2, seconds=30.0).opportunities != times
    assert len(times) * 12_000 / 30 == pytest.approx(5e6, rel=0.05)
    per_slot = [0] * 150
    for at in times:
        per_slot[min(149, at // 200)] += 1
    ordered = sorted(per_slot)
    assert ordered[142] > 4 * max(1, ordered[7])


# profiles


@pytest.mark.parametrize(
    ("down", "words"),
    [
        (
            {"loss": {"model": "random", "probability": 0.05, "correlation": 0.25}},
            "gilbert-elliott",
        ),
        ({"delay_ms": 5, "reorder": {"probability": 0.1, "correlation": 0.5}}, "gilbert-elliott"),
        ({"jitter": {"ms": 5, "distribution": "cauchy"}}, "distribution is one of"),
        ({"queue_ms": 100}, "give it a rate"),
        ({"rate_bps": 1e6, "burst_bytes": 100}, "at least one full packet"),
        ({"rate_bps": 1e6, "queue_packets": 2.5}, "whole number"),
        ({"rate_bps": 1e6, "aqm": {"model": "red"}}, "aqm is"),
        ({"rate_bps": 1e6, "trace": {"model": "lte"}}, "takes the place of"),
        ({"rate_bps": 1e6, "steps": [{"at_s": 2, "rate_bps": 1}], "repeat_s": 1}, "repeat after"),
    ],
)
def test_a_bad_parameter_says_what_is_wrong(down: dict[str, object], words: str) -> None:
    with pytest.raises(ProfileError, match=r"profile bad: \[down\]") as caught:
        parse_profile({"up": {}, "down": down}, name="bad")
    assert words in str(caught.value)


def test_a_profile_can_be_based_on_another() -> None:
    derived = load_profile("rfc8867-5.1-queue20")
    assert derived.down.queue_seconds == 0.02
    assert derived.down.steps == load_profile("rfc8867-5.1").down.steps


def test_rfc8867_5_1_runs_fast_in_virtual_time() -> None:
    spec = load_profile("rfc8867-5.1").down
    got = play(spec, every(0.01, 10_000, 1000))
    assert 6000 < len(got) < 10_000
