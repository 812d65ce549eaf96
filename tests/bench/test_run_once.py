"""One run: scripted ends for what may go wrong, and one real peer over a link of namespaces."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limen.bench.metrics import run_summary
from limen.bench.peers.plan import RunPlan
from limen.bench.peers.registry import PEERS, Peer, UnknownPeerError, find_peer
from limen.bench.runs.ends import RunError
from limen.bench.runs.once import run_once

SCRIPT = '''
"""An end that sends one packet, or fails, as its plan's scene says."""
import json, os, pathlib, socket, subprocess, sys, time

role, path = sys.argv[1], pathlib.Path(sys.argv[2])
plan = json.loads(path.read_text())

def tell(**message):
    print(json.dumps(message), flush=True)

def hear(key):
    while True:
        line = sys.stdin.readline()
        if not line:
            sys.exit(3)
        if key in json.loads(line):
            return json.loads(line)[key]

sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(20)
if role == "receive":
    sock.bind((plan["listen_host"], 0))
    tell(ready=True, port=sock.getsockname()[1], secret="xyzzy")
    start = hear("start")
    packet, _ = sock.recvfrom(100)
    tell(relay={"got": packet.decode()})
    time.sleep(max(0, start + plan["duration"] + plan["drain"] - time.monotonic()))
else:
    tell(ready=True)
    where = hear("connect")
    child = subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=True)
    (path.parent / "child").write_text(str(child.pid))
    time.sleep(0.4)
    start = time.monotonic() + plan["lead"]
    tell(start=start)
    if plan["scene"] == "fails":
        sys.exit("it ran out of ink")
    if plan["scene"] == "hangs":
        time.sleep(60)
    time.sleep(max(0, start - time.monotonic()))
    sock.sendto(where["secret"].encode(), (where["host"], where["port"]))
    (path.parent / "relayed").write_text(json.dumps(hear("relay")))
    time.sleep(max(0, start + plan["duration"] + plan["drain"] - time.monotonic()))
tell(done=True)
'''
CHILD = """
import time
until = time.monotonic() + 60
while time.monotonic() < until:
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass
    time.sleep(0.02)
"""


def scripted(folder: Path) -> Peer:
    """The scripted peer, as a module in `folder`."""
    (folder / "scripted_peer.py").write_text(SCRIPT.replace("CHILD", repr(CHILD)))
    return Peer(
        name="scripted",
        label="scripted",
        module="scripted_peer",
        missing=lambda: None,
        needs_namespaces=False,
        carries=frozenset(),
    )


def plan_for(scene: str, seconds: float = 0.5) -> RunPlan:
    return RunPlan(scene, "generated", 1, seconds, lead=0.3, drain=0.2)


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(PEERS, "scripted", scripted(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return "scripted"


def tun_missing() -> str | None:
    if sys.platform != "linux":
        return "network namespaces need Linux"
    from limen.bench.link.lab.backends import probe

    return probe()["tun"]


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.realtime
@pytest.mark.parametrize("backend", ["udp", "tun"])
def test_ends_are_told_relayed_and_measured(peer: str, backend: str, tmp_path: Path) -> None:
    if backend == "tun" and (why := tun_missing()) is not None:
        pytest.skip(why)
    folder = tmp_path / "run"
    result = run_once(peer, plan_for("fine"), folder, profile="clean", backend=backend)
    assert result.backend == backend
    assert json.loads((folder / "relayed").read_text()) == {"got": "xyzzy"}
    assert result.link["started"] == pytest.approx(result.start - 0.3)
    assert result.link["down"]["offered"]["packets"] >= 1
    assert (result.base_delay_ms is None) == (backend == "udp")
    if sys.platform == "linux":
        # The sender's child, in a session of its own, takes about a third of a CPU.
        assert result.cpu_s["send"] is not None
        assert result.cpu_s["receive"] is not None
        assert result.cpu_s["send"] > 2 * result.cpu_s["receive"]
        assert not alive(int((folder / "child").read_text()))


@pytest.mark.realtime
def test_an_end_that_fails_is_named_with_its_last_words(peer: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(RunError, match="scripted send process failed: it ran out of ink"):
        run_once(peer, plan_for("fails"), folder, profile="clean")
    if sys.platform == "linux":
        assert not alive(int((folder / "child").read_text()))


def test_what_cannot_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownPeerError, match=r"no peer 'nobody'; known: .*limen"):
        find_peer("nobody")
    absent = Peer(
        name="absent",
        label="absent",
        module="absent",
        missing=lambda: "it is not installed (pip install absent)",
        needs_namespaces=True,
        carries=frozenset(),
    )
    monkeypatch.setitem(PEERS, "absent", absent)
    with pytest.raises(RunError, match="absent cannot run here: it is not installed"):
        run_once("absent", plan_for("fine"), tmp_path / "run", profile="clean")
    monkeypatch.setitem(PEERS, "absent", scripted(tmp_path))
    assert not (tmp_path / "run").exists()


def test_a_peer_for_namespaces_does_not_go_through_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Peer(
        name="far",
        label="far",
        module="far",
        missing=lambda: None,
        needs_namespaces=True,
        carries=frozenset(),
    )
    monkeypatch.setitem(PEERS, "far", far)
    with pytest.raises(RunError, match="far needs a link between two namespaces"):
        run_once("far", plan_for("fine"), tmp_path, profile="clean", backend="udp")


@pytest.mark.realtime
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
@pytest.mark.parametrize("backend", ["udp", "tun"])
def test_nothing_stays_behind_after_ctrl_c(backend: str, tmp_path: Path) -> None:
    if backend == "tun" and (why := tun_missing()) is not None:
        pytest.skip(why)
    scripted(tmp_path)
    program = f"""
from pathlib import Path
from limen.bench.peers.plan import RunPlan
from limen.bench.peers.registry import PEERS, Peer
from limen.bench.runs.once import run_once
PEERS["scripted"] = Peer(name="scripted", label="", module="scripted_peer",
    missing=lambda: None, needs_namespaces=False, carries=frozenset())
plan = RunPlan("hangs", "generated", 1, 30.0)
run_once("scripted", plan, Path({str(tmp_path)!r}) / "run", profile="clean", backend={backend!r})
"""
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    child = tmp_path / "run" / "child"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    ) as process:
        until = time.monotonic() + 40.0
        while not (child.exists() and child.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.6)  # it is in the middle of waiting for the ends now
        process.send_signal(signal.SIGINT)
        assert process.wait(40.0) != 0
    if sys.platform == "linux":
        until = time.monotonic() + 10.0  # what is killed takes a moment to be gone
        while (left := _left(tmp_path, int(child.read_text()))) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left


def _left(folder: Path, child: int) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    mine = [line for line in listed.stdout.splitlines() if str(folder) in line]
    return [*mine, *([f"child {child}"] if alive(child) else [])]


@pytest.mark.realtime
def test_a_peer_runs_over_two_namespaces_and_its_link_is_measured(tmp_path: Path) -> None:
    if (why := tun_missing()) is not None:
        pytest.skip(why)
    plan = RunPlan("talk", "generated", 1, 3.0, drain=1.5)
    result = run_once("fifo", plan, tmp_path / "fifo", profile="tight", backend="tun")
    assert (tmp_path / "fifo" / "receiver.jsonl").stat().st_size > 1000
    link = result.link
    assert link["started"] == pytest.approx(result.start - plan.lead)
    assert link["down"]["offered"] == link["driver"]["down"]["offered"]
    summary = run_summary(
        [],
        start=result.start,
        end=result.end,
        media_end=result.start + plan.duration,
        link=link,
        region_psnr_db=None,
        background_psnr_db=None,
        tick_lateness_p99_ms=None,
    )
    assert summary["bytes_sent"] > 50_000
    assert 0.1 < summary["utilization"] <= 1.05
    assert summary["queue_p95_ms"] is not None
    assert result.cpu_s["send"] is not None
    assert result.cpu_s["send"] > 0.0
