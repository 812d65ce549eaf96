"""What all subscribed tracks share: waiting for the offer, a bounded queue, the end.

Frames that nobody reads do not pile up: beyond a bound the oldest are dropped and counted, as a
screen shows the newest picture and not the backlog.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...scheduler.types import ObjectId
from ..errors import SessionClosedError
from ..events import ObjectReceived, TrackInfo

if TYPE_CHECKING:
    from ..session import Session

F = TypeVar("F")
COUNTED = 1024
"""Ids remembered so that an object is not counted twice: ten seconds at 100 objects/s."""
SETTLE = 1.0
"""Seconds waited after a track's end for objects that are still on their way."""


class Receiver(Generic[F]):
    """The part of a subscription that knows the media: objects in, frames out."""

    def __init__(self, session: Session, info: TrackInfo, subscription: Subscription[F]) -> None:
        self.session = session
        self.info = info
        self.out = subscription
        self.objects = 0
        """Objects that arrived or are known to be gone."""
        self._counted: OrderedDict[ObjectId, None] = OrderedDict()

    def count(self, object_id: ObjectId) -> bool:
        """Count an object once; False when it is known already.

        That an object is gone may be said twice, by a stream's reset and by a message.
        """
        if object_id in self._counted:
            return False
        self._counted[object_id] = None
        if len(self._counted) > COUNTED:
            self._counted.popitem(last=False)
        self.objects += 1
        return True

    def on_object(self, received: ObjectReceived) -> None:
        """An object arrived whole."""
        raise NotImplementedError

    def on_gone(self, object_id: ObjectId, now: float) -> None:
        """The sender gave an object up."""

    def on_finished(self) -> None:
        """No more objects come: play what is left, then call `out.end()`."""
        self.out.end()

    def close(self) -> None:
        """Release codecs, threads and timers."""

    def stats(self) -> dict[str, Any]:
        """Plain figures for `Session.stats`."""
        return {}


class Subscription(Generic[F]):
    """An asynchronous iterator of one track's frames, as they become due.

    Made by `Session.subscribe`. Iteration ends when the track has ended and been played out;
    it raises TrackNotOfferedError when the peer does not offer the track in time and
    SessionClosedError when the session fails. Leaving the iteration does not end the
    subscription; `close` (or the session's end) does.
    """

    def __init__(self, session: Session, name: str, *, wait: float, max_frames: int) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.receiver: Receiver[F] | None = None
        self.expected_media: str | None = None
        self._session = session
        self._wait = wait
        self._max_frames = max_frames
        self._max_bytes = session.settings.limits.queued_bytes
        self._frames: deque[tuple[F, int]] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self._finish: asyncio.TimerHandle | None = None
        self._expected: int | None = None

    async def ready(self) -> TrackInfo:
        """Wait for the offer and subscribe; returns what the publisher announced."""
        if self.receiver is None:
            await self._session.attach(self, self._wait)
        if self.receiver is None:
            raise SessionClosedError("the subscription was closed")
        return self.receiver.info

    def __aiter__(self) -> AsyncIterator[F]:
        return self

    @property
    def is_closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    async def __anext__(self) -> F:
        if self.receiver is None and not self._ended:
            try:
                await self.ready()
            except SessionClosedError:
                if self._error is not None or not self._ended:
                    raise
        while not self._frames:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        frame, size = self._frames.popleft()
        self._bytes -= size
        return frame

    def close(self) -> None:
        """Stop receiving the track. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._session.detach(self)
        self.end()
        self._frames.clear()
        self._bytes = 0

    # -- for receivers and the session

    def push(self, frame: F, size: int = 0) -> None:
        """Queue a frame for the reader; the oldest go when there are too many."""
        if self._ended:
            return
        self._frames.append((frame, size))
        self._bytes += size
        while len(self._frames) > self._max_frames or (
            self._bytes > self._max_bytes and len(self._frames) > 1
        ):
            self._bytes -= self._frames.popleft()[1]
            self.counts["unread"] += 1
        self._arrived.set()

    def end(self) -> None:
        """The track is over; the reader still gets what is queued."""
        if not self._ended and self.receiver is not None:
            self._session.release(self)
            self.receiver.close()
        self._ended = True
        self._arrived.set()
        if self._finish is not None:
            self._finish.cancel()
            self._finish = None

    def fail(self, error: BaseException | None) -> None:
        """The session is over: with an error, or in order."""
        self._error = error
        self.end()

    def on_track_finished(self, objects: int) -> None:
        """The publisher ended the track after `objects` objects."""
        self._expected = objects
        if self._finish is None and not self._ended:
            loop = asyncio.get_running_loop()
            self._finish = loop.call_later(SETTLE, self._settled)
            self.check_settled()

    def check_settled(self) -> None:
        """Called after each object: the last one may have come."""
        receiver = self.receiver
        if self._finish is not None and receiver and receiver.objects >= (self._expected or 0):
            self._settled()

    def _settled(self) -> None:
        if self._finish is not None:
            self._finish.cancel()
            self._finish = None
        if self.receiver is not None and not self._ended:
            self.receiver.on_finished()
        else:
            self.end()

    def stats(self) -> dict[str, Any]:
        """Counts; for `Session.stats`."""
        inner = {} if self.receiver is None else self.receiver.stats()
        return {**inner, "waiting_frames": len(self._frames), **self.counts}
