"""When a picture may be decoded, and whether it may be shown.

The one idea: whether a picture is whole is known from ids, never from the decoder. A decoder that
misses a reference reports nothing and smears for seconds; so a frame is handed over only when all
it depends on has been. What is missing is waited for while it can still be of use (objects travel
on streams of their own and complete in any order), then given up together with what needs it, and
a keyframe is asked for, at most one per half second or two round trips.

A frame that comes after its deadline is still decoded when later ones need it, but not shown.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from ...scheduler.types import ObjectId

_REMEMBERED = 2048
"""Ids kept as decoded or given up: a minute of 30 fps."""


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """Bounds of the wait; all times in seconds."""

    max_wait: float = 0.25
    """Longest wait for a missing reference, whatever the round trip (0.03 to 1)."""
    round_trips: float = 1.25
    """Round trips a missing reference gets (one repeats it), next to one frame duration."""
    keyframe_interval: float = 0.5
    """Least time between two keyframe requests; two round trips when those are longer."""
    show_late_after: float = 0.3
    """When nothing was shown for this long, a late picture is shown: better old than frozen."""
    freeze_frames: float = 3.0
    """A gap of more frame durations than this between shown pictures counts as a freeze."""
    max_frames: int = 128
    """Frames held at most; beyond it the oldest are given up."""
    max_bytes: int = 8_000_000
    """Payload bytes held at most."""


@dataclass(frozen=True, slots=True)
class VideoArrival:
    """One encoded picture that has arrived whole."""

    id: ObjectId
    captured: float
    """Seconds on the sender's clock."""
    duration: float
    """Seconds until the next picture as far as is known (a hint)."""
    payload: bytes
    keyframe: bool
    depends_on: tuple[ObjectId, ...] = ()
    deadline: float | None = None
    """Seconds on *this* side's clock: shown later than this it is useless; None for never."""


class Release(NamedTuple):
    """A picture to be decoded now, and whether it is to be shown."""

    arrival: VideoArrival
    show: bool


@dataclass(frozen=True, slots=True)
class VideoStats:
    """Counts since the start or `reset`; times in seconds."""

    decoded: int
    shown: int
    late: int
    """Decoded after their deadline, not shown."""
    lost: int
    """References that never came, or not while they were of use."""
    dropped: int
    """Arrived, but what they depend on did not, or newer pictures were already decoded."""
    duplicate: int
    keyframe_requests: int
    freezes: int
    longest_freeze: float
    frozen: float
    """All freezes together."""
    waiting: int
    """Frames held now."""


class _Known(OrderedDict[ObjectId, None]):
    """A set that forgets its oldest members."""

    def add(self, member: ObjectId) -> None:
        self[member] = None
        if len(self) > _REMEMBERED:
            self.popitem(last=False)


@dataclass(slots=True)
class _Waiting:
    arrival: VideoArrival
    until: float


class VideoRelease:
    """Dependency-aware release of one video track.

    Feed `insert` with each frame and `lost` with what the sender gave up. After either, and at
    each `next_time`, call `poll` and hand all it returns to the decoder in that order; then ask
    `needs_keyframe` and send the request when it says so. Report a failing decoder by `refused`.
    """

    def __init__(self, settings: VideoSettings | None = None) -> None:
        self._settings = settings or VideoSettings()
        self._rtt = 0.1
        self.reset()

    def reset(self) -> None:
        """Forget all frames and counts; the next one must be a keyframe."""
        self._waiting: dict[ObjectId, _Waiting] = {}
        self._bytes = 0
        self._decoded = _Known()
        self._gone = _Known()
        self._position: ObjectId | None = None
        self._broken = True
        self._broken_at: ObjectId | None = None
        self._started = False
        self._asked: float | None = None
        self._shown_at: float | None = None
        self._count = dict.fromkeys(
            ("decoded", "shown", "late", "lost", "dropped", "duplicate", "requests", "freezes"), 0
        )
        self._longest = 0.0
        self._frozen = 0.0

    def set_rtt(self, seconds: float) -> None:
        """The session's round-trip time: scales the waits."""
        if math.isfinite(seconds) and seconds >= 0.0:
            self._rtt = seconds

    def insert(self, arrival: VideoArrival, *, now: float) -> bool:
        """Take a frame that arrived at `now`; False when it is of no use (counted)."""
        self._started = True
        key = arrival.id
        if key in self._waiting or key in self._decoded:
            self._count["duplicate"] += 1
            return False
        if self._position is not None and key < self._position:
            self._count["dropped"] += 1  # nothing that could still be decoded needs it
            return False
        if any(d in self._gone for d in arrival.depends_on):
            self._count["dropped"] += 1
            self._break_at(key)
            return False
        self._gone.pop(key, None)
        wait = self._rtt * self._settings.round_trips + min(max(arrival.duration, 0.0), 0.1)
        until = now + min(wait, self._settings.max_wait)
        if arrival.deadline is not None:
            until = min(until, max(arrival.deadline, now))
        self._waiting[key] = _Waiting(arrival, until)
        self._bytes += len(arrival.payload)
        while len(self._waiting) > self._settings.max_frames or (
            self._bytes > self._settings.max_bytes and len(self._waiting) > 1
        ):
            self._break_at(min(self._waiting))
        return True

    def lost(self, id: ObjectId, *, now: float) -> None:  # noqa: A002, ARG002
        """The sender gave this object up: nothing waits for it any longer."""
        if id in self._decoded or id in self._gone or id in self._waiting:
            return
        if self._position is not None and id < self._position:
            return
        self._started = True
        self._count["lost"] += 1
        self._break_at(id)

    def refused(self, id: ObjectId) -> None:  # noqa: A002
        """The decoder failed on this frame: nothing that needs it is good."""
        self._decoded.pop(id, None)
        self._break_at(id)

    def next_time(self) -> float | None:
        """Seconds, monotonic: when `poll` and `needs_keyframe` should be asked again, or None."""
        times = [w.until for w in self._waiting.values() if self._missing(w.arrival)]
        if self._wants_keyframe() and self._asked is not None:
            times.append(self._asked + self._interval())
        return min(times, default=None)

    def poll(self, *, now: float) -> list[Release]:
        """The frames that can be decoded now, in decode order."""
        self._expire(now)
        ready: list[VideoArrival] = []
        for key in sorted(self._waiting):
            waiting = self._waiting.get(key)
            if waiting is None:
                continue
            arrival = waiting.arrival
            whole = all(d in self._decoded for d in arrival.depends_on)
            if not (arrival.keyframe or (whole and arrival.depends_on)):
                continue
            self._remove(key)
            self._decoded.add(key)
            self._position = max(key, self._position or key)
            if arrival.keyframe or self._broken_at is None or key > self._broken_at:
                self._broken = False
            ready.append(arrival)
        if self._position is not None:
            # A keyframe got ahead of these: they would go backwards.
            for key in [k for k in self._waiting if k < self._position]:
                self._remove(key)
                self._count["dropped"] += 1
        last = len(ready) - 1
        return [Release(a, self._show(a, now, newest=i == last)) for i, a in enumerate(ready)]

    def needs_keyframe(self, now: float) -> bool:
        """True when a keyframe request is to be sent now; the answer counts as the request.

        Merged and limited: at most one per `keyframe_interval` or two round trips. A need that
        falls inside the window is answered at its end, if no keyframe has come by then.
        """
        if not self._wants_keyframe():
            return False
        if self._asked is not None and now < self._asked + self._interval() - 1e-9:
            return False
        self._asked = now
        self._count["requests"] += 1
        return True

    @property
    def position(self) -> ObjectId | None:
        """The last picture that was decoded: a repair may go on from there."""
        return self._position

    def stats(self) -> VideoStats:
        """What happened so far."""
        count = self._count
        return VideoStats(
            decoded=count["decoded"],
            shown=count["shown"],
            late=count["late"],
            lost=count["lost"],
            dropped=count["dropped"],
            duplicate=count["duplicate"],
            keyframe_requests=count["requests"],
            freezes=count["freezes"],
            longest_freeze=self._longest,
            frozen=self._frozen,
            waiting=len(self._waiting),
        )

    def _wants_keyframe(self) -> bool:
        return self._started and self._broken

    def _interval(self) -> float:
        return max(self._settings.keyframe_interval, 2.0 * self._rtt)

    def _missing(self, arrival: VideoArrival) -> list[ObjectId]:
        """References that are neither decoded nor here. A picture without any that is no
        keyframe waits for what nobody named, so it is its own missing reference."""
        if arrival.keyframe:
            return []
        if not arrival.depends_on:
            return [arrival.id]
        return [d for d in arrival.depends_on if d not in self._decoded and d not in self._waiting]

    def _expire(self, now: float) -> None:
        for key in sorted(self._waiting):
            waiting = self._waiting.get(key)
            if waiting is None or now < waiting.until - 1e-9:
                continue
            for reference in self._missing(waiting.arrival):
                if self._position is None or reference > self._position:
                    self._count["lost"] += 1
                self._break_at(reference)

    def _break_at(self, key: ObjectId) -> None:
        """This picture will not be decoded, nor what needs it: ask for a keyframe."""
        if key in self._waiting:
            self._remove(key)
            self._count["dropped"] += 1
        self._gone.add(key)
        if key.layer == 0:  # of an upper layer, only upper layers are poorer
            self._broken = True
            self._broken_at = max(key, self._broken_at or key)
        self._drop_dependents()

    def _drop_dependents(self) -> None:
        for key in sorted(self._waiting):
            arrival = self._waiting[key].arrival
            if not arrival.keyframe and any(d in self._gone for d in arrival.depends_on):
                self._remove(key)
                self._gone.add(key)
                self._count["dropped"] += 1
                if key.layer == 0:
                    self._broken = True
                    self._broken_at = max(key, self._broken_at or key)

    def _remove(self, key: ObjectId) -> None:
        waiting = self._waiting.pop(key)
        self._bytes -= len(waiting.arrival.payload)

    def _show(self, arrival: VideoArrival, now: float, *, newest: bool) -> bool:
        self._count["decoded"] += 1
        since = None if self._shown_at is None else now - self._shown_at
        if arrival.deadline is not None and now > arrival.deadline:
            frozen = since is None or since > self._settings.show_late_after
            if not (newest and frozen):
                self._count["late"] += 1
                return False
        limit = self._settings.freeze_frames * max(arrival.duration, 1e-3)
        if since is not None and since > limit:
            self._count["freezes"] += 1
            self._longest = max(self._longest, since)
            self._frozen += since
        self._shown_at = now
        self._count["shown"] += 1
        return True
