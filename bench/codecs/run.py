"""All measures of all codecs on some clips: tables as text, one PNG, and the figures as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codecs.opus import backend_name, redundancy
from ...codecs.video_codecs import ABILITIES
from .clips import Clip
from .lateness import lateness
from .losses import layer_cost, recovery
from .measures import aim, gaze_step, rate_step, scaled, speed
from .plots import plot
from .speech import speech

AIM_BPS = (500_000.0, 1_000_000.0)
GAZE_BPS = 1_000_000.0
Say = Callable[[str], None]


def run(
    clips: Sequence[Clip],
    codecs: Sequence[str],
    sound: NDArray[np.float32] | None,
    out: Path | None,
    say: Say,
    *,
    loop_seconds: float = 3.0,
) -> dict[str, Any]:
    """Print each table as it is measured; with `out`, write codecs.json and codecs.png there."""
    results: dict[str, Any] = {"clips": {}, "loop": {}, "speech": []}
    _abilities(codecs, say)
    for clip in clips:
        say(
            f"\n## {clip.name}: {clip.size[0]}x{clip.size[1]}, {clip.fps:.4g} fps, "
            f"{len(clip.pictures)} pictures"
        )
        results["clips"][clip.name] = _clip(clip, codecs, say)
    say("\n## Loop beside an encoder of 720p at 30 fps: lateness of a 1 ms tick, ms")
    _row(say, "codec", ["p50", "p99", "max", "encode"])
    for codec in (None, *codecs):
        late = lateness(codec, seconds=loop_seconds)
        results["loop"][codec or "idle"] = dataclasses.asdict(late)
        figures = (late.p50_ms, late.p99_ms, late.max_ms, late.encode_ms)
        _row(say, codec or "idle", [f"{f:.2f}" for f in figures])
    if sound is not None:
        say(f"\n## Speech, 32 kbit/s, {backend_name()}; {redundancy()}")
        _row(say, "", ["PESQ-WB", "lost", "repaired", "concealed", "length"], first=32)
        for heard in speech(sound):
            results["speech"].append(dataclasses.asdict(heard))
            score = "-" if heard.pesq is None else f"{heard.pesq:.2f}"
            cells = [
                score,
                f"{100 * heard.lost:.1f} %",
                str(heard.repaired),
                str(heard.concealed),
                "exact" if heard.exact else "WRONG",
            ]
            _row(say, heard.name, cells, first=32)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(results, default=_plain, indent=1)
        (out / "codecs.json").write_text(text, encoding="utf-8")
        plot(results, out / "codecs.png")
    return results


def _clip(clip: Clip, codecs: Sequence[str], say: Say) -> dict[str, Any]:
    found: dict[str, Any] = {codec: {} for codec in codecs}
    say("\nSpeed (one picture, one core) and delay")
    _row(say, "codec", ["encode ms", "p95", "decode ms", "held back", "PSNR dB", "kbit/s"])
    for codec in codecs:
        s = speed(clip, codec)
        found[codec]["speed"] = s
        cells = [f"{s.encode_ms:.1f}", f"{s.encode_p95_ms:.1f}", f"{s.decode_ms:.1f}"]
        _row(say, codec, [*cells, str(s.held_back), f"{s.psnr_db:.1f}", f"{s.kbps:.0f}"])
    say("\nRate step down to 3/8 and a keyframe: sizes over the target's share or the mean")
    names = ["mean", "max/mean", "mean low", "max/mean", "followed in", "keyframe", "next 3"]
    _row(say, "codec", names)
    for codec in codecs:
        r = rate_step(clip, codec)
        found[codec]["rate"] = r
        cells = [f"{f:.2f}" for f in (r.high, r.high_spread, r.low, r.low_spread)]
        cells += [str(r.frames_to_follow), f"{r.keyframe:.2f}", f"{r.after_keyframe:.2f}"]
        _row(say, codec, cells)
    say("\nAim at 7 % of the picture: dB inside / outside, bytes over unaimed; then a gaze jump")
    names = [f"{scaled(clip, bps) / 1e3:.0f} kbit/s" for bps in AIM_BPS]
    _row(
        say,
        "codec",
        [*names, "sharp in", "short dB 1st", "worst of 2-8", "before", "max/mean"],
        cell=19,
    )
    for codec in codecs:
        if not ABILITIES[codec].regions:
            _row(say, codec, ["not able"], cell=19)
            continue
        aimed = [aim(clip, codec, scaled(clip, bps)) for bps in AIM_BPS]
        jump = gaze_step(clip, codec, scaled(clip, GAZE_BPS))
        found[codec]["aim"], found[codec]["gaze"] = aimed, jump
        cells = [f"{a.inside_db:+.1f}/{a.outside_db:+.1f} x{a.bytes_ratio:.2f}" for a in aimed]
        cells.append(str(jump.frames_to_sharp or "none of 8"))
        short = (jump.short_db[0], max(jump.short_db[1:]))
        cells += [f"{f:.1f}" for f in (*short, jump.unaimed_db, jump.largest)]
        _row(say, codec, cells, cell=19)
    say("\nTemporal layers: cost in dB at the same rate, droppable bytes, base bit-identical")
    for codec in codecs:
        costs = [layer_cost(clip, codec, layers) for layers in (2, 3)]
        found[codec]["layers"] = [c for c in costs if c is not None]
        cells = [
            f"{c.layers}: {c.cost_db:.2f} dB {100 * c.droppable:.0f} % "
            + ("yes" if c.identical else "NO")
            for c in costs
            if c is not None
        ]
        _row(say, codec, cells or ["none"], cell=24)
    say("\nA picture lost, known after 100 ms")
    _row(say, "codec", ["repaired by", "in", "size", "worst shown", "dip dB", "unnoticed"], cell=12)
    for codec in codecs:
        v = recovery(clip, codec)
        found[codec]["recovery"] = v
        cells = [v.how, str(v.frames), f"{v.size:.2f}", f"{v.worst_shown_db:.1f}"]
        _row(say, codec, [*cells, f"{v.dip_db:.1f}", f"{v.unnoticed_db:.1f}"], cell=12)
    return found


def _abilities(codecs: Sequence[str], say: Say) -> None:
    say("## Abilities, as the encoders state them")
    _row(say, "codec", ["live rate", "layers", "regions", "repair", "keyframe", "delay"])
    for codec in codecs:
        a = ABILITIES[codec]
        cells = [a.live_rate, str(a.temporal_layers), "yes" if a.regions else "no", a.repair]
        _row(say, codec, [*cells, f"{a.keyframe_ratio:g} x", str(a.delay_frames)])


def _row(say: Say, name: str, cells: Sequence[str], *, first: int = 6, cell: int = 13) -> None:
    say(f"{name:<{first}}" + "".join(f"{text:>{cell}}" for text in cells))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"no JSON for {type(value).__name__}")
