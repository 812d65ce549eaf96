"""SCReAMv2's constants, named as in the draft (section 4.1.1) with its values.

Where limen departs, the field says why.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScreamSettings:
    """Rates in bits per second, times in seconds, sizes in bytes."""

    initial_bps: float = 400_000
    """Where the target starts: low enough not to flood a slow link for long."""
    minimum_bps: float = 60_000
    """TARGET_BITRATE_MIN: one voice with its overhead."""
    maximum_bps: float = 50_000_000
    """TARGET_BITRATE_MAX."""
    queue_target_low: float = 0.06
    """QDELAY_TARGET_LO. Half of it is where backing off begins."""
    queue_target_high: float = 0.4
    """QDELAY_TARGET_HI: how far competing loss-based flows may push the target."""
    min_window: int = 3000
    """MIN_REF_WND."""
    segment: int = 1200
    """MSS. The draft's 1000 is RTP's; limen's packets are 1200."""
    beta_loss: float = 0.7
    """BETA_LOSS."""
    loss_threshold: float = 0.10
    """Share of packets lost per round trip up to which loss is not congestion. The draft reacts to
    any loss; radio links lose packets without being congested, and the promise is to hold at 10 %
    random loss. A full drop-tail queue shows in delay first."""
    window_overhead: float = 1.5
    """REF_WND_OVERHEAD: how far bytes in flight may pass the reference window."""
    flight_head_room: float = 2.0
    """BYTES_IN_FLIGHT_HEAD_ROOM: growth stops when this much more than was in flight."""
    queue_average: float = 0.25
    """QDELAY_AVG_G."""
    post_congestion: float = 4.0
    """POST_CONGESTION_DELAY: seconds of caution after a congestion event."""
    growth: float = 0.02
    """MUL_INCREASE_FACTOR: share of the window it may grow by per round trip."""
    virtual_rtt: float = 0.025
    """VIRTUAL_RTT."""
    pacing_headroom: float = 1.5
    """PACKET_PACING_HEADROOM."""
    compensate_competing: bool = True
    """Follow competing loss-based flows with the queue target (section 4.4)."""
