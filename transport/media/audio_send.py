"""Samples out: framing, speech tags and Opus, the last two in a thread of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from numpy.typing import NDArray

from ...codecs.audio_input import AudioFramer, FramedAudio
from ...codecs.errors import CodecError
from ...codecs.opus import OpusEncoder
from ...codecs.worker import CodecWorker
from ...scheduler.checks import flag, instance, whole
from ...scheduler.errors import UsageError
from ...scheduler.rates import RateDemand
from ...scheduler.sources.speech import SpeechSource
from ...scheduler.types import Tag
from .kinds import Audio
from .publication import Pending, Publication

if TYPE_CHECKING:
    from ..session import Session

OBJECT_OVERHEAD_BYTES = 60
"""Object header, frame and a share of the packet around one audio object, on the wire."""

FRESH_AFTER = 0.06
"""Seconds of gap in the captures after which the encoder starts anew: three lost frames, from
where on a listener's concealment has nothing in common with what was said before."""


class AudioPublication(Publication):
    """A track of sound. `send` takes chunks of any length and rate."""

    media = "audio"

    def __init__(self, session: Session, number: int, name: str, kind: Audio) -> None:
        super().__init__(
            session,
            number,
            name,
            importance=kind.importance,
            deadline=kind.deadline,
            delivery=kind.delivery,
            hold=kind.hold,
            params={
                "codec": "opus",
                "sample_rate": 48000,
                "channels": kind.channels,
                "frame_ms": kind.frame_ms,
            },
        )
        self._kind = kind
        self._framer = AudioFramer(channels=kind.channels, frame_ms=kind.frame_ms)
        self._encoder = OpusEncoder(
            channels=kind.channels,
            bitrate_bps=round(kind.bitrate_bps),
            frame_ms=kind.frame_ms,
            application=kind.application,
        )
        self._speech = SpeechSource(name) if kind.speech_tags else None
        self._last: FramedAudio | None = None
        self._last_captured = float("inf")
        self._worker = CodecWorker(f"audio-{name}")

    async def send(
        self,
        samples: NDArray[Any] | av.AudioFrame,
        *,
        sample_rate: int | None = None,
        captured: float | None = None,
    ) -> None:
        """Send a chunk of sound whose last sample was captured at `captured` (None: now).

        `samples` is an av.AudioFrame, or an array of shape (n,), (n, channels) or (channels, n),
        integer or float in −1 to 1, with its `sample_rate` (None: 48,000). Returns once the
        chunk is encoded; a gap in `captured` is a gap in the sound, never closed up.
        Raises UsageError for shapes that fit no layout, SessionClosedError at the end.
        """
        self._check_open()
        stamp = self._stamp(captured)
        if isinstance(samples, av.AudioFrame):
            rate = samples.sample_rate
        else:
            rate = 48000
            words = "an av.AudioFrame or a NumPy array"
            instance(f"track {self.name!r}: sound", samples, np.ndarray, words)
            if sample_rate is not None:
                rate = whole("sample_rate", sample_rate, 1, 1 << 31, "Hz")
        try:
            frames = self._framer.push(samples, sample_rate=rate, captured=stamp)
        except (ValueError, TypeError) as error:
            raise UsageError(f"track {self.name!r}: {error}") from error
        for frame in frames:
            await self._encode(frame)

    async def send_encoded(self, payload: bytes, *, captured: float, silence: bool = False) -> None:
        """Send one Opus packet of the track's frame length, coded elsewhere."""
        self._check_open()
        data = self._checked(payload, "an Opus packet")
        if not data:
            raise UsageError("an Opus packet has at least one byte")
        flag("silence", silence)
        duration = self._kind.frame_ms / 1000
        self._emit(Pending(data, self._stamp(captured), duration, silence=silence))

    async def _encode(self, frame: FramedAudio) -> None:
        if not self.is_subscribed and self._hold <= 0:
            self.counts["unheard"] += 1
            return
        self._last = frame
        try:
            payload, tags, silence = await self._worker.run(self._analyse, frame)
        except CodecError:
            self._session.check_open()  # the codec was closed because the session has ended
            if self._finished:
                return
            raise
        now = time.monotonic()
        for tag in tags:
            self._session.tag_own(tag, now=now)
        self._emit(Pending(payload, frame.captured, frame.duration, silence=silence))

    def _analyse(self, frame: FramedAudio) -> tuple[bytes, list[Tag], bool]:
        """In the worker's thread."""
        tags: list[Tag] = []
        silence = False
        if frame.captured - frame.duration - self._last_captured > FRESH_AFTER:
            self._encoder.reset()
        self._last_captured = frame.captured
        if self._speech is not None:
            mono = np.ascontiguousarray(frame.samples.mean(axis=1))
            tags = self._speech.feed(mono, sample_rate=48000, time=frame.captured)
            silence = not self._speech.is_speech
        return self._encoder.encode(frame.samples), tags, silence

    async def _flush(self) -> None:
        for frame in self._framer.flush():
            await self._encode(frame)
        last = self._last
        if last is not None and last.pad < self._encoder.lookahead:
            # Opus still holds the last 6.5 ms (RFC 6716 section 4.5): one more frame brings them.
            await self._encode(
                FramedAudio(
                    np.zeros_like(last.samples),
                    last.captured + last.pad / 48_000 + last.duration,
                    last.duration,
                    pad=len(last.samples),
                )
            )

    async def _close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        """See Publication."""
        super().close_now()
        self._worker.close()
        self._encoder.close()

    def demand(self, now: float) -> RateDemand[int]:
        """Sound takes what it is set to, its packets' overhead included."""
        overhead = OBJECT_OVERHEAD_BYTES * 8.0 * 1000 / self._kind.frame_ms
        wire = self._kind.bitrate_bps + overhead
        return RateDemand(self.info.number, self.importance(now), wire, wire, is_audio=True)
