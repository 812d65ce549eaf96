"""A source read and decoded in a thread, its items in the order in which they are due.

A picture is due at its time, a piece of sound at its end: nobody has sound before it is over.
Long pieces are cut to 25 ms at most, or the sound of a file would leave in lumps of a quarter
second.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from ..codecs.audio_input import frame_to_float
from ..codecs.sources import MediaSource, SourceItem, SourceStream

PIECE = 0.025
"""Seconds of sound in one piece at most: a frame of AAC (21 ms) stays whole."""
AHEAD = 24
"""Items read ahead: about a third of a second of a file with picture and sound."""


@dataclass(frozen=True, slots=True)
class DueItem:
    """A picture, or samples (n, channels) at `sample_rate`, with the time at which it is due."""

    stream: SourceStream
    due: float
    """Seconds from the start of the source."""
    data: av.VideoFrame | NDArray[Any]
    sample_rate: int
    read: float
    """`limen.now()` when it was read."""


def in_due_order(items: Iterator[SourceItem]) -> Iterator[DueItem]:
    """Items in the order of their due times; the input is in the order of its start times."""
    order = itertools.count()
    stereo: dict[int, av.AudioResampler] = {}
    waiting: list[tuple[float, int, DueItem]] = []
    for item in items:
        for part in _parts(item, stereo):
            heapq.heappush(waiting, (part.due, next(order), part))
        while waiting and waiting[0][0] <= item.time:  # whatever follows is due later
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def _parts(item: SourceItem, stereo: dict[int, av.AudioResampler]) -> Iterator[DueItem]:
    now = time.monotonic()
    if isinstance(item.frame, av.VideoFrame):
        yield DueItem(item.stream, item.time, item.frame, 0, now)
        return
    rate = item.frame.sample_rate
    samples = _at_most_stereo(item.stream, item.frame, stereo)
    count = max(1, math.ceil(len(samples) / (rate * PIECE)))
    step = math.ceil(len(samples) / count)
    for start in range(0, len(samples), step):
        piece = samples[start : start + step]
        due = item.time + (start + len(piece)) / rate
        yield DueItem(item.stream, due, piece, rate, now)


def _at_most_stereo(
    stream: SourceStream, frame: av.AudioFrame, stereo: dict[int, av.AudioResampler]
) -> NDArray[Any]:
    """Surround sound mixed down as FFmpeg does it, with the centre, where the voices are."""
    if len(frame.layout.channels) <= 2:
        return frame_to_float(frame)
    if stream.index not in stereo:
        stereo[stream.index] = av.AudioResampler(
            format="flt", layout="stereo", rate=frame.sample_rate
        )
    mixed = stereo[stream.index].resample(frame)  # the same rate: nothing is held back
    return np.concatenate([frame_to_float(part) for part in mixed])


class SourceReader:
    """Reads ahead in a daemon thread; `get` from one event loop. `close` never waits for long."""

    def __init__(self, source: MediaSource) -> None:
        self.source = source
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._items: deque[DueItem] = deque()
        self._room = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="limen-source", daemon=True)
        self._thread.start()

    async def get(self) -> DueItem | None:
        """The next item, None at the end. Raises what reading raised."""
        while not self._items:
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
            self._ready.clear()
            if not self._items and not self._ended:
                await self._ready.wait()
        item = self._items.popleft()
        with self._room:
            self._room.notify()
        return item

    def close(self) -> None:
        """Stop reading; the thread closes the source, a device that hangs when it can."""
        with self._room:
            self._closed = True
            self._room.notify()

    def _work(self) -> None:
        try:
            for item in in_due_order(iter(self.source)):
                with self._room:
                    while len(self._items) >= AHEAD and not self._closed:
                        self._room.wait()
                    if self._closed:
                        return
                    self._items.append(item)
                self._tell()
        except BaseException as error:  # it is raised in `get`
            self._error = error
        finally:
            self._ended = True
            self.source.close()
            self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ready.set)
