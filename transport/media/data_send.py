"""Raw objects out, with back-pressure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...scheduler.checks import flag
from .kinds import Data
from .publication import MAX_QUEUED_OBJECTS, Pending, Publication

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

    @property
    def scheduler_bytes(self) -> int:
        """Room for what `send` lets in, and for one object on top."""
        largest = self._session.settings.limits.object_bytes
        return self._kind.queue_bytes + largest + 2 * self._session.settings.limits.header_bytes

    async def send(
        self, payload: bytes, *, captured: float | None = None, independent: bool = True
    ) -> None:
        """Send one object captured at `captured` (`limen.now()`; None: now).

        An object that is not `independent` needs the one before it: it is given up with it.
        Raises UsageError for what is no bytes or too large, SessionClosedError at the end.
        """
        self._check_open()
        data = self._checked(payload, "a data object")
        flag("independent", independent)
        stamp = self._stamp(captured)
        while (
            self._queued_bytes > self._kind.queue_bytes
            or self._queued_objects >= MAX_QUEUED_OBJECTS
        ):
            self._room.clear()
            await self._session.race(self._room.wait())
            self._check_open()
        self._emit(Pending(data, stamp, keyframe=independent or self._group < 0))
