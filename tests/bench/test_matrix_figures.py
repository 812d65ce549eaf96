"""Figures of a matrix's lines: floors, comparisons, and one real matrix from end to end."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from limen.bench.link.spec import LinkSpec, RateStep
from limen.bench.metrics import (
    FULL_PACKET_BYTES,
    concealed_share,
    floor_delay,
    floor_ratios,
    loss_share,
)
from limen.bench.objects import ObjectClass, ObjectRecord
from limen.bench.report.comparing import Figure, compare, figures, verdict
from limen.bench.report.conditions import Spread
from limen.bench.runs.floors import floors
from limen.bench.runs.host import HostWatch, is_busy
from limen.bench.runs.lines import read_lines
from limen.bench.runs.traces import read_trace


def vital(captured: float, delay: float | None, size: int = 100) -> ObjectRecord:
    came = None if delay is None else captured + delay
    return ObjectRecord(
        "voice", ObjectClass.VITAL, captured, captured + 0.15, came, came, 0.85, size
    )


def test_an_objects_floor_follows_the_rate_it_met() -> None:
    link = LinkSpec(delay=0.025, steps=(RateStep(0.0, 1e6), RateStep(2.0, 4e5)))
    records = [vital(10.5, 0.1, 772), vital(12.5, 0.1, 772)]
    least = floors(records, link, started=10.0, length=5.0)
    for value, rate in zip(least, (1e6, 4e5), strict=True):
        assert value == pytest.approx(floor_delay(size_bytes=772, rate_bps=rate, delay=0.025))


def test_a_floor_waits_out_an_outage_and_a_dead_link_has_none() -> None:
    out = LinkSpec(delay=0.01, steps=(RateStep(0.0, 0.0), RateStep(1.0, 1e6)))
    (least,) = floors([vital(0.4, 2.0, 0)], out, started=0.0, length=5.0)
    assert least == pytest.approx(0.01 + 0.6 + FULL_PACKET_BYTES * 8e-6)
    dead = LinkSpec(steps=(RateStep(0.0, 1e6), RateStep(1.0, 0.0)))
    assert floors([vital(2.0, None)], dead, started=0.0, length=5.0) == [math.inf]
    free = LinkSpec(delay=0.02)
    assert floors([vital(2.0, 0.1)], free, started=0.0, length=5.0) == pytest.approx([0.02])


def test_a_traces_floor_is_that_of_its_mean_rate() -> None:
    trace = LinkSpec(opportunities=tuple(range(12, 1201, 12)))  # 1 Mbit/s
    (least,) = floors([vital(3.0, 0.1, 772)], trace, started=0.0, length=5.0)
    assert least == pytest.approx(floor_delay(size_bytes=772, rate_bps=1e6, delay=0.0), rel=0.15)


def test_floor_ratio_is_p95_beside_p95() -> None:
    records = [vital(float(i), 0.05) for i in range(19)] + [vital(19.0, 0.2)]
    ratio = floor_ratios(records, [0.025] * 20, end=30.0)
    assert ratio == {"vital": 8.0, "attended": None, "ambient": None}
    assert floor_ratios(records[:1], [math.inf], end=30.0)["vital"] is None


def test_shares_of_loss_and_of_made_up_sound() -> None:
    dropped = {"queue": {"packets": 3}, "loss": {"packets": 2}}
    assert loss_share({"offered": {"packets": 50}, "dropped": dropped}) == 0.1
    assert loss_share({}) is None
    silence, one, two = "silence", ["played"] * 3 + ["concealed"], ["stretched"] * 4
    assert concealed_share([[silence, *one, silence], two]) == 0.125
    assert concealed_share([[silence]]) is None


def test_a_late_wake_up_or_tick_makes_a_run_a_busy_machines() -> None:
    with HostWatch() as watch:
        pass
    host = {**watch.to_dict(), "wake_lateness_p99_ms": 0.3}
    assert host["cpus"] >= 1
    assert not is_busy(host, tick_lateness_p99_ms=None)
    assert not is_busy(host, tick_lateness_p99_ms=0.3)
    assert is_busy(host, tick_lateness_p99_ms=9.0)
    assert is_busy({**host, "wake_lateness_p99_ms": 20.0}, tick_lateness_p99_ms=None)


def line(
    peer: str, seed: int, p95: float, psnr: float | None = 40.0, **more: Any
) -> dict[str, Any]:
    table = {cls.value: {"p95_ms": p95, "on_time": 0.9} for cls in ObjectClass}
    known = {"profile": "tight", "scene": "talk", "media": "generated", "duration_s": 3.0}
    return {
        **known,
        "key": f"{peer}{seed}",
        "peer": peer,
        "seed": seed,
        "classes": table,
        "classes_shown": {cls.value: {"p95_ms": 2.0 * p95} for cls in ObjectClass},
        "measure": "arrived",
        "region_psnr_db": psnr,
        **more,
    }


def test_pairs_are_of_the_same_seed_and_what_got_worse_in_all_is_named() -> None:
    before = [line("limen", seed, 100.0 * seed) for seed in (1, 2, 3)]
    after = [line("limen", seed, 130.0 * seed, 39.0) for seed in (3, 2, 1, 4)]
    (found,) = compare(before, after)
    assert found.seeds == (1, 2, 3)
    rows = {row.figure.name: row for row in found.rows}
    p95 = rows["vital delay p95"]
    assert [p95.change.low, p95.change.median, p95.change.high] == pytest.approx([1.3] * 3)
    assert p95.change.count == 3
    assert p95.verdict == "worse"
    assert [p95.a.median, p95.b.median] == pytest.approx([200.0, 260.0])
    assert rows["PSNR where looked at"].change.median == -1.0
    assert rows["PSNR where looked at"].verdict == "worse"
    assert rows["vital on time"].verdict == ""
    assert "PESQ" not in rows  # no line has it
    assert {row.figure.name for row in compare(after, before)[0].rows if row.verdict == "better"}


def test_nothing_is_claimed_of_one_pair_of_little_or_of_seeds_that_disagree() -> None:
    p95 = next(f for f in figures("arrived") if f.name == "vital delay p95")
    assert verdict(p95, Spread(2.0, 2.0, 2.0, 1)) == ""
    assert verdict(p95, Spread(1.05, 1.02, 1.08, 3)) == ""
    assert verdict(p95, Spread(1.6, 0.9, 1.8, 3)) == ""
    assert verdict(p95, Spread(0.5, 0.4, 0.9, 3)) == "better"
    share = Figure("on time", ("x",), "%", False, 0.01)
    assert verdict(share, Spread(-0.05, -0.07, -0.02, 2)) == "worse"


def test_two_peers_are_compared_by_what_both_can_tell() -> None:
    own = [line("limen", 1, 50.0), line("limen", 2, 50.0)]
    other = [line("chromium", s, 100.0, measure="shown") for s in (1, 2)]
    failed = [{**line("chromium", 2, 1.0), "error": "no"}]
    assert compare(own, other) == []
    (found,) = compare(own, other, across_peers=True)
    assert found.measure == "shown"
    assert found.rows[0].a.median == 100.0
    assert compare(own, failed, across_peers=True) == []


FIELDS = {
    *("key", "profile", "scene", "peer", "seed", "turn", "backend", "base_delay_ms", "media"),
    *("duration_s", "video_bps", "clock", "barcode", "classes", "classes_shown", "measure"),
    *("importance_weighted_ms", "floor_ratio", "utilization", "queue_p50_ms", "queue_p95_ms"),
    *("region_psnr_db", "background_psnr_db", "pesq", "freezes", "lip_sync_ms", "bytes_sent"),
    *("loss", "cpu_s", "tick_lateness_p99_ms", "concealed_share", "versions", "host", "busy"),
    *("started", "limen_commit", "peer_stats", "trace"),
}


def bench(*words: str, timeout: float = 170.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "limen.cli", "bench", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.realtime
@pytest.mark.timeout(240)
def test_a_small_matrix_from_end_to_end(tmp_path: Path) -> None:
    words = ["run", "tight", "--peer", "fifo", "--peer", "limen", "--seeds", "1"]
    words += ["--duration", "3", "--backend", "udp", "--media", "generated"]
    done = bench(*words, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "limen ÷ it" in done.stdout
    lines = read_lines(tmp_path / "runs.jsonl")
    assert [line["peer"] for line in lines] == ["fifo", "limen"]
    assert (tmp_path / "report.html").is_file()
    for figures_of in lines:
        assert set(figures_of) == FIELDS
        assert figures_of["backend"] == "udp"
        for table in ("classes", "classes_shown"):
            assert sum(c["n_sent"] for c in figures_of[table].values()) == 2 * 150 + 3 * 24
        vital_class = figures_of["classes"]["vital"]
        assert vital_class["p50_ms"] > 25.0  # the link's propagation
        assert figures_of["floor_ratio"]["vital"] > 0.9
        assert 0.2 < figures_of["utilization"] <= 1.0
        assert 10.0 < figures_of["region_psnr_db"] < 60.0
        assert figures_of["cpu_s"]["send"] is None or figures_of["cpu_s"]["send"] > 0.0
        trace = read_trace(tmp_path / figures_of["trace"])
        assert len(trace.records) == len(trace.floors) == 372
        assert all(r.captured >= -1e-6 for r in trace.records)
        assert trace.rates[0][1] == 1e6
        assert trace.rates[0][0] <= 0.0
    assert not lines[0]["peer_stats"]
    again = bench(*words, "--out", str(tmp_path))
    assert again.returncode == 0, again.stderr
    assert "2 of 2 runs" in again.stdout
    assert len((tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    side = f"{tmp_path / 'runs.jsonl'}@fifo"
    compared = bench("compare", side, "@limen")
    assert compared.returncode == 0, compared.stderr
    assert "one pair only" in compared.stdout
    assert json.loads((tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()[0])


def test_bad_words_end_in_one_line_before_anything_runs(tmp_path: Path) -> None:
    for words, code, said in (
        (["run", "no-such-link"], 2, "no-such-link"),
        (["run", "tight", "--peer", "nobody"], 2, "nobody"),
        (["run", "tight", "--cluster", "tcp://a:1"], 2, "--engine dask"),
        (["compare", str(tmp_path / "none.jsonl"), "@limen"], 1, "none.jsonl"),
        (["report", str(tmp_path / "none.jsonl")], 1, "none.jsonl"),
    ):
        done = bench(*words)
        assert done.returncode == code, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1
        assert said in done.stderr
