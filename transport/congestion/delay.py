"""A delay-based controller that keeps the bottleneck's queue short.

Receivers report when each packet arrived. One-way delay above its minimum is queueing; while it
stays under a small target the rate grows, gently near the rate at which the queue last built,
quickly far below it. When it passes the target, the rate drops to a share of what is actually
being delivered, deeper while the queue is long, until it has drained. The window follows as
rate × (base round trip + target), so that a link that collapses holds a bounded queue before
the first report of it comes back.

The shape is that of the delay-based arm of RFC 8836's candidates (RFC 8698 NADA section 4.3 in
its two modes of ramp-up and gradual update); loss alone only matters when it is heavy, because
radio links lose packets without being congested.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .base import Arrival, LinkEstimate
from .base_delay import BaseDelay
from .delivery import DeliveryRate

REMEMBERED_PACKETS = 4096
"""Sent packets kept for matching reports: 40 s at 100 packets/s, 0.3 s at 150 Mbit/s."""


@dataclass(frozen=True, slots=True)
class DelaySettings:
    """How the controller behaves; rates in bits per second, times in seconds."""

    initial_bps: float = 400_000
    """Where it starts: low enough not to flood a slow link for long."""
    minimum_bps: float = 60_000
    """Never below: one voice with its overhead."""
    maximum_bps: float = 50_000_000
    """Never above."""
    queue_target: float = 0.008
    """Queueing tolerated, above the time of one and a quarter full packets at the rate."""
    packet_size: int = 1200
    """Bytes of a full packet."""


class State(StrEnum):
    """What the controller is doing."""

    STARTING = "starting"
    GROWING = "growing"
    HOLDING = "holding"
    DRAINING = "draining"


NEWEST = 0.06
"""Seconds of arrivals that tell what a link that just became slower delivers now. With a longer
window the first cut is made from the old rate, and the queue takes two round trips to drain."""
CLEAR_AFTER = 0.2
"""Seconds without any queue, near the rate at which one built before, after which the link is
taken to have become faster. On a link that is nearly full every picture makes a short queue."""
BUSY_MEMORY = 0.1
"""Seconds over which it is judged whether the sender had to wait: three video frames."""
REPORTS_OVER = 1.0
"""Seconds of acknowledgements without a report after which reports count as over."""


@dataclass(slots=True)
class _Measured:
    """What one source of arrival times says. Sources differ in clock and meaning: never mixed."""

    base: BaseDelay = field(default_factory=BaseDelay)
    delivery: DeliveryRate = field(default_factory=DeliveryRate)
    newest: DeliveryRate = field(default_factory=lambda: DeliveryRate(window=NEWEST))


class DelayController:
    """See the module's text. Implements `congestion.base.Controller`."""

    def __init__(self, settings: DelaySettings | None = None) -> None:
        self._settings = settings = settings or DelaySettings()
        self._rate = settings.initial_bps
        self._state = State.STARTING
        self._sent: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self._reported = _Measured()
        self._acked = _Measured()
        self._path = self._acked
        self._queue_delay = 0.0
        self._rtt_base = BaseDelay()
        self._rtt_min: float | None = None
        self._rtt: float | None = None
        self._ceiling: float | None = None
        self._last_growth: float | None = None
        self._last_cut = -1.0
        self._last_queue = -math.inf
        self._newest_sent = -math.inf
        self._busy_share = 0.0
        self._busy_at = -math.inf
        self._loss = 0.0
        self._reports_seen = False
        self._unreported_since: float | None = None

    # -- what it decides

    @property
    def window_bytes(self) -> int:
        """Rate × (base round trip + tolerated queue): at least four packets, two while draining."""
        round_trip = self._rtt_min if self._rtt_min is not None else 0.2
        if self._state is State.DRAINING and self._ceiling is not None:
            # No more in flight than the link holds: what waits is sent in order of importance
            # once the queue is gone, instead of standing in it.
            held = self._ceiling / 8.0 * (round_trip + self._settings.queue_target)
            return int(max(2 * self._settings.packet_size, held))
        allowed = self._rate / 8.0 * (round_trip + 0.01 + self._threshold())
        return int(max(4 * self._settings.packet_size, allowed))

    @property
    def pacing_bps(self) -> float:
        """A little above the rate, so that a frame leaves before the next one comes."""
        if self._state is State.DRAINING:
            return self._rate
        return self._rate * 1.2

    @property
    def target_bps(self) -> float:
        """What media may produce: some headroom is left so that the queue can drain."""
        return self._rate * 0.95

    def estimate(self) -> LinkEstimate:
        """What is believed now."""
        return LinkEstimate(
            target_bps=self.target_bps,
            pacing_bps=self.pacing_bps,
            window_bytes=self.window_bytes,
            delivered_bps=self._path.delivery.bps,
            queue_delay=self._queue_delay,
            rtt=self._rtt,
            base_rtt=self._rtt_min,
            loss=self._loss,
            state=self._state.value,
        )

    # -- what it is told

    def on_sent(self, packet_number: int, size: int, *, in_flight: int, now: float) -> None:
        """Remember the packet until a report or its turn to be forgotten."""
        del in_flight
        self._sent[packet_number] = (now, size)
        while len(self._sent) > REMEMBERED_PACKETS:
            self._sent.popitem(last=False)

    def on_acked(self, packet_number: int, size: int, *, now: float) -> None:
        """Without reports from the receiver, round trips stand in for one-way delays.

        After a quiet second the first acknowledgement may overtake the first report; that is
        no reason to change over.
        """
        self._loss *= 0.99
        if self._unreported_since is None:
            self._unreported_since = now
        if self._reports_seen and now - self._unreported_since < REPORTS_OVER:
            return
        sent = self._sent.get(packet_number)  # its report may still come, and says more
        if sent is not None:
            self._use(self._acked)
            self._take(sent[0], now, size, now=now)
            self._adjust(now)

    def on_lost(self, packet_number: int, size: int, *, now: float) -> None:  # noqa: ARG002
        """Only heavy loss counts: a tenth and more of what is sent."""
        self._sent.pop(packet_number, None)
        self._loss = self._loss * 0.99 + 0.01
        if self._loss > 0.1 and now - self._last_cut > max(0.2, self._rtt or 0.1):
            self._cut(0.85, now)

    def on_persistent_congestion(self) -> None:
        """The path was gone: start low again, remembering the rate as a ceiling."""
        self._ceiling = self._rate
        self._rate = max(self._settings.minimum_bps, min(self._rate, self._settings.initial_bps))

    def on_rtt(self, rtt: float, *, now: float) -> None:
        """Smooth as RFC 9002 section 5.3; the minimum is that of the last ten seconds."""
        self._rtt = rtt if self._rtt is None else self._rtt * 0.875 + rtt * 0.125
        self._rtt_min = self._rtt_base.add(rtt, now=now)

    def on_backlog(self, waiting: bool, *, now: float) -> None:
        """Track how much of the time the sender had to wait: the opposite of app-limited.

        Called every millisecond while there is a backlog, so time without calls counts as idle.
        """
        busy = self._busy(now)
        step = min(0.001, max(0.0, now - self._busy_at)) / BUSY_MEMORY
        self._busy_share = busy + ((1.0 if waiting else 0.0) - busy) * step
        self._busy_at = now

    def on_arrivals(self, arrivals: Sequence[Arrival], *, now: float) -> None:
        """Match a report with what was sent and adjust the rate once."""
        matched = False
        for arrival in arrivals:
            sent = self._sent.pop(arrival.packet_number, None)
            if sent is None:
                continue
            if not matched:
                matched = True
                self._use(self._reported)
            self._take(sent[0], arrival.received, sent[1], now=now)
        if matched:
            self._reports_seen = True
            self._unreported_since = None
            self._adjust(now)

    # -- how

    def _use(self, source: _Measured) -> None:
        if self._path is not source:
            self._path = source
            self._queue_delay = 0.0

    def _busy(self, now: float) -> float:
        """Share of the time, in [0, 1], that the sender had to wait lately."""
        idle = now - self._busy_at - 0.002  # two ticks: one may be late
        return self._busy_share * math.exp(-max(0.0, idle) / BUSY_MEMORY)

    def _take(self, sent: float, received: float, size: int, *, now: float) -> None:
        self._newest_sent = max(self._newest_sent, sent)
        self._path.delivery.add(received, size)
        self._path.newest.add(received, size)
        delay = received - sent
        queued = max(0.0, delay - self._path.base.add(delay, now=now))
        # Falls at once, rises over two or three packets: one late packet is not a queue.
        weight = 1.0 if queued < self._queue_delay else 0.4
        self._queue_delay += (queued - self._queue_delay) * weight

    def _threshold(self) -> float:
        """Queueing that is still fine: the target plus one and a quarter packets' time.

        The base delay may come from small packets, so a full one's serialization must fit in.
        The believed rate is used, not the delivered one, which is low whenever media is.
        """
        rate = max(self._rate, self._path.delivery.bps or 0.0)
        return self._settings.queue_target + 1.25 * self._settings.packet_size * 8.0 / rate

    def _adjust(self, now: float) -> None:
        threshold = self._threshold()
        if self._queue_delay > threshold * 0.3:
            self._last_queue = now
        if self._queue_delay > threshold:
            self._on_queue(threshold, now)
        elif self._queue_delay < threshold * 0.6:
            self._grow(now)
        else:
            if self._state is not State.STARTING:
                self._state = State.HOLDING
            self._last_growth = now

    def _on_queue(self, threshold: float, now: float) -> None:
        """Drop to a share of what is delivered, deeper for a long queue.

        Once per queue: what was sent before the last cut says nothing about it. The window does
        the draining, so that the cut need not be deeper than the link is slow.
        """
        self._last_growth = now
        if self._newest_sent < self._last_cut + 0.01 or now - self._last_cut < 0.05:
            return
        excess = min(1.0, (self._queue_delay - threshold) / threshold)
        self._ceiling = self._delivered() or self._rate
        self._cut(0.92 - 0.17 * excess, now)

    def _cut(self, factor: float, now: float) -> None:
        delivered = self._delivered() or self._rate
        self._rate = max(self._settings.minimum_bps, min(self._rate, delivered) * factor)
        self._state = State.DRAINING
        self._last_cut = now
        self._last_growth = now

    def _delivered(self) -> float | None:
        """Bits per second delivered while there is a queue: the link is busy all the time."""
        rates = (self._path.delivery.bps, self._path.newest.bps)
        return min((rate for rate in rates if rate is not None), default=None)

    def _grow(self, now: float) -> None:
        elapsed = 0.0 if self._last_growth is None else min(0.1, now - self._last_growth)
        self._last_growth = now
        delivered = self._path.delivery.bps
        starting = self._state is State.STARTING
        clear = now - self._last_queue > CLEAR_AFTER
        if not starting:
            self._state = State.GROWING
        if self._ceiling is not None and self._rate < self._ceiling * 0.9:
            # The queue has drained: back to just under what was delivered, within a few trips.
            speed = 3.0
        elif self._ceiling is not None and self._rate < self._ceiling * 1.1:
            speed = 1.5 if clear else 0.12
        else:
            self._ceiling = None
            speed = 2.5 if starting else 1.0 if clear else 0.6
        limit = self._settings.maximum_bps
        if delivered is not None and self._busy(now) < 0.3:
            # Application-limited: what was never sent says nothing about the link (RFC 7661).
            limit = max(self._rate, min(limit, delivered * 1.3))
        grown = self._rate * (1.0 + speed * elapsed)
        self._rate = min(max(self._rate, min(grown, limit)), self._settings.maximum_bps)
