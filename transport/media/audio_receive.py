"""Sound in: through the jitter buffer, 20 ms at each deadline."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any

from ...codecs.errors import CodecError
from ...codecs.opus import OpusDecoder
from ...scheduler.types import ObjectId
from ..errors import PeerError
from ..events import ObjectReceived, TrackInfo
from ..playout.jitter import AudioArrival, JitterBuffer
from ..quic.timer import make_timer
from .kinds import AudioFrame
from .subscription import Receiver, Subscription

PLAYED_OUT = 8
"""Blocks without sound after the track's end that count as played out: 160 ms, more than the
longest concealment."""


class AudioReceiver(Receiver[AudioFrame]):
    """Plays one audio track on a grid of 20 ms that follows nominal time, not sleeps."""

    def __init__(
        self,
        session: Any,
        info: TrackInfo,
        subscription: Subscription[AudioFrame],
    ) -> None:
        super().__init__(session, info, subscription)
        channels = info.params.get("channels", 1)
        if channels not in (1, 2):
            raise PeerError(f"track {info.name!r} announces {channels!r} channels, expected 1 or 2")
        self._decoder = OpusDecoder(channels=channels)
        self._buffer = JitterBuffer(self._decoder, channels=channels)
        self._timer = make_timer(asyncio.get_running_loop(), self._due)
        self._finished = False
        self._silent = 0
        self._last_end = float("-inf")
        self._closed = False

    def on_object(self, received: ObjectReceived) -> None:
        """See Receiver."""
        if self._closed:
            return
        header, now = received.header, received.arrived
        first = self._buffer.next_time() is None
        self._buffer.insert(
            AudioArrival(
                sequence=header.sequence,
                captured=header.captured,
                duration=header.duration,
                payload=received.payload,
                importance=header.importance,
                silence=header.silence,
            ),
            now=now,
        )
        self._last_end = max(self._last_end, header.captured)
        clock = self.session.playout_clock
        clock.observe(self.info.name, header.captured, now)
        delay = self._buffer.delay(now)
        clock.set_target(self.info.name, delay.target, header.importance)
        self._buffer.set_extra_delay(clock.extra_delay())
        if first:
            self._arm()
        self.out.check_settled()

    def on_gone(self, object_id: ObjectId, now: float) -> None:
        """The buffer conceals by time; only the count, which has been taken, matters."""
        del object_id, now
        self.out.check_settled()

    def on_finished(self) -> None:
        """Play out what is buffered."""
        self._finished = True
        if self._buffer.next_time() is None:
            self.out.end()

    def close(self) -> None:
        """See Receiver."""
        if not self._closed:
            self._closed = True
            self._timer.close()
            self._decoder.close()

    def _arm(self) -> None:
        when = self._buffer.next_time()
        if when is not None and not self._closed:
            self._timer.arm(when)

    def _due(self) -> None:
        if self._closed:
            return
        now = time.monotonic()
        due = self._buffer.next_time()
        if due is None or now < due - 5e-4:
            self._arm()
            return
        try:
            block = self._buffer.next_frame(now=now)
        except CodecError as error:
            self.out.fail(PeerError(f"track {self.info.name!r} cannot be decoded: {error}"))
            return
        if block.captured is not None:
            self.session.playout_clock.played(self.info.name, block.captured, due)
        self.out.push(
            AudioFrame(
                samples=block.samples,
                captured=block.captured,
                played=due,
                delay=None
                if block.captured is None
                else self.session.delay_of(block.captured, due),
                kind=block.kind,
                importance=block.importance,
            )
        )
        self.session.trace(
            "audio_played", track=self.info.name, captured=block.captured, at=due, kind=block.kind
        )
        if self._finished and self._is_over(block.captured, block.kind):
            self.out.end()
            return
        self._arm()

    def _is_over(self, captured: float | None, kind: str) -> bool:
        if captured is not None and captured >= self._last_end - 1e-4 and kind != "concealed":
            return True
        self._silent = self._silent + 1 if kind in ("silence", "concealed") else 0
        return self._silent >= PLAYED_OUT

    def stats(self) -> dict[str, Any]:
        """See Receiver."""
        return {
            "media": "audio",
            "objects": self.objects,
            **dataclasses.asdict(self._buffer.stats()),
        }
