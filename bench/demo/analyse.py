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
from ..runs.quality import judge_pictures, read_run_pictures
from ..runs.records import read_run
from .movie import Film, write_film


def analyse(request: Path) -> None:
    """Do what the request says."""
    order = json.loads(request.read_text(encoding="utf-8"))
    folder = Path(order["folder"])
    plan = RunPlan.read(folder / "plan.json")
    scene = plan.load_scene()
    source = load_source(scene, barcode=plan.barcode)
    log = read_run(folder, start=order["start"])
    pictures = read_run_pictures(folder, source, log)
    quality = judge_pictures(plan, scene, source, log, pictures)
    film = Film(
        title=order["title"],
        size=(pictures.shape[2], pictures.shape[1] * 2 // 3),
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
