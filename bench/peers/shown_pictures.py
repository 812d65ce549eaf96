"""Pictures as a peer without stamps showed them: spooled while it runs, named by barcode after.

The spool keeps memory bounded and the run undisturbed: a picture is appended to a file as it came.
When the run is over each one's barcode says which captured picture it is, and it is written in the
source's size, as a viewer's screen would have scaled it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from ..barcode import read
from .recorder import PICTURES_FILE, EventLog

WARM_UP_INDEX = 0x8000
"""Barcodes from here on are of pictures sent before the run: they are not counted."""


@dataclass(frozen=True, slots=True)
class _Entry:
    at: float
    width: int
    height: int
    form: str


class PictureSpool:
    """One track's shown pictures."""

    def __init__(self, folder: Path, track: str) -> None:
        self._track = track
        self._folder = folder
        self._path = folder / f"spool-{track}.raw"
        self._file = self._path.open("wb")
        self._entries: list[_Entry] = []

    def add(self, pixels: bytes, *, width: int, height: int, form: str, at: float) -> int | None:
        """A picture was shown at `at`; `form` is yuv420p or nv12. Its number, if legible."""
        self._file.write(pixels)
        self._entries.append(_Entry(at, width, height, form))
        luma = np.frombuffer(pixels, np.uint8, count=width * height).reshape(height, width)
        return captured_number(read(luma))

    def finish(
        self, log: EventLog, *, captured: Sequence[float], width: int, height: int
    ) -> dict[str, int]:
        """Write the run's pictures and the `shown` events; `captured` are the capture stamps.

        Returns how many were shown, scaled and not legible.
        """
        self._file.close()
        counts = {"shown": 0, "scaled": 0, "illegible": 0}
        target = self._folder / PICTURES_FILE
        with self._path.open("rb") as spool, target.open("wb") as file:
            for entry in self._entries:
                pixels = np.frombuffer(spool.read(entry.width * entry.height * 3 // 2), np.uint8)
                rows = pixels.reshape(-1, entry.width)
                code = read(rows[: entry.height])
                number = captured_number(code)
                if number is None or number >= len(captured):
                    counts["illegible"] += code is None
                    continue
                if (entry.width, entry.height, entry.form) != (width, height, "yuv420p"):
                    counts["scaled"] += (entry.width, entry.height) != (width, height)
                    rows = _converted(rows, entry.form, width=width, height=height)
                file.write(rows.tobytes())
                counts["shown"] += 1
                log.add(
                    "shown",
                    track=self._track,
                    captured=captured[number],
                    at=entry.at,
                    width=width,
                    height=height,
                )
        self._path.unlink()
        return counts


def captured_number(code: int | None) -> int | None:
    """The number of the captured picture with this barcode; None for a warm-up one, or for none."""
    return None if code is None or code >= WARM_UP_INDEX else code


def _converted(rows: NDArray[np.uint8], form: str, *, width: int, height: int) -> NDArray[np.uint8]:
    frame = av.VideoFrame.from_ndarray(rows, format=form)
    scaled = frame.reformat(width=width, height=height, format="yuv420p", interpolation="BICUBIC")
    return scaled.to_ndarray().astype(np.uint8, copy=False)
