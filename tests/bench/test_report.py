"""Render a whole report from an imagined comparison, and check what a stranger would read."""

import json
import os
import random
from pathlib import Path

import pytest

from limen.bench.link.model import LinkModel
from limen.bench.link.profile import load_profile
from limen.bench.metrics import ratios, run_summary
from limen.bench.objects import ObjectClass, ObjectRecord, TagMark
from limen.bench.report.data import ReportData, RunData
from limen.bench.report.page import write_report
from limen.bench.turns import Turn

pytest.importorskip("matplotlib")
DURATION = 19.5
TURNS = [
    Turn("speaker90", 0.2, 3.5),
    Turn("speaker91", 3.4, 4.6),
    Turn("speaker90", 4.6, 8.2),
    Turn("speaker91", 8.0, 11.4),
    Turn("speaker90", 11.5, 15.0),
    Turn("speaker91", 15.3, 19.5),
]
VOICES = {"speaker90": "voice-1", "speaker91": "voice-2"}
DEADLINES = {ObjectClass.VITAL: 0.15, ObjectClass.ATTENDED: 0.3, ObjectClass.AMBIENT: 0.6}


def capture(source: random.Random) -> list[tuple[float, str, ObjectClass, int]]:
    """(captured, track, class, bytes) of two voices and a picture."""
    out = []
    for index in range(int(DURATION * 50)):
        time = (index + 1) * 0.02
        for talker, track in VOICES.items():
            speaks = any(t.talker == talker and t.start <= time < t.end for t in TURNS)
            cls = ObjectClass.VITAL if speaks else ObjectClass.AMBIENT
            out.append((time, track, cls, 90 if speaks else 20))
    for index in range(int(DURATION * 24)):
        time = index / 24
        cls = ObjectClass.AMBIENT if 9.2 <= time < 10.3 else ObjectClass.ATTENDED
        out.append((time, "face", cls, int(source.uniform(2500, 6000))))
    return sorted(out)


def simulate(name: str, *, by_class: bool) -> RunData:
    """Send over the demo's link in virtual time, in order of capture or of importance."""
    source = random.Random(4)
    profile = load_profile("demo", duration=DURATION)
    link, back = LinkModel[int](profile.down), LinkModel[int](profile.up)
    origin = 1000.0
    link.start(now=origin - 0.3)
    waiting = capture(source)
    order = {cls: rank for rank, cls in enumerate(ObjectClass)}
    records, sent = [], 0
    free = 0.0
    shares: dict[str, list[tuple[float, float]]] = {
        track: [] for track in ("face", "voice-1", "voice-2")
    }
    served: list[tuple[float, str, int]] = []
    queue: list[tuple[float, str, ObjectClass, int]] = []
    while waiting or queue:
        if not queue:
            free = max(free, waiting[0][0])
        while waiting and waiting[0][0] <= free:
            queue.append(waiting.pop(0))
        if by_class:
            queue.sort(key=lambda o: (order[o[2]], o[0]))
        captured, track, cls, size = queue.pop(0)
        deadline = captured + DEADLINES[cls]
        rate = profile.down.rate_at(free)
        if by_class and free + size * 8 / rate + 0.025 > deadline:
            stamp = None
        else:
            link.push(sent, now=origin + free, size=size)
            served.append((free, track, size))
            sent += 1
            free += (size + 28) * 8 / rate
            stamp = origin + free + 0.025
        records.append(
            ObjectRecord(track, cls, origin + captured, origin + deadline, stamp, stamp, 0.5, size)
        )
    for step in range(int(DURATION * 5)):
        inside = [s for s in served if step / 5 <= s[0] < (step + 1) / 5]
        total = sum(s[2] for s in inside) or 1
        for track, points in shares.items():
            part = sum(s[2] for s in inside if s[1] == track)
            points.append((step / 5, part / total))
    end = origin + DURATION + 4.0
    stats = {
        "started": origin - 0.3,
        "down": link.stats(now=end),
        "up": back.stats(now=end),
    }
    tags = [TagMark(t.start, VOICES[t.talker], "speech", 0.9, t.end - t.start) for t in TURNS]
    tags += [TagMark(t.start, VOICES[t.talker], "onset", 1.0, 0.3) for t in TURNS]
    tags += [TagMark(t, "face", "gaze", 0.8, 1.3) for t in (0.0, 1.3, 2.4, 4, 6, 8, 10.3, 12, 14)]
    tags.append(TagMark(2.5, "face", "gesture", 0.7, 0.8))
    return RunData(
        name=name,
        label="limen" if by_class else "fifo (bare QUIC)",
        records=records,
        start=origin,
        end=end,
        link=stats,
        summary=run_summary(
            records,
            start=origin,
            end=end,
            link=stats,
            region_psnr_db=37.4 if by_class else 34.1,
            background_psnr_db=33.0 if by_class else 34.0,
            tick_lateness_p99_ms=0.21 if by_class else None,
        ),
        shares=shares if by_class else {},
        tags=sorted(tags, key=lambda t: t.time) if by_class else (),
        video=f"{name}.mp4",
    )


def imagined() -> ReportData:
    runs = {"fifo": simulate("fifo", by_class=False), "limen": simulate("limen", by_class=True)}
    return ReportData(
        title="limen demo: the same talk over a tight link, twice",
        media="recorded: face_gesture, two_speakers",
        attribution=("Imagined figures <for a test>",),
        seed=1,
        link=load_profile("demo", duration=DURATION).to_dict(),
        duration=DURATION,
        runs=runs,
        ratio=ratios({name: run.summary for name, run in runs.items()}),
        turns=TURNS,
        talkers=VOICES,
        busy=["limen run: scheduler tick late by 5.0 ms (p99)"],
        away=((9.2, 10.3),),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rendered report; LIMEN_KEEP_REPORT=DIR keeps it, to be looked at."""
    place = Path(os.environ.get("LIMEN_KEEP_REPORT") or tmp_path_factory.mktemp("report"))
    return write_report(imagined(), place).parent


def test_report_is_written_whole(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    for name in ("delay_over_time", "delay_cdf", "shares_and_tags", "queue_over_time"):
        image = (folder / f"{name}.png").read_bytes()
        assert image.startswith(b"\x89PNG")
    assert text.count("data:image/png;base64,") == 4
    assert "<for a test>" not in text
    assert "This machine was too busy:" in text
    assert "scheduler tick late by 5.0 ms (p99)" in text
    assert "&lt;for a test&gt;" in text
    assert "Link: 1 Mbit/s falling to 400 kbit/s" in text


def test_report_json_has_the_promised_layout(folder: Path) -> None:
    content = json.loads((folder / "report.json").read_text())
    assert set(content) == {"media", "seed", "link", "clocks", "busy", "runs", "ratio"}
    assert list(content["runs"]) == ["fifo", "limen"]
    for run in content["runs"].values():
        assert set(run) == {
            "classes",
            "classes_shown",
            "region_psnr_db",
            "background_psnr_db",
            "bytes_sent",
            "utilization",
            "queue_p95_ms",
            "tick_lateness_p99_ms",
        }
        for figures in run["classes"].values():
            assert set(figures) == {
                "n_sent",
                "n_came",
                "n_shown",
                "p50_ms",
                "p95_ms",
                "p99_ms",
                "std_ms",
                "on_time",
            }
    assert content["ratio"]["vital_p95"] < 1.0
    assert content["ratio"]["region_psnr_gain_db"] == pytest.approx(3.3)


def test_a_run_in_which_nothing_arrived_still_makes_a_report(tmp_path: Path) -> None:
    data = imagined()
    dead = [
        ObjectRecord(r.track, r.cls, r.captured, r.deadline, None, None)
        for r in data.runs["limen"].records
        if r.cls is not ObjectClass.AMBIENT
    ]
    run = data.runs["limen"]
    silent = RunData(
        name="limen",
        label="limen",
        records=dead,
        start=run.start,
        end=run.end,
        link=run.link,
        summary=run_summary(
            dead,
            start=run.start,
            end=run.end,
            link=run.link,
            region_psnr_db=None,
            background_psnr_db=None,
            tick_lateness_p99_ms=None,
        ),
    )
    runs = {"fifo": data.runs["fifo"], "limen": silent}
    summaries = {name: entry.summary for name, entry in runs.items()}
    broken = ReportData(
        data.title,
        data.media,
        data.attribution,
        data.seed,
        data.link,
        data.duration,
        runs,
        ratios(summaries),
    )
    text = write_report(broken, tmp_path).read_text(encoding="utf-8")
    assert "0 of" in text
    assert "only 0.0 % ever arrived over limen" in text
    assert not (tmp_path / "shares_and_tags.png").exists()
