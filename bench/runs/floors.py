"""The physical floor of each object: what the link itself takes, with nobody in the way.

An object that is sent the moment it was captured waits for the packet that is leaving (a link does
not preempt), is then served at the link's rate of that moment and whatever rates follow, outages
included, and propagates. Jitter and loss are not in it: what they cost is the transport's to win.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..link.rates import RateCurve, RateStep
from ..link.spec import LinkSpec
from ..metrics import FULL_PACKET_BYTES
from ..objects import ObjectRecord


def floors(
    records: Sequence[ObjectRecord], link: LinkSpec, *, started: float, length: float
) -> list[float]:
    """The floor of every object's delay, seconds; infinite for one the link never carries.

    `started` is link time 0 on the records' clock, `length` the seconds the link was used. An
    object of unknown size (never encoded) weighs nothing: no floor is flattered by it.
    """
    curve = _curve(link, length)
    delay = link.flow_delays[0] if link.flow_delays else link.delay
    values = []
    for record in records:
        at = max(0.0, record.captured - started)
        done = curve.finish(at, 8.0 * (record.size_bytes + FULL_PACKET_BYTES)) if curve else at
        values.append(delay + done - at if math.isfinite(done) else math.inf)
    return values


def _curve(link: LinkSpec, length: float) -> RateCurve:
    """The link's rate over time; a trace of single opportunities as means of 100 ms."""
    if not link.opportunities:
        return link.curve
    steps = tuple(RateStep(at, rate) for at, rate in link.rate_steps(until=length))
    period = link.opportunities[-1] / 1e3
    return RateCurve(steps, period if period > steps[-1].at else None)
