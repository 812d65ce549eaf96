"""The measures measure what they say: checked on generated pictures and known sounds."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest

from limen.bench.codecs.clips import Clip, load_clip
from limen.bench.codecs.losses import layer_cost, recovery
from limen.bench.codecs.measures import aim, gaze_step, rate_step, speed
from limen.bench.codecs.speech import speech
from limen.bench.generated import generate_media


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media")
    generate_media(folder, seed=1, seconds=8.0)
    return folder


@pytest.fixture(scope="module")
def clip(media: Path) -> Clip:
    return load_clip(media / "face_generated.mp4", count=60)


def sound_of(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=48_000)
        frames = container.decode(audio=0)
        parts = [p.to_ndarray()[0] for frame in frames for p in resampler.resample(frame)]
    return np.concatenate(parts)


def test_the_default_codec_follows_a_step_and_keeps_its_sizes(clip: Clip) -> None:
    """800 to 300 kbit/s: within two pictures, max/mean at most 1.3, undershoot at most 10 %."""
    step = rate_step(clip, "h264")
    assert step.frames_to_follow <= 2
    assert step.high == pytest.approx(1.0, abs=0.1)
    assert step.low == pytest.approx(1.0, abs=0.1)
    assert step.high_spread <= 1.3
    assert step.low_spread <= 1.3
    assert step.keyframe <= 2.0


def test_the_default_codec_aims_and_a_new_place_is_soon_sharp(clip: Clip) -> None:
    aimed = aim(clip, "h264", 500_000)
    assert aimed.inside_db >= 3.0
    assert aimed.outside_db >= -2.0  # a made-up ground of noise; -1.5 on real faces
    assert aimed.bytes_ratio == pytest.approx(1.0, abs=0.03)
    jump = gaze_step(clip, "h264", 1_000_000)
    # Not the two pictures aimed for: on this made-up ground it takes up to eight.
    assert jump.short_db[0] < jump.unaimed_db - 2.0
    assert jump.short_db[-1] <= 1.0


@pytest.mark.parametrize("codec", ["h264", "vp8"])
def test_recovery_shows_nothing_broken_and_needs_one_picture(clip: Clip, codec: str) -> None:
    found = recovery(clip, codec)
    assert found.frames == 1
    assert found.how == ("keyframe" if codec == "h264" else "reference")
    assert sum(np.isnan(found.shown_db)) == round(0.1 * clip.fps)
    assert found.worst_shown_db > 30
    assert found.unnoticed_db < found.worst_shown_db  # what a decoder would have shown


def test_layers_are_measured_only_where_they_are(clip: Clip) -> None:
    assert layer_cost(clip, "h264", 2) is None
    cost = layer_cost(clip, "vp8", 2)
    assert cost is not None
    assert cost.identical
    assert cost.droppable > 0.2
    assert cost.cost_db < 2.0


def test_nothing_is_held_back(clip: Clip) -> None:
    assert speed(clip, "h264").held_back == 0


def test_b26_speech_keeps_its_length_and_fec_hears_better_than_concealment(media: Path) -> None:
    """PESQ-WB: within 0.3 of loss-free at 5 % with FEC; of made-up voices, so no absolute bar."""
    pytest.importorskip("pesq")
    heard = {h.name: h for h in speech(sound_of(media / "voices_generated.wav"))}
    assert all(h.exact for h in heard.values())
    free, plain, mended = (
        heard[name].pesq
        for name in ("nothing lost, FEC ready", "5 % isolated, concealed", "5 % isolated, FEC")
    )
    assert free is not None
    assert plain is not None
    assert mended is not None
    assert mended > plain
    assert mended >= free - 0.6  # made-up voices carry copies less often than real ones
    fec = heard["5 % isolated, FEC"]
    assert fec.repaired > 0
    burst = heard["10 % in bursts of 3, FEC"]
    assert burst.repaired < burst.concealed  # only the frame before a received one has a copy


def test_the_run_prints_its_tables_and_writes_its_figures(clip: Clip, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from limen.bench.codecs.run import run

    lines: list[str] = []
    short = Clip(clip.name, clip.pictures[:40], clip.fps, clip.gaze, clip.elsewhere)
    run([short], ["h264"], None, tmp_path, lines.append, loop_seconds=0.3)
    text = "\n".join(lines)
    for word in ("encode ms", "followed in", "sharp in", "repaired by", "p99"):
        assert word in text
    assert (tmp_path / "codecs.png").stat().st_size > 10_000
    found = json.loads((tmp_path / "codecs.json").read_text())
    assert found["clips"][clip.name]["h264"]["rate"]["keyframe"] < 2
