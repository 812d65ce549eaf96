"""Scenes over generated media, the reference tagger, and the files both stand on."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from limen.bench.generated import generate_media, make_turns
from limen.bench.objects import ObjectClass
from limen.bench.picture_quality import luma
from limen.bench.scene import Scene, SceneError, load_scene
from limen.bench.tagger import ReferenceTagger
from limen.bench.turns import Turn, read_rttm, write_rttm


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIMEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load_scene("talk", media="generated", duration=5.0)


def test_generated_scene_has_its_length_and_says_that_it_is_generated(scene: Scene) -> None:
    pictures = [(time, luma(frame).copy()) for time, frame in scene.pictures()]
    assert len(pictures) == 120
    assert pictures[-1][1].shape == (360, 640)
    times = [time for time, _ in pictures]
    assert times == sorted(times)
    moved = np.abs(pictures[-1][1].astype(int) - pictures[0][1]).mean()
    assert moved > 1.0
    assert "generated" in scene.media


def test_each_microphone_hears_its_talker_and_room_tone_otherwise(scene: Scene) -> None:
    for mic in scene.microphones:
        samples = scene.sound(mic.track)
        assert samples.shape == (5 * 48000,)
        assert samples.dtype == np.float32
        speaks = np.zeros(len(samples), bool)
        for turn in scene.turns:
            if turn.talker == mic.talker:
                speaks[int((turn.start - 0.02) * 48000) : int((turn.end + 0.02) * 48000)] = True
        quiet = np.sqrt((samples[~speaks] ** 2).mean())
        assert quiet > 0.0
        assert np.sqrt((samples[speaks] ** 2).mean()) > 20 * quiet
    with pytest.raises(ValueError, match="no sound track"):
        scene.sound("nobody")


def test_a_clip_that_is_shorter_than_the_run_starts_over(scene: Scene) -> None:
    longer = Scene(
        **{
            **{name: getattr(scene, name) for name in Scene.__dataclass_fields__},
            "duration": 7.0,
        }
    )
    times = [time for time, _ in longer.pictures()]
    assert len(times) == 168
    assert np.allclose(np.diff(times), 1 / 24, atol=1e-3)


def test_gaze_is_held_between_points_and_can_leave_the_picture(scene: Scene) -> None:
    eyes, away = scene.gaze_at(1.0), scene.gaze_at(9.5)
    assert eyes is not None
    assert away is not None
    assert eyes.region is not None
    assert away.region is None
    dwells = np.diff([point.time for point in scene.gaze])
    assert dwells.min() >= 1.0
    assert dwells.max() <= 4.0


def test_generated_media_repeat_with_the_seed(tmp_path: Path) -> None:
    files = []
    for folder, seed in (("a", 3), ("b", 3), ("c", 4)):
        media = generate_media(tmp_path / folder, seed=seed, seconds=1.0)
        files.append([p.read_bytes() for p in (media.face, media.voices, media.turns)])
    assert files[0] == files[1]
    assert files[0][1] != files[2][1]


def test_generated_turns_alternate_and_stay_within() -> None:
    turns = make_turns(seed=1, seconds=60.0)
    assert all(a.talker != b.talker for a, b in itertools.pairwise(turns))
    assert all(0.0 <= t.start < t.end <= 60.0 for t in turns)
    assert any(b.start < a.end for a, b in itertools.pairwise(turns))


def test_rttm_round_trip_and_clear_errors(tmp_path: Path) -> None:
    path = tmp_path / "t.rttm"
    turns = [Turn("a", 0.25, 1.5), Turn("b", 1.25, 2.0)]
    write_rttm(path, turns, recording="x")
    assert read_rttm(path) == turns
    path.write_text("SPEAKER x 1 0.0 nonsense <NA> <NA> a\n")
    with pytest.raises(ValueError, match="line 1"):
        read_rttm(path)


def with_turns(scene: Scene, *turns: Turn) -> ReferenceTagger:
    values = {name: getattr(scene, name) for name in Scene.__dataclass_fields__}
    return ReferenceTagger(Scene(**{**values, "turns": turns}))


def test_who_speaks_alone_or_first_is_vital(scene: Scene) -> None:
    tagger = with_turns(scene, Turn("talker-1", 1.0, 3.0), Turn("talker-2", 2.0, 4.0))

    def cls(track: str, time: float) -> ObjectClass:
        return tagger.sound(track, start=time - 0.02, end=time).cls

    assert cls("voice-1", 0.5) is ObjectClass.AMBIENT
    assert cls("voice-1", 1.5) is ObjectClass.VITAL
    assert cls("voice-2", 1.5) is ObjectClass.AMBIENT
    assert cls("voice-1", 2.5) is ObjectClass.VITAL
    assert cls("voice-2", 2.5) is ObjectClass.ATTENDED
    assert cls("voice-2", 3.5) is ObjectClass.VITAL
    assert cls("voice-1", 1.001) is ObjectClass.VITAL  # speech begins within the frame
    label = tagger.sound("voice-1", start=1.48, end=1.5)
    assert label.importance >= 0.7
    assert label.deadline == pytest.approx(1.5 + 0.15)
    with pytest.raises(ValueError, match="not one of the microphones"):
        tagger.sound("face", start=0.0, end=0.02)


def test_the_picture_matters_while_it_is_looked_at(scene: Scene) -> None:
    tagger = ReferenceTagger(scene)
    assert tagger.picture(time=1.0).cls is ObjectClass.ATTENDED
    assert tagger.picture(time=9.5).cls is ObjectClass.AMBIENT


def test_a_missing_or_broken_scene_is_named(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="known: talk"):
        load_scene("tlak")
    path = tmp_path / "x.toml"
    path.write_text("title = 'x'\n")
    with pytest.raises(SceneError, match="lacks 'duration_s'"):
        load_scene(path)
