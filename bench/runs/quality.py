"""What one run looked like: picture quality and freezes, in a process of its own.

    python -m limen.bench.runs.quality REQUEST.json

The request names the run's folder and its start; the answer, the fields of `Quality`, goes to
`answer.json` beside it. A process of its own gives the memory of the pictures back.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from ..barcode import ROWS
from ..metrics import freezes
from ..peers.capture import load_source
from ..peers.plan import RunPlan
from ..peers.recorder import read_pictures
from ..picture_quality import PictureQuality, luma
from .records import SAME, read_run


@dataclass(frozen=True, slots=True)
class Quality:
    """How a run looked and sounded; None for what could not be judged."""

    region_psnr_db: float | None
    background_psnr_db: float | None
    pesq: float | None
    freezes_count: int
    longest_freeze_s: float
    lip_sync_ms: float | None


def measure_quality(plan: RunPlan, folder: Path, *, start: float) -> Quality:
    """Judge what a run left in its folder; `start` is run time 0 on the monotonic clock."""
    scene = plan.load_scene()
    source = load_source(scene)
    log = read_run(folder, start=start)
    first = source.pictures[0][1]
    width, height = log.size or (first.width, first.height)
    pictures = read_pictures(folder, width=width, height=height)
    quality = PictureQuality()
    shown = {round((captured - start) / SAME): i for i, (captured, _) in enumerate(log.shown)}
    for time, picture in source.pictures:
        near = round(time / SAME)
        index = next((shown[n] for n in (near, near - 1, near + 1) if n in shown), None)
        point = scene.gaze_at(time)
        quality.add(
            luma(picture),
            None if index is None else pictures[index][:height],
            None if point is None else point.region,
            unjudged_rows=ROWS if plan.barcode else 0,
        )
    count, longest = freezes([at for _, at in log.shown], frame_time=1.0 / source.fps)
    return Quality(
        region_psnr_db=quality.region_psnr_db,
        background_psnr_db=quality.background_psnr_db,
        pesq=None,
        freezes_count=count,
        longest_freeze_s=longest,
        lip_sync_ms=None,
    )


def _main(request: Path) -> None:
    order = json.loads(request.read_text(encoding="utf-8"))
    folder = Path(order["folder"])
    quality = measure_quality(RunPlan.read(folder / "plan.json"), folder, start=order["start"])
    answer = json.dumps(dataclasses.asdict(quality))
    request.with_name("answer.json").write_text(answer, encoding="utf-8")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
