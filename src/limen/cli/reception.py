"""One sender's session at the receiver: every track it offers is subscribed to and looked after.

Frames go to the outputs (a recording, raw pipes, neither) as they become due. What happens in
one session stays in it: a track that cannot be decoded costs a line, not the others' media.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..scheduler.errors import LimenError
from ..scheduler.sources.gaze import GazeSample
from ..transport.errors import SessionClosedError
from ..transport.events import TrackInfo
from ..transport.media.kinds import AudioFrame, VideoFrame
from ..transport.session import Session
from .figures import DelayFigures
from .gaze_feed import GazeFeed
from .raw_output import RawOutput
from .recorder import Recorder
from .terminal import Terminal, ms_text

LOOK = 0.05
"""Seconds between looks for new offers; a sender waits to be subscribed to."""
OVER = 0.5
"""Seconds without any offer, after some have ended, that mean the sender is done."""
FREEZE = 0.25
"""Seconds without a new picture that a viewer notices as a freeze."""
FRAMES = 250
"""Frames that may wait for this end: 5 s of sound, should the machine stand still."""
SEEN = ("played", "repaired", "stretched")


@dataclass(slots=True)
class TrackView:
    """What was seen or heard of one track."""

    info: TrackInfo
    counts: Counter[str] = field(default_factory=Counter)
    """Frames by kind: shown, played, repaired, stretched, concealed, silence."""
    delays: DelayFigures = field(default_factory=DelayFigures)
    freezes: int = 0
    last_shown: float | None = None
    lost: int = 0

    @property
    def frames(self) -> int:
        """Frames with something in them."""
        return self.counts["shown"] + sum(self.counts[kind] for kind in SEEN)

    def row(self, session: str) -> list[str]:
        """Its line in the summary."""
        video = self.info.media == "video"
        return [
            f"{session}{self.info.name}",
            str(self.frames),
            f"{self.freezes} freezes" if video else f"{self.counts['concealed']} concealed",
            str(self.lost),
            ms_text(self.delays.percentile(50)),
            ms_text(self.delays.percentile(95)),
        ]


class Reception:
    """Runs one session; `run` ends with it. Afterwards `finish` ends the recording."""

    def __init__(
        self,
        number: int,
        session: Session,
        terminal: Terminal,
        *,
        recorder: Recorder | None,
        raw: RawOutput | None,
        gaze: Sequence[GazeSample],
    ) -> None:
        self.number = number
        self.session = session
        self.recorder = recorder
        self.views: list[TrackView] = []
        self.started: float | None = None
        """When the first frame came."""
        self._terminal = terminal
        self._raw = raw
        self._gaze_samples = gaze
        self._gaze: asyncio.Task[None] | None = None
        self._reading: dict[int, asyncio.Task[None]] = {}
        self._no_offer_since: float | None = None

    async def run(self) -> None:
        """Look after the session until it ends, or the sender has ended every track."""
        try:
            while not self.session.is_closed:
                now = time.monotonic()
                self._take_up_offers()
                self._advance(now)
                if self._is_over(now):
                    return
                await asyncio.sleep(LOOK)
            # What was due before the end is still in the queues.
            await asyncio.wait_for(asyncio.gather(*self._reading.values()), 0.5)
        except TimeoutError:
            pass
        finally:
            for view in self.views:
                self._note_lost(view)
            tasks = [*self._reading.values(), *([self._gaze] if self._gaze else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._raw is not None:
                self._raw.release(self)

    def finish(self) -> None:
        """Write the recording to its end. Blocks: call it from a thread."""
        if self.recorder is not None:
            self.recorder.close()

    # -- tracks

    def _take_up_offers(self) -> None:
        for info in self.session.offers.values():
            if info.number in self._reading or info.media not in ("audio", "video"):
                continue
            view = TrackView(info)
            self.views.append(view)
            if info.media == "video" and self.recorder is not None:
                self.recorder.expect_picture = True
            self._reading[info.number] = asyncio.create_task(
                self._read(view), name=f"recv-{info.name}"
            )

    def _is_over(self, now: float) -> bool:
        if self.session.offers or not self._reading:
            self._no_offer_since = None
            return False
        if not all(task.done() for task in self._reading.values()):
            return False
        if self._no_offer_since is None:
            self._no_offer_since = now
        return now - self._no_offer_since >= OVER

    async def _read(self, view: TrackView) -> None:
        name = view.info.name
        try:
            async for frame in self.session.subscribe(name, max_frames=FRAMES):
                if isinstance(frame, VideoFrame):
                    self._on_picture(view, frame)
                elif isinstance(frame, AudioFrame):
                    self._on_sound(view, frame)
        except SessionClosedError:
            pass  # whoever runs the session says so, once
        except LimenError as error:
            self._terminal.note(f"{self.label}track {name} was given up: {error}")
        self._note_lost(view)

    def _on_picture(self, view: TrackView, frame: VideoFrame) -> None:
        view.counts["shown"] += 1
        if view.last_shown is not None and frame.shown - view.last_shown > FREEZE:
            view.freezes += 1
        view.last_shown = frame.shown
        if frame.delay is not None:
            view.delays.add(frame.delay)
        self._first_frame(frame.shown)
        if self.recorder is not None:
            self.recorder.picture(view.info.name, frame)
        if self._raw is not None and self._raw.take_over(self):
            fps = view.info.params.get("fps", 30)
            fps = fps if isinstance(fps, int | float) and 0.1 <= fps <= 240 else 30
            self._raw.picture(view.info.name, frame, fps)

    def _on_sound(self, view: TrackView, frame: AudioFrame) -> None:
        view.counts[frame.kind] += 1
        if frame.delay is not None:
            view.delays.add(frame.delay)
        self._first_frame(frame.played)
        if self.recorder is not None:
            self.recorder.sound(view.info.name, frame)
        if self._raw is not None and self._raw.take_over(self):
            self._raw.sound(view.info.name, frame)

    def _first_frame(self, now: float) -> None:
        if self.started is not None:
            return
        self.started = now
        pictures = [v.info.name for v in self.views if v.info.media == "video"]
        if self._gaze_samples and pictures:
            feed = GazeFeed(self._gaze_samples, pictures[0])
            feed.session = self.session
            self._gaze = asyncio.create_task(feed.run(now))

    def _note_lost(self, view: TrackView) -> None:
        stats = self.session.stats()["subscribed"].get(view.info.name, {})
        view.lost = max(view.lost, int(stats.get("lost", 0)))

    def _advance(self, now: float) -> None:
        if self.recorder is not None:
            self.recorder.advance(now)
        if self._raw is not None and self._raw.owner is self:
            self._raw.advance(now)

    # -- what is told

    @property
    def label(self) -> str:
        """How lines name this session, where there are several."""
        return "" if self.number == 1 else f"session {self.number}: "

    def describe(self) -> str:
        """Its part of the status line."""
        names = ", ".join(
            f"{view.info.name} {ms_text(view.delays.recent())}"
            for view in self.views
            if view.info.name in self.session.offers
        )
        return f"{self.label}{names or 'no tracks yet'}"
