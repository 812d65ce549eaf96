"""The objects of one flow in the order in which they are due: earliest deadline first.

A sorted list with an index by id. A list beats a heap here: any object may be taken out (shed,
cancelled), the bytes ahead of an object are a prefix sum, and at the bounded lengths of a live
flow moving pointers is cheaper than keeping heap order in Python.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from .types import MediaObject, ObjectId

LOOK_AHEAD = 8
"""How many objects are asked whether they fit when the first does not."""

Entry = tuple[float, int, MediaObject]
"""Deadline, arrival number (unique, so objects are never compared), object."""


class ObjectQueue:
    """Objects by deadline, then arrival. `total_bytes` are the bytes not yet sent."""

    __slots__ = ("_arrivals", "_index", "entries", "total_bytes")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """In order of service; read it, but change it only through the methods."""
        self.total_bytes = 0
        self._index: dict[ObjectId, tuple[float, int, float]] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._index

    def __iter__(self) -> Iterator[MediaObject]:
        return (entry[2] for entry in self.entries)

    def push(self, obj: MediaObject, *, now: float) -> None:
        """Put an object in its place. Its id must not be queued already."""
        self._arrivals += 1
        self._index[obj.id] = (obj.deadline, self._arrivals, now)
        insort(self.entries, (obj.deadline, self._arrivals, obj))
        self.total_bytes += obj.remaining

    def get(self, object_id: ObjectId) -> MediaObject | None:
        """The queued object with this id, or None."""
        place = self._index.get(object_id)
        return None if place is None else self.entries[self._position(place)][2]

    def remove(self, object_id: ObjectId) -> MediaObject:
        """Take an object out; KeyError when it is not here."""
        place = self._index.pop(object_id)
        obj = self.entries.pop(self._position(place))[2]
        self.total_bytes -= obj.remaining
        return obj

    def bytes_due_by(self, deadline: float) -> int:
        """Unsent bytes of all objects that go before a newcomer with this deadline."""
        if not self.entries or self.entries[-1][0] <= deadline:
            return self.total_bytes
        ahead = 0
        for due, _, obj in self.entries:
            if due > deadline:
                break
            ahead += obj.remaining
        return ahead

    def next_fitting(self, fits: Callable[[MediaObject], bool]) -> MediaObject | None:
        """The first of the next few objects that can leave in pieces or fits whole."""
        for _, _, obj in self.entries[:LOOK_AHEAD]:
            if not obj.atomic or fits(obj):
                return obj
        return None

    def waiting_since(self) -> float | None:
        """When (seconds) the object that has waited longest was queued; None when empty."""
        for _, _, since in self._index.values():  # dicts keep the order of arrival
            return since
        return None

    def _position(self, place: tuple[float, int, float]) -> int:
        return bisect_left(self.entries, place[:2])
