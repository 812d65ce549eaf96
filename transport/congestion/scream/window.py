"""The reference window: how it shrinks at congestion and grows without (SCReAMv2 section 4.2).

It aims at the bytes in flight that keep the link busy with the target queue, so everything else
(what may be in flight, pacing, the encoders' target) follows from it and the round trip. ECN marks
have no part in it yet: the sockets do not report them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .settings import ScreamSettings

INFLECTION_INTERVAL = 0.25
"""Seconds between updates of the inflection point."""
LONG_QUIET = 5.0
"""Seconds without congestion after which the window may have drifted above what is in flight."""


@dataclass(frozen=True, slots=True)
class Congestion:
    """What one round of feedback says."""

    loss: bool = False
    virtual_alpha: float = 0.0
    """0 to 1 as the averaged queue goes from half its target to the target."""

    @property
    def any(self) -> bool:
        """Whether there is any reason to back off."""
        return self.loss or self.virtual_alpha > 0.0


class ReferenceWindow:
    """Keeps `size` in bytes."""

    def __init__(self, settings: ScreamSettings, initial: float) -> None:
        self._settings = settings
        self.size = max(float(settings.min_window), initial)
        self.inflection = 1.0
        self.last_congestion = float("-inf")
        self._inflection_time = float("-inf")

    def reduce(self, congestion: Congestion, *, max_in_flight: float, now: float) -> None:
        """Back off once, for everything that speaks for it."""
        if not congestion.any:
            return
        settings = self._settings
        if now - self._inflection_time > INFLECTION_INTERVAL:
            self._inflection_time = now
            self.inflection = self.size
        if now - self.last_congestion > LONG_QUIET and max_in_flight > 0:
            # The link carried more than the encoders made: the window has drifted above what
            # was ever in flight. (The draft does this for L4S; a queue says the same.)
            self.size = min(self.size, max_in_flight * settings.flight_head_room)
        if congestion.loss:
            self.size *= settings.beta_loss
        self.size *= 1.0 - congestion.virtual_alpha / 2.0
        self.size = max(float(settings.min_window), self.size)
        self.last_congestion = now

    def grow(self, acked: float, *, rtt: float, max_in_flight: float, now: float) -> None:
        """Grow for `acked` bytes that arrived; at most as far as media makes use of it."""
        settings = self._settings
        ratio = settings.segment / self.size
        increment = acked * ratio
        small = min(1.0, rtt / settings.virtual_rtt)
        increment *= small * small
        # Near the last known maximum, go slowly: that is where the queue built.
        scale = 4.0 * (self.size - self.inflection) / self.inflection
        scale = max(0.1, min(1.0, scale * scale))
        increment *= scale
        caution = (now - self.last_congestion) / settings.post_congestion
        caution = max(0.0, min(1.0, caution))
        factor = 1.0 + settings.growth * self.size / settings.segment
        increment *= 1.0 + (factor - 1.0) * caution * scale
        grown = self.size + increment
        if grown <= settings.segment + max_in_flight * settings.flight_head_room:
            self.size = grown
