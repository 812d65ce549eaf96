"""Commands as real processes, and small media made on the spot."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

FPS = 25
FLASH = 1.0
"""Seconds into `talk_file` at which a white picture and a beep coincide."""


class Running:
    """A command that runs; its lines are collected as they come."""

    def __init__(self, arguments: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "limen.cli", *arguments],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in self.lines
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, name: str) -> None:
        for line in getattr(self.process, name):
            with self._changed:
                self.lines[name].append(line.rstrip("\n"))
                self._changed.notify_all()

    @property
    def out(self) -> str:
        return "\n".join(self.lines["stdout"])

    @property
    def err(self) -> str:
        return "\n".join(self.lines["stderr"])

    def wait_for(self, text: str, timeout: float = 15.0) -> None:
        """Wait until a line on standard output holds `text`."""
        with self._changed:
            if not self._changed.wait_for(lambda: text in self.out, timeout):
                pytest.fail(f"{text!r} did not come; stdout:\n{self.out}\nstderr:\n{self.err}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, timeout: float = 20.0) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(5)
        return code

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(5)
        for thread in self._threads:
            thread.join(5)
        for name in self.lines:
            getattr(self.process, name).close()


class Cli:
    """Starts `limen` commands that share one data folder, and kills what is left of them."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "LIMEN_DATA_DIR": str(folder / "data"), "COLUMNS": "120"}
        self._running: list[Running] = []

    def start(self, *arguments: str | Path) -> Running:
        running = Running([str(a) for a in arguments], self.env)
        self._running.append(running)
        return running

    def recv(self, *arguments: str | Path, port: int = 0) -> tuple[Running, str]:
        """A receiver that listens, and its address."""
        running = self.start("recv", "--listen", f"127.0.0.1:{port}", *arguments)
        running.wait_for("listening on ")
        line = next(line for line in running.lines["stdout"] if "listening on " in line)
        return running, line.rpartition(" ")[2]

    def run(self, *arguments: str | Path, timeout: float = 20.0) -> tuple[int, Running, float]:
        """Run to the end: exit code, output and seconds taken."""
        begin = time.monotonic()
        running = self.start(*arguments)
        code = running.end(timeout)
        return code, running, time.monotonic() - begin

    def close(self) -> None:
        for running in self._running:
            running.kill()


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    made = Cli(tmp_path)
    yield made
    made.close()


@pytest.fixture
def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _write_wav(path: Path, samples: NDArray[np.float32], rate: int = 48_000) -> Path:
    with wave.open(str(path), "wb") as sink:
        sink.setnchannels(1)
        sink.setsampwidth(2)
        sink.setframerate(rate)
        sink.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path


@pytest.fixture
def write_wav() -> Callable[[Path, NDArray[np.float32]], Path]:
    """Writes mono samples at 48 kHz."""
    return _write_wav


def _write_talk(path: Path, seconds: float) -> Path:
    """Pictures that drift in grey with a white flash, a soft hum with a beep at the same time."""
    with av.open(str(path), "w") as out:
        video = out.add_stream("libx264", rate=FPS, options={"preset": "ultrafast"})
        video.width, video.height, video.pix_fmt = 320, 240, "yuv420p"
        audio = out.add_stream("aac", rate=48_000)
        audio.layout = "mono"
        for index in range(round(seconds * FPS)):
            time = index / FPS
            flash = FLASH <= time < FLASH + 0.2
            shade = np.full((240, 320, 3), 235 if flash else 40 + index % 60, np.uint8)
            picture = av.VideoFrame.from_ndarray(shade, format="rgb24")
            picture.pts, picture.time_base = index, Fraction(1, FPS)
            out.mux(video.encode(picture.reformat(format="yuv420p")))
        moments = np.arange(round(seconds * 48_000)) / 48_000
        hum = 0.1 * np.sin(2 * np.pi * 220 * moments)
        beep = (moments >= FLASH) & (moments < FLASH + 0.2)
        sound = np.where(beep, 0.7 * np.sin(2 * np.pi * 880 * moments), hum).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(sound[None, :], format="flt", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
        out.mux(audio.encode(frame))
        out.mux(video.encode(None))
        out.mux(audio.encode(None))
    return path


@pytest.fixture(scope="session")
def talk_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s of picture and sound."""
    return _write_talk(tmp_path_factory.mktemp("media") / "talk.mp4", 2.0)


class Film:
    """A recording, decoded whole."""

    def __init__(self, path: Path) -> None:
        self.picture_times: list[float] = []
        self.brightness: list[float] = []
        self.sizes: set[tuple[int, int]] = set()
        with av.open(str(path)) as source:
            for picture in source.decode(video=0) if source.streams.video else ():
                self.picture_times.append(float(picture.time or 0.0))
                self.brightness.append(float(picture.to_ndarray(format="gray").mean()))
                self.sizes.add((picture.width, picture.height))
        blocks: list[NDArray[Any]] = []
        with av.open(str(path)) as source:
            for sound in source.decode(audio=0):
                blocks.append(sound.to_ndarray())
                assert sound.sample_rate == 48_000
        self.sound: NDArray[np.float32] = np.concatenate(blocks, axis=1).mean(axis=0)

    @property
    def seconds(self) -> float:
        return len(self.sound) / 48_000

    def loud_from(self, level: float) -> float:
        """Seconds at which the sound first exceeds `level`."""
        return int(np.argmax(np.abs(self.sound) > level)) / 48_000

    def bright_from(self) -> float:
        """Seconds at which the picture first flashes."""
        return next(t for t, b in zip(self.picture_times, self.brightness, strict=True) if b > 180)


@pytest.fixture
def film() -> Callable[[Path], Film]:
    return Film
