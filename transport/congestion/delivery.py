"""How fast the path delivers: bytes over the receiver's own clock.

Measured between arrival stamps, so neither the reverse path nor the feedback interval distorts
it (the estimate of draft-ietf-iccrg-bbr-congestion-control section 4.1, at the receiver's clock).
The first packet of the window only starts the clock; its bytes came before it.
"""

from __future__ import annotations

from collections import deque


class DeliveryRate:
    """Bytes per second over a sliding window of arrivals."""

    def __init__(self, window: float = 0.2) -> None:
        self._window = window
        self._arrivals: deque[tuple[float, int]] = deque()
        self._bytes = 0

    def add(self, received: float, size: int) -> None:
        """One packet of `size` bytes arrived at `received` (receiver's clock, seconds)."""
        if self._arrivals and received < self._arrivals[-1][0]:
            received = self._arrivals[-1][0]
        self._arrivals.append((received, size))
        self._bytes += size
        while len(self._arrivals) > 2 and received - self._arrivals[0][0] > self._window:
            self._bytes -= self._arrivals.popleft()[1]

    @property
    def bps(self) -> float | None:
        """Delivered bits per second; None before the window holds half its length."""
        if len(self._arrivals) < 3:
            return None
        span = self._arrivals[-1][0] - self._arrivals[0][0]
        if span < self._window / 2:
            return None
        return (self._bytes - self._arrivals[0][1]) * 8.0 / span
