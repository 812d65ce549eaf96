"""Rates over time from files and from a model: mahimahi traces, lists of seconds and Mbit/s, LTE.

A mahimahi trace has one whole number a line: a millisecond at which 1,500 bytes may leave. A rate
trace has two numbers a line: seconds, and the Mbit/s that hold from the line before (or the start)
until then. Both start again when they end. `read_trace` tells them apart.

The generated LTE-like trace is a model, not a recording; its parts and their sizes:

- **Slow fading** (shadowing, load of the cell): the logarithm of the rate is a first-order
  autoregressive process with standard deviation 0.45 and a coherence time of 4 s.
- **Fast fading** (moving through the interference of paths): the same with 0.35 and 150 ms.
- **Scheduling**: the cell serves in rounds of 5 ms. A round's opportunities are Poisson distributed
  around the rate of the moment and fall on one to three of its milliseconds, which makes the bursts
  that a real cell's share makes.
- **Handovers**: on average every 25 s nothing is served for 60 to 400 ms; afterwards the slow
  fading begins afresh.

The standard deviations are those that give rates seen in recordings from moving cars: a ratio of
about 10 between the 5th and 95th percentile of rates over 200 ms.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path

from .rates import RateStep

SLOW_SIGMA, SLOW_SECONDS = 0.45, 4.0
FAST_SIGMA, FAST_SECONDS = 0.35, 0.15
ROUND_MS = 5
HANDOVER_EVERY = 25.0
HANDOVER_LEAST, HANDOVER_MOST = 0.06, 0.4
MAX_LINES = 4_000_000
"""Of a trace file; an hour at 13 Mbit/s."""


class TraceError(ValueError):
    """A trace cannot be used; the text names file and line."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Either delivery opportunities or rate steps with the time after which they repeat."""

    opportunities: tuple[int, ...] = ()
    steps: tuple[RateStep, ...] = ()
    repeat: float | None = None


def read_trace(path: Path) -> Trace:
    """Read a trace file of either format. Raises TraceError."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: cannot be read as a trace: {error}") from error
    if len(lines) > MAX_LINES:
        raise TraceError(f"{path}: has more than {MAX_LINES} lines")
    rows = [(number, line.split()) for number, line in enumerate(lines, 1)]
    rows = [(number, row) for number, row in rows if row and not row[0].startswith("#")]
    if not rows:
        raise TraceError(f"{path}: is empty")
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width or width > 2:
            raise TraceError(
                f"{path}, line {number}: expected one millisecond a line (mahimahi) or "
                f"'seconds Mbit/s' on every line, got {' '.join(row)[:40]!r}"
            )
    try:
        return _mahimahi(rows, path) if width == 1 else _rates(rows, path)
    except ValueError as error:
        raise error if isinstance(error, TraceError) else TraceError(f"{path}: {error}") from error


def _mahimahi(rows: list[tuple[int, list[str]]], path: Path) -> Trace:
    times: list[int] = []
    for number, (word,) in rows:
        if not word.isdigit() or (times and int(word) < times[-1]):
            raise TraceError(
                f"{path}, line {number}: expected milliseconds in order, got {word[:40]!r}"
            )
        times.append(int(word))
    if times[-1] < 1:
        raise TraceError(f"{path}: lasts less than 1 ms")
    return Trace(opportunities=tuple(times))


def _rates(rows: list[tuple[int, list[str]]], path: Path) -> Trace:
    points: list[tuple[float, float]] = []
    for number, (first, second) in rows:
        try:
            time, rate = float(first), float(second)
        except ValueError:
            time = rate = math.nan
        if not (math.isfinite(time) and rate >= 0.0 and math.isfinite(rate)):
            raise TraceError(f"{path}, line {number}: expected two numbers, seconds and Mbit/s")
        if points and time <= points[-1][0]:
            raise TraceError(f"{path}, line {number}: time does not grow")
        points.append((time, rate))
    # A recording may begin at any time; its first interval is taken to be as long as its second.
    spacing = points[1][0] - points[0][0] if len(points) > 1 else 1.0
    origin = points[0][0] - spacing
    begins = [0.0, *(time - origin for time, _ in points[:-1])]
    steps = tuple(RateStep(at, rate * 1e6) for at, (_, rate) in zip(begins, points, strict=True))
    return Trace(steps=steps, repeat=points[-1][0] - origin)


def generate_lte(*, seed: int, seconds: float = 60.0, mean_bps: float = 5e6) -> Trace:
    """An LTE-like trace; the same seed makes the same one on every system."""
    if not 1.0 <= seconds <= 3600.0 or not 1e5 <= mean_bps <= 1e8:
        raise TraceError(
            "a generated trace lasts 1 to 3600 s and has 0.1 to 100 Mbit/s, got "
            f"{seconds!r} s and {mean_bps!r} bits/s"
        )
    source = random.Random(f"lte/{seed}")
    step = ROUND_MS / 1e3
    strengths = _strengths(source, round(seconds / step))
    # Scaled so that the trace has the mean that was asked for, whatever this seed's fading did.
    base = mean_bps * len(strengths) / sum(strengths)
    times: list[int] = []
    for index, strength in enumerate(strengths):
        count = _poisson(source, base * strength * step / (1500 * 8))
        slots = source.sample(range(ROUND_MS), source.randint(1, 3))
        chosen = sorted(slots[source.randrange(len(slots))] for _ in range(count))
        times += [index * ROUND_MS + slot for slot in chosen]
    end = round(seconds * 1e3)
    if not times or times[-1] < end:
        times.append(end)  # the last one says when the trace starts again
    return Trace(opportunities=tuple(times))


def _strengths(source: random.Random, rounds: int) -> list[float]:
    """The rate of each round relative to the others: fading, and nothing during handovers."""
    slow = _Fading(source, SLOW_SIGMA, SLOW_SECONDS)
    fast = _Fading(source, FAST_SIGMA, FAST_SECONDS)
    next_handover = source.expovariate(1.0 / HANDOVER_EVERY)
    silent_until = -1.0
    strengths: list[float] = []
    for index in range(rounds):
        now = index * ROUND_MS / 1e3
        if now >= next_handover:
            silent_until = now + source.uniform(HANDOVER_LEAST, HANDOVER_MOST)
            next_handover = silent_until + source.expovariate(1.0 / HANDOVER_EVERY)
            slow = _Fading(source, SLOW_SIGMA, SLOW_SECONDS)
        strength = math.exp(slow.step() + fast.step())
        strengths.append(0.0 if now < silent_until else strength)
    return strengths


class _Fading:
    """A first-order autoregressive process with a standard deviation and a coherence time."""

    def __init__(self, source: random.Random, sigma: float, seconds: float) -> None:
        self._source = source
        self._keep = math.exp(-ROUND_MS / 1e3 / seconds)
        self._fresh = sigma * math.sqrt(1.0 - self._keep**2)
        self._value = source.gauss(0.0, sigma)

    def step(self) -> float:
        """The next round's value."""
        self._value = self._keep * self._value + self._source.gauss(0.0, self._fresh)
        return self._value


def _poisson(source: random.Random, mean: float) -> int:
    """Knuth's way: multiply uniform draws until they fall below e^-mean. Means here are small."""
    limit = math.exp(-min(mean, 500.0))
    count, product = 0, source.random()
    while product > limit:
        count += 1
        product *= source.random()
    return count
