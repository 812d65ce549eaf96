"""What a flow looks like from outside: plain figures, fit for JSON."""

from __future__ import annotations

from typing import Any

from .flow import Flow
from .importance import TagStore


def waiting_time(flow: Flow, now: float) -> float:
    """Seconds for which the oldest object of a flow has been waiting; 0 when none is."""
    since = flow.queue.waiting_since()
    return 0.0 if since is None else max(0.0, now - since)


def flow_figures(flow: Flow, tags: TagStore, *, total_weight: float, now: float) -> dict[str, Any]:
    """What a flow got and which tag moved its share; rates in bits per second."""
    told = tags.breakdown(flow.track, now=now, base=flow.base, layer=flow.layer)
    return {
        "track": flow.track,
        "layer": flow.layer,
        "base": flow.base,
        "importance": flow.importance,
        "weight": flow.share.weight,
        "share": flow.share.weight / total_weight,
        "breakdown": [
            {
                "kind": part.tag.kind,
                "source": part.tag.source,
                "layer": part.tag.scope.layer,
                "value": part.value,
                "share": part.share,
            }
            for part in told
        ],
        "queued_bytes": flow.queue.total_bytes,
        "queued_objects": len(flow.queue),
        "queue_delay": waiting_time(flow, now),
        "arrival_rate_bps": flow.arrival_rate(now) * 8.0,
        "available_bps": flow.available * 8.0,
        "sent_bytes": flow.sent_bytes,
        "sent_objects": flow.sent_objects,
        "shed": {str(reason): count for reason, count in flow.shed.items()},
        "wasted_bytes": flow.wasted_bytes,
    }
