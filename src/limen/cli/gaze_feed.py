"""A file of gaze points played in time: each becomes tags at its moment, none afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..scheduler.errors import LimenError
from ..scheduler.sources.gaze import GazeSample, GazeSource
from ..transport.session import Session


class GazeFeed:
    """Follows `samples` from `start` (`limen.now()`); `session` may come and go."""

    def __init__(self, samples: Sequence[GazeSample], track: str) -> None:
        self._samples = samples
        self._track = track
        self._source = GazeSource(track)
        self.session: Session | None = None
        """Points that made a tag."""

    async def run(self, start: float) -> None:
        """Return after the last point. Points that are overdue by 0.2 s are passed over."""
        for sample in self._samples:
            due = start + sample.time
            wait = due - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            elif wait < -0.2:
                continue
            tags = self._source.look(sample.x, sample.y, time=due, radius=sample.radius)
            if self.session is None or self.session.is_closed:
                continue
            for tag in tags:
                try:
                    self.session.add_tag(tag)
                except LimenError:
                    break  # the track or the session has just ended
