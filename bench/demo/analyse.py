"""What one run looked like: picture quality and the film, in a process of its own.

    python -m limen.bench.demo.analyse REQUEST.json

The request names the run; the answer (PSNR) goes to `answer.json` beside it. Two runs are
analysed at once, each on its own core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..peers.capture import load_source
from ..peers.plan import RunPlan
from ..peers.recorder import read_pictures
from ..picture_quality import PictureQuality, luma
from ..runs.records import SAME, read_run
from .movie import Film, write_film


def analyse(request: Path) -> None:
    """Do what the request says."""
    order = json.loads(request.read_text(encoding="utf-8"))
    folder = Path(order["folder"])
    plan = RunPlan.read(folder / "plan.json")
    scene = plan.load_scene()
    source = load_source(scene)
    log = read_run(folder, start=order["start"])
    first = source.pictures[0][1]
    width, height = log.size or (first.width, first.height)
    pictures = read_pictures(folder, width=width, height=height)
    quality = PictureQuality()
    shown = {round((captured - log.start) / SAME): i for i, (captured, _) in enumerate(log.shown)}
    for time, picture in source.pictures:
        near = round(time / SAME)
        index = next((shown[n] for n in (near, near - 1, near + 1) if n in shown), None)
        point = scene.gaze_at(time)
        quality.add(
            luma(picture),
            None if index is None else pictures[index][:height],
            None if point is None else point.region,
        )
    film = Film(
        title=order["title"],
        size=(width, height),
        length=plan.duration + plan.drain,
        start=log.start,
        shown=log.shown,
        pictures=pictures,
        sound=log.sound,
        gaze=scene.gaze,
        rates=[(at, rate) for at, rate in order["rates"]],
    )
    write_film(film, Path(order["film"]))
    answer = {"region": quality.region_psnr_db, "background": quality.background_psnr_db}
    request.with_name("answer.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    analyse(Path(sys.argv[1]))
