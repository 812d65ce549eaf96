"""Gestures to tags: where a picture that was still begins to move.

Motion energy is the mean change of brightness per grid cell between two pictures, measured on a
subsampled picture (about 160 pixels wide: what a hand covers stays visible, sensor noise averages
out). A cell moves when it changes by more than a few times its own usual change. The onset after
stillness is what carries meaning, so it gets a strong tag; while the motion lasts a weaker one
follows its region. When most cells move at once it is the camera or a cut, and says nothing.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Region, Scope, Tag, TagKind

COLUMNS, ROWS = 16, 9
"""Cells of a sixteenth of the width: about a hand at arm's length from a camera."""
TARGET_WIDTH = 160
MINIMUM_CHANGE = 4.0
"""Mean change of luma (0-255) below which nothing counts: above coding and sensor noise."""
USUAL_FACTOR = 3.0
"""A cell moves when it changes by this many times its usual change."""
EVERYWHERE = 0.6
"""Part of the cells above which the camera moved."""
STILL_S = 0.25
"""Stillness that makes the next motion an onset."""
REPEAT_S = 0.1
"""While a motion lasts its tag is renewed this often."""


class GestureEvent(NamedTuple):
    """A gesture began."""

    time: float
    region: Region


class GestureSource:
    """Feed the brightness of one track's pictures in order; GESTURE tags come out."""

    def __init__(
        self,
        track: str,
        *,
        onset_value: float = 0.9,
        moving_value: float = 0.5,
        half_life: float = 0.4,
        source: str = "gesture",
    ) -> None:
        self._track = track
        self._onset_value = onset_value
        self._moving_value = moving_value
        self._half_life = half_life
        self._source = source
        self._previous: NDArray[np.int16] | None = None
        self._size = (0, 0)
        self._usual: NDArray[np.float64] = np.full((ROWS, COLUMNS), 1.0)
        self._last_motion = -math.inf
        self._last_tag = -math.inf
        self._events: deque[GestureEvent] = deque(maxlen=256)

    def take_events(self) -> list[GestureEvent]:
        """The onsets since the last call (at most 256 are kept)."""
        taken = list(self._events)
        self._events.clear()
        return taken

    def feed(self, luma: NDArray[Any], *, time: float) -> list[Tag]:
        """Take one picture's brightness plane (rows, columns; uint8) captured at `time` seconds.

        The first picture, and the first of a new size, gives no tag.
        Raises ValueError when it is not a two-dimensional uint8 array of at least 16 by 9.
        """
        if luma.ndim != 2 or luma.dtype != np.uint8 or luma.shape[0] < ROWS:
            raise ValueError(_expected(luma))
        height, width = luma.shape
        if width < COLUMNS:
            raise ValueError(_expected(luma))
        step = max(1, min(width // TARGET_WIDTH, height // ROWS))
        rows, columns = len(range(0, height, step)) // ROWS, len(range(0, width, step)) // COLUMNS
        small = luma[::step, ::step][: rows * ROWS, : columns * COLUMNS].astype(np.int16)
        previous, self._previous = self._previous, small
        if previous is None or self._size != (height, width):
            self._size = (height, width)
            self._usual.fill(1.0)
            self._last_motion = time  # nothing is known of the time before
            return []
        change = np.abs(small - previous).reshape(ROWS, rows, COLUMNS, columns)
        energy = change.mean(axis=(1, 3))
        moving = energy > np.maximum(MINIMUM_CHANGE, USUAL_FACTOR * self._usual)
        # The usual change follows slowly, and slower still where something moves now.
        self._usual += np.where(moving, 0.005, 0.05) * (energy - self._usual)
        n_moving = int(np.count_nonzero(moving))
        if n_moving > EVERYWHERE * ROWS * COLUMNS:
            self._last_motion = time  # what still moves when the camera comes to rest is no onset
            return []
        if n_moving == 0:
            return []
        still = time - self._last_motion
        self._last_motion = time
        is_onset = still >= STILL_S
        if not is_onset and time - self._last_tag < REPEAT_S:
            return []
        self._last_tag = time
        region = _around_peak(energy, moving)
        if is_onset:
            self._events.append(GestureEvent(time, region))
        value = self._onset_value if is_onset else self._moving_value
        scope = Scope(self._track, region=region)
        return [Tag(TagKind.GESTURE, value, time, self._half_life, scope, self._source)]


def _around_peak(energy: NDArray[np.float64], moving: NDArray[np.bool_]) -> Region:
    """The box around the moving cells that touch the one which moves most."""
    row, column = divmod(int(np.argmax(np.where(moving, energy, -1.0))), COLUMNS)
    cells = moving.tolist()
    cells[row][column] = False
    pending = [(row, column)]
    top = bottom = row
    left = right = column
    while pending:
        row, column = pending.pop()
        top, bottom = min(top, row), max(bottom, row)
        left, right = min(left, column), max(right, column)
        for r in range(max(0, row - 1), min(ROWS, row + 2)):
            for c in range(max(0, column - 1), min(COLUMNS, column + 2)):
                if cells[r][c]:
                    cells[r][c] = False
                    pending.append((r, c))
    return Region(
        left / COLUMNS, top / ROWS, (right + 1 - left) / COLUMNS, (bottom + 1 - top) / ROWS
    )


def _expected(luma: NDArray[Any]) -> str:
    return (
        f"a gesture source needs a two-dimensional uint8 brightness plane of at least {COLUMNS} "
        f"by {ROWS}, got shape {luma.shape} of {luma.dtype}"
    )
