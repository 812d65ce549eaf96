"""What a buffer that knew all arrivals beforehand could do: the bound per frame.

Dynamic programming over the delay of each object, in steps of 5 ms. From one object to the next
the delay may move by what stretching can do (the same limits for faster and slower), a pause may
be put in (made-up time), or an object may be left out. The sum of audible delay plus `price` times
damage is minimal; raising the price trades delay for damage along the lower hull of all that is
possible. Nothing causal with the same limits can be below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .outcome import WARM_UP
from .speech import FRAME_S, Speech

STEP_MS = 5.0
STRETCH_MS = 10.0
"""Most that one 20 ms block is lengthened or shortened: a pitch period of 100 Hz."""
FRAME_MS = FRAME_S * 1000
MOST_MS = 2500.0
_FRAME = round(FRAME_MS / STEP_MS)
_REACH = round(STRETCH_MS / STEP_MS)


@dataclass(frozen=True, slots=True)
class Bound:
    """Delay in ms and damage in per cent of one optimal path."""

    price: float
    mean_ms: float
    p95_ms: float
    damage: float


def clairvoyant(speech: Speech, arrivals: NDArray[np.float64], *, price: float) -> Bound:
    """The optimal path when a ms of damage costs `price` ms of delay. Takes about a second."""
    count = len(speech)
    states = round(MOST_MS / STEP_MS) + 1
    delays = np.arange(states) * STEP_MS
    captured = (np.arange(count) + 1) * FRAME_S
    need = np.where(np.isfinite(arrivals), (arrivals - captured) * 1000 + FRAME_MS, np.inf)
    audible = speech.audible.astype(np.float64)
    value = np.zeros(states)
    came: NDArray[np.int16] = np.empty((count, states), dtype=np.int16)
    paused: NDArray[np.int16] = np.empty((count, states), dtype=np.int16)
    all_states = np.arange(states)
    fine = np.full((2 * _REACH + 2, states), np.inf)
    for i in range(count):
        loss = price * FRAME_MS * audible[i]
        for k, move in enumerate(range(-_REACH, _REACH + 1)):
            # From delay `d - move` to `d`.
            if move >= 0:
                fine[k, move:] = value[: states - move]
            else:
                fine[k, :move] = value[-move:]
        fine[-1, : states - _FRAME] = value[_FRAME:]  # left out: nothing in its place
        cost = np.where(delays >= need[i], delays * audible[i], loss)
        fine[:-1] += cost
        fine[-1] += loss
        best = np.argmin(fine, axis=0)
        moved = np.append(np.arange(-_REACH, _REACH + 1), -_FRAME)[best]
        value = fine[best, all_states]
        fine[:-1][np.isfinite(fine[:-1])] = np.inf
        came[i] = all_states - moved
        value, origin = _with_pauses(value, loss)
        paused[i] = origin
    path = np.empty(count, dtype=np.int64)
    after = np.empty(count, dtype=np.int64)
    before = np.empty(count, dtype=np.int64)
    state = int(np.argmin(value))
    for i in range(count - 1, -1, -1):
        after[i] = state
        path[i] = paused[i][state]  # the pause follows object i
        state = before[i] = int(came[i][path[i]])
    return _bound(
        price, path=path, moves=path - before, pauses=after - path, need=need, speech=speech
    )


def _with_pauses(
    value: NDArray[np.float64], loss: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Each state's least value when pauses of whole objects may come first, and from where."""
    states = len(value)
    rows = -(-states // _FRAME)
    grid = np.full(rows * _FRAME, np.inf)
    grid[:states] = value
    grid = grid.reshape(rows, _FRAME) - (loss * np.arange(rows))[:, None]
    least = np.minimum.accumulate(grid, axis=0)
    row = np.where(grid <= least, np.arange(rows)[:, None], 0)
    origin = np.maximum.accumulate(row, axis=0) * _FRAME + np.arange(_FRAME)
    least += (loss * np.arange(rows))[:, None]
    return least.ravel()[:states], origin.ravel()[:states]


def _bound(
    price: float,
    *,
    path: NDArray[np.int64],
    moves: NDArray[np.int64],
    pauses: NDArray[np.int64],
    need: NDArray[np.float64],
    speech: Speech,
) -> Bound:
    delays = path * STEP_MS
    audible = speech.audible.copy()
    audible[: round(WARM_UP / FRAME_S)] = False
    audible[-10:] = False
    missed = (delays < need) | (moves == -_FRAME)
    chosen = delays[audible & ~missed]
    damage = FRAME_MS * float((audible & missed).sum()) + STEP_MS * float(pauses[audible].sum())
    heard = len(chosen) > 0
    return Bound(
        price=price,
        mean_ms=float(chosen.mean()) if heard else float("nan"),
        p95_ms=float(np.percentile(chosen, 95)) if heard else float("nan"),
        damage=100 * damage / max(1.0, FRAME_MS * float(audible.sum())),
    )


def bound_at(
    speech: Speech, arrivals: NDArray[np.float64], *, damage: float, rounds: int = 7
) -> Bound:
    """The bound whose damage is at most `damage` per cent: the price is found by bisection."""
    low, high = 2.0, 2000.0
    best = clairvoyant(speech, arrivals, price=high)
    for _ in range(rounds):
        price = (low * high) ** 0.5
        found = clairvoyant(speech, arrivals, price=price)
        if found.damage <= damage:
            best, high = found, price
        else:
            low = price
    return best
