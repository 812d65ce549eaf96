"""SCReAMv2: window, pacing rate and encoder target from one loop.

Self-clocked: the reference window is what may be in flight with the tolerated queue, the target is
window over round trip, and packets are paced somewhat faster so that a picture leaves before the
next one comes. Queue delay above half its target is treated like L4S marks (draft section
4.2.1.4). Feedback is limen's arrival reports; acknowledgements stand in where there are none.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from ..base import Arrival, LinkEstimate
from ..base_delay import BaseDelay
from ..delivery import DeliveryRate
from .queue_target import QueueTarget
from .settings import ScreamSettings
from .window import Congestion, ReferenceWindow

REMEMBERED_PACKETS = 4096
FLIGHT_LIMIT = 0.9
"""BYTES_IN_FLIGHT_LIMIT: share of the window in flight above which the target is eased."""
FLIGHT_COMPENSATION = 1.5
"""BYTES_IN_FLIGHT_LIMIT_COMPENSATION: how far at most."""
REPORTS_OVER = 1.0
"""Seconds without a report after which acknowledgements stand in."""


class ScreamController:
    """See the module's text. Implements `congestion.base.Controller`."""

    def __init__(self, settings: ScreamSettings | None = None) -> None:
        self._settings = settings = settings or ScreamSettings()
        self._sent: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self._window = ReferenceWindow(settings, settings.initial_bps / 8.0 * 0.1)
        self._target = settings.initial_bps
        self._queue_target = QueueTarget(settings)
        self._base = BaseDelay()
        self._rtt_base = BaseDelay()
        self._delivery = DeliveryRate()
        self._rtt: float | None = None
        self._rtt_min: float | None = None
        self._queue_delay = 0.0
        self._queue_average = 0.0
        self._queue_average_at = float("-inf")
        self._in_flight = 0
        self._max_in_flight = 0.0
        self._max_in_flight_previous = 0.0
        self._round_packets = 0
        self._round_lost = 0
        self._loss = 0.0
        self._loss_events: deque[float] = deque(maxlen=64)
        self._loss_pending = False
        self._last_report: float | None = None

    # -- what it decides

    @property
    def window_bytes(self) -> int:
        """The reference window and its overhead: in flight 'around' it, not limited by it."""
        return int(self._window.size * self._settings.window_overhead)

    @property
    def pacing_bps(self) -> float:
        """Faster than the target, so that pictures of uneven size leave in time."""
        return max(50_000.0, self._target) * self._settings.pacing_headroom

    @property
    def target_bps(self) -> float:
        """What media may produce, packet overhead included."""
        return self._target

    def estimate(self) -> LinkEstimate:
        """What is believed now."""
        return LinkEstimate(
            target_bps=self._target,
            pacing_bps=self.pacing_bps,
            window_bytes=self.window_bytes,
            delivered_bps=self._delivery.bps,
            queue_delay=self._queue_delay,
            rtt=self._rtt,
            base_rtt=self._rtt_min,
            loss=self._loss,
            state=f"target {self._queue_target.value * 1e3:.0f} ms",
        )

    # -- what it is told

    def on_sent(self, packet_number: int, size: int, *, in_flight: int, now: float) -> None:
        """Remember the packet; follow what is in flight."""
        self._in_flight = in_flight
        self._max_in_flight = max(self._max_in_flight, float(in_flight))
        self._round_packets += 1
        self._sent[packet_number] = (now, size)
        while len(self._sent) > REMEMBERED_PACKETS:
            self._sent.popitem(last=False)

    def on_acked(self, packet_number: int, size: int, *, now: float) -> None:
        """Stands in for a report where none come: the round trip replaces the one-way delay."""
        self._in_flight = max(0, self._in_flight - size)
        if self._last_report is not None and now - self._last_report < REPORTS_OVER:
            return
        sent = self._sent.pop(packet_number, None)
        if sent is not None:
            self._take(sent[0], now, size, now=now)
            self._update(size, now)

    def on_lost(self, packet_number: int, size: int, *, now: float) -> None:
        """Counted per round trip; a little loss is not congestion."""
        self._in_flight = max(0, self._in_flight - size)
        self._sent.pop(packet_number, None)
        self._round_lost += 1
        self._loss_pending = True
        del now

    def on_persistent_congestion(self) -> None:
        """The path was gone: start again from what a first round trip may hold."""
        self._window.size = float(self._settings.min_window)

    def on_rtt(self, rtt: float, *, now: float) -> None:
        """Smoothed as in RFC 6298."""
        self._rtt = rtt if self._rtt is None else self._rtt * 0.875 + rtt * 0.125
        self._rtt_min = self._rtt_base.add(rtt, now=now)

    def on_backlog(self, waiting: bool, *, now: float) -> None:
        """Not needed: growth is bounded by what was in flight."""

    def on_arrivals(self, arrivals: Sequence[Arrival], *, now: float) -> None:
        """Match a report with what was sent, then update window and target once."""
        acked = 0
        for arrival in arrivals:
            sent = self._sent.pop(arrival.packet_number, None)
            if sent is not None:
                self._take(sent[0], arrival.received, sent[1], now=now)
                acked += sent[1]
        if acked:
            self._last_report = now
            self._update(acked, now)

    # -- how

    def _take(self, sent: float, received: float, size: int, *, now: float) -> None:
        self._delivery.add(received, size)
        delay = received - sent
        # A full packet's own time on a slow link is not queueing (the base may come from a
        # small one); the draft measures between packets of one size.
        own = size * 8.0 / max(self._target, self._delivery.bps or 0.0)
        self._queue_delay = max(0.0, delay - self._base.add(delay, now=now) - min(own, 0.03))

    def _update(self, acked: float, now: float) -> None:
        rtt = self._rtt or 0.1
        if now - self._queue_average_at >= rtt:
            self._average_queue(now)
        settings = self._settings
        if now - self._window.last_congestion >= min(settings.virtual_rtt, rtt):
            self._window.reduce(
                self._congestion(),
                max_in_flight=max(self._max_in_flight, self._max_in_flight_previous),
                now=now,
            )
        self._window.grow(
            acked,
            rtt=rtt,
            max_in_flight=max(self._max_in_flight, self._max_in_flight_previous),
            now=now,
        )
        self._set_target(rtt)

    def _average_queue(self, now: float) -> None:
        """Once per round trip: slow to rise, quick to fall, so that a spike is not a queue."""
        self._queue_average_at = now
        gain = self._settings.queue_average
        if self._queue_delay < self._queue_average:
            self._queue_average = self._queue_delay
        else:
            self._queue_average += gain * (self._queue_delay - self._queue_average)
        rounds = self._loss_events
        packets = max(1, self._round_packets)
        lost = self._round_lost / packets
        self._loss += (lost - self._loss) * 0.1
        rounds.append(1.0 if lost > self._settings.loss_threshold else 0.0)
        self._queue_target.add(self._queue_delay, loss_event_rate=sum(rounds) / len(rounds))
        self._max_in_flight_previous, self._max_in_flight = (
            self._max_in_flight,
            float(self._in_flight),
        )
        self._round_packets = self._round_lost = 0

    def _congestion(self) -> Congestion:
        target = self._queue_target.value
        alpha = (self._queue_average - target / 2.0) / (target / 2.0)
        lost = self._round_lost / max(10, self._round_packets)
        loss = self._loss_pending and lost > self._settings.loss_threshold
        self._loss_pending = False
        virtual = max(0.0, min(1.0, alpha)) if self._queue_delay > target / 2.0 else 0.0
        return Congestion(loss=loss, virtual_alpha=virtual)

    def _set_target(self, rtt: float) -> None:
        settings = self._settings
        factor = 1.0
        ratio = self._in_flight / self._window.size
        if ratio > FLIGHT_LIMIT:
            factor /= min(FLIGHT_COMPENSATION, ratio / FLIGHT_LIMIT)
        factor *= 1.0 - min(0.8, max(0.0, settings.segment / self._window.size - 0.1))
        target = factor * 8.0 * self._window.size / rtt
        self._target = max(settings.minimum_bps, min(settings.maximum_bps, target))
