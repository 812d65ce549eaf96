"""Who cannot be decoded without whom: among queued objects, and after objects were given up.

Ids only, across flows: the layers of a track may be flows of their own.
"""

from __future__ import annotations

from collections import OrderedDict

from .types import MediaObject, ObjectId

REMEMBERED_PER_TRACK = 512
"""Given-up ids kept per track: 17 s of video at 30 fps, more than one group of pictures. A chain
of dependents renews itself, as each refused object is remembered in turn."""

REMEMBERED_TRACKS = 1024


class Dependents:
    """For each id, the queued objects that name it in `depends_on`."""

    def __init__(self) -> None:
        self._of: dict[ObjectId, dict[ObjectId, None]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def add(self, obj: MediaObject) -> None:
        """An object was queued."""
        for needed in obj.depends_on:
            self._of.setdefault(needed, {})[obj.id] = None

    def discard(self, obj: MediaObject) -> None:
        """An object left its queue, whatever the reason."""
        for needed in obj.depends_on:
            waiting = self._of.get(needed)
            if waiting is not None:
                waiting.pop(obj.id, None)
                if not waiting:
                    del self._of[needed]

    def of(self, object_id: ObjectId) -> list[ObjectId]:
        """The queued objects that need this one directly, in order of arrival."""
        return list(self._of.get(object_id, ()))


class ShedMemory:
    """The ids given up lately, so that an object which needs one is refused when it comes."""

    def __init__(
        self, per_track: int = REMEMBERED_PER_TRACK, max_tracks: int = REMEMBERED_TRACKS
    ) -> None:
        self._per_track = per_track
        self._max_tracks = max_tracks
        self._tracks: OrderedDict[int, OrderedDict[ObjectId, None]] = OrderedDict()

    def __contains__(self, object_id: ObjectId) -> bool:
        ids = self._tracks.get(object_id.track)
        return ids is not None and object_id in ids

    def __len__(self) -> int:
        return sum(len(ids) for ids in self._tracks.values())

    def add(self, object_id: ObjectId) -> None:
        """An object was given up."""
        ids = self._tracks.setdefault(object_id.track, OrderedDict())
        self._tracks.move_to_end(object_id.track)
        ids[object_id] = None
        ids.move_to_end(object_id)
        if len(ids) > self._per_track:
            ids.popitem(last=False)
        if len(self._tracks) > self._max_tracks:
            self._tracks.popitem(last=False)

    def discard(self, object_id: ObjectId) -> None:
        """The id is in use again: its publisher made the object anew."""
        ids = self._tracks.get(object_id.track)
        if ids is not None:
            ids.pop(object_id, None)
            if not ids:
                del self._tracks[object_id.track]
