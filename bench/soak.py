"""A long session in real time: does memory stay flat, does the tick stay exact?

A sender process encodes 640×360 at 30 pictures a second and one voice, through the seeded link of
a profile, to a receiver process that plays both out. Every second each notes its resident memory;
at the end the spread after the first minute and the tick's lateness are printed as JSON. A third
process that has nothing else to do notes how late the machine wakes it (`machine`): no tick can be
more exact than that.

    python -m limen.bench.soak --minutes 10
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import av
import numpy as np

import limen

from .link.launch import ProxyProcess
from .runs.host import HostWatch

PICTURES = 90
"""Different pictures, shown in turn: three seconds at 30 fps."""
FPS = 30.0


def resident_mb() -> float:
    """This process's resident memory in MB (peak, where the present value is not told)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    if sys.platform == "win32":
        raise SystemExit(
            "the soak needs /proc or getrusage to read its memory; Windows has neither"
        )
    import resource  # noqa: PLC0415 - Windows has no such module

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def moving_pictures(seed: int) -> list[av.VideoFrame]:
    """Textured pictures in which a block moves: enough work for the encoder at any rate."""
    rng = np.random.default_rng(seed)
    ground = rng.integers(60, 190, (360 // 4, 640 // 4), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
    pictures = []
    for index in range(PICTURES):
        image = np.repeat(ground[:, :, None], 3, axis=2)
        x = int(260 + 200 * np.sin(2 * np.pi * index / PICTURES))
        image[100:260, x : x + 120] = rng.integers(0, 255, (160, 120, 1), dtype=np.uint8)
        picture = av.VideoFrame.from_ndarray(image, format="rgb24")
        pictures.append(picture.reformat(format="yuv420p"))
    return pictures


def voice(seed: int, seconds: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Bursts of a harmonic tone with pauses, in the rhythm of speech."""
    rng = np.random.default_rng(seed)
    time_axis = np.arange(seconds * 48000) / 48000
    tone = sum(np.sin(2 * np.pi * 140 * k * time_axis) / k for k in range(1, 12))
    syllables = np.clip(np.sin(2 * np.pi * 3.1 * time_axis), 0, 1)
    turns = np.sin(2 * np.pi * time_axis / 5.3) > -0.4
    noise = rng.normal(0, 0.002, time_axis.size)
    return (0.15 * tone * syllables * turns + noise).astype(np.float32)


async def _receive(pipe: Connection) -> None:
    memory: list[float] = []
    shown = {"face": 0, "voice": 0}

    async def watch(session: limen.Session) -> None:
        async def count(name: str) -> None:
            async for _ in session.subscribe(name):
                shown[name] += 1

        async with asyncio.TaskGroup() as group:
            group.create_task(count("face"))
            group.create_task(count("voice"))
            pipe.send(("subscribed", None))
            await session.wait_closed()

    over = asyncio.Event()

    async def handler(session: limen.Session) -> None:
        try:
            await watch(session)
        finally:
            over.set()

    limen.tune_process()
    async with limen.serve(handler) as server:
        pipe.send((server.port, server.fingerprint))
        while not over.is_set():
            memory.append(resident_mb())
            await asyncio.sleep(1.0)
    pipe.send({"memory_mb": memory, "shown": shown})


async def _send(port: int, fingerprint: str, minutes: float, seed: int) -> dict[str, Any]:
    pictures, sound = moving_pictures(seed), voice(seed, 60)
    limen.tune_process()
    memory: list[float] = []
    async with limen.connect("127.0.0.1", port, fingerprint=fingerprint) as session:
        face = session.publish("face", limen.Video(bitrate_bps=800_000, fps=FPS))
        talk = session.publish("voice", limen.Audio())
        await face.wait_subscribed()
        await talk.wait_subscribed()
        start = time.monotonic()
        end = start + minutes * 60

        async def show() -> None:
            for index in range(int(minutes * 60 * FPS)):
                captured = start + index / FPS
                await asyncio.sleep(captured - time.monotonic())
                await face.send(pictures[index % PICTURES], captured=captured)

        async def say() -> None:
            blocks = sound.size // 960
            for index in range(int(minutes * 60 * 50)):
                captured = start + (index + 1) * 0.02
                await asyncio.sleep(captured - time.monotonic())
                at = index % blocks * 960
                await talk.send(sound[at : at + 960], sample_rate=48000, captured=captured)

        async def look() -> None:
            while time.monotonic() < end:
                memory.append(resident_mb())
                session.tag("gaze", 0.8, track="face", region=limen.Region.around(0.5, 0.5, 0.15))
                await asyncio.sleep(1.0)

        async with asyncio.TaskGroup() as group:
            for part in (show, say, look):
                group.create_task(part())
        stats = session.stats()
    return {"memory_mb": memory, "stats": stats}


def _watch_process(pipe: Connection) -> None:
    with HostWatch() as watch:
        pipe.recv()
    pipe.send(watch.to_dict())


def _receiver_process(pipe: Connection) -> None:
    asyncio.run(_receive(pipe))


def _spread(memory: list[float]) -> dict[str, float]:
    settled = memory[60:] or memory
    return {
        "first_mb": round(memory[0], 1),
        "after_warm_up_mb": round(settled[0], 1),
        "least_mb": round(min(settled), 1),
        "most_mb": round(max(settled), 1),
        "last_mb": round(settled[-1], 1),
    }


def main() -> None:
    """Run the soak and print its figures; exit 1 when memory or the tick fall short."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--profile", default="tight")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    receiver = context.Process(target=_receiver_process, args=(theirs,), daemon=True)
    receiver.start()
    port, fingerprint = ours.recv()
    watched, theirs = context.Pipe()
    context.Process(target=_watch_process, args=(theirs,), daemon=True).start()
    with ProxyProcess(options.profile, target=("127.0.0.1", port), seed=options.seed) as link:
        sent = asyncio.run(_send(link.port, fingerprint, options.minutes, options.seed))
        ours.recv()  # "subscribed"
        received = ours.recv()
        link_stats = link.stop()
    watched.send("over")
    machine = watched.recv()
    receiver.join(5)
    stats = sent["stats"]
    result = {
        "minutes": options.minutes,
        "profile": options.profile,
        "sender_memory": _spread(sent["memory_mb"]),
        "receiver_memory": _spread(received["memory_mb"]),
        "tick": stats["tick"],
        "shown": received["shown"],
        "published": stats["published"],
        "queue_delay_ms": link_stats["down"]["queue_delay_ms"],
        "machine": machine,
    }
    print(json.dumps(result, indent=2))  # noqa: T201 - this program's output
    flat = all(
        result[who]["most_mb"] - result[who]["least_mb"] <= 20
        for who in ("sender_memory", "receiver_memory")
    )
    sys.exit(0 if flat and stats["tick"]["lateness_p99"] < 1e-3 else 1)


if __name__ == "__main__":
    main()
