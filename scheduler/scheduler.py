"""The decision made a thousand times a second: whose bytes leave next, and what is not worth any.

`Scheduler` owns the queues of all flows of one session and is asked at the last moment, when a
packet is about to be built, so that nothing handed over can still be regretted. Its parts:

    tags -> TagStore -> importance -> weight -> FairClock (whose turn) -> pick -> commit
    objects -> ObjectQueue (deadline order) -> Triage (what is hopeless) -> Shed events

It is sans-IO: times come in as `now` (seconds, monotonic), results leave through `events`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from .dependency import Dependents, ShedMemory
from .fair_share import QUANTUM_BYTES, FairClock, with_floors
from .figures import flow_figures, waiting_time
from .flow import Flow
from .importance import TagStore, weight
from .settings import SchedulerSettings
from .triage import Triage
from .types import MediaObject, ObjectId, Sent, Shed, ShedReason, Tag

IMPORTANCE_STEP = 0.001
"""A decay of less than this waits for the next tick: it would move a weight by 0.4 %."""

TICK_S = 0.001
"""Seconds between ticks while there is a backlog. Weights older than this are refreshed before a
pick, should ticks not be running."""


class Scheduler:
    """Weighted, deadline-aware queues for the flows of one session.

    Who feeds it: the publisher through `enqueue` and `cancel`; tag sources through `tag`; the
    congestion controller through `set_link`; the timer through `tick`, every millisecond while
    `is_busy`. The packet builder calls `pick` and, at once, `commit` for the bytes it took.
    What must be drained: `events`, after any of these calls. A `Shed` event whose object has
    `sent_bytes` > 0 means that its stream has to be reset.
    `now` may jump backwards; decisions are then made as of that time.
    """

    def __init__(self, settings: SchedulerSettings | None = None) -> None:
        self.settings = settings or SchedulerSettings()
        self._tags = TagStore(self.settings.max_tags)
        self._clock = FairClock()
        self._flows: dict[int, Flow] = {}
        self._active: dict[int, Flow] = {}
        self._where: dict[ObjectId, Flow] = {}
        self._dependents = Dependents()
        self._given_up = ShedMemory()
        self._triage = Triage()
        self._events: deque[Shed | Sent] = deque(maxlen=self.settings.max_events)
        self._backlog_bytes = 0
        self._refreshed = -math.inf
        self._stale_weights = True

    # Flows and tags

    def add_flow(
        self,
        flow: int,
        *,
        track: str,
        base: float,
        layer: int | None = None,
        max_queue_bytes: int | None = None,
        max_queue_objects: int | None = None,
    ) -> None:
        """Open a flow for a track (or one `layer` of it) worth `base` in [0, 1] without any tag.

        Raises ValueError when the flow exists already or a value is out of its range.
        """
        if flow in self._flows:
            raise ValueError(f"flow {flow} exists already; remove it first")
        self._flows[flow] = Flow(
            flow,
            track=track,
            base=base,
            layer=layer,
            max_queue_bytes=max_queue_bytes or self.settings.max_queue_bytes,
            max_queue_objects=max_queue_objects or self.settings.max_queue_objects,
        )
        self._stale_weights = True

    def remove_flow(self, flow: int, *, now: float) -> None:
        """Close a flow; what it had queued, started or not, is shed as cancelled."""
        gone = self._flows.get(flow)
        if gone is None:
            return
        for obj in list(gone.queue):
            if obj.id in gone.queue:  # not yet taken along by an earlier one's dependents
                self._give_up(gone, obj, ShedReason.CANCELLED, now)
        del self._flows[flow]
        self._stale_weights = True

    def tag(self, tag: Tag, *, now: float) -> None:
        """Take a statement of importance; it moves the weights before the next pick."""
        if self._tags.add(tag, now=now):
            self._stale_weights = True

    def cancel_tags(self, track: str, *, kind: str | None = None, source: str | None = None) -> int:
        """Take back the tags on a track, or those of one kind or source; returns how many."""
        cancelled = self._tags.cancel(track, kind=kind, source=source)
        if cancelled:
            self._stale_weights = True
        return cancelled

    @property
    def tags(self) -> TagStore:
        """The tags that hold now, for reading (regions for the encoder, breakdowns)."""
        return self._tags

    # Objects in

    def enqueue(self, obj: MediaObject, *, now: float, flow: int | None = None) -> bool:
        """Queue an object on `flow` (default: its track number); False when it was shed at once.

        Shed at once is what has expired, could not arrive in time, depends on something given up,
        or finds the queue full of objects that are due before it.
        Raises ValueError for an unknown flow, an id that is queued already, or a deadline that is
        not a number.
        """
        number = obj.id.track if flow is None else flow
        home = self._flows.get(number)
        if home is None:
            raise ValueError(f"flow {number} does not exist; add_flow it before objects come")
        if obj.id in self._where:
            raise ValueError(f"object {tuple(obj.id)} is queued already; ids are used once")
        if math.isnan(obj.deadline):
            raise ValueError(f"object {tuple(obj.id)} has no deadline (nan); use inf for none")
        self._freshen(now)
        home.note_arrival(obj.remaining, now=now)
        reason = self._refusal(home, obj, now)
        if reason is None and not self._make_room(home, obj, now):
            reason = ShedReason.OVERFLOW
        if reason is None and self._depends_on_lost(obj):  # room was made by shedding it
            reason = ShedReason.DEPENDENCY
        if reason is not None:
            self._report_shed(home, obj, reason, now)
            self._give_up_dependents(obj.id, now)
            return False
        self._given_up.discard(obj.id)
        self._triage.admit(home, obj)
        home.queue.push(obj, now=now)
        self._where[obj.id] = home
        self._dependents.add(obj)
        self._backlog_bytes += obj.remaining
        if number not in self._active:
            self._active[number] = home
            self._clock.wake(home.share)
        return True

    def cancel(self, object_id: ObjectId, *, now: float) -> bool:
        """Take an object back, with what depends on it; False when it is not queued."""
        flow = self._where.get(object_id)
        obj = None if flow is None else flow.queue.get(object_id)
        if flow is None or obj is None:
            return False
        self._give_up(flow, obj, ShedReason.CANCELLED, now)
        return True

    def drop_dependents(self, object_id: ObjectId, *, now: float) -> None:
        """Shed what needs an object that was lost or reset on its way, and refuse what will."""
        self._given_up.add(object_id)
        self._give_up_dependents(object_id, now)

    # Time and the link

    def set_link(self, *, rate_bps: float | None, one_way_delay: float) -> None:
        """What the controller believes: bits per second (None or 0: unknown) and seconds.

        While the rate is unknown nothing is shed as hopeless, only as expired.
        """
        self._triage.set_link(rate_bps=rate_bps, one_way_delay=one_way_delay)

    def tick(self, *, now: float) -> None:
        """Let weights follow the tags and shed what can no longer make it."""
        self._refresh(now)
        self._triage.freshen(self._flows, self._active, now)
        for flow in self._triage.due(self._active.values(), now):
            self._review(flow, now)

    def is_busy(self, *, now: float) -> bool:
        """Whether ticks are needed: something is queued, or a tag is decaying."""
        return bool(self._active) or self._tags.is_live(now)

    # Objects out

    def pick(
        self, *, now: float, fits: Callable[[MediaObject], bool] | None = None
    ) -> MediaObject | None:
        """The object whose bytes should leave next, or None.

        `fits` is asked about atomic objects only; those it refuses are passed over. An object that
        can no longer make its deadline is shed here instead of being returned. The caller sends
        some of its bytes and calls `commit`, or does nothing.
        """
        self._freshen(now)
        while True:
            best: MediaObject | None = None
            best_flow: Flow | None = None
            best_finish = math.inf
            for flow in self._active.values():
                obj: MediaObject | None = flow.queue.entries[0][2]
                if fits is not None and obj is not None and obj.atomic and not fits(obj):
                    obj = flow.queue.next_fitting(fits)
                if obj is None:
                    continue
                share = flow.share
                turn = len(obj.payload) - obj.sent_bytes
                turn = min(turn, QUANTUM_BYTES)
                finish = share.start + turn * share.inverse_weight
                if finish < best_finish:
                    best, best_flow, best_finish = obj, flow, finish
            if best is None or best_flow is None:
                return None
            reason = self._triage.verdict(best_flow, best, now)
            if reason is None:
                return best
            self._give_up(best_flow, best, reason, now)

    def commit(self, obj: MediaObject, n_bytes: int, *, now: float) -> None:
        """Payload bytes of a picked object left; after the last, a Sent event follows.

        An object that was given up between `pick` and here only has its bytes counted.
        Raises ValueError for more bytes than remain, or a part of an atomic object.
        """
        if not 0 <= n_bytes <= obj.remaining or (obj.atomic and n_bytes != obj.remaining):
            kind = "atomic object" if obj.atomic else "object"
            raise ValueError(
                f"{kind} {tuple(obj.id)} has {obj.remaining} bytes left, got commit of {n_bytes}"
            )
        flow = self._where.get(obj.id)
        if obj.first_sent is None:
            obj.first_sent = now
        obj.sent_bytes += n_bytes
        if flow is None or flow.queue.get(obj.id) is not obj:
            return
        flow.queue.total_bytes -= n_bytes
        self._backlog_bytes -= n_bytes
        flow.sent_bytes += n_bytes
        self._clock.charge(flow.share, n_bytes)
        if obj.remaining == 0:
            self._take_out(flow, obj)
            flow.sent_objects += 1
            self._events.append(Sent(obj, now))

    def events(self) -> list[Shed | Sent]:
        """What happened since the last call, in order."""
        happened = list(self._events)
        self._events.clear()
        return happened

    # Figures

    @property
    def backlog_bytes(self) -> int:
        """Payload bytes queued and not yet sent, over all flows."""
        return self._backlog_bytes

    def backlog_seconds(self, flow: int | None = None) -> float:
        """How long the backlog takes at the believed rate; 0 while the rate is unknown.

        For one flow: at the rate that flow can count on.
        """
        if flow is None:
            rate, waiting = self._triage.link_rate, self._backlog_bytes
        else:
            home = self._flows[flow]
            rate, waiting = home.available, home.queue.total_bytes
        return waiting / rate if rate > 0.0 else 0.0

    def queue_delay(self, flow: int, now: float) -> float:
        """Seconds for which the oldest object of a flow has been waiting; 0 when none is."""
        return waiting_time(self._flows[flow], now)

    def stats(self, now: float) -> dict[str, Any]:
        """Plain figures, fit for JSON: per flow what it got and which tag moved its share."""
        total = sum(flow.share.weight for flow in self._flows.values())
        return {
            "backlog_bytes": self._backlog_bytes,
            "link_rate_bps": self._triage.link_rate * 8.0,
            "one_way_delay": self._triage.one_way_delay,
            "tags": len(self._tags),
            "flows": {
                number: flow_figures(flow, self._tags, total_weight=total, now=now)
                for number, flow in self._flows.items()
            },
        }

    # Inside

    def _freshen(self, now: float) -> None:
        if self._stale_weights or not 0.0 <= now - self._refreshed < TICK_S:
            self._refresh(now)
        self._triage.freshen(self._flows, self._active, now)

    def _refresh(self, now: float) -> None:
        """Bring every weight up to date with the tags at `now`."""
        everything = self._stale_weights or now < self._refreshed
        changed = self._stale_weights
        tags = self._tags
        for flow in self._flows.values():
            if everything or tags.changing_until(flow.track) > self._refreshed:
                fused = tags.importance(flow.track, now=now, base=flow.base, layer=flow.layer)
                if everything or not -IMPORTANCE_STEP < fused - flow.importance < IMPORTANCE_STEP:
                    flow.importance = fused
                    changed = True
        if changed:
            raw = [weight(flow.importance) for flow in self._flows.values()]
            floored = with_floors(raw, self.settings.floor_share)
            self._clock.reweigh_all([flow.share for flow in self._flows.values()], floored)
        if self._stale_weights:
            self._triage.weights_moved()
        self._stale_weights = False
        self._refreshed = now

    def _refusal(self, flow: Flow, obj: MediaObject, now: float) -> ShedReason | None:
        if self._depends_on_lost(obj):
            return ShedReason.DEPENDENCY
        return self._triage.verdict(flow, obj, now, ahead=flow.queue.bytes_due_by(obj.deadline))

    def _depends_on_lost(self, obj: MediaObject) -> bool:
        return any(needed in self._given_up for needed in obj.depends_on)

    def _make_room(self, flow: Flow, obj: MediaObject, now: float) -> bool:
        """Shed until a newcomer fits: what has expired, then what is due after the newcomer."""
        queue = flow.queue
        while (
            len(queue) >= flow.max_queue_objects
            or queue.total_bytes + obj.remaining > flow.max_queue_bytes
        ):
            if not queue:
                return False
            first = queue.entries[0][2]
            if first.deadline < now:
                self._give_up(flow, first, ShedReason.EXPIRED, now)
                continue
            last = queue.entries[-1][2]
            if last.deadline <= obj.deadline or last.sent_bytes > 0:
                return False
            self._give_up(flow, last, ShedReason.OVERFLOW, now)
        return True

    def _review(self, flow: Flow, now: float) -> None:
        for obj, reason in self._triage.review(flow, now):
            if obj.id in flow.queue:  # not yet taken along by an earlier one's dependents
                self._give_up(flow, obj, reason, now)

    def _give_up(self, flow: Flow, obj: MediaObject, reason: ShedReason, now: float) -> None:
        self._take_out(flow, obj, lapsed=True)
        self._report_shed(flow, obj, reason, now)
        self._give_up_dependents(obj.id, now)

    def _give_up_dependents(self, object_id: ObjectId, now: float) -> None:
        pending = [object_id]
        while pending:
            for dependent in self._dependents.of(pending.pop(0)):
                flow = self._where.get(dependent)
                obj = None if flow is None else flow.queue.get(dependent)
                if flow is None or obj is None:
                    continue
                self._take_out(flow, obj, lapsed=True)
                self._report_shed(flow, obj, ShedReason.DEPENDENCY, now)
                pending.append(dependent)

    def _take_out(self, flow: Flow, obj: MediaObject, *, lapsed: bool = False) -> None:
        flow.queue.remove(obj.id)
        self._backlog_bytes -= obj.remaining
        del self._where[obj.id]
        self._dependents.discard(obj)
        if not flow.queue:
            self._active.pop(flow.number, None)
            flow.share.lapsed = lapsed

    def _report_shed(self, flow: Flow, obj: MediaObject, reason: ShedReason, now: float) -> None:
        self._given_up.add(obj.id)
        flow.shed[reason] = flow.shed.get(reason, 0) + 1
        flow.wasted_bytes += obj.sent_bytes
        self._events.append(Shed(obj, reason, now))
