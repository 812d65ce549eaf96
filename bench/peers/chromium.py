"""WebRTC between two headless Chromium: Google's congestion control, NetEQ, VP8 and Opus.

The sender's page is handed pictures and chunks of sound at the same absolute moments as the other
peers' encoders, from this process's memory; nothing is filtered (no echo cancellation, noise
suppression or gain control: there is no capture device). Ceilings are the plan's, per track.
Everything else is the browser's own choice, as a web page would get it.

Media is sent from `rehearsal.WARM_UP` seconds before run time 0, as rate control has to find the
link's rate first. Pictures are known by barcode; what was heard is aligned with the source later
(`bench/runs/alignment.py`). The taps are described in `web/receiver.js`, and their own delay is
measured before each run and reported in `peer.json`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from .browser import Browser, missing
from .capture import BLOCK, load_source, wait_until
from .heard import HeardLog
from .page_server import PageServer
from .parent import Parent
from .plan import RunPlan
from .program import report_live, run_peer
from .recorder import EventLog, LiveDelays
from .rehearsal import WARM_UP, RehearsedPictures, rehearse
from .shown_pictures import PictureSpool
from .webrtc import on_the_link, receiver_figures, sender_figures, told, with_voice_rate

__all__ = ["missing"]

BATCH = 25
"""Pictures the page fetches at a time: about a second."""
HEAD = 4
"""Doubles before each picture that the page hands over: time, width, height, whether NV12."""
STATS_INTERVAL = 0.25
"""Seconds between looks at how much sound was made up."""
SETTLE = 1.0
"""Seconds between the first path and the warm-up: the page fetches its first pictures."""


async def send(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Hand the scene to the browser."""
    pictures, sounds = rehearse(load_source(plan.load_scene(), barcode=True))
    media = _Media(pictures, sounds)
    gc.collect()
    gc.freeze()
    with PageServer(give=media.give) as server:
        async with Browser(f"{server.url}/peer.html", folder=folder / "browser-send") as browser:
            clock = await browser.clock_offset()
            parent.tell(ready=True)
            await told(parent, "connect")
            offer = await browser.call("offer", media.plan(plan))
            captured = {track: rehearsed.captured for track, rehearsed in pictures.items()}
            sizes = {track: rehearsed.size for track, rehearsed in pictures.items()}
            parent.tell(relay={"offer": on_the_link(offer), "captured": captured, "sizes": sizes})
            answer = (await told(parent, "relay"))["answer"]
            await browser.call("accept", with_voice_rate(answer, plan.voice_bps))
            start = time.monotonic() + SETTLE + WARM_UP
            await browser.call("run", (start - WARM_UP - clock.offset) * 1e3)
            parent.tell(start=start)
            await wait_until(start + plan.duration)
            late = await browser.call("finish")
            rows = await browser.call("stats")
            parent.tell(
                relay={
                    "sender": {
                        "clock_error_ms": round(clock.error * 1e3, 3),
                        "hand_over_late_ms": {k: _spread(v) for k, v in late.items()},
                        "tracks": sender_figures(rows, tracks=[*pictures, *sounds]),
                    }
                }
            )
            await wait_until(start + plan.duration + plan.drain)
    EventLog().write(folder / "sender.jsonl")


async def receive(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Record what the browser shows and plays."""
    log, live = EventLog(), LiveDelays()
    with PageServer(take=(recording := _Recording(folder, live)).take) as server:
        async with Browser(f"{server.url}/peer.html", folder=folder / "browser-receive") as browser:
            taps = await browser.call("tapDelays")
            clock = await browser.clock_offset()
            parent.tell(ready=True)
            offered = await told(parent, "relay")
            scene = plan.load_scene()
            sounds = [microphone.track for microphone in scene.microphones]
            tracks = [*offered["captured"], *sounds]
            recording.expect(list(offered["captured"]), clock.offset)
            answer = await browser.call(
                "answer", offered["offer"], list(offered["captured"]), sounds
            )
            parent.tell(relay={"answer": on_the_link(answer)})
            start = await told(parent, "start")
            recording.start = start
            recording.captured = offered["captured"]
            await browser.call("begin", (start - clock.offset) * 1e3)
            gc.collect()
            gc.freeze()
            await wait_until(start)
            before = await browser.call("stats")
            end = start + plan.duration + plan.drain
            counting = asyncio.create_task(
                _count_made_up(browser, recording.heard, tracks, until=start + plan.duration)
            )
            await report_live(live, parent, start=start, end=end)
            after = await counting
            await browser.call("flush")
            again = await browser.clock_offset()
            sender = (await told(parent, "relay"))["sender"]
    figures = {
        **receiver_figures(before, after, tracks=tracks),
        "sender": sender,
        "taps_ms": {kind: _spread(values) for kind, values in taps.items()},
        "clock_error_ms": round(clock.error * 1e3, 3),
        "clock_moved_ms": round((again.offset - clock.offset) * 1e3, 3),
        "warm_up_s": WARM_UP,
        "pictures": recording.finish(log, sizes=offered["sizes"]),
    }
    (folder / "peer.json").write_text(json.dumps(figures), encoding="utf-8")
    log.write(folder / "receiver.jsonl")


class _Media:
    """The sender's media, as the page asks for it."""

    def __init__(self, pictures: dict[str, RehearsedPictures], sounds: dict[str, Any]) -> None:
        self._pictures = pictures
        self._sounds = {t: np.concatenate(c).astype("<f4").tobytes() for t, c in sounds.items()}

    def plan(self, plan: RunPlan) -> dict[str, Any]:
        """What sender.js is told."""
        pictures = [
            {
                "track": track,
                "width": rehearsed.size[0],
                "height": rehearsed.size[1],
                "times": [at * 1e3 for at in rehearsed.times],
                "batch": BATCH,
                "bps": plan.video_bps,
            }
            for track, rehearsed in self._pictures.items()
        ]
        sounds = [{"track": track, "chunk": BLOCK} for track in self._sounds]
        return {"pictures": pictures, "sounds": sounds}

    def give(self, parts: list[str]) -> bytes:
        """Media for a path; see page_server.Give."""
        kind, track, *rest = parts
        if kind == "sound":
            return self._sounds[track]
        first = int(rest[0]) * BATCH
        frames = self._pictures[track].frames[first : first + BATCH]
        return b"".join(frame.to_ndarray().tobytes() for frame in frames)


class _Recording:
    """What the receiver's page hands over, on the server's threads."""

    def __init__(self, folder: Path, live: LiveDelays) -> None:
        self.heard = HeardLog()
        self.start = 0.0
        self.captured: dict[str, list[float]] = {}
        self._folder = folder
        self._live = live
        self._offset = 0.0
        self._spools: dict[str, PictureSpool] = {}

    def expect(self, pictures: list[str], offset: float) -> None:
        """Pictures of these tracks will come, by a clock that is `offset` behind ours."""
        self._offset = offset
        self._spools = {track: PictureSpool(self._folder, track) for track in pictures}

    def take(self, parts: list[str], body: bytes) -> None:
        """See page_server.Take."""
        kind, track = parts
        if kind == "pictures":
            self._picture(track, body)
        else:
            self._sound(track, body)

    def finish(self, log: EventLog, *, sizes: dict[str, list[int]]) -> dict[str, Any]:
        """Write pictures, events and sound; what is worth knowing of the pictures, by track."""
        self.heard.write(self._folder)
        counts: dict[str, Any] = {}
        for track, spool in self._spools.items():
            width, height = sizes[track]
            stamps = [self.start + at for at in self.captured[track]]
            counts[track] = spool.finish(log, captured=stamps, width=width, height=height)
        return counts

    def _picture(self, track: str, body: bytes) -> None:
        at, width, height, is_nv12 = np.frombuffer(body, "<f8", count=HEAD)
        shown = float(at) / 1e3 + self._offset
        number = self._spools[track].add(
            body[HEAD * 8 :],
            width=int(width),
            height=int(height),
            form="nv12" if is_nv12 else "yuv420p",
            at=shown,
        )
        if number is not None and number < len(self.captured[track]):
            self._live.add(track, shown - self.start - self.captured[track][number])

    def _sound(self, track: str, body: bytes) -> None:
        count = int(np.frombuffer(body, "<f8", count=1)[0])
        heads = np.frombuffer(body, "<f8", count=3 * count, offset=8).reshape(count, 3)
        samples = np.frombuffer(body, "<f4", offset=8 * (1 + 3 * count))
        position = 0
        for at, rate, length in heads:
            block = samples[position : position + int(length)]
            position += int(length)
            self.heard.add(track, block, rate=int(rate), at=float(at) / 1e3 + self._offset)


async def _count_made_up(
    browser: Browser, heard: HeardLog, tracks: list[str], *, until: float
) -> list[dict[str, Any]]:
    """Note again and again how many audible samples NetEQ has made up; the last report.

    After the end of capture it makes up all it plays: that counts no more.
    """
    while True:
        now = time.monotonic()
        rows: list[dict[str, Any]] = await browser.call("stats")
        for row in rows:
            if row["type"] == "inbound-rtp" and row["kind"] == "audio":
                total = row.get("concealedSamples", 0) - row.get("silentConcealedSamples", 0)
                heard.conceal(tracks[int(row["mid"])], total, at=now)
        if now >= until:
            return rows
        await wait_until(min(now + STATS_INTERVAL, until))


def _spread(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    middle, high = np.percentile(values, (50, 99))
    return {"p50": round(float(middle), 3), "p99": round(float(high), 3)}


if __name__ == "__main__":
    run_peer(__doc__ or "", send=send, receive=receive)
