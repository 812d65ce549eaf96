"""Sound as it is captured, cut into the frames an encoder takes: nothing lost, nothing shifted.

Capture gives chunks of any size, rate, type and layout; Opus wants 48 kHz frames of one length.
Three rules:

* Every sample goes in once. The tail is padded with silence only at `flush`, and says so.
* Ambiguity is refused. An array's channels are declared, never guessed from its shape.
* Time follows capture. A chunk's stamp is the time of its END; a frame's stamp is derived from
  it sample by sample, so a capture that stalled shows as a gap between stamps, and a capture
  clock that jitters does not make stamps run backward.

Resampling is libswresample's, which keeps about 17 samples back at 44.1 kHz until flushed. A
source that changes its rate or channel count in mid-run is flushed and goes on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import av
import numpy as np
from numpy.typing import NDArray

from .errors import CodecError

SAMPLE_RATE = 48_000
"""Hz of what comes out, whatever went in."""
LOUDEST = 8.0
"""Float samples beyond this (18 dB over full scale) are of another scale, not loud: eight voices
mixed at full scale stay below it, and 16-bit speech taken as float passes it in its first words.
Below it they are clipped, as any converter does."""
GAP_SECONDS = 0.06
"""Stamps that run ahead of the sound by more than this are a stall, not jitter of the capture."""
_SLEW = 0.02
"""Share of the difference between capture stamps and counted samples taken up per chunk."""
_MIN_RATE, _MAX_RATE = 4_000, 384_000

Samples = NDArray[np.float32]
Layout = Literal["auto", "interleaved", "planar"]


@dataclass(frozen=True, slots=True)
class FramedAudio:
    """One frame of sound, ready for an encoder."""

    samples: Samples
    """float32, shape (n, channels), within ±1, at 48 kHz."""
    captured: float
    """Seconds, the clock of the stamps pushed in: the end of the frame, padding not counted."""
    duration: float
    """Seconds of the frame, padding included."""
    pad: int = 0
    """Samples of silence added at the end (only the last frame of a `flush`)."""


class AudioFramer:
    """Push chunks in with the time of their end; frames of `frame_ms` come out as they fill.

    `flush` gives the padded rest at the end. Added delay: less than one frame.
    """

    def __init__(self, *, channels: int, frame_ms: float = 20.0, layout: Layout = "auto") -> None:
        if channels not in (1, 2):
            raise ValueError(f"channels is 1 or 2, got {channels!r}")
        if layout not in ("auto", "interleaved", "planar"):
            raise ValueError(f"layout is auto, interleaved or planar, got {layout!r}")
        samples = frame_ms * SAMPLE_RATE / 1000
        if not (samples >= 1 and samples == round(samples)):
            raise ValueError(f"frame_ms gives a whole number of 48 kHz samples, got {frame_ms!r}")
        self.channels = channels
        self.frame_samples = round(samples)
        """Samples a channel in one frame."""
        self.gaps = 0
        """Stalls of the capture seen so far."""
        self._layout: Layout = layout
        self._parts: list[Samples] = []
        self._held = 0
        self._end: float | None = None
        self._source: tuple[int, int] | None = None
        self._resampler: Any = None
        self._fed = 0

    def push(
        self,
        data: av.AudioFrame | NDArray[Any],
        *,
        sample_rate: int | None = None,
        captured: float,
        channels: int | None = None,
    ) -> list[FramedAudio]:
        """The frames that `data` completes; `captured` is the time of its last sample (seconds).

        An av.AudioFrame says its own rate and layout. An array needs `sample_rate`; its
        `channels` default to the framer's. Arrays are int16, int32 or float (±1), of shape (n,)
        for mono, (n, channels) interleaved or (channels, n) planar. Raises ValueError when the
        shape, type, rate or time is none of these.
        """
        if not math.isfinite(captured):
            raise ValueError(f"captured is a finite number of seconds, got {captured!r}")
        if isinstance(data, av.AudioFrame):
            sound, rate = frame_to_float(data), data.sample_rate
        else:
            if sample_rate is None:
                raise ValueError("an array needs sample_rate: the rate it was captured at, in Hz")
            if channels is not None and channels < 1:
                raise ValueError(f"channels is at least 1, got {channels!r}")
            rate = sample_rate
            sound = to_float(data, channels or self.channels, self._layout)
        if not _MIN_RATE <= rate <= _MAX_RATE:
            raise ValueError(f"a sample rate is in {_MIN_RATE}..{_MAX_RATE} Hz, got {rate!r}")
        if len(sound) == 0:
            return []
        sound = mix_to(sound, self.channels)
        out: list[FramedAudio] = []
        if self._source is not None and self._source[0] != rate:
            self._accept(self._drain())
        self._source = (rate, self.channels)
        out += self._track(captured - len(sound) / rate)
        self._accept(self._resample(sound, rate))
        out += self._cut()
        self._slew(captured)
        return out

    def flush(self) -> list[FramedAudio]:
        """What is left, the last frame padded with declared silence; the framer starts anew."""
        self._accept(self._drain())
        out = self._cut()
        out += self._pad_out()
        self._end = None
        self._source = None
        return out

    def _track(self, start: float) -> list[FramedAudio]:
        """Take up the start of a chunk; a stall pads and sends what was waiting before it."""
        if self._end is None:
            self._end = start
            return []
        behind = self._behind()
        if start - (self._end + behind) <= GAP_SECONDS:
            return []
        self.gaps += 1
        self._accept(self._drain())
        out = self._cut() + self._pad_out()
        self._end = start
        return out

    def _slew(self, captured: float) -> None:
        """Follow the capture clock slowly: its jitter is averaged, its drift is not lost."""
        if self._end is not None:
            self._end += _SLEW * (captured - (self._end + self._behind()))

    def _behind(self) -> float:
        """Seconds of sound taken in but still inside the resampler."""
        if self._source is None or self._resampler is None:
            return 0.0
        return self._fed / self._source[0]

    def _accept(self, sound: Samples) -> None:
        if len(sound) and self._end is not None:
            self._parts.append(sound)
            self._held += len(sound)
            self._end += len(sound) / SAMPLE_RATE
            if self._source is not None:
                self._fed -= round(len(sound) * self._source[0] / SAMPLE_RATE)

    def _cut(self) -> list[FramedAudio]:
        if self._held < self.frame_samples or self._end is None:
            return []
        sound = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        whole = len(sound) // self.frame_samples
        out = []
        for index in range(whole):
            stop = (index + 1) * self.frame_samples
            end = self._end - (len(sound) - stop) / SAMPLE_RATE
            frame = sound[stop - self.frame_samples : stop]
            out.append(FramedAudio(frame, end, self.frame_samples / SAMPLE_RATE))
        rest = sound[whole * self.frame_samples :]
        self._parts, self._held = ([rest] if len(rest) else []), len(rest)
        return out

    def _pad_out(self) -> list[FramedAudio]:
        if self._held == 0 or self._end is None:
            return []
        pad = self.frame_samples - self._held
        silence = np.zeros((pad, self.channels), np.float32)
        frame = np.concatenate([*self._parts, silence])
        self._parts, self._held = [], 0
        return [FramedAudio(frame, self._end, self.frame_samples / SAMPLE_RATE, pad)]

    def _resample(self, sound: Samples, rate: int) -> Samples:
        if rate == SAMPLE_RATE:
            return sound
        layout = "stereo" if self.channels == 2 else "mono"
        if self._resampler is None:
            self._resampler = av.AudioResampler(format="flt", layout=layout, rate=SAMPLE_RATE)
            self._fed = 0
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(sound).reshape(1, -1), format="flt", layout=layout
        )
        frame.sample_rate = rate
        frame.time_base = Fraction(1, rate)
        self._fed += len(sound)
        return self._joined(self._resampler.resample(frame))

    def _drain(self) -> Samples:
        """The resampler's rest; the next chunk opens a new one."""
        if self._resampler is None:
            return np.empty((0, self.channels), np.float32)
        rest = self._joined(self._resampler.resample(None))
        self._resampler = None
        return rest

    def _joined(self, frames: list[av.AudioFrame]) -> Samples:
        parts = [frame_to_float(frame) for frame in frames if frame.samples]
        return np.concatenate(parts) if parts else np.empty((0, self.channels), np.float32)


def to_float(data: NDArray[Any], channels: int, layout: Layout = "auto") -> Samples:
    """An array as float32 of shape (n, channels) within ±1: clipped, and NaN made silence.

    Raises ValueError for a shape that does not say plainly where its `channels` are: with
    "auto", (n, channels) and (channels, n) are both taken, unless both would fit.
    """
    array = np.asarray(data)
    if array.ndim == 1 and (channels == 1 or array.size == 0):
        array = array.reshape(-1, channels)
    elif array.ndim == 1:
        raise ValueError(
            f"a flat array of {array.size} samples does not say where its {channels} channels are: "
            f"reshape it to (n, {channels}), or declare channels=1"
        )
    elif array.ndim != 2:
        raise ValueError(f"sound has 1 or 2 dimensions, got shape {array.shape}")
    else:
        rows, columns = array.shape
        planar, interleaved = rows == channels, columns == channels
        if layout == "auto" and planar and interleaved and channels > 1:
            raise ValueError(
                f"shape {array.shape} could be planar or interleaved: declare the layout"
            )
        if layout == "planar" or (layout == "auto" and not interleaved):
            if not planar:
                raise ValueError(
                    f"shape {array.shape} holds no {channels} channels: expected (n, {channels}) "
                    f"interleaved or ({channels}, n) planar"
                )
            array = array.T
        elif not interleaved:
            raise ValueError(f"shape {array.shape} is not (n, {channels}), as declared")
    if array.dtype == np.int16:
        return np.ascontiguousarray(array.astype(np.float32) / 32768.0)
    if array.dtype == np.int32:
        return np.ascontiguousarray((array / 2147483648.0).astype(np.float32))
    if array.dtype.kind != "f":
        raise ValueError(f"samples are int16, int32 or float within ±1, got {array.dtype}")
    loudest = float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))
    if loudest > LOUDEST:
        raise ValueError(
            f"float samples lie within ±1, got one of {loudest:.4g}: divide by full scale (32768 "
            "for 16 bits), or hand over an int16 array"
        )
    clean = np.nan_to_num(array.astype(np.float32), nan=0.0, posinf=1.0, neginf=-1.0)
    return np.ascontiguousarray(np.clip(clean, -1.0, 1.0))


def frame_to_float(frame: av.AudioFrame) -> Samples:
    """An av.AudioFrame as float32 of shape (n, channels) within ±1, alignment padding left out."""
    channels = len(frame.layout.channels)
    array: NDArray[Any] = frame.to_ndarray()
    array = array.T if frame.format.is_planar else array.reshape(-1, channels)
    if len(array) != frame.samples:
        raise CodecError(f"an audio frame of {frame.samples} samples holds {len(array)}")
    if array.dtype == np.uint8:
        return np.asarray((array.astype(np.float32) - 128.0) / 128.0, dtype=np.float32)
    if array.dtype == np.int64:
        return np.asarray(array / 9223372036854775808.0, dtype=np.float32)
    return to_float(array, channels, "interleaved")


def mix_to(sound: Samples, channels: int) -> Samples:
    """Sound of any channel count as mono (the mean of all) or stereo (mono twice, or the front)."""
    have = sound.shape[1]
    if have == channels:
        return sound
    if channels == 1:
        return np.asarray(sound.mean(axis=1, keepdims=True), dtype=np.float32)
    return np.repeat(sound, 2, axis=1) if have == 1 else np.ascontiguousarray(sound[:, :2])
