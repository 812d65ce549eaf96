"""The audio jitter buffer: objects in whenever they arrive, 20 ms of sound out at each deadline.

The ideas, each in a part of its own: what spread to cover (`arrivals`), one timeline out of any
stamps (`timeline`), deadlines that never drift (`grid`), decoded sound in waiting (`sound`),
pitch-true stretching (`stretch`), and what a block is filled with (`filling`). This part ties them
together. Three rules hold throughout:

- Time decides, never a count: what is not there when its turn comes is repaired from the next
  object's in-band FEC, else concealed, and the next one is played at its own time.
- When nothing at all is there, the position waits and the time made up is remembered: objects
  that were merely late are then played (and caught up by stretching), objects that were lost have
  been covered by exactly that time.
- The delay is moved in whole steps of what the deadline grid can use. With 20 ms objects and
  20 ms blocks, 5 ms more delay covers nothing more, so none is kept.

The bar is NetEQ (libwebrtc, modules/audio_coding/neteq).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .arrivals import ArrivalModel
from .filling import Filler
from .grid import DeadlineGrid
from .held import Held, Standing
from .sound import BLOCK, PERIOD, Kind
from .stretch import Samples
from .timeline import Timeline

_GRID_SLACK = 0.002
"""Seconds below a usable delay at which the target is set, so that it is reached and left."""
_MOST_SPREAD = 2.0
"""Seconds above the floor that one arrival may claim (NetEQ's histogram ends there too)."""


class AudioDecoder(Protocol):
    """What playout needs of a decoder; 48 kHz, float32 (samples, channels). May raise anything."""

    def decode(self, payload: bytes) -> Samples:
        """The samples of one object."""
        ...

    def conceal(self, n_samples: int) -> Samples:
        """`n_samples` (a multiple of 120) in the place of something missing."""
        ...

    def repair(self, next_payload: bytes, n_samples: int) -> Samples:
        """The object before `next_payload`, from that one's in-band FEC."""
        ...


@dataclass(frozen=True, slots=True)
class JitterSettings:
    """How the buffer trades delay against damage; all times in seconds."""

    start_delay: float = 0.010
    """From the first arrival to the first block (0.005 to 0.1). It stays on a clean link."""
    margin: float = 0.002
    """Added to the measured spread, for timer lateness and the rounding of stamps."""
    hysteresis: float = 0.001
    """Delay is given up only when the target plus this (less for small targets) still fits."""
    damage_price: float = 15.0
    """Seconds of delay that are paid per share of time made up (2 to 50): 15 means 150 ms for
    1 %. Lower is less delay and more damage."""
    max_excess: float = 0.6
    """Backlog beyond the target that is still played after an outage; the rest is dropped."""
    conceal_limit: float = 0.1
    """Concealment in one run before it has faded to silence; Opus's own has by then."""
    max_overdue: float = 0.06
    """Deadlines older than this are skipped, with the sound they were for."""
    drop_late: float = 0.04
    """Lateness up to which unimportant objects are dropped when newer ones are there in time."""
    keep_importance: float = 0.7
    """Objects at least this important are played late rather than dropped, and stretched last."""
    max_objects: int = 1000
    """Undecoded objects held; beyond it the oldest go."""


@dataclass(frozen=True, slots=True)
class AudioArrival:
    """One encoded audio object that has arrived whole."""

    sequence: int
    """Counts the track's objects without gaps, in order of capture."""
    captured: float
    """Seconds on the sender's clock: the end of its sound."""
    duration: float
    """Seconds of sound, 0.0025 to 0.06 (Opus); at most 0.12 is accepted."""
    payload: bytes
    importance: float = 0.5
    silence: bool = False
    """The sender says that nothing is spoken here."""


@dataclass(frozen=True, slots=True)
class PlayedAudio:
    """One block of output: always 960 samples per channel at 48 kHz."""

    samples: Samples
    captured: float | None
    """Sender's clock at the end of what is heard; None while silent."""
    kind: Kind
    """What most of the block is."""
    importance: float


class PlayoutDelay(NamedTuple):
    """Seconds that objects wait between arriving over the fastest path and being played.

    Counted from when a whole block could have been played, for objects shorter than one.
    """

    target: float
    current: float


@dataclass(frozen=True, slots=True)
class JitterStats:
    """Counts since the start or `reset`; times in seconds."""

    played: int
    """Objects decoded and heard."""
    repaired: int
    """Objects heard through in-band FEC."""
    concealed: int
    """Blocks that were mostly concealment."""
    silent: int
    """Blocks that were mostly silence made here."""
    lost: int
    """Objects that never came."""
    late: int
    """Objects that came too late to be heard."""
    duplicate: int
    skipped: int
    """Objects thrown away unheard: backlog, or the time of a stop."""
    refused: int
    """Objects whose stamps or sequence fit nowhere."""
    gaps: int
    """Runs of lost objects."""
    underruns: int
    """Times the buffer ran dry and what it waited for came late."""
    jumps: int
    """Jumps of the sender's stamps."""
    stalls: int
    """Stops of this side."""
    concealed_samples: int
    silent_samples: int
    stretched_samples: int
    """Added by stretching."""
    dropped_samples: int
    """Removed by stretching."""
    target_delay: float
    current_delay: float
    jitter: float
    skew_ppm: float


class JitterBuffer:
    """Adaptive playout of one audio track.

    Feed `insert` with each object when it arrives. Call `next_frame` at (or after) each
    `next_time`; it never waits, never fails for want of media, and always gives one block. Drain
    nothing; read `delay` and `stats` at will. One decoder belongs to one buffer. Not thread-safe.
    """

    def __init__(
        self, decoder: AudioDecoder, settings: JitterSettings | None = None, *, channels: int = 1
    ) -> None:
        self._decoder = decoder
        self._settings = settings or JitterSettings()
        self._channels = channels
        self._grid = DeadlineGrid(PERIOD, max_overdue=self._settings.max_overdue)
        self._extra = 0.0
        self.reset()

    def reset(self) -> None:
        """Forget all media, counts and what was learnt of the path; as if newly made."""
        self._model = ArrivalModel(price=self._settings.damage_price)
        self._timeline = Timeline()
        self._filler = Filler(self._decoder, self._settings, channels=self._channels)
        self._grid.stop()
        self._stall = (0.0, -1.0)
        self._stalls = 0
        self._refused = 0

    def insert(self, arrival: AudioArrival, *, now: float) -> bool:
        """Take one object that arrived at `now`; False when it is of no use any more (counted)."""
        sequence = arrival.sequence
        sane = math.isfinite(arrival.captured) and 0.0 < arrival.duration <= 0.12
        floor = self._model.floor if self._model.known else None
        placed = None
        if sane and sequence >= 0:
            placed = self._timeline.place(
                sequence, arrival.captured, arrival.duration, floor=floor, now=now
            )
        if placed is None:
            self._refused += 1
            return False
        if placed.restarted:
            self._filler.restart(sequence)
        standing = self._filler.standing(sequence)
        if standing is not Standing.DUPLICATE:
            self._observe(placed.end, floor, now)
        if standing is not Standing.WANTED:
            self._filler.refuse(sequence, standing)
            return False
        self._filler.hold(Held(arrival, placed.end, placed.offset))
        if self._grid.next is None:
            # Objects shorter than a block: the first block needs several of them.
            rest = max(0.0, PERIOD - arrival.duration)
            self._grid.start(now + rest + self._settings.start_delay)
        return True

    def _observe(self, end: float, floor: float | None, now: float) -> None:
        overdue = self._grid.overdue(now)
        if overdue > self._settings.max_overdue:
            self._stall = (now - overdue - PERIOD, now)
        # What came while this side stood still says nothing of the path.
        if floor is None or not self._stall[0] <= end + floor <= self._stall[1]:
            transit = now - end
            if floor is not None:
                transit = min(transit, floor + _MOST_SPREAD)
            self._model.observe(transit, now=now)

    def next_time(self) -> float | None:
        """Seconds, monotonic: when `next_frame` is due; None before the first object."""
        return self._grid.next

    def next_frame(self, *, now: float) -> PlayedAudio:
        """The block of sound for the deadline that has come; RuntimeError before the first."""
        due, skipped = self._grid.take(now)
        if skipped:
            self._stalls += 1
            self._stall = (due - (skipped + 1) * PERIOD, now)
            self._filler.skip(skipped * BLOCK)
        taken = self._filler.fill(
            due,
            floor=self._model.floor,
            target=self._target(),
            usual=self._model.usual_peak,
        )
        first = self._filler.phase - self._settings.margin - _GRID_SLACK
        self._model.set_grid(first, self._filler.grain)
        return PlayedAudio(taken.samples, taken.captured, taken.kind, taken.importance)

    def _target(self) -> float:
        return max(self._model.cover + self._settings.margin, self._extra)

    def delay(self, now: float) -> PlayoutDelay:  # noqa: ARG002 - as of the last block
        """Target and current playout delay above the fastest arrival, as of the last block."""
        return PlayoutDelay(self._target(), self._filler.current)

    def set_extra_delay(self, seconds: float) -> None:
        """Ask for at least this much delay above the fastest arrival, 0 for none: for lip sync."""
        self._extra = max(0.0, seconds)

    def stats(self) -> JitterStats:
        """What happened so far."""
        counts = self._filler.counts
        return JitterStats(
            played=counts.played,
            repaired=counts.repaired,
            concealed=counts.concealed,
            silent=counts.silent,
            lost=counts.missing - counts.returned,
            late=counts.late,
            duplicate=counts.duplicate,
            skipped=counts.skipped,
            refused=self._refused,
            gaps=counts.gaps,
            underruns=counts.underruns,
            jumps=self._timeline.jumps,
            stalls=self._stalls,
            concealed_samples=counts.concealed_samples,
            silent_samples=counts.silent_samples,
            stretched_samples=counts.added_samples,
            dropped_samples=counts.removed_samples,
            target_delay=self._target(),
            current_delay=self._filler.current,
            jitter=self._model.jitter,
            skew_ppm=self._model.skew_ppm,
        )
