"""What all published tracks share: subscribers, sequence numbers, holding, importance, shedding.

A publication turns frames into objects. Objects only exist for a subscriber; without one they
are kept for `hold` seconds at most, then counted as unheard. `send` of live media never waits for
the link: what the link cannot carry is the scheduler's to shed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...scheduler.checks import instance, number
from ...scheduler.errors import UsageError
from ...scheduler.rates import RateDemand
from ...scheduler.types import MediaObject, ObjectId, Shed
from ..errors import SessionClosedError
from ..events import TrackInfo
from ..wire import LATEST_TIME, LONGEST_DEADLINE, ObjectHeader

if TYPE_CHECKING:
    from ..session import Session

MAX_HELD = 1024
"""Objects held for a late subscriber at most."""
MAX_HELD_BYTES = 4_000_000
"""The same in bytes; the oldest go first, the newest is always kept."""
MAX_QUEUED_OBJECTS = 512
"""Objects queued beyond which a back-pressured `send` waits, however small they are: half of
what a flow of the scheduler takes before it sheds some."""
DRAIN_LIMIT = 5.0
"""Seconds `finish` waits at most for what is queued."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An object not yet numbered on the wire."""

    payload: bytes
    captured: float
    duration: float = 0.0
    keyframe: bool = True
    silence: bool = False
    picture: tuple[int, int] | None = None
    needs: tuple[ObjectId, ...] | None = None
    """Objects it cannot be decoded without; None: the one before, unless it is a keyframe."""
    layer: int = 0
    number: int = -1
    """The encoder's own count of it; -1 where there is none."""


class Publication:
    """A track this end offers. Made by `Session.publish`."""

    media = "data"

    def __init__(
        self,
        session: Session,
        number: int,
        name: str,
        *,
        importance: float,
        deadline: float | None,
        delivery: str,
        hold: float,
        params: dict[str, Any],
    ) -> None:
        self._session = session
        self.info = TrackInfo(number, name, self.media, params)
        self.counts: Counter[str] = Counter()
        """What became of frames: sent, shed, skipped, unheard, ..."""
        self._base = importance
        self._deadline = deadline
        self._delivery = delivery
        self._hold = hold
        self._held: deque[tuple[float, Pending]] = deque()
        self._held_bytes = 0
        self._subscribed = asyncio.Event()
        self._finished = False
        self._sequence = 0
        self._group = -1
        self._index = 0
        self._previous: ObjectId | None = None
        self._queued_bytes = 0
        self._queued_objects = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def scheduler_bytes(self) -> int | None:
        """Bytes the scheduler must be able to queue for this track; None: its default."""
        return None

    @property
    def name(self) -> str:
        """The track's name."""
        return self.info.name

    @property
    def is_subscribed(self) -> bool:
        """True while the peer wants this track."""
        return self._subscribed.is_set()

    async def wait_subscribed(self) -> None:
        """Wait until the peer wants this track. Raises SessionClosedError when it ends first."""
        await self._session.race(self._subscribed.wait())

    async def finish(self) -> None:
        """End the track: send what is queued (5 s at most), then tell the peer. Safe twice.

        What is held for a late subscriber stays on offer for the rest of its `hold`.
        """
        if self._finished:
            return
        self._finished = True
        try:
            await self._flush()
            await self._offer_held()
            if self._queued_bytes:
                await asyncio.wait_for(self._session.race(self._drained()), DRAIN_LIMIT)
        except (TimeoutError, SessionClosedError):
            self.counts["unsent_at_finish"] += self._queued_bytes
        finally:
            self.counts["unheard"] += len(self._held)
            self._held.clear()
            self._session.end_publication(self)
            self._room.set()  # whoever waits to send learns that it is over
            await self._close()

    async def _offer_held(self) -> None:
        if not self._held:
            return
        left = self._held[-1][0] + self._hold - time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait_subscribed(), max(0.0, left))

    # -- for the media's own part

    def _numbered(self, pending: Pending, object_id: ObjectId) -> None:
        """The object has its id now and is about to be queued, where it may be given up at once."""

    async def _flush(self) -> None:
        """Encode what is still buffered."""

    async def _close(self) -> None:
        """Release codecs and threads."""

    def close_now(self) -> None:
        """The session is over: release codecs and threads without waiting for anything."""
        self._finished = True

    def demand(self, now: float) -> RateDemand[int] | None:
        """What the rate split should know; None for tracks without an encoder."""
        del now
        return None

    def set_rate(self, bps: float) -> None:
        """The share of the link, in payload bits per second, that this track's encoder may use."""

    def on_keyframe_request(self, now: float, since: ObjectId | None = None) -> None:
        """The peer cannot decode without a new decodable point; it has picture `since`."""

    def on_shed(self, shed: Shed, now: float) -> None:
        """An object of this track was given up."""
        del now
        self.counts[f"shed_{shed.reason.value}"] += 1
        self._release(shed.object)

    def on_sent(self, obj: MediaObject) -> None:
        """An object's last byte left."""
        self.counts["sent"] += 1
        self._release(obj)

    def on_subscribe(self, now: float) -> None:
        """The peer wants this track: what was held goes out now."""
        self._subscribed.set()
        self._held_bytes = 0
        while self._held and now - self._held[0][0] > self._hold:
            self._held.popleft()
            self.counts["unheard"] += 1
        # One delay for all, so that their deadlines keep the order of their captures.
        delayed = now - self._held[0][0] if self._held else 0.0
        while self._held:
            self._queue(self._held.popleft()[1], now, delayed=delayed)

    def on_unsubscribe(self) -> None:
        """The peer no longer wants it."""
        self._subscribed.clear()

    def _check_open(self) -> None:
        self._session.check_open()  # first: the session's end finishes its tracks
        if self._finished:
            raise UsageError(f"track {self.name!r} is finished; nothing more can be sent on it")

    def _stamp(self, captured: float | None) -> float:
        """A capture time as given, or now; raises UsageError for one the wire cannot say."""
        if captured is None:
            return time.monotonic()
        what = f"track {self.name!r}: captured, a time as limen.now() gives it,"
        return number(what, captured, -LATEST_TIME, LATEST_TIME, "s")

    def _checked(self, payload: bytes, what: str) -> bytes:
        """An object's bytes; raises UsageError for no bytes at all, or more than limits allow."""
        kinds = (bytes, bytearray, memoryview)
        data = bytes(instance(f"track {self.name!r}: {what}", payload, kinds, "bytes"))
        most = self._session.settings.limits.object_bytes
        if len(data) > most:
            raise UsageError(
                f"track {self.name!r}: {what} has at most {most} bytes (Limits.object_bytes), "
                f"got {len(data)}"
            )
        return data

    def _emit(self, pending: Pending) -> None:
        """Queue an object, or hold or drop it while nobody listens."""
        now = time.monotonic()
        if self._subscribed.is_set():
            self._queue(pending, now)
            return
        if self._hold > 0:
            self._held.append((now, pending))
            self._held_bytes += len(pending.payload)
            while (
                len(self._held) > MAX_HELD
                or now - self._held[0][0] > self._hold
                or (self._held_bytes > MAX_HELD_BYTES and len(self._held) > 1)
            ):
                self._held_bytes -= len(self._held.popleft()[1].payload)
                self.counts["unheard"] += 1
            return
        self.counts["unheard"] += 1

    def importance(self, now: float) -> float:
        """The track's importance now, tags included, in [0, 1]."""
        tags = self._session.core.scheduler.tags
        return tags.importance(self.name, now=now, base=self._base)

    def _queue(self, pending: Pending, now: float, *, delayed: float = 0.0) -> None:
        if pending.keyframe:
            self._group += 1
            self._index = 0
        object_id = ObjectId(self.info.number, self._group, self._index, pending.layer)
        if pending.needs is not None:
            depends = pending.needs
        else:
            depends = () if pending.keyframe or self._previous is None else (self._previous,)
        deadline = None
        if self._deadline is not None:
            deadline = min(self._deadline + delayed, LONGEST_DEADLINE)
        header = ObjectHeader(
            id=object_id,
            captured=pending.captured,
            duration=pending.duration,
            deadline=deadline,
            importance=self.importance(now),
            size=len(pending.payload),
            keyframe=pending.keyframe,
            silence=pending.silence,
            sequence=self._sequence,
            depends_on=depends,
            picture=pending.picture,
        )
        obj = MediaObject(
            id=object_id,
            payload=header.encode() + pending.payload,
            captured=pending.captured,
            deadline=float("inf") if deadline is None else pending.captured + deadline,
            depends_on=depends,
        )
        self._sequence += 1
        self._index += 1
        self._previous = object_id
        self._queued_bytes += len(obj.payload)
        self._queued_objects += 1
        self._numbered(pending, object_id)
        self._session.send_object(obj, header, delivery=self._delivery, now=now)

    def _release(self, obj: MediaObject) -> None:
        self._queued_bytes -= len(obj.payload)
        self._queued_objects -= 1
        self._room.set()

    async def _drained(self) -> None:
        while self._queued_bytes > 0:
            self._room.clear()
            await self._room.wait()

    @property
    def objects(self) -> int:
        """Objects numbered so far."""
        return self._sequence

    def stats(self) -> dict[str, Any]:
        """Counts and what is queued; for `Session.stats`."""
        return {
            "media": self.media,
            "subscribed": self.is_subscribed,
            "objects": self._sequence,
            "queued_bytes": self._queued_bytes,
            **self.counts,
        }
