"""What befalls packets behind the bottleneck, with netem's arithmetic.

Everything about the n-th packet offered is drawn when it is offered, even if the queue then drops
it. So a seed decides the same about the same packet of a sequence under any clock, and only times
depend on what the queue did. Delays are whole nanoseconds, as in netem.
"""

from __future__ import annotations

from dataclasses import dataclass

from .chance import CorrelatedDraws, stream, threshold
from .loss import LossProcess
from .spec import LinkSpec
from .tables import SCALE

NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a packet that comes through (two when it was duplicated)."""

    variation: int
    """Nanoseconds of jitter to add to the propagation delay, either sign."""
    overtakes: bool = False
    """It skips the propagation delay."""
    corrupt: int | None = None
    """Which bit to flip: take it modulo the packet's bits."""


class PathChances:
    """Draws what happens to one packet after the other."""

    def __init__(self, spec: LinkSpec, *, seed: int) -> None:
        self._loss = LossProcess(spec.loss, seed=seed)
        self._duplicate = threshold(spec.duplicate)
        self._duplicates = stream(seed, "duplicate").getrandbits
        self._corrupt = threshold(spec.corrupt)
        self._corruptions = stream(seed, "corrupt").getrandbits
        self._jitter = round(spec.jitter * NANO)
        self._table = spec.delay_table()
        self._delays = CorrelatedDraws(spec.jitter_correlation, stream(seed, "delay"))
        self._reorder = spec.reorder
        self._overtakes = 0 if spec.reorder is None else threshold(spec.reorder.probability)
        self._reorders = stream(seed, "reorder").getrandbits
        self._in_order = 0

    def draw(self) -> tuple[Copy, ...]:
        """What comes of the next packet: no copy (lost), one, or two."""
        count = 1
        if self._duplicate and self._duplicates(32) < self._duplicate:
            count = 2
        lost = self._loss.lost()
        if count == 1:
            return () if lost else (self._copy(),)
        # As in netem: the loss takes one of the two, and the second is at risk once more.
        copies = () if self._loss.lost() else (self._copy(),)
        return copies if lost else (*copies, self._copy())

    def _copy(self) -> Copy:
        corrupt = None
        if self._corrupt and self._corruptions(32) < self._corrupt:
            corrupt = self._corruptions(32)
        if self._reorder is not None:
            turn = self._in_order >= self._reorder.gap - 1
            if turn and self._reorders(32) < self._overtakes:
                self._in_order = 0
                return Copy(0, overtakes=True, corrupt=corrupt)
            self._in_order += 1
        return Copy(self._variation(), corrupt=corrupt)

    def _variation(self) -> int:
        """netem's `tabledist`: a table entry scaled by the jitter, rounded half away from zero."""
        jitter = self._jitter
        if not jitter:
            return 0
        draw = self._delays.draw()
        if not self._table:
            return draw % (2 * jitter) - jitter
        entry = self._table[draw % len(self._table)]
        rest = (jitter % SCALE) * entry
        half = SCALE // 2
        rounded = (rest + half) // SCALE if rest >= 0 else -((half - rest) // SCALE)
        return rounded + jitter // SCALE * entry


def flip_bit(packet: bytes, position: int) -> bytes:
    """The packet with one bit flipped, chosen by `position`."""
    if not packet:
        return packet
    damaged = bytearray(packet)
    place = position % (8 * len(packet))
    damaged[place >> 3] ^= 1 << (place & 7)
    return bytes(damaged)
