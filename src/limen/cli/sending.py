"""`limen send`: sources become tracks, paced in real time, to a receiver that may come and go.

```
 MediaSource ─thread─> SourceReader ─MediaClock─> Outlet ─> Publication ══> receiver
     (one per source)                 (one for all)  (one per track, across sessions)
```

The media begin when the receiver has subscribed, so nothing of the start is lost. From then on
they run as live media do: while the receiver is away they go on, and it gets what is current
when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..codecs.errors import UnsupportedMedia
from ..codecs.sources import MediaSource, SourceStream, open_source
from ..scheduler.sources.gaze import GazeSample
from ..transport.errors import SessionClosedError
from ..transport.media.kinds import Audio, Video
from ..transport.session import Session
from ..transport.settings import SessionSettings
from .calling import Call, Caller, Destination
from .failures import CommandError
from .gaze_feed import GazeFeed
from .media_clock import ArrivalClock, MediaClock
from .outlet import Outlet
from .reader import DueItem, SourceReader
from .running import in_thread
from .terminal import Terminal, ms_text, rate_text

OTHERS_GRACE = 1.0
"""Seconds the other tracks get to be subscribed to after the first one."""
PLAYED_OUT = 3.0
"""Seconds a receiver gets at the end to play out and hang up: its longest buffer and a second."""
GOING = 0.2
"""Seconds a receiver that said good-bye gets to be gone, before it is called again."""
STALE = 0.5
"""Seconds after which what a device gave is no longer worth sending: nobody was there."""
OPENING = 10.0
"""Seconds a device may take to open."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What `limen send` was told, checked."""

    sources: Sequence[str]
    to: Destination
    wait: float = 3.5
    """Seconds to try for the first session: with start-up, a wrong address fails within 5."""
    reconnect: float = 30.0
    """Seconds to try again once there was one."""
    video_bps: float = 1_500_000
    audio_bps: float = 32_000
    loop: bool = False
    duration: float | None = None
    gaze: Sequence[GazeSample] = ()


class Sender:
    """One run of `limen send`."""

    def __init__(self, options: SendOptions, terminal: Terminal) -> None:
        self._options = options
        self._terminal = terminal
        self._caller = Caller(options.to, terminal, SessionSettings())
        self._outlets: dict[tuple[int, int], Outlet] = {}
        self._readers: dict[MediaSource, SourceReader] = {}
        self._session: Session | None = None
        self._clock: MediaClock | None = None
        self._gaze: GazeFeed | None = None
        self._stalls_told = 0

    async def run(self) -> None:
        """Send everything. Raises CommandError, or what a source raised."""
        sources = await self._open()
        try:
            self._plan(sources)
            # Files are read ahead now, so that their first moment is ready when it is due.
            self._readers = {s: SourceReader(s) for s in sources if not s.live}
            call = await self._caller.call(self._options.wait)
            async with self._terminal.status(self._describe):
                await self._serve(call, sources)
        finally:
            for reader in self._readers.values():
                reader.close()
            for source in sources:
                if source not in self._readers:
                    source.close()
            for outlet in self._outlets.values():
                await outlet.close()
        self._summary()

    # -- before the media

    async def _open(self) -> list[MediaSource]:
        loop = self._options.loop
        sources: list[MediaSource] = []
        for spec in self._options.sources:

            def opened(spec: str = spec) -> MediaSource:
                return open_source(spec, loop=loop)

            try:
                async with asyncio.timeout(OPENING):
                    sources.append(await in_thread(opened, "open"))
            except TimeoutError:
                raise UnsupportedMedia(f"{spec} did not open within {OPENING:g} s") from None
        return sources

    def _plan(self, sources: Sequence[MediaSource]) -> None:
        """One outlet for each stream: picture, sound, numbered where there are several."""
        streams = [(i, s) for i, source in enumerate(sources) for s in source.streams]
        many = Counter(stream.kind for _, stream in streams)
        seen: Counter[str] = Counter()
        for index, stream in streams:
            seen[stream.kind] += 1
            name = "picture" if stream.kind == "video" else "sound"
            if many[stream.kind] > 1:
                name += str(seen[stream.kind])
            self._outlets[index, stream.index] = Outlet(
                name, stream, self._kind(stream), self._terminal.note
            )
            self._terminal.say(f"{name}: {_stream_text(stream)} from {sources[index].spec}")
        pictures = [o.name for o in self._outlets.values() if o.stream.kind == "video"]
        if self._options.gaze:
            if not pictures:
                raise CommandError("--gaze needs a source with pictures", code=2)
            self._gaze = GazeFeed(self._options.gaze, pictures[0])

    def _kind(self, stream: SourceStream) -> Audio | Video:
        if stream.kind == "video":
            most = self._options.video_bps
            fps = min(max(stream.fps, 0.1), 240.0)
            return Video(bitrate_bps=most, minimum_bps=min(60_000, most), fps=fps)
        channels = 2 if stream.channels >= 2 else 1
        return Audio(channels=channels, bitrate_bps=self._options.audio_bps * channels)

    # -- sessions

    async def _serve(self, call: Call, sources: Sequence[MediaSource]) -> None:
        media: asyncio.Task[None] | None = None
        try:
            while True:
                if await self._settle(call):
                    if media is None:
                        media = asyncio.create_task(self._play(sources), name="media")
                    again = await self._until_lost(call, media)
                    if media.done():
                        await self._end(call, media)
                        return
                else:
                    again = None
                self._detach()
                if again is not None:
                    await call.close("reached anew")
                    call = again
                    continue
                reason = await call.session.wait_closed()
                await call.close()
                what = "was lost" if call.session.failure else "has ended the session"
                self._terminal.note(
                    f"the receiver {what} ({reason or 'it said good-bye'}); "
                    f"trying to reach it again for {self._options.reconnect:g} s"
                )
                await asyncio.sleep(GOING)
                call = await self._return(media)
        except asyncio.CancelledError:
            await call.close("the sender was stopped")
            raise
        finally:
            await call.close()
            if media is not None:
                media.cancel()
                await asyncio.gather(media, return_exceptions=True)

    async def _return(self, media: asyncio.Task[None] | None) -> Call:
        calling = asyncio.create_task(self._caller.call(self._options.reconnect, again=True))
        waiting: set[asyncio.Task[Call] | asyncio.Task[None]] = {calling}
        if media is not None:
            waiting.add(media)
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                return calling.result()
        finally:
            if not calling.done():
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
        if media is not None:
            media.result()
        raise CommandError("the media ended while the receiver was away")

    async def _settle(self, call: Call) -> bool:
        """Offer the tracks and wait until they are wanted; False when the session ends first."""
        try:
            offered = [(o, o.offer(call.session)) for o in self._outlets.values()]
            waits = [asyncio.ensure_future(p.wait_subscribed()) for _, p in offered]
            try:
                done, _ = await asyncio.wait(
                    waits, timeout=OTHERS_GRACE, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    self._terminal.say("connected; the receiver has not asked for anything yet")
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                _, late = await asyncio.wait(waits, timeout=OTHERS_GRACE)
                if call.session.is_closed:
                    return False
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
        except SessionClosedError:
            return False
        for outlet, publication in offered:
            outlet.attach(publication)
        self._session = call.session
        if self._gaze is not None:
            self._gaze.session = call.session
        unwanted = [o.name for o, p in offered if not p.is_subscribed]
        note = f"; not asked for: {', '.join(unwanted)}" if late and unwanted else ""
        self._terminal.say(f"sending to {self._options.to.address}{note}", style="green")
        return True

    async def _until_lost(self, call: Call, media: asyncio.Task[None]) -> Call | None:
        watch = asyncio.create_task(
            self._caller.watch(call, patience=self._options.reconnect), name="watch"
        )
        try:
            await asyncio.wait({watch, media}, return_when=asyncio.FIRST_COMPLETED)
            return watch.result() if watch.done() else None
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    def _detach(self) -> None:
        self._session = None
        for outlet in self._outlets.values():
            outlet.attach(None)
        if self._gaze is not None:
            self._gaze.session = None

    async def _end(self, call: Call, media: asyncio.Task[None]) -> None:
        """The media are over: send the rest, let the receiver play it out and hang up."""
        media.result()
        await asyncio.gather(*(outlet.finish() for outlet in self._outlets.values()))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(call.session.wait_closed(), PLAYED_OUT)
        failure = call.session.failure
        await call.close("the media have ended")
        if failure is not None:
            raise CommandError(f"the receiver was lost at the end: {failure}")

    # -- the media

    async def _play(self, sources: Sequence[MediaSource]) -> None:
        """All sources on one clock, until the last has ended."""
        for source in sources:
            if source.live:
                self._readers[source] = SourceReader(source)
        self._clock = clock = MediaClock(time.monotonic())
        pacers = [
            asyncio.create_task(self._pace(index, self._readers[source], clock))
            for index, source in enumerate(sources)
        ]
        gaze = None
        if self._gaze is not None:
            gaze = asyncio.create_task(self._gaze.run(clock.origin))
        try:
            await asyncio.gather(*pacers)  # the first that fails ends all
        finally:
            for task in [*pacers, *([] if gaze is None else [gaze])]:
                task.cancel()

    async def _pace(self, index: int, reader: SourceReader, clock: MediaClock) -> None:
        arrivals = ArrivalClock() if reader.source.live else None
        end = self._options.duration
        while (item := await reader.get()) is not None:
            if arrivals is not None:
                captured = arrivals.stamp(item.due, now=item.read)
                if time.monotonic() - captured > STALE:
                    continue
                if end is not None and captured - clock.origin > end:
                    break
            else:
                if end is not None and item.due > end:
                    break
                wait = clock.due(item.due) - time.monotonic()
                while wait > 0:  # another source's stall moves what this one waits for
                    await asyncio.sleep(wait)
                    wait = clock.due(item.due) - time.monotonic()
                captured = clock.stamp(item.due, now=time.monotonic())
                self._tell_stalls(clock)
            self._push(index, item, captured)

    def _push(self, index: int, item: DueItem, captured: float) -> None:
        outlet = self._outlets[index, item.stream.index]
        outlet.push(item.data, captured=captured, sample_rate=item.sample_rate)

    def _tell_stalls(self, clock: MediaClock) -> None:
        if clock.stalls > self._stalls_told:
            if self._stalls_told == 0 or clock.stalls % 100 == 0:
                self._terminal.note(
                    f"this end stood still or is too slow; the media were put off by "
                    f"{clock.lost:.1f} s so far"
                )
            self._stalls_told = clock.stalls

    # -- what is told

    def _describe(self) -> str | None:
        session = self._session
        if session is None or session.is_closed:
            return None
        link = session.stats()["link"]
        parts = [
            f"sending {rate_text(link['delivered_bps'])}",
            f"room for {rate_text(link['target_bps'])}",
            f"round trip {ms_text(link['rtt'])}",
            f"queue {ms_text(link['queue_delay'])}",
            f"loss {(link['loss'] or 0) * 100:.1f} %",
        ]
        return " · ".join(parts)

    def _summary(self) -> None:
        rows = [
            [
                outlet.name,
                str(outlet.counts["sent"]),
                str(outlet.counts["skipped"]),
                str(outlet.counts["away"]),
            ]
            for outlet in self._outlets.values()
        ]
        self._terminal.table("sent", ["track", "sent", "skipped", "nobody there"], rows)


def _stream_text(stream: SourceStream) -> str:
    if stream.kind == "video":
        return f"{stream.width}x{stream.height}, {stream.fps:.4g} pictures/s"
    channels = {1: "mono", 2: "stereo"}.get(stream.channels, f"{stream.channels} channels")
    return f"{stream.sample_rate:,} Hz, {channels}"


async def send(options: SendOptions, terminal: Terminal) -> None:
    """Run `limen send`."""
    await Sender(options, terminal).run()
