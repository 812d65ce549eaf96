"""One mapping from the sender's capture time to our play time, for sound and picture together.

The one idea: both tracks were captured on one clock, so in step means that both are played at
capture time plus the *same* offset. Sound sets it, because sound cannot skip or wait without being
heard; the picture is shown at that time, or at once when it comes later. Only when the picture is
so much slower that lips would visibly trail (more than 45 ms behind the sound, ITU-R BT.1359) is
sound asked to wait, and only as far as the picture's importance deserves.

`ClockOffset` estimates how far two hosts' clocks stand apart, from four stamps per exchange (the
NTP algorithm, RFC 5905 section 8) and the exchange of least round trip.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

_FLOOR_WINDOW = 5.0
"""Seconds over which the fastest transit is taken (as in the jitter buffer)."""
_JUMP = 0.5
"""Seconds: stamps that contradict the arrival by more have jumped."""
_SOUND_AHEAD = 0.045
"""Seconds the sound may lead the picture before it shows (ITU-R BT.1359)."""
_SOUND_BEHIND = 0.080
"""Seconds the sound may trail the picture."""
_STALE = 1.0
"""Seconds without sound after which the picture goes at its own pace."""
_SMOOTH = 0.1
"""Share of a small change of the sound's position that is followed per report."""


@dataclass(slots=True)
class _Track:
    floors: deque[tuple[float, float]] = field(default_factory=deque)
    delay: float = 0.0
    importance: float = 0.5
    correction: float = 0.0
    newest: float = -math.inf
    seen: float = -math.inf

    @property
    def floor(self) -> float | None:
        return self.floors[0][1] if self.floors else None

    def add(self, transit: float, now: float) -> None:
        while self.floors and self.floors[-1][1] >= transit:
            self.floors.pop()
        self.floors.append((now, transit))
        while self.floors[0][0] < now - _FLOOR_WINDOW:
            self.floors.popleft()


class PlayoutClock:
    """Capture time to play time.

    Feed `observe` with every object's arrival, `set_target` with each track's wanted delay above
    its fastest arrival, and `played` with what the sound really did. Read `play_time` for each
    picture, and `extra_delay` for what the sound should wait for the picture's sake.
    """

    def __init__(self, master: str | None = None, *, max_hold: float = 0.5) -> None:
        self._master = master
        self._max_hold = max_hold
        self._tracks: dict[str, _Track] = {}
        self._offset: float | None = None
        self._offset_time = -math.inf
        self._now = -math.inf

    def set_master(self, track: str | None) -> None:
        """Name the sound track that sets the pace; None when there is no sound."""
        if track != self._master:
            self._master = track
            self._offset = None

    def observe(self, track: str, captured: float, arrived: float) -> None:
        """An object captured at `captured` (sender's clock) arrived at `arrived` (ours)."""
        state = self._tracks.setdefault(track, _Track())
        self._now = max(self._now, arrived)
        transit = arrived - captured + state.correction
        floor = state.floor
        if floor is not None and self._jumped(state, captured, transit, arrived, floor):
            self._correct(track, state, captured, arrived, floor)
            transit = arrived - captured + state.correction
        state.newest = max(state.newest, captured - state.correction)
        state.seen = arrived
        state.add(transit, arrived)

    def _jumped(
        self, state: _Track, captured: float, transit: float, arrived: float, floor: float
    ) -> bool:
        ahead = transit < floor - _JUMP  # came before it could have been captured
        waited = max(0.0, arrived - state.seen)
        back = captured - state.correction < state.newest - _JUMP
        return ahead or (back and transit > floor + waited + _JUMP)

    def _correct(
        self, track: str, state: _Track, captured: float, arrived: float, floor: float
    ) -> None:
        """Stamps jumped: keep the track where it was; like other tracks when those jumped too."""
        correction = captured - (arrived - floor)
        for name, other in self._tracks.items():
            if name != track and abs(other.correction - correction) < _JUMP / 2:
                correction = other.correction
        state.correction = correction
        state.newest = captured - correction

    def set_target(self, track: str, delay: float, importance: float = 0.5) -> None:
        """`track` wants `delay` seconds above its fastest arrival; importance in [0, 1]."""
        state = self._tracks.setdefault(track, _Track())
        state.delay = max(0.0, delay)
        state.importance = min(1.0, max(0.0, importance))

    def is_master(self, *tracks: str) -> bool:
        """Whether one of these tracks sets the pace."""
        return self._master in tracks

    def played(self, track: str, captured: float, at: float) -> None:
        """Sound of sender time `captured` is heard at `at`; only the master's moves the clock."""
        if track != self._master:
            return
        state = self._tracks.get(track)
        correction = 0.0 if state is None else state.correction
        offset = at - captured + correction
        stale = at - self._offset_time > _STALE
        change = 0.0 if self._offset is None else offset - self._offset
        if abs(change) > _JUMP and not stale:
            return  # sound from before a jump of the stamps is still being played
        if self._offset is None or stale or abs(change) > _SOUND_BEHIND:
            self._offset = offset
        else:
            self._offset += _SMOOTH * change
        self._offset_time = at
        self._now = max(self._now, at)

    def offset(self) -> float | None:
        """Play time minus (corrected) capture time now in force; None before any observation."""
        master = self._tracks.get(self._master or "")
        fresh = self._offset is not None and self._now - self._offset_time <= _STALE
        if fresh:
            return self._offset
        if master is not None and master.floor is not None and self._now - master.seen <= _STALE:
            return master.floor + master.delay
        floors = [
            t.floor + t.delay
            for n, t in self._tracks.items()
            if n != self._master and t.floor is not None
        ]
        return max(floors, default=self._offset)

    def play_time(self, captured: float, *, track: str | None = None) -> float:
        """When what was captured at `captured` is due, on our clock.

        With `track`, that track's own stamp jumps are allowed for, and the time is at most
        `max_hold` beyond the track's fastest arrival. A time in the past means "at once".
        Before any observation it is `captured` itself.
        """
        offset = self.offset()
        if offset is None:
            return captured
        state = self._tracks.get(track) if track is not None else None
        if state is None:
            master = self._tracks.get(self._master or "")
            return captured + offset - (0.0 if master is None else master.correction)
        if state.floor is not None:
            offset = min(offset, state.floor + max(state.delay, self._max_hold))
        return captured - state.correction + offset

    def extra_delay(self) -> float:
        """Seconds above its fastest arrival that the sound should keep for the picture's sake."""
        master = self._tracks.get(self._master or "")
        if master is None or master.floor is None:
            return 0.0
        wanted = 0.0
        for name, track in self._tracks.items():
            if name == self._master or track.floor is None or self._now - track.seen > _STALE:
                continue
            behind = track.floor + track.delay - _SOUND_AHEAD - master.floor
            # Half importance and more: all of it; less: in proportion.
            wanted = max(wanted, behind * min(1.0, 2.0 * track.importance))
        return min(max(0.0, wanted), self._max_hold)


class _Exchange(NamedTuple):
    rtt: float
    offset: float
    time: float


class ClockOffset:
    """The other host's clock minus ours, from request and reply stamps.

    Of the last exchanges the one with the shortest round trip counts: what queues add is rarely
    the same both ways, so the fastest exchange is the most symmetric one.
    """

    def __init__(self, *, window: float = 30.0, max_exchanges: int = 64) -> None:
        self._window = window
        self._exchanges: deque[_Exchange] = deque(maxlen=max_exchanges)

    def add(self, t0: float, t1: float, t2: float, t3: float) -> bool:
        """Sent at `t0` (ours), received `t1` and answered `t2` (theirs), back at `t3` (ours).

        False for stamps that cannot be (not finite, or a negative round trip).
        """
        if not all(math.isfinite(t) for t in (t0, t1, t2, t3)):
            return False
        rtt = (t3 - t0) - (t2 - t1)
        if rtt < 0.0 or t2 < t1:
            return False
        self._exchanges.append(_Exchange(rtt, ((t1 - t0) + (t2 - t3)) / 2, t3))
        while self._exchanges[0].time < t3 - self._window:
            self._exchanges.popleft()
        return True

    @property
    def offset(self) -> float | None:
        """Seconds to add to our clock to get theirs, ± rtt / 2; None before the first exchange."""
        return min(self._exchanges).offset if self._exchanges else None

    @property
    def rtt(self) -> float | None:
        """Seconds: the shortest round trip of the window; None before the first exchange."""
        return min(self._exchanges).rtt if self._exchanges else None
