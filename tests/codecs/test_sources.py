"""Sources: what opens, what is refused and how, and stamps made usable."""

from __future__ import annotations

import itertools
import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from limen.codecs.errors import UnsupportedMedia
from limen.codecs.sources import open_source, turned
from limen.codecs.stamps import PictureStamps, SoundStamps


def write_clip(path: Path, *, b_frames: int = 2, pictures: int = 50, sound: bool = True) -> None:
    """A clip whose pictures grow brighter by 4 each, so that their order can be seen."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        video.codec_context.max_b_frames = b_frames
        video.options = {"preset": "ultrafast", "qp": "4", "b-adapt": "0", "bf": str(b_frames)}
        audio = container.add_stream("aac", rate=48_000, layout="mono") if sound else None
        for index in range(pictures):
            picture = np.full((48, 64, 3), 20 + 4 * index, np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 25)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            for index in range(pictures * 1920 // 1024):
                tone = np.full((1, 1024), 0.1, np.float32)
                piece = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
                piece.sample_rate, piece.pts = 48_000, index * 1024
                piece.time_base = Fraction(1, 48_000)
                container.mux(audio.encode(piece))
            container.mux(audio.encode(None))


def write_wav(path: Path, seconds: float = 0.5) -> None:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(np.zeros(round(16_000 * seconds), np.int16).tobytes())


def test_b20_a_file_with_b_frames_comes_out_in_display_order(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip.mp4")
    with av.open(str(tmp_path / "clip.mp4")) as container:
        packets = [p.pts for p in container.demux(video=0) if p.pts is not None]
    assert packets != sorted(packets)  # the file really has B-frames
    with open_source(str(tmp_path / "clip.mp4")) as source:
        items = list(source)
    pictures = [item for item in items if isinstance(item.frame, av.VideoFrame)]
    assert [item.time for item in pictures] == pytest.approx([k / 25 for k in range(50)])
    light = [float(item.frame.to_ndarray(format="gray").mean()) for item in pictures]  # type: ignore[call-arg]
    assert light == sorted(light)
    assert source.stats.pictures == 50
    assert (source.stamps.dropped, source.stamps.restamped, source.stamps.rejoined) == (0, 0, 0)


def test_pictures_and_sound_come_merged_in_the_order_of_time(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip.mp4")  # muxed all pictures first, then all sound
    with open_source(str(tmp_path / "clip.mp4")) as source:
        kinds = {stream.kind: stream for stream in source.streams}
        items = list(source)
    assert kinds["video"].width == 64
    assert kinds["video"].fps == 25
    assert kinds["audio"].sample_rate == 48_000
    assert kinds["audio"].channels == 1
    times = [item.time for item in items]
    assert times == sorted(times)
    sounds = [item for item in items if item.stream.kind == "audio"]
    gaps = [b.time - a.end for a, b in itertools.pairwise(sounds)]
    assert max(map(abs, gaps)) < 1e-6
    assert sum(item.duration for item in sounds) == pytest.approx(2.0, abs=0.05)


def test_a_wav_and_a_filter_source(tmp_path: Path) -> None:
    write_wav(tmp_path / "voice.wav")
    with open_source(str(tmp_path / "voice.wav")) as source:
        assert sum(item.duration for item in source) == pytest.approx(0.5)
        assert not source.live
    with open_source("lavfi:testsrc2=size=64x48:rate=10:duration=1") as source:
        assert [item.time for item in source] == pytest.approx([k / 10 for k in range(10)])


def test_a_loop_goes_on_where_the_file_ended(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip.mp4", pictures=10, sound=False)
    with open_source(str(tmp_path / "clip.mp4"), loop=True) as source:
        times = [item.time for _ in range(35) if (item := source.read()) is not None]
    assert times == pytest.approx([k / 25 for k in range(35)])
    assert source.stats.loops == 3


def make_junk(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "notes.txt").write_text("just words\n" * 50)
    (tmp_path / "notes.mp4").write_text("just words\n" * 50)
    (tmp_path / "words.toml").write_text("[project]\nname = 'x'\n" * 20)
    write_clip(tmp_path / "whole.mp4", pictures=10)
    data = (tmp_path / "whole.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) // 3])
    return {
        "empty.mp4": "is empty",
        "notes.txt": "no media|no pictures|nothing that can be decoded",
        "notes.mp4": "no media",
        "words.toml": "no media|no pictures",
        "cut.mp4": "no media|nothing|cannot open",
        "": "is a folder",
    }


@pytest.mark.parametrize(
    "name", ["empty.mp4", "notes.txt", "notes.mp4", "words.toml", "cut.mp4", ""]
)
def test_what_is_no_media_is_refused_by_name(tmp_path: Path, name: str) -> None:
    reason = make_junk(tmp_path)[name]
    with pytest.raises(UnsupportedMedia, match=reason) as caught:
        open_source(str(tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_does_not_exist_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: .*nothing\.mp4"):
        open_source(str(tmp_path / "nothing.mp4"))


@pytest.mark.parametrize(
    "spec", ["lavfi:", "lavfi:nosuchfilter", "device:v4l2", "device::x", "device:nosuchformat:0"]
)
def test_a_spec_that_cannot_work_is_refused(spec: str) -> None:
    with pytest.raises(UnsupportedMedia):
        open_source(spec)


def test_a_damaged_middle_is_passed_over_and_counted(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip.mp4", b_frames=0, sound=False)
    data = bytearray((tmp_path / "clip.mp4").read_bytes())
    start = data.index(b"mdat") + 2000
    data[start : start + 200] = b"\xff" * 200
    (tmp_path / "clip.mp4").write_bytes(data)
    with open_source(str(tmp_path / "clip.mp4")) as source:
        times = [item.time for item in source]
    assert len(times) >= 30
    assert (np.diff(times) > 0).all()


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_pictures_are_turned_upright(quarters: int) -> None:
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[:10, :10] = 255
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
    seen = turned(frame, quarters).to_ndarray(format="rgb24")
    assert (seen == np.rot90(picture, quarters)).all()


def test_b20_the_named_stamps_become_strictly_increasing() -> None:
    stamps = PictureStamps(1 / 30)
    named = [0, 3000, 3000, 1000, None, 6000, -1, 2**40]
    times = [stamps.repair(None if s is None else s / 90_000) for s in named]
    kept = [t for t in times if t is not None]
    assert kept == pytest.approx([0, 1 / 30, 2 / 30, 3 / 30])
    assert (np.diff(kept) > 0).all()
    assert stamps.counts.dropped == 4
    assert stamps.counts.restamped == 1
    assert stamps.counts.rejoined == 1
    following = stamps.repair((2**40 + 3000) / 90_000)
    assert following == pytest.approx(4 / 30)


def test_b20_a_clock_that_was_set_back_is_joined_on() -> None:
    stamps = PictureStamps(0.04)
    for index in range(5):
        stamps.repair(100 + index * 0.04)
    times = [stamps.repair(2 + index * 0.04) for index in range(6)]
    kept = [t for t in times if t is not None]
    assert kept == pytest.approx([100.20, 100.24, 100.28, 100.32])
    assert (stamps.counts.dropped, stamps.counts.rejoined) == (2, 1)


def test_sound_is_never_dropped_and_a_hole_stays_a_hole() -> None:
    stamps = SoundStamps()
    starts = [stamps.repair(t, 0.02) for t in (0.0, 0.021, 0.039, None, 0.5, 0.1, 0.12)]
    assert starts == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.5, 0.52, 0.54])
    assert stamps.counts.rejoined == 1
    assert stamps.counts.restamped == 1
