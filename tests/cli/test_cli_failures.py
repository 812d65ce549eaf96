"""B40: what goes wrong is one line and an exit code, soon; Ctrl-C ends at once and is told.

The bounds are those of the field case, measured over whole processes; waits are generous where
only an order of events matters.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limen.cli.main import run

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals as on POSIX"),
]

TEST_PICTURE = "lavfi:testsrc2=size=320x240:rate=25"
START = 8.0
"""Seconds a busy machine may take to start an interpreter, allowed on top of a command's own."""


def _one_line(running: Any) -> str:
    lines = running.lines["stderr"]
    assert len(lines) == 1, running.err
    assert lines[0].startswith("limen: ")
    return str(lines[0])


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["send", "/no/such/file.mp4", "--to", "127.0.0.1:9"], "no such file", 1),
        (["send", "{text}", "--to", "127.0.0.1:9"], "holds no pictures and no sound", 1),
        (["send", TEST_PICTURE, "--to", "127.0.0.1"], "HOST:PORT", 2),
        (["send", TEST_PICTURE, "--to", "127.0.0.1:0"], "a port from 1", 2),
        (["send", TEST_PICTURE, "--to", "a:1", "--fingerprint", "xy"], "64 hexadecimal", 2),
        (["send", TEST_PICTURE, "--to", "a:1", "--ca", "/no/such.pem"], "does not exist", 2),
        (["send", TEST_PICTURE, "--to", "a:1", "--gaze", "/no/such.csv"], "No such file", 1),
        (["send", TEST_PICTURE, "--to", "a:1", "--bitrate", "much"], "--bitrate is", 2),
        (["send"], "Missing", 2),
        (["send", TEST_PICTURE], "(see `limen send --help`)", 2),
        (["fly"], "No such command", 2),
        (["recv", "--cert", "{text}"], "--key", 2),
        (["recv", "--cert", "{text}", "--key", "{text}"], "cannot read a PEM certificate", 2),
        (["recv", "--listen", "127.0.0.1:0", "--out", "{text}"], "is a file", 2),
    ],
)
def test_b40_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    words: str,
    code: int,
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no media here\n" * 100)
    filled = [a.format(text=text) if a == "{text}" else a for a in arguments]
    assert run(filled) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert words in lines[0]


def test_b40_a_missing_file_ends_the_process(cli: Any) -> None:
    code, running, seconds = cli.run("send", "/no/such/file.mp4", "--to", "127.0.0.1:9")
    assert code == 1
    assert "no such file" in _one_line(running)
    assert seconds < START


def test_b40_a_closed_port_is_given_up(cli: Any, free_port: int) -> None:
    code, running, seconds = cli.run("send", TEST_PICTURE, "--to", f"127.0.0.1:{free_port}")
    assert code == 1
    assert "nothing listens" in _one_line(running)
    assert seconds < 5 + START / 2


def test_b40_a_port_that_never_answers_is_given_up(cli: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sink.getsockname()[1]}"
        code, running, seconds = cli.run("send", TEST_PICTURE, "--to", address, "--wait", "1")
    assert code == 1
    assert "no answer" in _one_line(running)
    assert seconds < 1 + START


def test_b40_another_certificate_is_refused_at_once(cli: Any) -> None:
    receiver, address = cli.recv()
    begin = time.monotonic()
    code, running, _ = cli.run("send", TEST_PICTURE, "--to", address, "--fingerprint", "ab" * 32)
    assert code == 1
    assert "certificate" in _one_line(running)
    assert time.monotonic() - begin < START
    receiver.signal(signal.SIGINT)
    assert receiver.end(5) == 130
    assert receiver.err == ""


def test_b40_an_unknown_authority_is_refused_at_once(cli: Any, tmp_path: Path) -> None:
    _, address = cli.recv()
    cli.env["LIMEN_DATA_DIR"] = str(tmp_path / "elsewhere")  # as on another machine
    code, running, _ = cli.run("send", TEST_PICTURE, "--to", address)
    assert code == 1
    assert "self-signed" in _one_line(running)


def test_b40_ctrl_c_while_connecting(cli: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        sink.settimeout(START)
        address = f"127.0.0.1:{sink.getsockname()[1]}"
        sender = cli.start("send", TEST_PICTURE, "--to", address, "--wait", "60")
        sink.recv(2000)  # it is connecting
        begin = time.monotonic()
        sender.signal(signal.SIGINT)
        assert sender.end(5) == 130
    assert time.monotonic() - begin < 2.0
    assert sender.err == ""


def test_b40_ctrl_c_at_the_sender_ends_both(
    cli: Any, film: Callable[[Path], Any], tmp_path: Path
) -> None:
    receiver, address = cli.recv("--out", tmp_path)
    sender = cli.start("send", TEST_PICTURE, "lavfi:sine=frequency=440", "--to", address)
    sender.wait_for("sending to")
    time.sleep(2.0)
    begin = time.monotonic()
    sender.signal(signal.SIGINT)
    assert sender.end(5) == 130
    assert time.monotonic() - begin < 2.0
    assert receiver.end(8) == 0
    assert time.monotonic() - begin < 5.0, "the receiver has to hear of it, not wait it out"
    assert "the sender was stopped" in receiver.out
    assert (sender.err, receiver.err) == ("", "")
    seen = film(tmp_path / "received.mp4")
    assert 1.0 < seen.seconds < 6.0
    assert len(seen.picture_times) > 15


def test_b40_ctrl_c_at_the_receiver_keeps_its_file(
    cli: Any, film: Callable[[Path], Any], tmp_path: Path
) -> None:
    receiver, address = cli.recv("--out", tmp_path)
    sender = cli.start("send", TEST_PICTURE, "--to", address, "--reconnect", "0.5")
    sender.wait_for("sending to")
    time.sleep(1.5)
    receiver.signal(signal.SIGINT)
    assert receiver.end(5) == 130
    assert sender.end(8) == 1
    assert "the receiver was stopped" in sender.out
    assert "nothing listens" in _one_line(sender)
    seen = film(tmp_path / "received.mp4")
    assert len(seen.picture_times) > 10


def test_help_and_version(cli: Any) -> None:
    code, running, _ = cli.run("send", "--help")
    assert code == 0
    assert "--fingerprint" in running.out
    code, running, _ = cli.run("--version")
    assert (code, running.out.split()[0]) == (0, "limen")
