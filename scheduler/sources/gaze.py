"""Gaze to tags: where someone looks is worth most, and staying there means something.

Points come from an eye tracker, a pointer or a file, in relative picture coordinates: (0, 0) top
left, (1, 1) bottom right. Each point is a tag on the square around it that halves every 0.3 s, so
that a lost tracker lets go of the picture by itself. A blink (not-a-number) therefore says
nothing; a look that lands outside the picture takes the last tag back at once.
"""

from __future__ import annotations

import csv
import math
from collections import deque
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

from ..types import Region, Scope, Tag, TagKind

BLINK_S = 0.3
"""Blinks last 0.1 to 0.3 s; a longer gap ends a dwell."""

DWELL_REPEAT_S = 0.5
"""While a dwell lasts its tag is renewed this often."""


class GazeEvent(NamedTuple):
    """A micro-behaviour event: a dwell was reached, or one that was reached has ended."""

    kind: Literal["dwell", "dwell_end"]
    time: float
    x: float
    y: float
    length: float
    """Seconds spent within the radius so far, or in all."""


class GazeSource:
    """Turns points into GAZE and DWELL tags for one track; drain `take_events` for dwells.

    `radius` is in picture widths and heights, `dwell_seconds` the stay within it that counts.
    """

    def __init__(
        self,
        track: str,
        radius: float = 0.12,
        *,
        value: float = 0.9,
        half_life: float = 0.3,
        dwell_seconds: float = 1.2,
        source: str = "gaze",
    ) -> None:
        if not 0.0 < radius <= 1.0:
            raise ValueError(f"a gaze radius is in (0, 1], got {radius!r}")
        if not 0.0 < value <= 1.0:
            raise ValueError(f"a gaze's value is in (0, 1], got {value!r}")
        if not dwell_seconds > 0.0:
            raise ValueError(f"dwell_seconds is above 0, got {dwell_seconds!r}")
        self._track = track
        self._radius = radius
        self._value = value
        self._half_life = half_life
        self._dwell_seconds = dwell_seconds
        self._source = source
        self._last_time = -math.inf
        self._looking = False
        self._dwell_start: float | None = None
        self._centre = (0.0, 0.0)
        self._points = 0
        self._dwell_tagged = -math.inf
        self._dwelling = False
        self._events: deque[GazeEvent] = deque(maxlen=256)

    def take_events(self) -> list[GazeEvent]:
        """The dwells since the last call (at most 256 are kept)."""
        taken = list(self._events)
        self._events.clear()
        return taken

    def look(
        self,
        x: float,
        y: float,
        *,
        time: float,
        confidence: float = 1.0,
        radius: float | None = None,
    ) -> list[Tag]:
        """Take one point seen at `time` (seconds); `confidence` in [0, 1] scales its value.

        Not-a-number coordinates (a blink), no confidence and times that do not advance give no
        tag; a point outside the picture gives one of value 0, which takes the last one back.
        """
        if not math.isfinite(time):
            raise ValueError(f"a gaze point's time is a finite number of seconds, got {time!r}")
        if time <= self._last_time:
            return []
        if not (math.isfinite(x) and math.isfinite(y) and confidence > 0.0):
            return []
        if time - self._last_time > BLINK_S:
            self._end_dwell()
        self._last_time = time
        if not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0):
            self._end_dwell()
            was_looking, self._looking = self._looking, False
            return [self._tag(TagKind.GAZE, 0.0, time, None)] if was_looking else []
        self._looking = True
        region = Region.around(x, y, self._radius if radius is None else radius)
        tags = [self._tag(TagKind.GAZE, self._value * min(1.0, confidence), time, region)]
        if self._dwells(x, y, time):
            tags.append(self._tag(TagKind.DWELL, 0.6, time, region))
        return tags

    def _dwells(self, x: float, y: float, time: float) -> bool:
        """Follow the stay around the mean of its points; True when a DWELL tag is due."""
        mean_x, mean_y = self._centre
        if self._dwell_start is None or math.hypot(x - mean_x, y - mean_y) > self._radius:
            self._end_dwell(before=time)
            self._dwell_start, self._centre, self._points = time, (x, y), 1
            return False
        self._points = min(self._points + 1, 256)
        self._centre = (
            mean_x + (x - mean_x) / self._points,
            mean_y + (y - mean_y) / self._points,
        )
        length = time - self._dwell_start
        if length < self._dwell_seconds:
            return False
        if not self._dwelling:
            self._dwelling = True
            self._events.append(GazeEvent("dwell", time, *self._centre, length))
        elif time - self._dwell_tagged < DWELL_REPEAT_S:
            return False
        self._dwell_tagged = time
        return True

    def _end_dwell(self, *, before: float | None = None) -> None:
        if self._dwelling and self._dwell_start is not None:
            end = self._last_time if before is None else before
            self._events.append(GazeEvent("dwell_end", end, *self._centre, end - self._dwell_start))
        self._dwelling = False
        self._dwell_start = None

    def _tag(self, kind: TagKind, value: float, time: float, region: Region | None) -> Tag:
        half_life = 1.0 if kind is TagKind.DWELL else self._half_life
        scope = Scope(self._track, region=region)
        return Tag(kind, value, time, half_life, scope, source=self._source)


@dataclass(frozen=True, slots=True)
class GazeSample:
    """One line of a gaze file; `x` and `y` are nan in a blink."""

    time: float
    x: float
    y: float
    radius: float | None = None


class GazeFileError(ValueError):
    """A gaze file that cannot be read; the text names the file and the line."""


def read_gaze_csv(path: str | PathLike[str]) -> list[GazeSample]:
    """Read `time,x,y[,radius]` lines: seconds from the start, relative coordinates.

    A header line, empty lines and lines that begin with # may be there; empty or `nan` coordinates
    are a blink. Times must not go back. Raises GazeFileError, or OSError when there is no file.
    """
    samples: list[GazeSample] = []
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise GazeFileError(f"{path}: expected UTF-8 text with lines time,x,y") from error
    seen_any = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        first, seen_any = not seen_any, True
        if first and [cell.lower() for cell in cells[:3]] == ["time", "x", "y"]:
            continue
        try:
            sample = _parse(cells)
        except ValueError as error:
            raise GazeFileError(f"{path}, line {number}: {error}") from None
        if samples and sample.time < samples[-1].time:
            raise GazeFileError(
                f"{path}, line {number}: time {sample.time} goes back behind {samples[-1].time}"
            )
        samples.append(sample)
    if not samples:
        raise GazeFileError(f"{path}: no gaze points; expected lines time,x,y[,radius]")
    return samples


def _parse(cells: list[str]) -> GazeSample:
    if len(cells) not in (3, 4):
        raise ValueError(f"expected time,x,y[,radius], got {len(cells)} values")
    time = _number("time", cells[0])
    if not math.isfinite(time):
        raise ValueError(f"time is a finite number of seconds, got {cells[0]!r}")
    x, y = (
        _number(name, cell) if cell else math.nan
        for name, cell in zip("xy", cells[1:3], strict=True)
    )
    radius = None
    if len(cells) == 4 and cells[3]:
        radius = _number("radius", cells[3])
        if not 0.0 < radius <= 1.0:
            raise ValueError(f"radius is in (0, 1], got {cells[3]!r}")
    return GazeSample(time, x, y, radius)


def _number(name: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise ValueError(f"{name} is a number, got {cell!r}") from None
