"""What one run looked and sounded like, in a process of its own.

    python -m limen.bench.runs.quality REQUEST.json

The request names the run's folder and its start; the answer, the fields of `Quality`, goes to
`answer.json` beside it. A process of its own gives the memory of the pictures back.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..barcode import ROWS
from ..metrics import freezes
from ..peers.capture import BLOCK, Source, load_source
from ..peers.plan import RunPlan
from ..peers.recorder import Pictures, read_pictures
from ..picture_quality import PictureQuality, luma
from ..scene import SOUND_RATE, Floats, Scene
from ..speech_quality import PesqMissing, pesq_wb
from .records import SAME, RunLog, heard_times, read_run

LEAST_TURN = 1.0
"""Seconds: a shorter turn is a word or two, of which PESQ says little."""
LONGEST_PIECE = 8.0


@dataclass(frozen=True, slots=True)
class Quality:
    """How a run looked and sounded; None for what could not be judged."""

    region_psnr_db: float | None
    background_psnr_db: float | None
    pesq: float | None
    """PESQ-WB of the talkers' turns as they were heard; None without the package."""
    freezes_count: int
    longest_freeze_s: float
    lip_sync_ms: float | None
    """How much later than its sound a picture was seen, median; negative: earlier."""


def measure_quality(plan: RunPlan, folder: Path, *, start: float) -> Quality:
    """Judge what a run left in its folder; `start` is run time 0 on the monotonic clock."""
    scene = plan.load_scene()
    source = load_source(scene, barcode=plan.barcode)
    log = read_run(folder, start=start)
    quality = judge_pictures(plan, scene, source, log, read_run_pictures(folder, source, log))
    count, longest = freezes([at for _, at in log.shown], frame_time=1.0 / source.fps)
    return Quality(
        region_psnr_db=quality.region_psnr_db,
        background_psnr_db=quality.background_psnr_db,
        pesq=speech_quality(scene, source.sounds, log),
        freezes_count=count,
        longest_freeze_s=longest,
        lip_sync_ms=lip_sync_ms(log),
    )


def read_run_pictures(folder: Path, source: Source, log: RunLog) -> Pictures:
    """The pictures a run showed; see `read_pictures`."""
    first = source.pictures[0][1]
    width, height = log.size or (first.width, first.height)
    return read_pictures(folder, width=width, height=height)


def judge_pictures(
    plan: RunPlan, scene: Scene, source: Source, log: RunLog, pictures: Pictures
) -> PictureQuality:
    """Every captured picture beside what was on screen in its stead."""
    quality = PictureQuality()
    shown = {round((captured - log.start) / SAME): i for i, (captured, _) in enumerate(log.shown)}
    for time, picture in source.pictures:
        near = round(time / SAME)
        index = next((shown[n] for n in (near, near - 1, near + 1) if n in shown), None)
        point = scene.gaze_at(time)
        quality.add(
            luma(picture),
            None if index is None else pictures[index][: pictures.shape[1] * 2 // 3],
            None if point is None else point.region,
            unjudged_rows=ROWS if plan.barcode else 0,
        )
    return quality


def speech_quality(scene: Scene, sounds: Mapping[str, list[Floats]], log: RunLog) -> float | None:
    """PESQ-WB of every turn of at least `LEAST_TURN` on its talker's own track, by its length.

    What is judged is what came out of the loudspeaker between the moments at which the turn's two
    ends were heard: made-up, stretched and left-out sound included. Long turns are cut: PESQ was
    trained on sentences of 8 s and less (ITU-T P.862).
    """
    scores: list[tuple[float, float]] = []
    for microphone in scene.microphones:
        said = np.concatenate(sounds[microphone.track])
        blocks = log.sound.get(microphone.track, [])
        stamps = np.array([block.captured for block in blocks]) - log.start
        stamps = np.maximum.accumulate(np.nan_to_num(stamps, nan=-np.inf))
        for turn in scene.turns:
            if turn.talker != microphone.talker:
                continue
            begin = turn.start
            while (end := min(turn.end, begin + LONGEST_PIECE)) - begin >= LEAST_TURN:
                first, last = np.searchsorted(stamps, (begin, end), side="right")
                heard = [block.samples for block in blocks[first : last + 1]]
                played = np.concatenate([np.zeros(BLOCK, np.int16), *heard])
                try:
                    score = pesq_wb(
                        said[round(begin * SOUND_RATE) : round(end * SOUND_RATE)],
                        (played / 32768.0).astype(np.float32),
                    )
                except PesqMissing:
                    return None
                scores.append((score, end - begin))
                begin = end
    if not scores:
        return None
    return float(np.average([s for s, _ in scores], weights=[length for _, length in scores]))


def lip_sync_ms(log: RunLog) -> float | None:
    """Median over the pictures shown: when it was seen, less when its moment's sound was heard."""
    tracks = [heard_times(blocks) for blocks in log.sound.values()]
    apart = [
        at - sound
        for captured, at in log.shown
        if (sound := next((t for h in tracks if (t := h.at(captured)) is not None), None))
        is not None
    ]
    return float(np.median(apart)) * 1e3 if apart else None


def _main(request: Path) -> None:
    order = json.loads(request.read_text(encoding="utf-8"))
    folder = Path(order["folder"])
    quality = measure_quality(RunPlan.read(folder / "plan.json"), folder, start=order["start"])
    answer = json.dumps(dataclasses.asdict(quality))
    request.with_name("answer.json").write_text(answer, encoding="utf-8")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
