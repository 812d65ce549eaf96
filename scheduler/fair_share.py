"""Whose turn it is: self-clocked fair queueing with weights that may change at any moment.

Each flow has a virtual `start`; its next packet would finish at start + bytes / weight, and the
flow that finishes first goes first (SCFQ: Golestani, INFOCOM 1994). The system's virtual time is
the latest finish served. Two things follow that media needs: a flow that wakes up starts at the
system's virtual time, so it can neither claim what it did not use nor be punished for having been
quiet; and a small object of a heavy flow finishes, in virtual time, before the next packet of any
large one, so it leaves next. Start-time fairness (SFQ) would let *every* newcomer go next.

When a weight changes, what a flow is owed is kept in *bytes*, not in virtual time. Otherwise a
flow waiting at weight 1 and lifted to 64 would burst 64 times what it is owed.
"""

from __future__ import annotations

from collections.abc import Sequence

QUANTUM_BYTES = 1200
"""Bytes for which a turn is planned: one QUIC packet (RFC 9000 section 14)."""

MAX_OWED_BYTES = 2 * QUANTUM_BYTES
"""A flow passed over (its object did not fit) catches up at most this much at once."""


class Share:
    """One flow's place in virtual time."""

    __slots__ = ("inverse_weight", "lapsed", "start", "weight")

    def __init__(self) -> None:
        self.start = 0.0
        self.weight = 1.0
        self.inverse_weight = 1.0
        self.lapsed = False
        """Its queue emptied by shedding, not by service: what it is owed survives."""


class FairClock:
    """The virtual time that the shares of one scheduler compete in."""

    __slots__ = ("virtual",)

    def __init__(self) -> None:
        self.virtual = 0.0

    def wake(self, share: Share) -> None:
        """A flow got something to send after having had nothing.

        It catches up to the present. A flow whose objects expired before its turn came keeps up to
        one packet of what it was owed: else a flow at the floor share, whose turns lie further
        apart than its deadlines, would start to wait anew each time and never be served.
        """
        owed = QUANTUM_BYTES * share.inverse_weight if share.lapsed else 0.0
        share.start = max(share.start, self.virtual - owed)
        share.lapsed = False

    def charge(self, share: Share, n_bytes: int) -> None:
        """`n_bytes` of a flow were served."""
        oldest = self.virtual - MAX_OWED_BYTES * share.inverse_weight
        share.start = max(share.start, oldest) + n_bytes * share.inverse_weight
        self.virtual = max(self.virtual, share.start)

    def reweigh_all(self, shares: Sequence[Share], weights: Sequence[float]) -> None:
        """Give flows new weights (> 0), each keeping the bytes it is owed."""
        virtual = self.virtual
        for share, weight in zip(shares, weights, strict=True):
            if weight != share.weight:
                owed_bytes = (virtual - share.start) * share.weight
                owed_bytes = min(owed_bytes, MAX_OWED_BYTES)
                share.weight = weight
                share.inverse_weight = inverse = 1.0 / weight
                share.start = virtual - owed_bytes * inverse


def with_floors(weights: Sequence[float], floor_share: float) -> list[float]:
    """The weights, small ones raised so that each is at least `floor_share` of their sum.

    All floors together take at most half of the link, whatever the number of flows: with more than
    0.5 / floor_share flows the floor is 0.5 / n, so that importance still decides the other half.
    """
    n = len(weights)
    if n == 0:
        return []
    floor_share = min(floor_share, 0.5 / n)
    total = sum(weights)
    if min(weights) >= floor_share * total:
        return list(weights)
    raised = 0
    rest = total
    for value in sorted(weights):
        # Raising the smallest ones one by one: the sum becomes rest / (1 - raised * floor_share).
        if value >= floor_share * rest / (1.0 - raised * floor_share):
            break
        raised += 1
        rest -= value
    floor = floor_share * rest / (1.0 - raised * floor_share)
    return [max(value, floor) for value in weights]
