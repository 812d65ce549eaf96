"""The recording thread, fed with made-up times: freezes, sizes, late beginnings, full disks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from limen.cli.recorder import Recorder
from limen.scheduler.types import ObjectId
from limen.transport.media.kinds import AudioFrame, VideoFrame

START = 5000.0


def _picture(time: float, shade: int = 100, size: tuple[int, int] = (64, 48)) -> VideoFrame:
    array = np.full((size[1], size[0], 3), shade, np.uint8)
    picture = av.VideoFrame.from_ndarray(array, format="rgb24").reformat(format="yuv420p")
    return VideoFrame(picture, time, START + time, 0.05, ObjectId(1, 0, 0), keyframe=True)


def _sound(time: float, value: float = 0.3) -> AudioFrame:
    samples = np.full((960, 1), value, np.float32)
    return AudioFrame(samples, time, START + time, 0.05, "played", 0.5)


def _record(tmp_path: Path, feed: Callable[[Recorder], None]) -> tuple[Recorder, list[str]]:
    notes: list[str] = []
    recorder = Recorder(tmp_path, "received", notes.append)
    feed(recorder)
    recorder.close()
    return recorder, notes


def test_a_frozen_picture_stays_and_sound_goes_on(
    tmp_path: Path, film: Callable[[Path], Any]
) -> None:
    def feed(recorder: Recorder) -> None:
        for n in range(150):
            recorder.sound("sound", _sound(n * 0.02))
            if n < 50:
                recorder.picture("picture", _picture(n * 0.02))
            recorder.advance(START + n * 0.02)

    recorder, notes = _record(tmp_path, feed)
    seen = film(tmp_path / "received.mp4")
    assert notes == []
    assert recorder.seconds == pytest.approx(3.0, abs=0.05)
    assert seen.picture_times[-1] > 2.8, "players end a film with its shortest track"
    assert np.diff(seen.picture_times).max() < 0.8
    assert 50 <= len(seen.picture_times) < 60


def test_silence_fills_what_was_not_heard(tmp_path: Path, film: Callable[[Path], Any]) -> None:
    def feed(recorder: Recorder) -> None:
        for n in range(100):
            recorder.picture("picture", _picture(n * 0.02))
            if 40 <= n < 60:
                recorder.sound("sound", _sound(n * 0.02))
            recorder.advance(START + n * 0.02)

    _record(tmp_path, feed)
    seen = film(tmp_path / "received.mp4")
    assert seen.seconds == pytest.approx(2.0, abs=0.08)
    assert seen.loud_from(0.15) == pytest.approx(0.8, abs=0.06)
    assert np.abs(seen.sound[: 48_000 // 2]).max() < 0.05


def test_another_size_is_scaled_and_said_once(tmp_path: Path, film: Callable[[Path], Any]) -> None:
    def feed(recorder: Recorder) -> None:
        for n in range(40):
            size = (64, 48) if n < 20 else (128, 96)
            recorder.picture("picture", _picture(n * 0.04, size=size))
            recorder.advance(START + n * 0.04)

    _, notes = _record(tmp_path, feed)
    assert len(notes) == 1
    assert "128x96" in notes[0]
    assert film(tmp_path / "received.mp4").sizes == {(64, 48)}


def test_a_second_picture_track_gets_a_file_of_its_own(tmp_path: Path) -> None:
    def feed(recorder: Recorder) -> None:
        for n in range(20):
            recorder.picture("left", _picture(n * 0.04))
            recorder.picture("../right", _picture(n * 0.04))
            recorder.advance(START + n * 0.04)

    _record(tmp_path, feed)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "received-___right.mp4",
        "received.mp4",
    ]


def test_nothing_is_overwritten_and_nothing_empty_left(tmp_path: Path) -> None:
    (tmp_path / "received.mp4").write_bytes(b"mine")
    recorder, _ = _record(tmp_path, lambda r: r.sound("sound", _sound(0.0)))
    assert recorder.path == tmp_path / "received-2.mp4"
    assert (tmp_path / "received.mp4").read_bytes() == b"mine"
    nothing, _ = _record(tmp_path, lambda r: r.advance(START))
    assert nothing.path is None
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_is_gone_ends_the_recording_with_a_line(tmp_path: Path) -> None:
    recorder, notes = _record(tmp_path / "gone", lambda r: r.sound("sound", _sound(0.0)))
    assert recorder.problem is not None
    assert len(notes) == 1
    assert "ended early" in notes[0]
