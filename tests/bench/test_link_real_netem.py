"""Real links: the model against real netem, commands over profiles, nothing left behind.

Needs Linux, root, and netem of the kernel or user-mode-linux; says so where it is skipped.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces need Linux"),
]

TUNS = Path("/sys/class/net/limen0")


def reasons() -> dict[str, str | None]:
    from limen.bench.link.lab.backends import probe

    return {str(name): why for name, why in probe().items()}


def test_the_model_means_what_real_netem_means() -> None:
    why = reasons()
    if why["kernel"] is not None and why["uml"] is not None:
        pytest.skip(f"no real netem: {why['kernel']}; user-mode-linux: {why['uml']}")
    from limen.bench.link.fidelity import compare, markdown, real_backend
    from limen.bench.link.fidelity_cases import CASES
    from limen.bench.link.lab.links import open_link
    from limen.bench.link.lab.measure import calibrate
    from limen.bench.link.profile import LinkProfile

    cases = [case for case in CASES if case.quick]
    profiles = [LinkProfile(c.name, c.name, up=c.spec, down=c.spec) for c in cases]
    with open_link(profiles, backend=real_backend()) as link:
        base = calibrate(link)
        rows = compare(link, cases, base.base_delay_ms / 1e3)
        # A machine that is busy elsewhere spoils a measurement now and then; not twice.
        again = [row.case for row in rows if row.failures]
        failed = [r for r in compare(link, again, base.base_delay_ms / 1e3) if r.failures]
        table = markdown(rows, base, link.backend)
    print(table)
    assert not failed, table


def run_cli(*words: str, timeout: float = 40.0) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "limen.cli.main", "bench", "netem", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)


def test_a_command_runs_over_the_emulated_link_and_its_exit_code_comes_back() -> None:
    if (why := reasons()["tun"]) is not None:
        pytest.skip(why)
    script = "ip -br addr show limen0; $LIMEN_AT_FAR ip -br addr show limen0; exit 7"
    done = run_cli("tight", "--backend", "tun", "--", "sh", "-c", script)
    assert done.returncode == 7, done.stderr
    assert "10.77.0.1" in done.stdout
    assert "10.77.0.2" in done.stdout
    assert "backend tun" in done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_nothing_stays_behind_after(name: str, tmp_path: Path) -> None:
    if (why := reasons()["tun"]) is not None:
        pytest.skip(why)
    note = tmp_path / "pid"
    command = [sys.executable, "-m", "limen.cli.main", "bench", "netem", "tight"]
    command += ["--backend", "tun", "--", "sh", "-c", f"echo $$ > {note}; exec sleep 60"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 30.0
        while not (note.exists() and note.read_text().strip()) and time.monotonic() < until:
            time.sleep(0.05)
        inner = int(note.read_text())
        process.send_signal(getattr(signal, name))
        process.wait(20.0)
    until = time.monotonic() + 10.0
    while alive(inner) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(inner)
    assert not TUNS.exists()


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="drops root")
def test_without_root_it_says_so_and_what_works_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    from limen.bench.link.lab import namespace

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    why = namespace.why_not()
    assert why is not None
    assert "root" in why
    assert "UDP proxy" in why
