"""Scenes: which media play, who talks and where the viewer looks, over the time of a run.

A scene is a TOML file (bench/scenes/). Everything in it is in run time: 0 s is when capture
starts. Media come from `bench.samples`; where they cannot be had, generated ones with the same
layout take their place and the scene says so. Every peer of a comparison gets the same scene.
"""

from __future__ import annotations

import bisect
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
from numpy.typing import NDArray

from ..scheduler.types import Region
from .generated import GeneratedMedia, generate_media, generated_paths
from .objects import ObjectClass
from .samples import SamplesUnavailable, cache_dir, sample_path
from .turns import Turn, read_rttm

SCENES = Path(__file__).resolve().parent / "scenes"
SOUND_RATE = 48_000
FADE = 0.010
"""Seconds over which a microphone opens and closes: no click, and no syllable is lost."""

Floats = NDArray[np.float32]
MediaChoice = Literal["auto", "recorded", "generated"]


class SceneError(ValueError):
    """A scene file cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True)
class GazePoint:
    """From `time` (s) on the viewer looks at (x, y), shares of the picture, within `radius`."""

    time: float
    x: float
    y: float
    radius: float

    @property
    def on_picture(self) -> bool:
        """Whether the point lies in the picture."""
        return 0.0 <= self.x <= 1.0 and 0.0 <= self.y <= 1.0

    @property
    def region(self) -> Region | None:
        """What is looked at, cut to the picture; None when the viewer looks away."""
        return Region.around(self.x, self.y, self.radius).clipped() if self.on_picture else None


@dataclass(frozen=True, slots=True)
class Microphone:
    """One sound track and whose voice it carries."""

    track: str
    talker: str


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene with its media in place."""

    name: str
    title: str
    duration: float
    """Seconds of media."""
    picture_track: str
    picture_path: Path
    microphones: tuple[Microphone, ...]
    sound_path: Path
    sound_start: float
    """Seconds into the sound file at which the run starts."""
    turns: tuple[Turn, ...]
    """In run time, cut to the run, in order of their start."""
    gaze: tuple[GazePoint, ...]
    deadlines: dict[ObjectClass, float]
    """Seconds after capture at which an object of a class has lost its use."""
    media: str
    """What plays, in words: for reports."""

    def gaze_at(self, time: float) -> GazePoint | None:
        """Where the viewer looks at `time`; None before the path begins."""
        index = bisect.bisect_right(self.gaze, time, key=lambda point: point.time)
        return self.gaze[index - 1] if index else None

    def pictures(self) -> Iterator[tuple[float, av.VideoFrame]]:
        """(capture time, picture) in order up to `duration`; a clip that is shorter starts over."""
        offset = 0.0
        while True:
            time, step = -1.0, 1 / 25
            with av.open(str(self.picture_path)) as container:
                stream = container.streams.video[0]
                stream.thread_type = "AUTO"
                if stream.average_rate:
                    step = float(1 / stream.average_rate)
                for frame in container.decode(stream):
                    time = frame.time if frame.pts is not None else time + step
                    if offset + time >= self.duration:
                        return
                    yield offset + time, frame
            if time < 0.0:
                raise SceneError(f"{self.picture_path} has no picture")
            offset += time + step

    def sound(self, track: str) -> Floats:
        """What the microphone of `track` picks up over the run: float32, mono, 48 kHz.

        Its talker's turns are cut out of the mix (overlapping speech is therefore on both
        microphones); in between there is noise as loud as the recording's quietest moments.
        Raises ValueError for a track the scene does not have.
        """
        talker = next((m.talker for m in self.microphones if m.track == track), None)
        if talker is None:
            known = [m.track for m in self.microphones]
            raise ValueError(f"scene {self.name} has no sound track {track!r}; it has {known}")
        mix = read_sound(self.sound_path, start=self.sound_start, seconds=self.duration)
        is_open = np.zeros(len(mix), np.float32)
        for turn in self.turns:
            if turn.talker == talker:
                is_open[int(turn.start * SOUND_RATE) : int(turn.end * SOUND_RATE)] = 1.0
        ramp = np.hanning(int(2 * FADE * SOUND_RATE) + 1).astype(np.float32)
        mask = np.clip(np.convolve(is_open, ramp, "same") / (ramp.sum() / 2), 0.0, 1.0)
        blocks = mix[: len(mix) // 960 * 960].reshape(-1, 960)
        level = float(np.quantile(np.sqrt((blocks**2).mean(axis=1)), 0.05)) if len(blocks) else 0.0
        seed = [m.track for m in self.microphones].index(track)
        tone = np.random.default_rng(seed).normal(0.0, max(level, 1e-4), len(mix))
        heard: NDArray[np.float32] = (mix * mask + tone * (1.0 - mask)).astype(np.float32)
        return heard


def scene_names() -> list[str]:
    """The names of the scenes that ship with the project."""
    return sorted(path.stem for path in SCENES.glob("*.toml"))


def scene_title(name: str) -> str:
    """What a shipped scene is, in a line, without its media."""
    table = tomllib.loads((SCENES / f"{name}.toml").read_text(encoding="utf-8"))
    return str(table["title"])


def load_scene(
    name_or_path: str | Path,
    *,
    media: MediaChoice = "auto",
    seed: int = 1,
    duration: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Scene:
    """Read a scene and have its media in place.

    `media`: "recorded" real recordings or SamplesUnavailable, "generated" made from `seed`,
    "auto" the first if they can be had, else the second. `duration` overrides the scene's, s.
    Raises SceneError when the file is at fault.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = SCENES / f"{name_or_path}.toml"
        if not path.is_file():
            raise SceneError(
                f"there is no scene {str(name_or_path)!r}; known: {', '.join(scene_names())}"
            )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        length = float(duration or table["duration_s"])
        return _with_media(table, path.stem, length, media=media, seed=seed, progress=progress)
    except KeyError as error:
        raise SceneError(f"scene {path}: lacks {error}") from error
    except (OSError, TypeError, ValueError) as error:
        raise SceneError(f"scene {path}: {error}") from error


def read_sound(path: Path, *, start: float, seconds: float) -> Floats:
    """A stretch of a sound file as float32 mono at 48 kHz, padded with silence at its end."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=SOUND_RATE)
    pieces = []
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            pieces += [piece.to_ndarray()[0] for piece in resampler.resample(frame)]
    pieces += [piece.to_ndarray()[0] for piece in resampler.resample(None)]
    samples = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    begin, count = int(start * SOUND_RATE), int(seconds * SOUND_RATE)
    wanted = samples[begin : begin + count].astype(np.float32)
    return np.pad(wanted, (0, count - len(wanted)))


def _with_media(
    table: dict[str, Any],
    name: str,
    length: float,
    *,
    media: MediaChoice,
    seed: int,
    progress: Callable[[str], None] | None,
) -> Scene:
    picture, sound, gaze = table["picture"], table["sound"], table["gaze"]
    made: GeneratedMedia | None = None
    recorded: list[Path] = []
    why = "as asked for"
    if media != "generated":
        try:
            names = (picture["sample"], sound["sample"], sound["turns"])
            recorded = [sample_path(name, progress) for name in names]
        except SamplesUnavailable as error:
            if media == "recorded":
                raise
            why = str(error)
    if recorded:
        picture_path, sound_path, turns_path = recorded
    else:
        if progress is not None:
            progress(f"generating media ({why})")
        made = _generated(seed, length)
        picture_path, sound_path, turns_path = made.face, made.voices, made.turns
    start = 0.0 if made else float(sound.get("start_s", 0.0))
    key = "generated_talker" if made else "talker"
    shifted = (Turn(t.talker, t.start - start, t.end - start) for t in read_rttm(turns_path))
    return Scene(
        name=name,
        title=str(table["title"]),
        duration=length,
        picture_track=str(picture["track"]),
        picture_path=picture_path,
        microphones=tuple(Microphone(m["track"], m[key]) for m in sound["microphones"]),
        sound_path=sound_path,
        sound_start=start,
        turns=tuple(
            Turn(t.talker, max(0.0, t.start), min(length, t.end))
            for t in shifted
            if t.end > 0.0 and t.start < length
        ),
        gaze=tuple(
            GazePoint(p["time"], p["x"], p["y"], p.get("radius", gaze["radius"]))
            for p in sorted(gaze["path"], key=lambda p: float(p["time"]))
        ),
        deadlines={c: float(table["deadlines_ms"][c.value]) / 1e3 for c in ObjectClass},
        media=(
            f"generated face and voices, seed {seed} ({why})"
            if made
            else f"recorded: {picture['sample']}, {sound['sample']}"
        ),
    )


def _generated(seed: int, length: float) -> GeneratedMedia:
    folder = cache_dir() / f"generated-1-{seed}-{length:g}s"
    if not folder.is_dir():
        cache_dir().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".generate-") as draft:
            generate_media(Path(draft) / "done", seed=seed, seconds=length)
            try:
                (Path(draft) / "done").rename(folder)
            except OSError:
                if not folder.is_dir():  # else: another process was faster, with the same content
                    raise
    return generated_paths(folder)
