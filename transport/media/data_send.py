"""Raw objects out, with back-pressure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..errors import UsageError
from .kinds import Data
from .publication import Pending, Publication

if TYPE_CHECKING:
    from ..session import Session


class DataPublication(Publication):
    """A track of raw objects. `send` waits while the queue is full."""

    media = "data"

    def __init__(self, session: Session, number: int, name: str, kind: Data) -> None:
        super().__init__(
            session,
            number,
            name,
            importance=kind.importance,
            deadline=kind.deadline,
            delivery=kind.delivery,
            hold=kind.hold,
            params={},
        )
        self._kind = kind

    async def send(
        self, payload: bytes, *, captured: float | None = None, independent: bool = True
    ) -> None:
        """Send one object captured at `captured` (`limen.now()`; None: now).

        An object that is not `independent` needs the one before it: it is given up with it.
        Raises UsageError for what is no bytes or too large, SessionClosedError at the end.
        """
        self._check_open()
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise UsageError(f"a data object is bytes, got {type(payload).__name__}")
        most = self._session.settings.limits.object_bytes
        if len(payload) > most:
            raise UsageError(f"an object has at most {most} bytes, got {len(payload)}")
        while self._queued_bytes > self._kind.queue_bytes:
            self._room.clear()
            await self._session.race(self._room.wait())
        stamp = time.monotonic() if captured is None else captured
        self._emit(Pending(bytes(payload), stamp, keyframe=independent or self._group < 0))

    def _queue_limit(self) -> int:
        return 0 if self._finished else self._kind.queue_bytes
