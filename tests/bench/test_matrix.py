"""Matrices of runs without a run: their order, keys, files, failures; a fake makes the lines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from limen.bench.objects import ObjectClass, ObjectRecord, TagMark
from limen.bench.runs.attempt import Made, attempt
from limen.bench.runs.engine import DaskEngine, EngineError, LocalEngine
from limen.bench.runs.job import Job, Playing, groups_of, in_turn
from limen.bench.runs.lines import LineFile, LineFileError, read_lines
from limen.bench.runs.matrix import Outcome, run_matrix, why_absent
from limen.bench.runs.traces import RunTrace, TraceFileError, pack_trace, read_trace

TALK = Playing("talk", 3.0, "generated")


class Watch:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.begun: list[str] = []
        self.left: list[int] = []
        self.seconds: list[float] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def begin(self, job: Job, seconds: float, left: int, all_seconds: float) -> None:
        assert 0.0 < seconds <= all_seconds + 1e-9
        assert left > 0
        self.begun.append(job.key)
        self.seconds.append(seconds)

    def live(self, at: float, delays_ms: Mapping[str, float]) -> None:
        raise AssertionError("a fake says nothing")

    def done(self, line: Mapping[str, Any], left: int, seconds: float) -> None:
        assert (left == 0) == (seconds == 0.0)
        self.left.append(left)


def matrix(**changes: Any) -> list[Job]:
    more = {"profiles": ["tight", "lossy"], "scenes": [TALK], "peers": ["fifo", "limen"]}
    return in_turn(**{**more, "seeds": [1, 2], "backend": "udp", **changes})


def fake(job: Job, **_: Any) -> Made:
    return Made(job, {"key": job.key, "peer": job.peer, "turn": job.turn}, b"trace")


def run(
    jobs: list[Job], out: Path, make: Callable[..., Made] = fake, watch: Watch | None = None
) -> Outcome:
    return run_matrix(jobs, out, engine=LocalEngine(make=make), watcher=watch or Watch())


def test_peers_take_turns_and_seeds_come_last() -> None:
    jobs = matrix()
    assert [(j.profile, j.peer, j.seed) for j in jobs[:5]] == [
        ("tight", "fifo", 1),
        ("tight", "limen", 1),
        ("lossy", "fifo", 1),
        ("lossy", "limen", 1),
        ("tight", "fifo", 2),
    ]
    assert [job.turn for job in jobs] == list(range(8))
    assert [[j.peer for j in group] for group in groups_of(jobs)] == [["fifo", "limen"]] * 4


def test_everything_that_makes_a_run_another_one_is_in_its_key_and_its_turn_is_not() -> None:
    one = matrix()[0]
    others = [
        matrix(profiles=["dsl"])[0],
        matrix(scenes=[Playing("panel", 3.0, "generated")])[0],
        matrix(scenes=[Playing("talk", 4.0, "generated")])[0],
        matrix(scenes=[Playing("talk", 3.0, "recorded")])[0],
        matrix(peers=["limen"])[0],
        matrix(seeds=[3])[0],
        matrix(backend="tun")[0],
        matrix(video_bps=100_000)[0],
        matrix(trace="a.trace")[0],
        matrix(clock="virtual")[0],
    ]
    assert len({job.key for job in (one, *others)}) == 11
    assert len({job.file_name for job in (one, *others)}) == 11
    grown = matrix(peers=["static", "fifo", "limen"])
    assert {job.key for job in matrix()} < {job.key for job in grown}
    assert Job.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_a_run_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    out, watch = tmp_path / "sub" / "runs.jsonl", Watch()
    first = run(matrix(seeds=[1]), out)
    assert (first.made, first.kept, first.failed) == (4, 0, [])
    again = run(matrix(), out, watch=watch)
    assert (again.made, again.kept) == (4, 4)
    assert watch.begun == [job.key for job in matrix() if job.seed == 2]
    assert watch.left == [3, 2, 1, 0]
    assert "4 of 8 runs" in watch.notes[0]
    assert [line["key"] for line in again.lines] == [job.key for job in matrix()]
    (trace,) = {(out.parent / line["trace"]).read_bytes() for line in again.lines}
    assert trace == b"trace"


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_cut_off_and_its_run_made_again(tmp_path: Path, cut: int) -> None:
    out, watch = tmp_path / "runs.jsonl", Watch()
    run(matrix(), out)
    out.write_bytes(out.read_bytes()[:-cut])
    assert len(read_lines(out)) == 7
    outcome = run(matrix(), out, watch=watch)
    assert (outcome.made, outcome.kept) == (1, 7)
    assert "torn" in watch.notes[0]
    assert len(out.read_text(encoding="utf-8").splitlines()) == 8
    assert len(read_lines(out)) == 8


def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "notes.txt"
    for content in ('{"key": "a"}\nnot json\n{"key": "b"}\n', '{"a": 1}\n'):
        out.write_text(content, encoding="utf-8")
        with pytest.raises(LineFileError, match=r"notes\.txt, line [12]"):
            LineFile(out)
        assert out.read_text(encoding="utf-8") == content


def test_a_failed_peer_has_a_line_the_others_go_on_and_it_is_tried_again(tmp_path: Path) -> None:
    out = tmp_path / "runs.jsonl"

    def failing(job: Job, **more: Any) -> Made:
        if job.peer == "fifo" and job.profile == "tight":
            return Made(job, {"key": job.key, "peer": job.peer, "error": "no luck"}, None)
        return fake(job, **more)

    watch = Watch()
    outcome = run(matrix(), out, failing, watch)
    assert watch.seconds[0] == watch.seconds[1] > 10.0  # a failure in no time promises nothing
    assert [line["peer"] for line in outcome.failed] == ["fifo", "fifo"]
    assert len(outcome.lines) == 8
    better = run(matrix(), out)
    assert (better.made, better.kept, better.failed) == (2, 6, [])
    assert not any("error" in line for line in better.lines)
    assert not any("error" in line for line in read_lines(out))


def test_what_is_done_before_ctrl_c_is_written(tmp_path: Path) -> None:
    out, count = tmp_path / "runs.jsonl", itertools.count()

    def interrupted(job: Job, **more: Any) -> Made:
        if next(count) == 3:
            raise KeyboardInterrupt
        return fake(job, **more)

    with pytest.raises(KeyboardInterrupt):
        run(matrix(), out, interrupted)
    assert [line["key"] for line in read_lines(out)] == [job.key for job in matrix()[:3]]


def test_what_goes_wrong_in_a_run_is_its_line_in_one_line() -> None:
    made = attempt(Job("no-such-link", "talk", "fifo", 1, 3.0, "generated"))
    assert "no-such-link" in made.line["error"]
    assert "\n" not in made.line["error"]
    assert made.trace is None
    assert {"key", "profile", "peer", "seed", "host", "versions", "started"} <= set(made.line)
    json.dumps(made.line, allow_nan=False)


def test_a_peer_that_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_absent("fifo", "udp") is None
    monkeypatch.setattr("limen.bench.runs.matrix.importlib.util.find_spec", lambda _: None)
    assert why_absent("fifo", "udp") == "its module is not installed"


def test_a_trace_comes_back_as_it_was_packed(tmp_path: Path) -> None:
    trace = RunTrace(
        records=[
            ObjectRecord("face", ObjectClass.ATTENDED, 0.04, 0.34, 0.1, None, 0.5, 4000),
            ObjectRecord("voice", ObjectClass.VITAL, 0.02, 0.17, None, None, 0.875, 60),
        ],
        floors=[0.06, float("inf")],
        end=6.0,
        rates=[(-1.2, 1e6), (2.0, 4e5)],
        queue_ms=[(0.5, 12.5)],
        tags=[TagMark(0.5, "face", "gaze", 1.0, float("inf"))],
        shares={"face": [(0.1, 0.75)], "voice": [(0.1, 0.25)]},
    )
    path = tmp_path / "run.npz"
    path.write_bytes(pack_trace(trace))
    assert read_trace(path) == trace
    path.write_bytes(b"something else")
    with pytest.raises(TraceFileError, match=r"run\.npz"):
        read_trace(path)


@pytest.mark.realtime
def test_dask_makes_the_same_lines_as_this_process(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra `spread` is not installed")
    jobs = matrix(profiles=["no-such-link"], seeds=[1])
    outcome = run_matrix(jobs, tmp_path / "r.jsonl", engine=DaskEngine(), watcher=Watch())
    here = [attempt(job).line for job in jobs]
    told = ("key", "peer", "turn", "seed", "error", "versions")
    assert [[line[k] for k in told] for line in outcome.failed] == [
        [line[k] for k in told] for line in here
    ]


def test_an_engine_that_is_not_there_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(EngineError, match=r"pip install 'limen\[spread\]'"):
        DaskEngine()
