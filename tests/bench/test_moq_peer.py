"""The Media over QUIC peer over a clean link: it leaves what every other peer leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from limen.bench.metrics import class_table
from limen.bench.peers.plan import RunPlan
from limen.bench.peers.registry import find_peer
from limen.bench.runs.once import run_once
from limen.bench.runs.records import make_records, read_run

PLAN = RunPlan("talk", "generated", seed=1, duration=3.0, barcode=True)


@pytest.mark.realtime
def test_a_clean_link_brings_all(tmp_path: Path) -> None:
    reason = find_peer("moq").missing()
    if reason is not None:
        print(reason)
        pytest.skip(reason)
    scene = PLAN.load_scene()
    result = run_once("moq", PLAN, tmp_path, profile="clean")
    log = read_run(result.folder, start=result.start)
    captured = [time for time, _ in scene.pictures()]
    records = make_records(scene, log, pictures=captured, chunks=150)
    for cls, row in class_table(records, end=result.end).items():
        came, sent, middle = row["n_came"], row["n_sent"], row["p50_ms"]
        assert came == sent, cls
        assert middle is None or middle >= 5.0, "faster than the link"
    shown = class_table(records, end=result.end, measure="shown")["attended"]
    assert shown["n_shown"] is not None and shown["n_sent"] is not None  # noqa: PT018
    assert shown["n_shown"] >= 0.9 * shown["n_sent"]
