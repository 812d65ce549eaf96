"""How many bits the next picture may have, so that the mean hits the target at once.

x264 runs with a rate buffer of a single frame at whatever the rate is now (the only size that
scales with a live rate: FFmpeg fixes the buffer when the encoder opens, and x264 raises one that
is too small to exactly one frame). That keeps every frame, keyframes included, within about 10 %
of its budget and makes a rate step take hold with the next frame, but it undershoots by 10-15 %.
So the budget is trimmed by what was really spent: a debt in frames, paid back softly.

Measured, 640×360 at 30 fps, 800 -> 300 kbit/s: frame max/mean 1.1, the first frame after the step
has its new size; with a buffer of two frames at the ceiling max/mean was 1.7.
"""

from __future__ import annotations

HEADROOM = 1.14
"""What x264 leaves unused of a one-frame buffer, measured."""
_GAIN = 0.08
"""Share of a frame of debt that is paid with each frame."""
MIN_TRIM, MAX_TRIM = 0.75, 1.35
"""Bounds of the trim. Small pictures (176×144) need the upper one, larger ones stay below 1.2."""
_MAX_DEBT = 2.5
"""Frames: an easy scene saves up no more than this, a hard one owes no more."""
KEYFRAME_BOOST = 1.65
"""Budget of a keyframe against the mean: its picture has to be built from nothing."""


KEYFRAME_EXTRA_BITS = 5000.0
"""Bits added to that: x264 leaves so much more unused the smaller the budget is. Without them a
keyframe of 176×144 at 100 kbit/s gets a fifth of a mean picture and shows 12 dB; with them 27."""
MAX_EXTRA = 1.5


class FrameBudget:
    """Feed `spend` with each frame's size; `rate_for` gives the encoder's next bit rate."""

    def __init__(
        self,
        bitrate_bps: float,
        fps: float,
        *,
        headroom: float = HEADROOM,
        keyframe_boost: float = KEYFRAME_BOOST,
        gain: float = _GAIN,
    ) -> None:
        self._headroom = headroom
        self._keyframe_boost = keyframe_boost
        self._gain = gain
        self._debt = 0.0
        self._fps = fps
        self._bps = bitrate_bps
        self._opened_fps = fps

    @property
    def bitrate_bps(self) -> float:
        """The target, bits a second."""
        return self._bps

    @property
    def frame_bits(self) -> float:
        """The mean frame's share of the target, in bits."""
        return self._bps / self._fps

    def set_target(self, bitrate_bps: float, fps: float | None = None) -> None:
        """Aim at `bitrate_bps` spread over `fps` pictures a second from the next frame on."""
        if not bitrate_bps > 0:
            raise ValueError(f"a bit rate is above 0, got {bitrate_bps!r}")
        if fps is not None:
            if not fps > 0:
                raise ValueError(f"a frame rate is above 0, got {fps!r}")
            self._fps = fps
        ratio = bitrate_bps / self._bps
        if not 0.8 < ratio < 1.25:
            self._debt = 0.0
        self._bps = bitrate_bps

    def rate_for(self, *, keyframe: bool) -> float:
        """The rate to set for the next frame, as if there were the opened number a second."""
        if keyframe:  # what it may have is bounded, whatever is owed
            boost = self._keyframe_boost + min(KEYFRAME_EXTRA_BITS / self.frame_bits, MAX_EXTRA)
            return self.frame_bits * self._opened_fps * self._headroom * boost
        trim = min(max(self._headroom - self._gain * self._debt, MIN_TRIM), MAX_TRIM)
        return self.frame_bits * self._opened_fps * trim

    def spend(self, size_bytes: int) -> None:
        """Account for one encoded frame."""
        debt = self._debt + 8 * size_bytes / self.frame_bits - 1.0
        self._debt = min(max(debt, -_MAX_DEBT), _MAX_DEBT)
