"""Encoders count pictures, the wire numbers objects: which is which, for as long as it matters."""

from __future__ import annotations

from ...scheduler.types import ObjectId

REMEMBERED = 600
"""Pictures, 20 s at 30 fps: what encoders remember too (`codecs.references.HISTORY`)."""


class PictureIds:
    """Call `add` for each picture that became an object; a picture coded elsewhere is -1."""

    def __init__(self) -> None:
        self._ids: dict[int, ObjectId] = {}
        self._numbers: dict[ObjectId, int] = {}

    def add(self, number: int, object_id: ObjectId) -> None:
        """Picture `number` travels as `object_id`."""
        if number < 0:
            return
        self._ids[number] = object_id
        self._numbers[object_id] = number
        if len(self._ids) > REMEMBERED:
            first = next(iter(self._ids))
            self._numbers.pop(self._ids.pop(first), None)

    def of(self, numbers: tuple[int, ...] | None) -> tuple[ObjectId, ...] | None:
        """The objects of these pictures; None when there is no saying."""
        if numbers is None or any(number not in self._ids for number in numbers):
            return None
        return tuple(self._ids[number] for number in numbers)

    def number(self, object_id: ObjectId | None) -> int | None:
        """The picture that travelled as this object, if it is still known."""
        return None if object_id is None else self._numbers.get(object_id)
