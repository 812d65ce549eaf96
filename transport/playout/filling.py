"""What each block of sound is filled with: decoded, repaired, concealed, silent, stretched.

`Filler` holds the undecoded objects and the decoded samples in waiting. For each deadline it first
asks how far the playing position stands from where it should (`pacing`), then appends runs until
a block is full (`_step`), then stretches what it is about to hand out (`_pace`).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from . import stretch
from .held import Counts, Held, Standing
from .pacing import Pacer, spare_time
from .sound import BLOCK, PERIOD, RATE, Kind, Mark, SoundQueue, Taken
from .stretch import Samples

if TYPE_CHECKING:
    from .jitter import AudioDecoder, JitterSettings

_STEP = 120
"""2.5 ms: Opus conceals in multiples of it."""
_REMEMBERED = 2048
"""Sequence numbers kept as given up, to tell late from duplicate."""
_OUTAGE = 0.012
"""Seconds beyond the usual spread from which a missing object announces an outage."""
_ENOUGH = 0.06
"""Seconds beyond the target that outlast most outages: no slowing down while there is more."""
_MAX_WAIT_BLOCKS = 25
"""Half a second: refilling after an underrun never takes longer."""
_EPS = 1e-6


class Filler:
    """See the module. `hold` objects, then `fill` one block per deadline."""

    def __init__(self, decoder: AudioDecoder, settings: JitterSettings, *, channels: int) -> None:
        self.counts = Counts()
        self.current = 0.0
        self.grain = PERIOD  # step of what delay the deadlines can use, and where the steps lie
        self.phase = 0.0
        self._decoder = decoder
        self._settings = settings
        self._channels = channels
        self._queue = SoundQueue(channels)
        self._held: dict[int, Held] = {}
        self._given_up: OrderedDict[int, None] = OrderedDict()
        self._next: int | None = None
        self._begun = False
        self._end = 0.0  # timeline position at the end of the queue
        self._duration = PERIOD
        self._dry = 0.0  # seconds made up while nothing at all was there
        self._run = 0.0  # seconds made up in a row, holes included
        self._quiet = False  # the last object was said to be silence
        self._skipping = False
        self._slowed = False  # this block was slowed down to be whole
        self._pacer = Pacer(keep_importance=settings.keep_importance)
        self._floor = 0.0
        self._target = 0.0

    # -- objects in -------------------------------------------------------------------------

    def standing(self, sequence: int) -> Standing:
        """Whether this sequence number is still of use."""
        if sequence in self._held:
            return Standing.DUPLICATE
        if self._begun and self._next is not None and sequence < self._next:
            return Standing.LATE if sequence in self._given_up else Standing.DUPLICATE
        return Standing.WANTED

    def refuse(self, sequence: int, standing: Standing) -> None:
        """Count an object that was not WANTED."""
        if standing is Standing.LATE:
            del self._given_up[sequence]
            self.counts.late += 1
            self.counts.returned += 1
        else:
            self.counts.duplicate += 1

    def hold(self, held: Held) -> None:
        """Keep an object for its turn."""
        sequence = held.arrival.sequence
        self._held[sequence] = held
        if self._next is None or (not self._begun and sequence < self._next):
            self._next = sequence
        if len(self._held) > self._settings.max_objects:
            self._throw(min(self._held))

    def restart(self, sequence: int) -> None:
        """The sender counts anew from `sequence`."""
        self._held.clear()
        self._given_up.clear()
        self._next = sequence

    def skip(self, samples: int) -> None:
        """Time has passed unheard: the sound that was meant for it is dropped."""
        samples -= self._queue.drop(samples)
        self._end += samples / RATE
        self._skipping = True

    # -- blocks out -------------------------------------------------------------------------

    def fill(self, due: float, *, floor: float, target: float, usual: float) -> Taken:
        """One block for the deadline `due`.

        `floor` is the fastest transit, `target` the wanted delay above it, `usual` the spread
        that is normal here (all seconds).
        """
        self._floor, self._target = floor, target
        if not self._begun and self._next is not None:
            self._begun = True
            self._end = self._held[self._next].start
            self._duration = self._held[self._next].arrival.duration
        excess = spare_time(
            due,
            queued=len(self._queue),
            next_end=self._end,
            duration=self._duration,
            floor=floor,
            target=target,
            hysteresis=self._settings.hysteresis,
        )
        if excess > self._settings.max_excess:
            excess = self._shed(excess)
        head = self._end - len(self._queue) / RATE
        self.current = due - head - max(self._duration, PERIOD) - floor
        self.grain = min(self._duration, PERIOD)
        self.phase = (due - self._end - floor) % self.grain
        self._slowed = False
        while len(self._queue) < BLOCK:
            self._step(due)
        stretched = self._slowed or self._pace(due, excess, usual)
        taken = self._queue.take(BLOCK)
        self.counts.concealed_samples += taken.concealed
        self.counts.silent_samples += taken.silent
        self.counts.concealed += taken.kind == "concealed"
        self.counts.silent += taken.kind == "silence"
        if stretched and taken.kind == "played":
            return taken._replace(kind="stretched")
        return taken

    def _shed(self, excess: float) -> float:
        """Drop the oldest objects of a backlog that is too long to be caught up with."""
        if not self._held:
            return excess
        backlog = max(h.end for h in self._held.values()) - self._end
        surplus = min(excess, backlog - self._target) - self._settings.max_excess
        while surplus > 0.0 and self._held:
            first = self._held[min(self._held)]
            surplus -= max(0.0, first.end - self._end)
            excess -= max(0.0, first.end - self._end)
            self._end = max(self._end, first.end)
            self._throw(first.arrival.sequence)
        return excess

    def _throw(self, sequence: int) -> None:
        self._lose_until(sequence)
        del self._held[sequence]
        self._next = sequence + 1
        self.counts.skipped += 1

    def _step(self, due: float) -> None:
        """Append one run of samples, or move the position."""
        if not self._held or self._next is None:
            self._nothing_there()
            return
        first = self._held[min(self._held)]
        if self._skipping:
            self._skip_past(first)
            return
        if self._dry > 0.0:
            self._resume(first, due)
            return
        gap = first.start - self._end
        loose = first.arrival.duration / 2
        contiguous = first.arrival.sequence == self._next
        if gap > loose and (contiguous or self._run >= self._settings.conceal_limit):
            self._silence(min(gap, (BLOCK - len(self._queue)) / RATE))
        elif gap > loose:
            self._fill_hole(first, gap)
        else:
            self._lose_until(first.arrival.sequence)
            self._decode(first)

    def _skip_past(self, first: Held) -> None:
        if first.end <= self._end + first.arrival.duration / 2:
            self._throw(first.arrival.sequence)
            return
        self._skipping = False
        self._dry = 0.0
        self._end = min(self._end, first.start)

    def _nothing_there(self) -> None:
        short = BLOCK - len(self._queue)
        if self._dry == 0.0 and len(self._queue) >= 2 * stretch.FADE + _STEP:
            # A part of a block is there: slow it down rather than patch it.
            longer = stretch.decelerate(self._queue.head(BLOCK), min_correlation=0.6)
            if longer.change >= short:
                self._queue.replace_head(len(self._queue), longer.samples)
                self.counts.added_samples += longer.change
                self._slowed = True
                return
        self._dry += short / RATE
        if self._quiet or self._run >= self._settings.conceal_limit:
            self._silence(short / RATE)
        else:
            self._conceal(short)

    def _resume(self, first: Held, due: float) -> None:
        """Something came after nothing was there: choose where to go on."""
        silent = self._quiet or self._run >= self._settings.conceal_limit
        contiguous = first.arrival.sequence == self._next
        behind = self._end - first.start
        late = behind > first.arrival.duration / 2
        if late and not silent and contiguous and self._drop_small(first, behind, due):
            return
        if late and contiguous:
            self.counts.underruns += 1
        self._dry = 0.0
        if not late and not silent:
            # What was made up stands for the first of the missing ones.
            left = round(max(0.0, -behind) / first.arrival.duration)
            self._lose_until(first.arrival.sequence - left)
            return
        if late or contiguous or first.start - self._end < PERIOD:
            self._anchor(first, due)
        else:
            self._lose_until(first.arrival.sequence)

    def _drop_small(self, first: Held, behind: float, due: float) -> bool:
        """Give up objects that came a little late when newer ones are there in time."""
        limit = self._settings
        if behind > limit.drop_late + _EPS or self._wanted_blocks(first, due) > 0:
            return False
        late = [h for h in self._held.values() if h.end <= self._end + h.arrival.duration / 2]
        fresh = len(self._held) > len(late)
        if not fresh or any(h.arrival.importance >= limit.keep_importance for h in late):
            return False
        for held in sorted(late, key=lambda h: h.arrival.sequence):
            self._lose_until(held.arrival.sequence)
            del self._held[held.arrival.sequence]
            self._next = held.arrival.sequence + 1
            self.counts.late += 1
        self.counts.underruns += 1
        self._dry = 0.0
        return True

    def _wanted_blocks(self, first: Held, due: float) -> int:
        """Blocks to wait from `due` until `first` may begin with the target delay behind it."""
        ready = first.end + self._floor + self._target
        return min(_MAX_WAIT_BLOCKS, max(0, math.ceil((ready - due) / PERIOD - _EPS)))

    def _anchor(self, first: Held, due: float) -> None:
        """Begin `first` at a deadline that leaves the target delay, no earlier and no later."""
        wait = self._wanted_blocks(first, due) * PERIOD
        self._end = first.start - wait + len(self._queue) / RATE
        if first.arrival.sequence != self._next:
            self._lose_until(first.arrival.sequence)

    def _fill_hole(self, first: Held, gap: float) -> None:
        if self._next is None:
            return
        missing = first.arrival.sequence - self._next
        length = min(first.arrival.duration, gap)
        samples = max(_STEP, round(length * RATE / _STEP) * _STEP)
        if missing == 1:
            self._repair(first, samples)
        else:
            self._conceal(samples)
        self._lose_until(self._next + 1)

    def _lose_until(self, sequence: int) -> None:
        """Give up everything before `sequence` that has not come."""
        if self._next is None or sequence <= self._next:
            return
        if self._next - 1 not in self._given_up:
            self.counts.gaps += 1
        self.counts.missing += sequence - self._next
        for lost in range(max(self._next, sequence - _REMEMBERED), sequence):
            self._given_up[lost] = None
        while len(self._given_up) > _REMEMBERED:
            self._given_up.popitem(last=False)
        self._next = sequence

    # -- runs of samples --------------------------------------------------------------------

    def _append(self, samples: Samples, kind: Kind, held: Held | None, media: float) -> None:
        self._end += media
        captured = None if held is None else self._end + held.offset
        importance = 0.0 if held is None else held.arrival.importance
        quiet = kind == "silence" or (held is not None and held.arrival.silence)
        self._queue.append(samples, Mark(len(samples), kind, importance, quiet, captured))

    def _decode(self, held: Held) -> None:
        sequence = held.arrival.sequence
        del self._held[sequence]
        self._next = sequence + 1
        expected = round(held.arrival.duration * RATE)
        try:
            samples = self._shaped(self._decoder.decode(held.arrival.payload), expected)
        except Exception:
            samples = self._made(expected)
        if self._run >= self._settings.conceal_limit or (self._run > 0.0 and self._quiet):
            samples = samples.copy()
            samples[:_STEP] *= np.linspace(0.0, 1.0, _STEP, dtype=np.float32)[:, None]
        self._run = 0.0
        self._quiet = held.arrival.silence
        self._duration = held.arrival.duration
        self._end = held.start
        self._append(samples, "played", held, held.arrival.duration)
        self.counts.played += 1

    def _repair(self, following: Held, samples: int) -> None:
        try:
            sound = self._decoder.repair(following.arrival.payload, samples)
            sound = self._shaped(sound, samples)
        except Exception:
            self._conceal(samples)
            return
        self._run = 0.0
        self._append(sound, "repaired", following, samples / RATE)
        self.counts.repaired += 1

    def _conceal(self, samples: int) -> None:
        samples = -(-samples // _STEP) * _STEP
        sound = self._made(samples)
        self._run += samples / RATE
        if self._run >= self._settings.conceal_limit - _EPS:
            sound = sound * np.linspace(1.0, 0.0, samples, dtype=np.float32)[:, None]
        self._append(sound, "concealed", None, samples / RATE)

    def _silence(self, seconds: float) -> None:
        samples = max(1, round(seconds * RATE))
        sound = np.zeros((samples, self._channels), dtype=np.float32)
        if self._run == 0.0 and not self._quiet:  # fade out what was heard last, without a click
            tail = min(samples, _STEP)
            fade = np.linspace(1.0, 0.0, tail, dtype=np.float32)[:, None]
            sound[:tail] = self._made(_STEP)[:tail] * fade
        self._run = max(self._run, self._settings.conceal_limit) + samples / RATE
        self._append(sound, "silence", None, samples / RATE)

    def _made(self, samples: int) -> Samples:
        padded = -(-samples // _STEP) * _STEP
        try:
            return self._shaped(self._decoder.conceal(padded), padded)[:samples]
        except Exception:
            return np.zeros((samples, self._channels), dtype=np.float32)

    def _shaped(self, samples: Samples, expected: int) -> Samples:
        """Exactly (expected, channels) float32, whatever the decoder gave."""
        if samples.shape == (expected, self._channels) and samples.dtype == np.float32:
            return samples
        sound = np.asarray(samples, dtype=np.float32).reshape(-1, self._channels)
        out = np.zeros((expected, self._channels), dtype=np.float32)
        out[: len(sound)] = sound[:expected]
        return out

    # -- pace -------------------------------------------------------------------------------

    def _pace(self, due: float, excess: float, usual: float) -> bool:
        """Stretch the block about to be handed out towards where the position should be."""
        if self._dry > 0.0:
            return False
        wanted = round(excess * RATE)
        urgent = excess < _ENOUGH and self._outage(due, usual)
        if urgent:
            wanted = min(wanted, -stretch.MAX_LAG)
        change = self._pacer.allowed(self._queue, wanted, due, urgent=urgent)
        if change > 0:
            self._read_ahead(BLOCK + change)
            change = min(change, len(self._queue) - BLOCK)
        done = self._pacer.stretch(self._queue, change, due, hurry=abs(wanted), urgent=urgent)
        if done > 0:
            self.counts.added_samples += done
        else:
            self.counts.removed_samples -= done
        return done != 0

    def _outage(self, due: float, usual: float) -> bool:
        """Whether what should come next is missing for longer than is usual here."""
        if self._quiet or self._next is None:
            return False
        newest = max((h.end for h in self._held.values()), default=self._end)
        expected = newest + self._duration + self._floor
        return due - expected > usual + _OUTAGE

    def _read_ahead(self, samples: int) -> None:
        """Decode further objects that follow without a gap until `samples` are there."""
        while len(self._queue) < samples and self._next in self._held:
            following = self._held[self._next]
            if abs(following.start - self._end) > following.arrival.duration / 2:
                return
            self._decode(following)
