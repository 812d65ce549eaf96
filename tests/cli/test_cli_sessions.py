"""Several sessions at one receiver, stops in mid-stream, outputs other than the film."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals as on POSIX"),
]

TONE = "lavfi:sine=frequency=440:sample_rate=48000"
PICTURE = "lavfi:testsrc2=size=160x120:rate=25"


def test_b32_one_senders_death_leaves_the_others_alone(
    cli: Any, film: Callable[[Path], Any], tmp_path: Path
) -> None:
    receiver, address = cli.recv("--keep", "--out", tmp_path)
    dying = cli.start("send", TONE, "--to", address)
    dying.wait_for("sending to")
    lasting = cli.start("send", TONE, "--to", address, "--duration", "3")
    lasting.wait_for("sending to")
    time.sleep(1.0)
    dying.kill()
    assert lasting.end() == 0
    receiver.wait_for("session 2: wrote ")
    receiver.signal(signal.SIGINT)
    assert receiver.end(5) == 130
    assert receiver.err == ""
    paths = sorted(tmp_path.glob("received*.mp4"))
    assert len(paths) == 2, "each session has a film of its own"
    wrote = re.search(r"session 2: wrote (\S+)", receiver.out)
    assert wrote is not None
    lasted = film(Path(wrote[1]))
    assert lasted.seconds == pytest.approx(3.5, abs=1.3)
    steps = lasted.sound[: len(lasted.sound) // 4800 * 4800].reshape(-1, 4800)
    loud = np.abs(steps).max(axis=1) > 0.02
    assert loud.sum() >= 24, "the other's death made a gap"


def test_b43_a_stopped_sender_goes_on_without_a_burst(
    cli: Any, film: Callable[[Path], Any], tmp_path: Path
) -> None:
    receiver, address = cli.recv("--out", tmp_path)
    sender = cli.start("send", TONE, "--to", address, "--duration", "3")
    sender.wait_for("sending to")
    time.sleep(1.0)
    sender.signal(signal.SIGSTOP)
    time.sleep(2.0)
    sender.signal(signal.SIGCONT)
    assert sender.end() == 0
    assert receiver.end() == 0
    assert "stood still" in sender.out
    heard = film(tmp_path / "received.mp4")
    # 3 s of sound and 2 s of standing still, neither squeezed together nor played twice.
    assert heard.seconds == pytest.approx(5.3, abs=1.0)
    steps = heard.sound[: len(heard.sound) // 480 * 480].reshape(-1, 480)
    loud = np.sqrt((steps**2).mean(axis=1)) > 0.02
    assert 2.2 < loud.mean() * heard.seconds < 4.0


def test_raw_frames_come_out_of_pipes(cli: Any, talk_file: Path, tmp_path: Path) -> None:
    pictures, sound = tmp_path / "pictures.y4m", tmp_path / "sound.s16"
    receiver, address = cli.recv("--raw-video", pictures, "--raw-audio", sound)
    code, sender, _ = cli.run("send", talk_file, "--to", address)
    assert (code, sender.err) == (0, "")
    assert (receiver.end(), receiver.err) == (0, "")
    data = pictures.read_bytes()
    head, _, rest = data.partition(b"\n")
    assert head.startswith(b"YUV4MPEG2 W320 H240 F25000:1000")
    frame = len(b"FRAME\n") + 320 * 240 * 3 // 2
    assert len(rest) % frame == 0
    assert 40 <= len(rest) // frame <= 50
    samples = np.frombuffer(sound.read_bytes(), "<i2").reshape(-1, 2)
    assert len(samples) / 48_000 == pytest.approx(2.6, abs=1.0)
    assert np.abs(samples).max() > 10_000


def test_a_viewers_gaze_is_followed(cli: Any, tmp_path: Path) -> None:
    gaze = tmp_path / "gaze.csv"
    gaze.write_text("time,x,y\n" + "".join(f"{n / 30},0.4,0.6\n" for n in range(60)))
    receiver, address = cli.recv("--gaze", gaze, "--duration", "1.5")
    sender = cli.start("send", PICTURE, "--to", address, "--gaze", gaze, "--reconnect", "0.3")
    assert receiver.end() == 0
    assert "has what it wanted" not in receiver.err
    assert sender.end() == 1
    assert "the receiver has what it wanted" in sender.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has")
def test_an_output_that_cannot_be_written_fails_the_command(cli: Any) -> None:
    receiver, address = cli.recv("--raw-audio", "/dev/full")
    sender = cli.start("send", TONE, "--to", address, "--duration", "5", "--reconnect", "0.5")
    assert receiver.end() == 1
    lines = receiver.lines["stderr"]
    assert lines == ["limen: cannot write to /dev/full: No space left on device"]
    assert "cannot write" not in receiver.out, "it is said once"
    assert sender.end() == 1


def test_a_reader_that_closes_its_end_fails_the_command(cli: Any, tmp_path: Path) -> None:
    fifo = tmp_path / "sound"
    os.mkfifo(fifo)
    receiver, address = cli.recv("--raw-audio", fifo)
    cli.start("send", TONE, "--to", address, "--duration", "8", "--reconnect", "0.5")
    with fifo.open("rb") as reader:
        assert reader.read(1000)
    assert receiver.end() == 1
    assert receiver.lines["stderr"] == [f"limen: the reader of {fifo} closed it before the end"]


def test_a_receiver_that_has_enough_is_not_called_lost(cli: Any) -> None:
    receiver, address = cli.recv("--duration", "1")
    sender = cli.start("send", TONE, "--to", address, "--reconnect", "0.5")
    assert receiver.end() == 0
    assert sender.end() == 1
    assert "the receiver has ended the session (the receiver has what it wanted)" in sender.out
