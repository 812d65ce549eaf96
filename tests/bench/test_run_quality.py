"""How a run sounded: PESQ of what was played, and how far pictures were from their sound."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from limen.bench.peers.capture import BLOCK, PERIOD
from limen.bench.peers.recorder import PlayedBlock
from limen.bench.runs.quality import lip_sync_ms, speech_quality
from limen.bench.runs.records import RunLog
from limen.bench.scene import Floats, Scene, load_scene

START = 1000.0
DELAY = 0.1


@pytest.fixture(scope="module")
def scene() -> Scene:
    return load_scene("talk", media="generated", seed=1, duration=8.0)


def chunks(sound: Floats) -> list[Floats]:
    return [sound[i : i + BLOCK] for i in range(0, len(sound) // BLOCK * BLOCK, BLOCK)]


def played(pieces: list[Floats], *, muted: bool = False) -> list[PlayedBlock]:
    """As heard `DELAY` after capture; every fourth block replaced by silence when `muted`."""
    blocks = []
    for index, piece in enumerate(pieces):
        captured = START + (index + 1) * PERIOD
        is_muted = muted and index % 4 == 0
        samples = (piece * (0.0 if is_muted else 32767.0)).astype(np.int16)
        kind = "concealed" if is_muted else "played"
        stamp = math.nan if is_muted else captured
        blocks.append(PlayedBlock(samples, stamp, captured + DELAY - PERIOD, kind))
    return blocks


def test_what_was_played_as_it_was_said_is_perfect_and_gaps_are_not(scene: Scene) -> None:
    pytest.importorskip("pesq")
    sounds = {m.track: chunks(scene.sound(m.track)) for m in scene.microphones}
    whole = RunLog(START, sound={t: played(pieces) for t, pieces in sounds.items()})
    broken = RunLog(START, sound={t: played(p, muted=True) for t, p in sounds.items()})
    deaf = RunLog(START)
    scores = [speech_quality(scene, sounds, log) for log in (whole, broken, deaf)]
    assert scores[0] is not None and scores[1] is not None and scores[2] is not None  # noqa: PT018
    assert scores[0] > 4.4
    assert scores[1] < scores[0] - 0.5
    assert scores[2] <= 1.5


def test_nobody_spoke_so_nothing_is_judged(scene: Scene) -> None:
    pytest.importorskip("pesq")
    sounds = {m.track: chunks(scene.sound(m.track)) for m in scene.microphones}
    quiet = dataclasses.replace(scene, turns=())
    assert speech_quality(quiet, sounds, RunLog(START)) is None


@pytest.mark.parametrize("behind", [0.04, -0.03])
def test_lip_sync_is_how_far_pictures_are_behind(scene: Scene, behind: float) -> None:
    track = scene.microphones[0].track
    log = RunLog(START, sound={track: played(chunks(scene.sound(track)))})
    log.shown = [
        (START + 0.1 + 0.04 * k, START + 0.1 + 0.04 * k + DELAY + behind) for k in range(99)
    ]
    measured = lip_sync_ms(log)
    assert measured is not None
    assert measured == pytest.approx(1e3 * behind, abs=0.1)
    assert lip_sync_ms(RunLog(START, shown=log.shown)) is None
