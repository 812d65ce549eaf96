import json
import math
import random

import numpy as np
import pytest

from limen.bench.link.model import LinkModel
from limen.bench.link.spec import LinkSpec, RateStep
from limen.bench.metrics import (
    class_table,
    floor_delay,
    freezes,
    importance_weighted_ms,
    ratios,
    run_summary,
    utilization,
)
from limen.bench.objects import ObjectClass, ObjectRecord
from limen.bench.picture_quality import MAX_PSNR_DB, PictureQuality
from limen.scheduler.types import Region

VITAL = ObjectClass.VITAL


def record(
    captured: float, delay: float | None, *, cls: ObjectClass = VITAL, importance: float = 0.5
) -> ObjectRecord:
    stamp = None if delay is None else captured + delay
    return ObjectRecord("a", cls, captured, captured + 0.15, stamp, stamp, importance)


def test_b46_a_stall_and_lost_frames_are_not_flattered_away() -> None:
    """20 ms schedule, 30 ms normally, stalled from 5 to 7 s of 10, 5 % never arrive."""
    source = random.Random(46)
    lost = set(source.sample(range(500), 25))
    records = []
    for index in range(500):
        captured = index * 0.02
        ready = max(captured + 0.03, 7.03) if 5.0 <= captured < 7.0 else captured + 0.03
        records.append(record(captured, None if index in lost else ready - captured))
    figures = class_table(records, end=10.5)["vital"]
    assert figures["p50_ms"] == pytest.approx(30.0, abs=1.0)
    assert figures["p95_ms"] is not None
    assert figures["p95_ms"] >= 2000.0  # lost frames count, as the slowest that came at least
    assert (figures["n_sent"], figures["n_shown"]) == (500, 475)
    shown_only = [r for r in records if r.arrived is not None]
    p95 = class_table(shown_only, end=10.5)["vital"]["p95_ms"]
    assert p95 == pytest.approx(1500.0, rel=0.08)
    on_time = figures["on_time"]
    late = sum(r.arrived is None or r.arrived > r.deadline for r in records)
    assert on_time == pytest.approx(1 - late / 500)


def test_b46_stamps_of_two_clocks_are_refused() -> None:
    with pytest.raises(ValueError, match="two clocks"):
        record(5.0, -0.001)
    with pytest.raises(ValueError, match="finite"):
        record(5.0, math.nan)


def test_losing_everything_late_never_looks_better_than_delivering_late() -> None:
    late = [record(i * 0.02, 3.0 if i % 10 == 0 else 0.03) for i in range(200)]
    shed = [record(i * 0.02, None if i % 10 == 0 else 0.03) for i in range(200)]
    one, other = (class_table(r, end=8.0)["vital"]["p99_ms"] for r in (late, shed))
    assert one is not None
    assert other is not None
    assert other > one


def test_a_lost_object_at_the_very_end_counts_as_over_its_deadline() -> None:
    figures = class_table([record(9.999, None)], end=10.0)["vital"]
    assert figures["p50_ms"] == pytest.approx(150.0)
    assert figures["on_time"] == 0.0


def test_an_empty_class_is_null_and_json_safe() -> None:
    table = class_table([record(0.0, 0.03)], end=1.0)
    assert table["ambient"]["n_sent"] == 0
    assert table["ambient"]["p95_ms"] is None
    json.dumps(table, allow_nan=False)


def test_arrived_and_shown_are_told_apart() -> None:
    late_shown = ObjectRecord("a", VITAL, 0.0, 0.15, arrived=0.05, shown=0.2)
    never_shown = ObjectRecord("a", VITAL, 0.0, 0.15, arrived=0.05, shown=None)
    by_arrival = class_table([late_shown, never_shown], end=1.0)["vital"]
    by_sight = class_table([late_shown, never_shown], end=1.0, measure="shown")["vital"]
    assert (by_arrival["n_shown"], by_sight["n_shown"]) == (1, 1)
    assert (by_arrival["on_time"], by_sight["on_time"]) == (1.0, 0.0)
    assert (by_arrival["p99_ms"], by_sight["p99_ms"]) == (50.0, 1000.0)


def test_importance_weights_the_mean() -> None:
    records = [record(0.0, 0.1, importance=0.9), record(0.0, 0.4, importance=0.1)]
    assert importance_weighted_ms(records, end=1.0) == pytest.approx(130.0)
    assert importance_weighted_ms([], end=1.0) is None


def test_floor_is_propagation_plus_own_and_one_packets_serialization() -> None:
    assert floor_delay(size_bytes=1272, rate_bps=1e6, delay=0.025) == pytest.approx(0.045)
    assert floor_delay(size_bytes=1272, rate_bps=0.0, delay=0.025) == math.inf


def test_freezes_are_gaps_of_more_than_three_frames() -> None:
    count, longest = freezes([0.0, 0.04, 0.08, 0.30, 0.34], frame_time=0.04)
    assert count == 1
    assert longest == pytest.approx(0.22)
    assert freezes([], frame_time=0.04) == (0, 0.0)


def test_utilization_of_a_link_kept_busy_for_half_of_the_time() -> None:
    link = LinkModel[int](LinkSpec(steps=(RateStep(0.0, 1e6),), overhead_bytes=0))
    for index in range(125):  # 1 s of 1 Mbit/s
        link.push(index, now=100.0 + index * 0.008, size=1000)
    stats = link.stats(now=103.0)
    assert utilization(stats, start=0.0, end=2.0) == pytest.approx(0.5, abs=0.01)
    assert utilization(stats, start=0.0, end=1.0) == pytest.approx(1.0, abs=0.02)
    assert utilization(LinkModel[int](LinkSpec()).stats(now=1.0), start=0, end=1) is None


def test_run_summary_and_ratios() -> None:
    link = LinkModel[int](LinkSpec(steps=(RateStep(0.0, 1e6),)))
    link.push(0, now=50.0, size=972)
    stats = {"started": 50.0, "down": link.stats(now=52.0)}
    runs = {}
    for name, delay in (("fifo", 0.4), ("limen", 0.1)):
        runs[name] = run_summary(
            [record(50.0 + i * 0.02, delay) for i in range(50)],
            start=50.0,
            end=52.0,
            link=stats,
            region_psnr_db=40.0 if name == "limen" else 37.5,
            background_psnr_db=None,
            tick_lateness_p99_ms=math.nan,
        )
    assert runs["fifo"]["bytes_sent"] == 1000
    assert runs["fifo"]["tick_lateness_p99_ms"] is None
    ratio = ratios(runs)
    assert ratio["vital_p95"] == pytest.approx(0.25)
    assert ratio["ambient_p95"] is None
    assert ratio["region_psnr_gain_db"] == pytest.approx(2.5)
    assert ratio["background_psnr_gain_db"] is None
    json.dumps([runs, ratio], allow_nan=False)


def test_psnr_tells_region_from_background() -> None:
    source = np.full((100, 100), 100, np.uint8)
    shown = source.copy()
    shown[:, 50:] = 110  # the right half is off by 10: 28.13 dB
    quality = PictureQuality()
    quality.add(source, shown, Region(0.0, 0.0, 0.5, 1.0))
    assert quality.region_psnr_db == MAX_PSNR_DB
    assert quality.background_psnr_db == pytest.approx(28.13, abs=0.01)


def test_a_picture_that_never_came_leaves_the_one_before_on_screen() -> None:
    dark, light = np.full((10, 10), 50, np.uint8), np.full((10, 10), 60, np.uint8)
    quality = PictureQuality()
    assert quality.region_psnr_db is None
    quality.add(dark, dark, None)
    quality.add(light, None, None)  # mean squared error over both: 50
    assert quality.background_psnr_db == pytest.approx(10 * math.log10(255**2 / 50))
    assert quality.region_psnr_db is None
    with pytest.raises(ValueError, match="size"):
        quality.add(light, light[:5], None)
