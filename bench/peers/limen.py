"""limen as a user would embed it: the public interface only.

The receiver tells where its viewer looks, with tags on the picture's track; speech is tagged by
the sender's own ears. The picture's rate follows the link, up to the nominal rate. `static.py` is
the same without any tag.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import time
from pathlib import Path
from typing import Any

import av

from ...scheduler.sources.gaze import GazeSource
from ...transport.api import connect, serve
from ...transport.errors import SessionClosedError
from ...transport.media.kinds import Audio, Video
from ...transport.quic.tls import make_certificate
from ...transport.session import Session
from ...transport.settings import SessionSettings
from ..scene import Floats, Scene
from .capture import capture, load_source, wait_until
from .parent import Parent
from .plan import RunPlan
from .program import report_live, run_peer
from .recorder import EventLog, LiveDelays, Viewer

SOUND_FIRST = 0.9
"""Importance of all sound where nothing says which matters: a weight of 42 beside a picture's 3."""
GAZE_INTERVAL = 1 / 30
"""Seconds between points of gaze: slow eye trackers give 30 a second, good ones 120."""


async def send(plan: RunPlan, folder: Path, parent: Parent, *, tags: bool = True) -> None:
    """Publish the scene's tracks and send them in real time; `tags`: sound brings its own."""
    scene = plan.load_scene()
    source = load_source(scene, barcode=plan.barcode)
    log = EventLog()
    trace = _SenderTrace(log)
    parent.tell(ready=True)
    where = (await parent.receive())["connect"]
    async with connect(
        where["host"],
        where["port"],
        fingerprint=where["fingerprint"],
        settings=SessionSettings(trace=trace),
    ) as session:
        face = session.publish(
            source.picture_track,
            Video(
                bitrate_bps=plan.video_bps,
                fps=source.fps,
                deadline=plan.video_deadline,
                gop_seconds=plan.gop_seconds,
            ),
        )
        kind = Audio(bitrate_bps=plan.voice_bps, deadline=plan.voice_deadline)
        if not tags:
            kind = dataclasses.replace(kind, importance=SOUND_FIRST, speech_tags=False)
        voices = {track: session.publish(track, kind) for track in source.sounds}
        for publication in (face, *voices.values()):
            trace.names[publication.info.number] = publication.name
            await publication.wait_subscribed()
        start = time.monotonic() + plan.lead
        parent.tell(start=start)

        async def on_picture(picture: av.VideoFrame, captured: float) -> None:
            await face.send(picture, captured=captured)

        async def on_sound(track: str, chunk: Floats, captured: float) -> None:
            await voices[track].send(chunk, sample_rate=48_000, captured=captured)

        await capture(source, start=start, on_picture=on_picture, on_sound=on_sound)
        log.add("stats", stats=session.stats())
        await wait_until(start + plan.duration + plan.drain)
    log.write(folder / "sender.jsonl")


class _SenderTrace:
    """The session's trace as the log's events; track names for numbers, capture times for ids."""

    def __init__(self, log: EventLog) -> None:
        self.names: dict[int, str] = {}
        self._log = log
        self._captured: dict[tuple[int, ...], float] = {}

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        match event:
            case "object_queued":
                self._captured[values["id"]] = values["captured"]
                self._add("queued", values, at=values["at"], bytes=values["bytes"])
            case "object_sent":
                self._add("sent", values, at=values["at"], first=values["first"])
            case "object_shed":
                self._add("shed", values, at=values["at"], reason=values["reason"])
            case "frame_skipped":
                self._log.add("skipped", **values)
            case "tag" | "shares":
                self._log.add(event, **values)

    def _add(self, event: str, values: dict[str, Any], **more: Any) -> None:
        key = values["id"]
        self._log.add(event, track=self.names[key[0]], captured=self._captured[key], **more)


async def receive(plan: RunPlan, folder: Path, parent: Parent, *, tags: bool = True) -> None:
    """Subscribe to everything, keep what is seen and heard; `tags`: tell where the viewer looks."""
    scene = plan.load_scene()
    log, viewer, live = EventLog(), Viewer(), LiveDelays()
    names: dict[int, str] = {}

    def trace(event: str, values: dict[str, Any]) -> None:
        if event == "object_received":
            track, captured, at = names[values["id"][0]], values["captured"], values["at"]
            log.add(
                "received",
                track=track,
                captured=captured,
                at=at,
                first_byte=values["first_byte"],
                bytes=values["bytes"],
            )
            live.add(track, at - captured)

    async def handle(session: Session) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for microphone in scene.microphones:
                    group.create_task(_listen(session, microphone.track, names, viewer))
                group.create_task(_watch(session, scene.picture_track, names, viewer))
                start = (await parent.receive())["start"]
                if tags:
                    group.create_task(_gaze(session, scene, start))
                gc.collect()
                gc.freeze()
                end = start + plan.duration + plan.drain
                group.create_task(report_live(live, parent, start=start, end=end))
                await wait_until(end)
                log.add("stats", stats=session.stats())
                over.set()
        except* SessionClosedError as closed:
            log.add("closed", reason=str(closed.exceptions[0]))
            over.set()

    over = asyncio.Event()
    settings = SessionSettings(trace=trace)
    certificate = make_certificate()
    async with serve(
        handle, plan.listen_host, certificate=certificate, settings=settings
    ) as server:
        parent.tell(ready=True, port=server.port, fingerprint=server.fingerprint)
        await over.wait()
    viewer.write(folder, log)
    log.write(folder / "receiver.jsonl")


async def _listen(session: Session, track: str, names: dict[int, str], viewer: Viewer) -> None:
    subscription = session.subscribe(track, "audio")
    names[(await subscription.ready()).number] = track
    async for frame in subscription:
        viewer.hear(
            track, frame.samples, captured=frame.captured, played=frame.played, kind=frame.kind
        )


async def _watch(session: Session, track: str, names: dict[int, str], viewer: Viewer) -> None:
    subscription = session.subscribe(track, "video")
    names[(await subscription.ready()).number] = track
    async for frame in subscription:
        viewer.see(frame.picture, captured=frame.captured, shown=frame.shown)


async def _gaze(session: Session, scene: Scene, start: float) -> None:
    """The scene's gaze as an eye tracker would give it, point by point, as tags to the sender."""
    source = GazeSource(scene.picture_track, value=1.0, half_life=0.5)
    moment = 0.0
    while moment < scene.duration:
        await wait_until(start + moment)
        point = scene.gaze_at(moment)
        if point is not None:
            for tag in source.look(point.x, point.y, time=start + moment, radius=point.radius):
                session.add_tag(tag)
        moment += GAZE_INTERVAL


if __name__ == "__main__":
    run_peer(__doc__ or "", send=send, receive=receive)
