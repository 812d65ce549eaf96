"""WebRTC peers over a clean link: what they leave is what every other peer leaves."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from limen.bench.link.lab.namespace import why_not
from limen.bench.metrics import class_table
from limen.bench.peers.plan import RunPlan
from limen.bench.peers.recorder import read_pictures
from limen.bench.peers.registry import find_peer
from limen.bench.peers.webrtc import on_the_link, with_voice_rate
from limen.bench.picture_quality import luma
from limen.bench.runs.once import RunResult, run_once
from limen.bench.runs.records import make_records, read_run

PEERS = ("chromium", "aiortc")
PLAN = RunPlan("talk", "generated", seed=1, duration=3.0, barcode=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunResult]:
    """Both peers that can run here, at the same time: most of a run is waiting."""
    able = [name for name in PEERS if why_not() is None and find_peer(name).missing() is None]
    folder = tmp_path_factory.mktemp("webrtc")
    PLAN.load_scene()

    def run(name: str) -> RunResult:
        return run_once(name, PLAN, folder / name, profile="clean", backend="tun")

    with ThreadPoolExecutor() as pool:
        return dict(zip(able, pool.map(run, able), strict=True))


@pytest.mark.realtime
@pytest.mark.parametrize("name", PEERS)
def test_a_clean_link_shows_and_plays_all(name: str, results: dict[str, RunResult]) -> None:
    reason = why_not() or find_peer(name).missing()
    if reason is not None:
        print(reason)
        pytest.skip(reason)
    result = results[name]
    scene = PLAN.load_scene()
    log = read_run(result.folder, start=result.start)
    captured = [time for time, _ in scene.pictures()]
    records = make_records(scene, log, pictures=captured, chunks=150)
    table = class_table(records, end=result.end, measure="shown")
    for cls, row in table.items():
        sent, shown, middle = row["n_sent"], row["n_shown"], row["p50_ms"]
        assert sent is not None and shown is not None and middle is not None  # noqa: PT018
        assert shown >= 0.9 * sent, cls
        assert middle >= 5.0, "faster than the link"
    assert log.size == (640, 360)
    assert len(read_pictures(result.folder, width=640, height=360)) == len(log.shown)
    _each_is_the_picture_it_says_it_is(result.folder, log.shown, result.start)
    told = json.loads((result.folder / "peer.json").read_text(encoding="utf-8"))
    assert told["pictures"]["face"]["shown"] == len(log.shown)
    left = {path.name for path in result.folder.iterdir()}
    assert not any(name.startswith(("browser", "spool")) for name in left), left


def _each_is_the_picture_it_says_it_is(
    folder: Path, shown: list[tuple[float, float]], start: float
) -> None:
    pictures = read_pictures(folder, width=640, height=360)
    source = {round(time, 3): luma(frame) for time, frame in PLAN.load_scene().pictures()}
    for index in range(0, len(shown), 10):
        mine = source[round(shown[index][0] - start, 3)][:300].astype(float)
        assert np.corrcoef(mine.ravel(), pictures[index][:300].ravel())[0, 1] > 0.9


def test_descriptions_name_the_link_and_nothing_else() -> None:
    sdp = "\r\n".join(
        (
            "a=rtpmap:111 opus/48000/2",
            "a=candidate:1 1 udp 21 10.77.0.1 5000 typ host",
            "a=candidate:2 1 udp 22 fd77::1 5001 typ host",
            "a=candidate:3 1 tcp 15 10.77.0.1 9 typ host tcptype active",
            "",
        )
    )
    kept = on_the_link(sdp)
    assert kept.count("a=candidate:") == 1
    assert "10.77.0.1 5000" in kept
    with pytest.raises(ValueError, match="no IPv4"):
        on_the_link("a=candidate:2 1 udp 22 fd77::1 5001 typ host\r\n")
    assert "a=fmtp:111 maxaveragebitrate=28000" in with_voice_rate(sdp, 28_000)
    wished = with_voice_rate(sdp + "a=fmtp:111 minptime=10;useinbandfec=1\r\n", 28_000)
    assert "a=fmtp:111 maxaveragebitrate=28000;minptime=10;useinbandfec=1" in wished
