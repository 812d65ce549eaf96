"""The proxy over real loopback sockets. Only ratios and orders are asserted: machines are noisy."""

import itertools
import signal
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from limen.bench.link.launch import ProxyError, ProxyProcess

pytestmark = pytest.mark.realtime

PROFILE = """
[down]
rate_bps = 800_000
delay_ms = 40
queue_ms = 100
[up]
delay_ms = 5
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "test.toml"
    path.write_text(PROFILE)
    return path


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(5.0)
        yield sock


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(5.0)
        yield sock


def test_delay_rate_and_reply_path(
    profile: Path, target: socket.socket, client: socket.socket
) -> None:
    with ProxyProcess(profile, target=target.getsockname()) as proxy:
        there = ("127.0.0.1", proxy.port)
        begin = time.monotonic()
        client.sendto(b"first", there)
        packet, back = target.recvfrom(2000)
        lone = time.monotonic() - begin
        assert packet == b"first"
        target.sendto(b"reply", back)
        assert client.recvfrom(2000)[0] == b"reply"
        begin = time.monotonic()
        for index in range(8):  # 8 x 10 ms of serialization: within the queue
            client.sendto(bytes([index]) * 972, there)
        arrivals = []
        for index in range(8):
            assert target.recv(2000) == bytes([index]) * 972
            arrivals.append(time.monotonic() - begin)
        stats = proxy.stop()
    assert lone >= 0.040
    assert arrivals[-1] >= 0.040 + 8 * 0.010
    gaps = [b - a for a, b in itertools.pairwise(arrivals)]
    assert 0.5 < statistics.mean(gaps) / 0.010 < 2.0
    assert stats["down"]["through"]["packets"] == 9
    assert stats["up"]["through"]["packets"] == 1
    assert stats["clients"] == 1
    assert stats["profile"]["down"]["rate_bps"] == [[0.0, 800000.0]]


def test_overload_is_dropped_at_the_queue_and_reported(
    profile: Path, target: socket.socket, client: socket.socket
) -> None:
    with ProxyProcess(profile, target=target.getsockname()) as proxy:
        for _ in range(100):
            client.sendto(b"x" * 972, ("127.0.0.1", proxy.port))
        time.sleep(0.3)
        stats = proxy.stop()
        assert proxy.stop() == stats
    down = stats["down"]
    assert down["offered"]["packets"] == 100
    assert down["dropped"]["queue"]["packets"] > 50
    assert down["dropped"]["loss"]["packets"] == 0
    assert down["queue_delay_ms"]["max"] <= 100.0


def test_an_absent_target_is_survived(profile: Path, client: socket.socket) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        address = placeholder.getsockname()
    with ProxyProcess(profile, target=address) as proxy:
        for _ in range(5):
            client.sendto(b"anyone?", ("127.0.0.1", proxy.port))
            time.sleep(0.03)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as late:
            late.bind(address)
            late.settimeout(5.0)
            client.sendto(b"now", ("127.0.0.1", proxy.port))
            while late.recv(100) != b"now":
                pass
        assert proxy.stop()["down"]["offered"]["packets"] == 6


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM to catch on Windows")
def test_sigterm_flushes_statistics_and_exits_with_zero(
    profile: Path, target: socket.socket
) -> None:
    import os

    with ProxyProcess(profile, target=target.getsockname()) as proxy:
        os.kill(proxy.pid, signal.SIGTERM)
        assert proxy.stop()["down"]["offered"]["packets"] == 0
        assert proxy.returncode == 0


def test_clients_do_not_mix(profile: Path, target: socket.socket, client: socket.socket) -> None:
    with (
        ProxyProcess(profile, target=target.getsockname()) as proxy,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.settimeout(5.0)
        for sock, word in ((client, b"one"), (other, b"two")):
            sock.sendto(word, ("127.0.0.1", proxy.port))
        for _ in range(2):
            word, back = target.recvfrom(100)
            target.sendto(word.upper(), back)
        assert client.recv(100) == b"ONE"
        assert other.recv(100) == b"TWO"


def test_a_bad_profile_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[down]\n")
    with pytest.raises(ProxyError, match="lacks") as caught:
        ProxyProcess(path, target=("127.0.0.1", 9))
    assert "\n" not in str(caught.value)
