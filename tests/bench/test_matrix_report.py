"""The report of a matrix, from imagined runs whose figures can be worked out by hand."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from limen.bench.metrics import class_table, floor_ratios
from limen.bench.objects import ObjectClass, ObjectRecord
from limen.bench.report.conditions import Spread, conditions, spread
from limen.bench.report.matrix import write_matrix_report
from limen.bench.report.standing import standing_markdown, standing_rows
from limen.bench.report.verdicts import verdict
from limen.bench.runs.traces import RunTrace, pack_trace

pytest.importorskip("matplotlib")
DURATION = 12.0
FACTORS = {"fifo": 8.0, "limen": 1.0, "chromium": 2.0, "moq": 1.6}
DEADLINES = {ObjectClass.VITAL: 0.15, ObjectClass.ATTENDED: 0.3, ObjectClass.AMBIENT: 0.6}


def imagined_records(peer: str, seed: int) -> list[ObjectRecord]:
    """Voice every 20 ms, a picture every 40; slower while the link is, 4 to 7 s."""
    source = random.Random(seed)
    records = []
    for index in range(int(DURATION * 50)):
        captured = (index + 1) * 0.02
        slow = 4.0 <= captured < 7.0
        for track, size in (("voice", 90), ("face", 2500)):
            if track == "face" and index % 2:
                continue
            cls = ObjectClass.ATTENDED if track == "face" else ObjectClass.VITAL
            if captured % 5.0 > 4.0:
                cls = ObjectClass.AMBIENT
            delay = (0.03 + source.expovariate(1 / 0.006)) * (FACTORS[peer] if slow else 1.05)
            lost = slow and peer == "moq" and source.random() < 0.3
            came = None if lost else captured + delay
            shown = None if came is None else came + 0.04
            arrived = shown if peer == "chromium" else came
            records.append(
                ObjectRecord(
                    track, cls, captured, captured + DEADLINES[cls], arrived, shown, 0.8, size
                )
            )
    return records


def imagined_line(profile: str, peer: str, seed: int, folder: Path) -> dict[str, Any]:
    """A line as `limen bench run` writes it, its trace in `folder`."""
    records, end = imagined_records(peer, seed), DURATION + 3.0
    floors = [0.027 + 8 * (r.size_bytes + 1228) / 1e6 for r in records]
    name = f"{profile}_{peer}_{seed}.npz"
    queue = [(0.1 * n, 180.0 if 40 <= n < 70 else 12.0) for n in range(int(DURATION * 10))]
    trace = RunTrace(records, floors, end, [(-1.2, 1e6), (4.0, 4e5), (7.0, 1e6)], queue)
    (folder / name).write_bytes(pack_trace(trace))
    return {
        "key": f"{profile}|talk|{peer}|seed{seed}",
        "profile": profile,
        "scene": "talk",
        "peer": peer,
        "seed": seed,
        "backend": "tun",
        "base_delay_ms": 0.05,
        "media": "generated",
        "duration_s": DURATION,
        "clock": "real",
        "classes": class_table(records, end=end),
        "classes_shown": class_table(records, end=end, measure="shown"),
        "measure": "shown" if peer == "chromium" else "arrived",
        "importance_weighted_ms": 50.0,
        "floor_ratio": floor_ratios(records, floors, end=end),
        "utilization": 0.9,
        "queue_p50_ms": 12.0,
        "queue_p95_ms": 180.0,
        "region_psnr_db": 38.0 + seed / 5,
        "background_psnr_db": 36.0,
        "pesq": None if peer == "fifo" else 3.5,
        "freezes": {"count": 0, "longest_s": 0.1},
        "lip_sync_ms": 12.0,
        "bytes_sent": 1_200_000,
        "loss": 0.01,
        "cpu_s": {"send": 3.0, "receive": 2.0},
        "tick_lateness_p99_ms": 4.2 if peer == "limen" and seed == 2 else 0.2,
        "concealed_share": 0.01,
        "busy": peer == "limen" and seed == 2,
        "limen_commit": "abc1234567",
        "host": {"cpus": 2, "load_after": 1.5, "wake_lateness_p99_ms": 0.4},
        "started": f"2026-01-0{seed}T10:00:00+00:00",
        "trace": name,
    }


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    folder = tmp_path_factory.mktemp("runs.d")
    lines = [
        imagined_line(profile, peer, seed, folder)
        for seed in (1, 2)
        for profile, peers in (("tight", list(FACTORS)), ("rfc8867-5.1", ["fifo", "limen"]))
        for peer in peers
    ]
    lines.append({**lines[0], "peer": "moq", "seed": 3, "error": "moq <said> nothing"})
    return lines, folder


@pytest.fixture(scope="module")
def report(
    matrix: tuple[list[dict[str, Any]], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The page; LIMEN_KEEP_REPORT=DIR keeps it, to be looked at."""
    keep = os.environ.get("LIMEN_KEEP_REPORT")
    place = Path(keep) / "matrix" if keep else tmp_path_factory.mktemp("report")
    return write_matrix_report(*matrix, place)


def test_a_spread_is_the_median_and_both_ends() -> None:
    assert spread([3.0, None, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert spread([None]) is None
    assert Spread(2, 1, 3, 3).overlaps(Spread(4, 3, 5, 3))
    assert not Spread(2, 1, 3, 3).overlaps(Spread(4, 3.1, 5, 3))


def test_ratios_are_taken_seed_by_seed(matrix: tuple[list[dict[str, Any]], Path]) -> None:
    (tight, rfc) = conditions(*matrix)
    assert list(tight.peers) == list(FACTORS)  # the registry's order
    assert (tight.measure, rfc.measure) == ("shown", "arrived")
    figure = rfc.class_figure("vital", "p95_ms")
    found = rfc.ratio("limen", figure, base="fifo")
    assert found is not None
    by_seed = [
        limen.line["classes"]["vital"]["p95_ms"] / fifo.line["classes"]["vital"]["p95_ms"]
        for limen, fifo in zip(rfc.peers["limen"], rfc.peers["fifo"], strict=True)
    ]
    assert (found.low, found.high) == (min(by_seed), max(by_seed))
    assert found.median == pytest.approx(sum(by_seed) / 2)


def test_the_sentence_names_the_fastest_and_what_it_was_of_the_next(
    matrix: tuple[list[dict[str, Any]], Path],
) -> None:
    tight, rfc = conditions(*matrix)
    assert verdict(rfc).startswith("Vital objects arrived soonest with limen: p95 ")
    assert "next bare QUIC (fifo) with " in verdict(rfc)
    assert "were heard soonest" in verdict(tight)
    slower = [
        {**line, "classes": {**line["classes"], "vital": {**line["classes"]["vital"], **change}}}
        for line in matrix[0]
        if line["profile"] != "tight"
        for change in ({"p95_ms": 900.0 if line["peer"] == "limen" else 100.0},)
    ]
    (other,) = conditions(slower, matrix[1])
    assert "soonest with bare QUIC (fifo): p95 100 ms" in verdict(other)
    assert "next limen with 900 ms" in verdict(other)


def test_the_table_shows_the_lines_own_figures(
    report: Path, matrix: tuple[list[dict[str, Any]], Path]
) -> None:
    text = report.read_text(encoding="utf-8")
    _, rfc = conditions(*matrix)
    p95 = rfc.spread("limen", rfc.class_figure("vital", "p95_ms"))
    assert p95 is not None
    assert f"<td>{p95.median:,.0f} ms<span" in text
    ratio = rfc.ratio("limen", rfc.class_figure("vital", "p99_ms"), base="fifo")
    assert ratio is not None
    assert f"{ratio.median:.2f} ×" in text
    assert '<th scope="row">PSNR where looked at</th><td>38.3 dB<span class="range">' in text


def test_every_picture_exists_in_light_and_dark_and_says_what_it_shows(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    for kind in ("cdf", "time"):
        for profile in ("tight", "rfc8867-5.1"):
            for cls in ObjectClass:
                for ending in ("", "-dark"):
                    stem = f"{kind}-{profile}-talk-tun-real-generated-12s-{cls.value}{ending}"
                    image = (report.parent / f"{stem}.png").read_bytes()
                    assert image.startswith(b"\x89PNG")
                    assert len(image) > 10_000
                    assert f"{stem}.png" in text
    assert text.count("<img ") == text.count('alt="')
    assert 'alt=""' not in text
    assert "<script" not in text
    assert "http" not in text  # nothing from the net


def test_failed_and_busy_runs_are_named_before_the_figures(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    assert "1 of 13 runs failed" in text
    assert "moq &lt;said&gt; nothing" in text
    assert "The machine was busy in 2 of 12 runs." in text
    assert text.index("runs failed") < text.index("<h2")


def test_worst_cases_lead_to_their_trace(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    links = {part.split('"')[0] for part in text.split('href="run-')[1:]}
    assert links
    for link in links:
        page = (report.parent / f"run-{link}").read_text(encoding="utf-8")
        target = page.split('The whole trace: <a href="')[1].split('"')[0]
        assert (report.parent / target).is_file()
    assert "never came</a>" in text


def test_lines_without_traces_still_make_a_report(
    matrix: tuple[list[dict[str, Any]], Path], tmp_path: Path
) -> None:
    lines = [line for line in matrix[0] if line["profile"] != "tight" and line["seed"] == 1]
    text = write_matrix_report(lines, tmp_path / "gone", tmp_path).read_text(encoding="utf-8")
    assert "No traces lie beside these lines" in text
    with pytest.raises(ValueError, match="holds no run"):
        write_matrix_report([], tmp_path, tmp_path)


def test_standing_says_met_missed_or_not_measured(
    report: Path, matrix: tuple[list[dict[str, Any]], Path]
) -> None:
    rows = {(row.subject, row.goal): row for row in standing_rows(*matrix)}
    assert rows[
        "network core", "≤ 60 µs CPU a packet a side; ≥ 150 Mbit/s on one core"
    ].verdict == ("not measured")
    used = rows["RFC 8867 5.1", "utilization ≥ 90 %"]
    assert (used.measured, used.verdict) == ("90.0 % (rfc8867-5.1, scene talk)", "met")
    assert rows["RFC 8867 5.1", "queue p95 ≤ 40 ms"].verdict == "missed"
    back = rows["RFC 8867 5.1, after each step down", "queue back under 100 ms within 1 s"]
    assert (back.measured.split(" s")[0], back.verdict) == ("2.90", "missed")
    only_fifo = [line for line in matrix[0] if line["peer"] == "fifo" and "error" not in line]
    assert {row.verdict for row in standing_rows(only_fifo, matrix[1])} == {"not measured"}
    text = (report.parent / "standing.md").read_text(encoding="utf-8")
    assert text == standing_markdown(*matrix)
    assert text.count("\n| ") == len(rows) + 1
