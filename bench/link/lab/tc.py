"""What `tc` has to be told for one direction of a profile: up to three qdiscs in a row.

A packet passes three devices, each with the qdisc of one part of the model:

    shape   tbf with a byte limit (or pfifo / codel below it): the bottleneck's queue and rate
    wire    netem rate: the serialization of a store-and-forward wire, which tbf does not have
    path    netem delay, jitter, loss, duplicate, reorder, corrupt

netem alone cannot do it: its `rate` knows no limit in bytes, and as a root with tbf below it the
loss would come before the bottleneck instead of behind it. Sizes count from the IP header (`stab
overhead -14`), plus what the profile adds. netem's order-keeping under jitter is had with a rate
so high that it takes no time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..spec import (
    UDP_IPV4_OVERHEAD,
    CoDelSpec,
    FourStateLoss,
    GilbertElliottLoss,
    LinkSpec,
    RandomLoss,
)
from ..tables import table_file
from .namespace import LabError

ETHERNET_HEADER = 14
MANY = 1_000_000
"""Packets: a limit that is none."""
TBF_BURST = 1500
"""Bytes: room for one full packet, without which tbf would send none."""
BURST_SECONDS = 0.001
"""On top, as time: tbf throws away what it could have sent when its timer is later than this.
What runs ahead so is caught by the wire behind it and taken off the queue's limit."""
KEEP_ORDER_RATE = "100gbit"
OUTAGE_RATE = 8.0
"""Bits per second: tbf has no rate of 0."""


@dataclass(frozen=True, slots=True)
class Qdiscs:
    """The commands of one direction at one rate; "" where a stage has nothing to do."""

    shape: str
    shape_child: str
    wire: str
    path: str


def unsupported(spec: LinkSpec) -> str | None:
    """Why real netem cannot do what a spec asks for; None when it can."""
    if spec.opportunities:
        return "a delivery trace, which tc cannot play"
    if len(spec.flow_delays) > 1:
        return "delays per flow"
    if len(spec.steps) > 100:
        return "a rate trace: tc is told of each step by hand and would come late"
    if spec.queue_packets is not None and spec.queue_bytes is not None:
        return "a queue limit in bytes and in packets at once"
    return None


def table_name(spec: LinkSpec) -> str | None:
    """The name of a table file that tc must be given for a spec; None if it has its own."""
    if spec.jitter_bound is None or not spec.jitter:
        return None
    return f"limen-{spec.distribution}-{round(spec.jitter_bound / spec.jitter * 1000)}"


def table_files(*specs: LinkSpec) -> dict[str, str]:
    """Name and content of every table file those specs need."""
    return {
        f"{name}.dist": table_file(spec.delay_table())
        for spec in specs
        if (name := table_name(spec)) is not None
    }


def qdiscs(spec: LinkSpec, time: float = 0.0) -> Qdiscs:
    """The qdiscs for a spec at a link time. Raises LabError for what tc cannot do."""
    reason = unsupported(spec)
    if reason is not None:
        raise LabError(f"real netem cannot do {reason}; use the emulated link")
    stab = f"stab overhead {spec.overhead_bytes - UDP_IPV4_OVERHEAD - ETHERNET_HEADER} "
    shape = child = wire = ""
    if spec.steps:
        rate = max(OUTAGE_RATE, spec.rate_at(time))
        nominal = max(OUTAGE_RATE, spec.curve.nominal_rate_at(time))
        burst = spec.burst_bytes or TBF_BURST + round(nominal / 8 * BURST_SECONDS)
        limit = spec.limit_bytes(time)
        limit_bytes = round(limit) if limit < MANY * 1500 else 1_000_000_000
        if spec.burst_bytes is None:
            # What the wire behind it holds has left tbf, but not yet the model's queue.
            limit_bytes = max(TBF_BURST, limit_bytes - burst)
        shape = f"{stab}tbf rate {rate:.0f}bit burst {burst} limit {max(TBF_BURST, limit_bytes)}"
        child = _child(spec, limit_bytes)
        if spec.burst_bytes is None:
            wire = f"{stab}netem rate {rate:.0f}bit limit {MANY}"
    return Qdiscs(shape, child, wire, _path(spec))


def _child(spec: LinkSpec, limit_bytes: int) -> str:
    if spec.aqm is None:
        if spec.queue_packets is None:
            return ""
        on_the_wire = spec.burst_bytes is None
        return f"pfifo limit {max(1, spec.queue_packets - on_the_wire)}"
    # CoDel limits packets, not bytes: as many full ones as the bytes would hold.
    packets = spec.queue_packets or max(1, limit_bytes // 1500)
    if isinstance(spec.aqm, CoDelSpec):
        ecn = "ecn" if spec.aqm.ecn else "noecn"
        return (
            f"codel limit {packets} target {spec.aqm.target * 1e6:.0f}us "
            f"interval {spec.aqm.interval * 1e6:.0f}us {ecn}"
        )
    # A target never reached leaves CoDel with the marking above its threshold.
    threshold = f"{spec.aqm.threshold * 1e6:.0f}us"
    return f"codel limit {packets} target 100s interval 200s ecn ce_threshold {threshold}"


def _path(spec: LinkSpec) -> str:
    parts: list[str] = []
    delay = spec.flow_delays[0] if spec.flow_delays else spec.delay
    if delay or spec.jitter:
        parts.append(f"delay {delay * 1e6:.0f}us")
        if spec.jitter:
            parts.append(f"{spec.jitter * 1e6:.0f}us")
            if spec.jitter_correlation:
                parts.append(_percent(spec.jitter_correlation))
            if spec.distribution != "uniform":
                parts.append(f"distribution {table_name(spec) or spec.distribution}")
    parts += _loss(spec)
    if spec.duplicate:
        parts.append(f"duplicate {_percent(spec.duplicate)}")
    if spec.corrupt:
        parts.append(f"corrupt {_percent(spec.corrupt)}")
    if spec.reorder is not None:
        parts.append(f"reorder {_percent(spec.reorder.probability)} gap {spec.reorder.gap}")
    if spec.jitter and not spec.jitter_reorders:
        parts.append(f"rate {KEEP_ORDER_RATE}")
    if not parts and spec.limit_packets is None:
        return ""
    return " ".join(["netem", *parts, f"limit {spec.limit_packets or MANY}"])


def _loss(spec: LinkSpec) -> list[str]:
    loss = spec.loss
    if loss is None:
        return []
    if isinstance(loss, RandomLoss):
        return [f"loss random {_percent(loss.probability)}"]
    if isinstance(loss, GilbertElliottLoss):
        chain = (loss.enter, loss.leave, loss.bad_loss, loss.good_loss)
        return ["loss gemodel", *map(_percent, chain)]
    if isinstance(loss, FourStateLoss):
        states = (loss.p13, loss.p31, loss.p32, loss.p23, loss.p14)
        return ["loss state", *map(_percent, states)]
    raise LabError(f"no netem loss model for {loss!r}")


def _percent(share: float) -> str:
    return f"{share * 100:.6f}%"
