"""Media as sizes: a voice, and an encoder that follows its rate within a frame.

A real encoder's frames differ in size around their target; here by a log-normal factor with a mean
of 1. Rates are split as the product splits them, and pictures are left out as the product leaves
them out: when more than a frame's time of an earlier one waits.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from ...scheduler.rates import RateDemand, split_rate
from ...transport.media.video_send import MAX_BACKLOG_FRAMES
from .world import Flow, World

VOICE, FACE = 1, 2
"""Track numbers."""
VOICE_S = 0.02
VOICE_BYTES = 80
"""Opus at 32 kbit/s."""
VOICE_WIRE_BPS = 60_000.0
"""With the bytes of its packets."""
VOICE_IMPORTANCE, FACE_IMPORTANCE = 0.85, 0.4
VOICE_DEADLINE, FACE_DEADLINE = 0.4, 0.6
LEAST_FACE_BPS = 60_000.0
PACKET_SHARE = 0.94
"""Of a picture's rate on the wire, what is payload."""
OFFER_LEAD = 0.4
"""Seconds before the first capture at which tracks are offered: the handshake is over by then."""
SPREAD = 0.15
"""Standard deviation of a frame's size, as the logarithm of its factor."""


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """What one flow sends."""

    fps: float = 30.0
    most_bps: float = 4_000_000.0
    """The picture's ceiling."""
    pauses: tuple[tuple[float, float], ...] = ()
    """(from, to) in link time, seconds, without any media."""


class MediaSource:
    """One voice and one face, captured from `begin` to `end` (link time, seconds)."""

    def __init__(
        self,
        world: World,
        flow: Flow,
        settings: MediaSettings,
        *,
        begin: float,
        end: float,
        seed: int,
    ) -> None:
        self.sent: dict[int, dict[int, float]] = {VOICE: {}, FACE: {}}
        """Capture times by track and index; a picture left out before encoding is not there."""
        self.skipped = 0
        self._world = world
        self._flow = flow
        self._settings = settings
        self._end = end
        self._random = random.Random(f"frames/{seed}/{flow.number}")
        world.at(begin - OFFER_LEAD, self._offer)
        world.at(begin, lambda: self._voice(begin, 0))
        world.at(begin, lambda: self._face(begin, 0))

    def _offer(self) -> None:
        world, flow = self._world, self._flow
        world.offer(flow, VOICE, "voice", media="audio", importance=VOICE_IMPORTANCE)
        world.offer(flow, FACE, "face", media="video", importance=FACE_IMPORTANCE)

    def _is_paused(self, time: float) -> bool:
        return any(start <= time < stop for start, stop in self._settings.pauses)

    def _voice(self, begin: float, index: int) -> None:
        time = begin + index * VOICE_S
        if not self._is_paused(time):
            self.sent[VOICE][index] = self._world.time
            self._world.send(
                self._flow,
                VOICE,
                index,
                VOICE_BYTES,
                deadline=VOICE_DEADLINE,
                importance=VOICE_IMPORTANCE,
            )
        if time + VOICE_S < self._end:
            self._world.at(time + VOICE_S, lambda: self._voice(begin, index + 1))

    def _face(self, begin: float, index: int) -> None:
        settings = self._settings
        time = begin + index / settings.fps
        size = self._frame_bytes()
        behind = self._flow.sender.scheduler.backlog_seconds(FACE)
        if self._is_paused(time):
            pass
        elif behind > MAX_BACKLOG_FRAMES / settings.fps:
            self.skipped += 1
        else:
            self.sent[FACE][index] = self._world.time
            self._world.send(
                self._flow,
                FACE,
                index,
                size,
                deadline=FACE_DEADLINE,
                importance=FACE_IMPORTANCE,
            )
        if time + 1 / settings.fps < self._end:
            self._world.at(time + 1 / settings.fps, lambda: self._face(begin, index + 1))

    def _frame_bytes(self) -> int:
        demands = [
            RateDemand(VOICE, VOICE_IMPORTANCE, VOICE_WIRE_BPS, VOICE_WIRE_BPS, is_audio=True),
            RateDemand(FACE, FACE_IMPORTANCE, LEAST_FACE_BPS, self._settings.most_bps),
        ]
        rate = split_rate(self._flow.sender.controller.target_bps, demands)[FACE]
        factor = math.exp(self._random.gauss(-SPREAD * SPREAD / 2, SPREAD))
        return max(100, round(rate * PACKET_SHARE / 8 / self._settings.fps * factor))
