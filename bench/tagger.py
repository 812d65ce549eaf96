"""The reference tagger: what each object is worth, from what is known about the scene.

It reads the scene's turns of speech and gaze path, so it is right by construction and the same
for every peer; a peer's own tags (from its own voice detection, say) are never used to judge it.

- `vital`: speech of the attended talker: the one who speaks alone, or spoke first when two do.
- `attended`: other speech; the picture while it is looked at.
- `ambient`: silence; the picture while the viewer looks away.
"""

from __future__ import annotations

from dataclasses import dataclass

from .objects import ObjectClass
from .scene import Scene

IMPORTANCE = {ObjectClass.VITAL: 0.85, ObjectClass.ATTENDED: 0.5, ObjectClass.AMBIENT: 0.15}
"""The middle of each class's range: vital from 0.7, attended from 0.3 (bench/README.md)."""


@dataclass(frozen=True, slots=True)
class Label:
    """What one object is worth, and until when."""

    cls: ObjectClass
    importance: float
    """In [0, 1]."""
    deadline: float
    """Seconds, on the same clock as the time that was asked for."""


class ReferenceTagger:
    """Labels the objects of one scene. Times are run time: 0 s is the start of capture."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._talkers = {mic.track: mic.talker for mic in scene.microphones}

    def attended_talker(self, time: float) -> str | None:
        """Who is listened to at `time`; None while nobody speaks."""
        for turn in self._scene.turns:  # in order of start: the first to speak is found first
            if turn.start <= time < turn.end:
                return turn.talker
        return None

    def sound(self, track: str, *, start: float, end: float) -> Label:
        """The label of sound captured from `start` to `end` on a microphone's track.

        A frame that speech only touches counts as speech: onsets are what hurts most to lose.
        Raises ValueError for a track that is no microphone of the scene.
        """
        if track not in self._talkers:
            raise ValueError(f"{track!r} is not one of the microphones {sorted(self._talkers)}")
        talker = self._talkers[track]
        turns = [turn for turn in self._scene.turns if turn.start < end and turn.end > start]
        if not any(turn.talker == talker for turn in turns):
            return self._label(ObjectClass.AMBIENT, end)
        edges = {start, *(turn.start for turn in turns if turn.start > start)}
        edges |= {turn.end for turn in turns if turn.end < end}
        if any(self.attended_talker(edge) == talker for edge in edges):
            return self._label(ObjectClass.VITAL, end)
        return self._label(ObjectClass.ATTENDED, end)

    def picture(self, *, time: float) -> Label:
        """The label of the picture captured at `time`."""
        gaze = self._scene.gaze_at(time)
        is_watched = gaze is not None and gaze.on_picture
        return self._label(ObjectClass.ATTENDED if is_watched else ObjectClass.AMBIENT, time)

    def _label(self, cls: ObjectClass, captured: float) -> Label:
        return Label(cls, IMPORTANCE[cls], captured + self._scene.deadlines[cls])
