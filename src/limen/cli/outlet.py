"""One track on its way out: it outlives sessions, and drops what nobody is there to receive.

The pace of the media is never held up by an encoder: each outlet has a short queue and a task of
its own. Beyond the queue's bound what waits goes, because a live picture is worth more than a
late one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import av
from numpy.typing import NDArray

from ..codecs.errors import CodecError
from ..codecs.sources import SourceStream
from ..scheduler.errors import LimenError, UsageError
from ..transport.errors import SessionClosedError
from ..transport.media.audio_send import AudioPublication
from ..transport.media.kinds import Audio, Video
from ..transport.media.publication import Publication
from ..transport.media.video_send import VideoPublication
from ..transport.session import Session

MOST_SOUND = 10
"""Pieces of 20 ms that may wait for the encoder: more would be delay."""
MOST_PICTURES = 2

Queued = tuple[float, av.VideoFrame | NDArray[Any], int]


class Outlet:
    """Sends one stream of a source as the track `name`, to whichever session there is."""

    def __init__(
        self,
        name: str,
        stream: SourceStream,
        kind: Audio | Video,
        note: Callable[[str], None],
    ) -> None:
        self.name = name
        self.stream = stream
        self.kind = kind
        self.counts: Counter[str] = Counter()
        """Items: sent, skipped (link or encoder behind), away (no receiver), refused."""
        self._note = note
        self._session: Session | None = None
        self._publication: Publication | None = None
        self._queue: deque[Queued] = deque()
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task = asyncio.create_task(self._send_all(), name=f"outlet-{name}")

    def offer(self, session: Session) -> Publication:
        """Publish the track in a new session; nothing is sent there before `attach`."""
        self._session = session
        return session.publish(self.name, self.kind)

    def attach(self, publication: Publication | None) -> None:
        """Send to this publication from now on; None: to nobody."""
        self._queue.clear()
        self._publication = publication

    def push(
        self, data: av.VideoFrame | NDArray[Any], *, captured: float, sample_rate: int
    ) -> None:
        """Take a picture or a piece of sound that is due now."""
        if self._publication is None:
            self.counts["away"] += 1
            return
        self._queue.append((captured, data, sample_rate))
        most = MOST_PICTURES if self.stream.kind == "video" else MOST_SOUND
        if len(self._queue) > most:
            # All but the newest: dropping one at a time would keep the queue, and the delay, full.
            self.counts["skipped"] += len(self._queue) - 1
            newest = self._queue.pop()
            self._queue.clear()
            self._queue.append(newest)
        self._idle.clear()
        self._more.set()

    async def finish(self) -> None:
        """Send what is queued and end the track."""
        if self._publication is not None:
            with contextlib.suppress(LimenError, TimeoutError):
                await asyncio.wait_for(self._idle.wait(), 1.0)
                await self._publication.finish()

    async def close(self) -> None:
        """Stop for good."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _send_all(self) -> None:
        while True:
            while not self._queue:
                self._idle.set()
                self._more.clear()
                await self._more.wait()
            captured, data, rate = self._queue.popleft()
            publication = self._publication
            if publication is None:
                continue
            try:
                sent = await self._send(publication, data, captured, rate)
                self.counts["sent" if sent else "skipped"] += 1
            except SessionClosedError:
                self.counts["away"] += 1
            except (UsageError, CodecError) as error:
                if self._session is None or self._session.is_closed:
                    self.counts["away"] += 1  # it ended between two looks at it
                    continue
                self.counts["refused"] += 1
                if self.counts["refused"] == 1:
                    self._note(f"track {self.name}: {error}")

    @staticmethod
    async def _send(
        publication: Publication, data: av.VideoFrame | NDArray[Any], captured: float, rate: int
    ) -> bool:
        if isinstance(publication, VideoPublication):
            return await publication.send(data, captured=captured)
        if isinstance(publication, AudioPublication) and not isinstance(data, av.VideoFrame):
            await publication.send(data, sample_rate=rate, captured=captured)
        return True
