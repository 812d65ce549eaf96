"""Whether an encoder at work makes the event loop late: a tick of 1 ms beside 720p."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import numpy as np

from ...codecs.video import VideoSettings
from ...codecs.video_codecs import make_encoder
from ...codecs.worker import CodecWorker
from ...transport.quic.timer import make_timer
from ...transport.tuning import tune_process

TICK = 0.001


@dataclass(frozen=True, slots=True)
class Lateness:
    """Milliseconds by which ticks came late."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    encode_ms: float
    """Median for one 720p picture meanwhile; 0 for the idle loop."""


def lateness(codec: str | None, *, seconds: float = 3.0) -> Lateness:
    """Ticks while `codec` codes 720p at 30 pictures a second (None: while nothing runs)."""
    tune_process()
    return asyncio.run(_run(codec, seconds))


async def _run(codec: str | None, seconds: float) -> Lateness:
    loop = asyncio.get_running_loop()
    late: list[float] = []
    due = time.monotonic() + TICK

    def tick() -> None:
        nonlocal due
        now = time.monotonic()
        late.append(now - due)
        due = max(due + TICK, now)
        timer.arm(due)

    timer = make_timer(loop, tick)
    rng = np.random.default_rng(3)
    ground = np.kron(rng.integers(0, 255, (100, 180, 3)), np.ones((8, 8, 1), int))
    shifted = (ground[k : 720 + k, k : 1280 + k] for k in range(16))
    pictures = [np.ascontiguousarray(picture.astype(np.uint8)) for picture in shifted]
    took: list[float] = []
    timer.arm(due)
    if codec is None:
        await asyncio.sleep(seconds)
    else:
        encoder = make_encoder(codec, VideoSettings(bitrate_bps=1_500_000))
        worker = CodecWorker("bench")
        start = time.monotonic()
        for index in range(round(30 * seconds)):
            begun = time.monotonic()
            await worker.run(encoder.encode, pictures[index % len(pictures)])
            took.append(time.monotonic() - begun)
            await asyncio.sleep(max(0.0, start + (index + 1) / 30 - time.monotonic()))
        worker.close()
        encoder.close()
    timer.close()
    ms = np.array(late[20:]) * 1e3
    return Lateness(
        float(np.median(ms)),
        float(np.percentile(ms, 99)),
        float(ms.max()),
        float(np.median(took) * 1e3) if took else 0.0,
    )
