"""Which picture refers to which: temporal layers, long-term references, and repair after a loss.

VP8 and VP9 keep three earlier pictures to predict from, and which of them a new picture uses and
replaces is ours to say. The rules here keep every dependency a single known picture:

* Base pictures (layer 0) refer to the base picture before, in slot LAST.
* Pictures of higher layers refer to lower ones only and nothing needed later is stored from them,
  so dropping all of a layer leaves the rest bit-identical. Two layers alternate 0 1; three go
  0 2 1 2 (the layer-1 picture is kept in GOLDEN for the layer-2 picture after it).
* Now and then a base picture is kept for long in GOLDEN or ALTREF, by turns. When pictures turn
  out to be lost, the next one refers to the newest kept picture that does not depend on them:
  a repair at the price of one large inter picture, not of a keyframe.

Nothing here touches a codec: numbers in, plans out, and a loss marks all that depended on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

LONG_TERM_EVERY = 12
"""Base pictures between two that are kept for long. With two slots by turns, one of them is
0.4 to 0.8 s old at 30 fps: older than most round trips, young enough to be alike."""
HISTORY = 600
"""Pictures remembered with what they need, 20 s at 30 fps: a loss is reported long before."""
PATTERNS = {1: (0,), 2: (0, 1), 3: (0, 2, 1, 2)}
"""Layer of each picture, by number of layers (as libvpx's own and WebRTC's patterns)."""


class Slot(IntEnum):
    """A reference buffer of VP8 and VP9."""

    LAST = 0
    GOLDEN = 1
    ALTREF = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How the next picture is to be coded."""

    number: int
    """Counts pictures since the start, keyframes included."""
    layer: int
    source: Slot | None
    """The slot it is predicted from; None for a keyframe."""
    updates: frozenset[Slot]
    """The slots that hold it afterwards."""
    references: tuple[int, ...]
    """Numbers of the pictures it needs: one, or none for a keyframe."""
    repair: bool = False
    """True when it steps around a loss instead of being a keyframe."""


class ReferencePlan:
    """Ask `plan` before each picture, `commit` what was really coded, report `lost` pictures."""

    def __init__(self, layers: int = 1, *, long_term_every: int = LONG_TERM_EVERY) -> None:
        if layers not in PATTERNS:
            raise ValueError(f"temporal layers are 1, 2 or 3, got {layers!r}")
        self._pattern = PATTERNS[layers]
        self._every = long_term_every
        self._next = 0
        self._phase = 0
        self._since_long_term = 0
        self._turn = Slot.ALTREF
        self._held: dict[Slot, int] = {}
        self._needs: dict[int, int | None] = {}
        self._broken: set[int] = set()

    def plan(self, *, keyframe: bool = False) -> Plan:
        """The next picture; a keyframe when asked for, at the start, and when nothing is whole."""
        if keyframe or not self._held:
            return self._keyframe()
        layer = self._pattern[self._phase]
        source = Slot.LAST
        if len(self._pattern) == 4 and self._phase == 3:
            source = Slot.GOLDEN
        if self._held[source] in self._broken:
            if source is not Slot.LAST and self._held[Slot.LAST] not in self._broken:
                source = Slot.LAST  # only the layer-1 picture is missing
            else:
                return self._repair()
        updates: set[Slot] = set()
        if layer == 0:
            updates.add(Slot.LAST)
            if self._since_long_term + 1 >= self._every:
                updates.add(self._turn)
        elif layer == 1 and len(self._pattern) == 4:
            updates.add(Slot.GOLDEN)
        return Plan(self._next, layer, source, frozenset(updates), (self._held[source],))

    def commit(self, plan: Plan, *, keyframe: bool) -> Plan:
        """The picture is coded; `keyframe` says what it became. Returns what is true of it."""
        if keyframe and plan.source is not None:
            plan = self._keyframe()
        number = plan.number
        self._next = number + 1
        self._needs[number] = plan.references[0] if plan.references else None
        for slot in plan.updates:
            self._held[slot] = number
        if plan.source is None or plan.repair:
            self._phase = 0
        self._phase = (self._phase + 1) % len(self._pattern)
        if plan.source is None:
            self._since_long_term = 0
        elif plan.layer == 0:
            self._since_long_term += 1
            if self._turn in plan.updates:
                self._since_long_term = 0
                if len(self._pattern) < 4:
                    self._turn = Slot.GOLDEN if self._turn is Slot.ALTREF else Slot.ALTREF
        oldest = number - HISTORY
        self._needs.pop(oldest, None)
        self._broken.discard(oldest)
        return plan

    def lost(self, number: int) -> None:
        """Picture `number` will never be decoded, nor what needs it."""
        self._broken.add(number)
        for later, needed in self._needs.items():  # in order of number
            if later > number and needed in self._broken:
                self._broken.add(later)

    def lost_after(self, number: int) -> None:
        """The receiver has picture `number` and can decode nothing that came later."""
        self._broken.update(later for later in self._needs if later > number)

    def is_broken(self, number: int) -> bool:
        """Whether a picture is known to be lost or to need one that is."""
        return number in self._broken

    def restart(self) -> None:
        """The encoder was opened anew: its buffers are empty, numbers go on."""
        self._held.clear()

    def _keyframe(self) -> Plan:
        return Plan(self._next, 0, None, frozenset(Slot), ())

    def _repair(self) -> Plan:
        whole = [(n, slot) for slot, n in self._held.items() if n not in self._broken]
        if len(self._pattern) == 4:  # GOLDEN is of layer 1, on which no base picture may rest
            whole = [(n, slot) for n, slot in whole if slot is not Slot.GOLDEN]
        if not whole:
            return self._keyframe()
        number, slot = max(whole)
        return Plan(self._next, 0, slot, frozenset({Slot.LAST}), (number,), repair=True)
