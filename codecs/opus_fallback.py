"""Opus through PyAV alone, for systems where no libopus can be called directly.

It codes and decodes, and keeps time: what it cannot do (change the rate while running, repair,
conceal) it replaces by the nearest honest thing. Lost frames become silence of the right length;
a rate change opens a new encoder when it is large enough to matter.
"""

from __future__ import annotations

from fractions import Fraction

import av
import av.error
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from numpy.typing import NDArray

from .audio_input import frame_to_float
from .errors import CodecError

Samples = NDArray[np.float32]
_REOPEN_RATIO = 1.25
"""A reopened encoder clicks for one frame, so small steps of the rate are not followed."""


class FallbackEncoder:
    """PyAV's libopus encoder behind the interface of `opus.OpusEncoder`."""

    def __init__(
        self,
        *,
        channels: int,
        bitrate_bps: int,
        frame_ms: float,
        application: str,
        fec: bool,
        expected_loss: float,
        complexity: int,
    ) -> None:
        self._channels = channels
        self._layout = "stereo" if channels == 2 else "mono"
        self._options = {
            "frame_duration": f"{frame_ms:g}",
            "application": application,
            "fec": str(int(fec)),
            "packet_loss": str(round(100 * expected_loss)),
            "compression_level": str(complexity),
        }
        self.lookahead = 120 if application == "lowdelay" else 312
        self._bitrate = bitrate_bps
        self._context = self._opened()

    def _opened(self) -> AudioCodecContext:
        context = av.CodecContext.create("libopus", "w")
        context.sample_rate = 48_000
        context.format = "flt"
        context.layout = self._layout
        context.bit_rate = self._bitrate
        context.options = self._options
        context.time_base = Fraction(1, 48_000)
        context.open()
        self._pts = 0
        return context

    def encode(self, frame: Samples) -> bytes:
        """One packet for one frame."""
        sound = av.AudioFrame.from_ndarray(frame.reshape(1, -1), format="flt", layout=self._layout)
        sound.sample_rate = 48_000
        sound.pts = self._pts
        self._pts += frame.shape[0]
        try:
            packets = self._context.encode(sound)
        except av.error.FFmpegError as problem:
            raise CodecError(f"PyAV's Opus encoder failed: {problem}") from problem
        if len(packets) != 1:
            raise CodecError(f"PyAV's Opus encoder gave {len(packets)} packets for one frame")
        return bytes(packets[0])

    def set_bitrate(self, bps: int) -> None:
        """Follow a large step by reopening; ignore small ones."""
        if max(bps, self._bitrate) / min(bps, self._bitrate) >= _REOPEN_RATIO:
            self._bitrate = bps
            self._context = self._opened()

    def close(self) -> None:
        """Nothing to free: PyAV frees with the object."""


class FallbackDecoder:
    """PyAV's Opus decoder behind the interface of `opus.OpusDecoder`."""

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._context = self._opened()

    def _opened(self) -> AudioCodecContext:
        context = av.CodecContext.create("libopus", "r")
        context.sample_rate = 48_000
        context.layout = "stereo" if self._channels == 2 else "mono"
        return context

    def decode(self, payload: bytes) -> Samples:
        """The samples of one packet."""
        try:
            frames = self._context.decode(av.Packet(payload))
        except (av.error.FFmpegError, EOFError) as problem:
            self._context = self._opened()
            raise CodecError(f"PyAV's Opus decoder refused a packet: {problem}") from problem
        if not frames:
            raise CodecError("PyAV's Opus decoder gave nothing for a packet")
        return np.concatenate([frame_to_float(frame) for frame in frames])

    def conceal(self, n_samples: int) -> Samples:
        """Silence of the right length."""
        return np.zeros((n_samples, self._channels), dtype=np.float32)

    def close(self) -> None:
        """Nothing to free: PyAV frees with the object."""
