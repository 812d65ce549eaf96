"""Media over QUIC as a Python user would pick it today: PyPI `moq-rs`, on Rust's quinn.

The media's receiver listens, the sender connects and publishes one broadcast, without a relay. A
voice's frame is a group of its own at high priority; pictures are in groups of one second that
begin with a keyframe, in the library's own order: a group older than its track's deadline (the
subscription's `max_age_us`) is skipped. Encoders
run at their nominal rate all along, as in `fifo.py`; playout is limen's own parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import importlib.util
import struct
import time
from pathlib import Path
from typing import Any

from .capture import load_source, wait_until
from .nominal import NominalObject, NominalSender, NominalSink
from .parent import Parent
from .plan import RunPlan
from .player import SKIPPING, Player
from .program import report_live, run_peer
from .recorder import EventLog, LiveDelays, Viewer

BROADCAST = "scene"
GROUP_SECONDS = 1.0
"""A group of pictures: what MoQ's own examples use; a skip costs half of it on the average."""
SOUND_PRIORITY, PICTURE_PRIORITY = 250, 10
CONNECT_SECONDS = 60.0
"""The sender connects when its media are loaded, which a busy machine takes long for."""


def missing() -> str | None:
    """Why it cannot run here; None when it can."""
    if importlib.util.find_spec("moq") is None:
        return "moq-rs is not installed (pip install 'limen[rivals]')"
    return None


def _library() -> Any:
    # It may be absent, and its own types call its errors no exceptions.
    return importlib.import_module("moq")


def _track(number: int) -> str:
    return f"track-{number}"


async def send(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Publish the scene at its nominal rates."""
    moq = _library()

    source = load_source(plan.load_scene(), barcode=plan.barcode)
    log = EventLog()
    parent.tell(ready=True)
    where = (await parent.receive())["connect"]
    client = moq.Client(
        f"https://{where['host']}:{where['port']}",
        tls_fingerprints=[where["fingerprint"]],
        websocket_enabled=False,
        reconnect=False,
    )
    async with client:
        broadcast = client.create_broadcast(BROADCAST)
        tracks = [
            broadcast.publish_track(
                _track(n), moq.TrackInfo(priority=SOUND_PRIORITY if n else PICTURE_PRIORITY)
            )
            for n in range(1 + len(source.sounds))
        ]
        group: Any = None

        def emit(obj: NominalObject) -> None:
            nonlocal group
            stamp = round(obj.captured * 1e6)
            if obj.track:
                tracks[obj.track].write_frame(obj.encode(), stamp)
                return
            if obj.is_key:
                if group is not None:
                    group.finish()
                group = tracks[0].append_group()
            group.write_frame(obj.encode(), stamp)

        broadcast.announce()
        sender = NominalSender(source, plan, log, emit, gop_seconds=GROUP_SECONDS)
        while "subscribed" not in (await parent.receive()).get("relay", {}):
            pass
        start = time.monotonic() + plan.lead
        parent.tell(start=start)
        await sender.run(start)
        await wait_until(start + plan.duration + plan.drain)
    sender.close()
    log.write(folder / "sender.jsonl")


async def receive(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Subscribe to every track and play out what comes."""
    moq = _library()

    scene = plan.load_scene()
    names = [scene.picture_track, *(microphone.track for microphone in scene.microphones)]
    log, viewer, live = EventLog(), Viewer(), LiveDelays()
    player = Player(scene.picture_track, names[1:], viewer, waiting=SKIPPING)
    sink = NominalSink(names, player, log, live)
    server = moq.Server(f"{plan.listen_host}:0", tls_generate=["localhost"])
    async with server, asyncio.TaskGroup() as group:
        port = int(server.local_addr.rpartition(":")[2])
        parent.tell(ready=True, port=port, fingerprint=server.cert_fingerprints()[0])
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                session = await (await anext(aiter(server))).accept()
                broadcast = await session.consume().announced_broadcast(BROADCAST)
        except TimeoutError as error:
            words = f"no sender connected and announced itself within {CONNECT_SECONDS:.0f} s"
            raise RuntimeError(words) from error
        tasks = [group.create_task(_follow(broadcast, n, plan, sink)) for n in range(len(names))]
        parent.tell(relay={"subscribed": True})
        start = await _told_start(parent)
        gc.collect()
        gc.freeze()
        await report_live(live, parent, start=start, end=start + plan.duration + plan.drain)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Exception):
            session.shutdown()
    await player.close()
    viewer.write(folder, log)
    log.write(folder / "receiver.jsonl")


async def _told_start(parent: Parent) -> float:
    while "start" not in (message := await parent.receive()):
        pass
    return float(message["start"])


async def _follow(broadcast: Any, number: int, plan: RunPlan, sink: NominalSink) -> None:
    """Take every frame of one track, its groups side by side."""
    moq = _library()

    wanted = moq.Subscription(
        priority=SOUND_PRIORITY if number else PICTURE_PRIORITY,
        max_age_us=round(1e6 * (plan.voice_deadline if number else plan.video_deadline)),
    )
    track = broadcast.subscribe_track(_track(number), wanted)
    if asyncio.iscoroutine(track):
        track = await track

    async def read(group: Any) -> None:
        with contextlib.suppress(moq.Error):  # a group that was given up halfway
            while (frame := await group.read_frame()) is not None:
                with contextlib.suppress(struct.error):
                    sink.take(NominalObject.decode(frame.payload))

    async with asyncio.TaskGroup() as groups:
        with contextlib.suppress(moq.Error):  # the sender has ended
            async for group in track.groups_as_arrived():
                groups.create_task(read(group))


if __name__ == "__main__":
    run_peer(__doc__ or "", send=send, receive=receive)
