"""How a bottleneck serves one packet after the other: a wire, a token bucket, a delivery trace.

A server says when the packet at the head of its queue begins to be served (`begin`: when what was
before it has left, or when it came), and when a packet that begins then has left (`serve`, which
moves the server on). What waits, and whether it is dropped meanwhile, is the model's business.
"""

from __future__ import annotations

import bisect
import math
from typing import Protocol

from .rates import HeldCurve
from .spec import OPPORTUNITY_BYTES, LinkSpec


class Server(Protocol):
    """Serves packets in turn. Times are link time, seconds; `serve` in order of time only."""

    def begin(self, arrival: float) -> float:
        """When a packet that came at `arrival` would begin to be served; infinity for never."""
        ...

    def serve(self, begin: float, size_bytes: int) -> float:
        """Serve a packet from `begin` on; when it has left. Infinity: never."""
        ...

    def restart(self, at: float) -> None:
        """What is laid out in time begins anew at `at`; what was promised before, holds."""
        ...


def make_server(spec: LinkSpec, *, held: bool = False) -> Server:
    """The server that a link's rate, trace and burst ask for.

    `held`: the rate stays what it is at first until `restart`; a trace plays meanwhile.
    """
    if spec.opportunities:
        return TraceServer(spec.opportunities)
    curve = HeldCurve(spec.curve, math.inf if held else 0.0)
    if spec.burst_bytes is not None:
        return TokenBucket(curve, spec.burst_bytes)
    return Wire(curve)


class Wire:
    """Store and forward: each packet takes its bits ÷ rate, one after the other."""

    def __init__(self, curve: HeldCurve) -> None:
        self._curve = curve
        self._free = 0.0

    def begin(self, arrival: float) -> float:
        """See Server."""
        return max(self._free, arrival)

    def serve(self, begin: float, size_bytes: int) -> float:
        """See Server."""
        self._free = self._curve.finish(begin, size_bytes * 8.0)
        return self._free

    def restart(self, at: float) -> None:
        """See Server."""
        self._curve.begin = at


class TokenBucket:
    """Linux's tbf: a packet leaves at once when enough tokens were saved, else when they are there.

    Tokens are bytes; they come at the rate and overflow at the burst. A packet larger than the
    burst, which tbf would drop, borrows the rest.
    """

    def __init__(self, curve: HeldCurve, burst_bytes: int) -> None:
        self._curve = curve
        self._burst = float(burst_bytes)
        self._tokens = float(burst_bytes)
        self._counted = 0.0
        self._free = 0.0

    def begin(self, arrival: float) -> float:
        """See Server."""
        return max(self._free, arrival)

    def serve(self, begin: float, size_bytes: int) -> float:
        """See Server."""
        curve = self._curve
        earned = (curve.bits_by(begin) - curve.bits_by(self._counted)) / 8.0
        tokens = min(self._burst, self._tokens + max(0.0, earned))
        missing = size_bytes - tokens
        left = begin if missing <= 0.0 else curve.finish(begin, missing * 8.0)
        self._tokens = max(0.0, -missing)
        self._counted = self._free = left
        return left

    def restart(self, at: float) -> None:
        """See Server."""
        self._curve.begin = at


class TraceServer:
    """A mahimahi trace: at each of its milliseconds 1,500 bytes may leave.

    What is not used is lost. Packets share an opportunity when they fit, and span several when
    they do not.
    """

    def __init__(self, opportunities: tuple[int, ...]) -> None:
        self._at = opportunities
        self._cycle = 0
        self._index = 0
        self._room = OPPORTUNITY_BYTES
        self._origin = 0.0
        self._left = 0.0

    def _time(self) -> float:
        # In whole milliseconds, so that equal opportunities stay equal for ever.
        return self._origin + (self._cycle * self._at[-1] + self._at[self._index]) / 1e3

    def _next(self) -> None:
        self._index += 1
        self._room = OPPORTUNITY_BYTES
        if self._index == len(self._at):
            self._cycle += 1
            self._index = 0

    def begin(self, arrival: float) -> float:
        """See Server."""
        arrival = max(arrival, self._left)
        if self._time() < arrival:
            period = self._at[-1]
            millis = (arrival - self._origin) * 1e3
            self._cycle = max(self._cycle, int(millis // period) - 1)
            self._index = bisect.bisect_left(self._at, millis - self._cycle * period)
            self._room = OPPORTUNITY_BYTES
            if self._index == len(self._at):
                self._cycle, self._index = self._cycle + 1, 0
            while self._time() < arrival:
                self._next()
        if self._room == 0:
            self._next()
        return self._time()

    def serve(self, begin: float, size_bytes: int) -> float:
        """See Server."""
        del begin  # the opportunity that `begin` chose
        while size_bytes > self._room:
            size_bytes -= self._room
            self._next()
        self._room -= size_bytes
        self._left = self._time()
        return self._left

    def restart(self, at: float) -> None:
        """See Server."""
        self._origin, self._cycle, self._index, self._room = at, 0, 0, OPPORTUNITY_BYTES
