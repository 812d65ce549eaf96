"""The one interface over all video encoders, and the one place that knows their names.

Every encoder makes one packet for one picture at once, says which earlier pictures it needs, and
takes losses, rates and regions between two pictures. What it can do with them differs, and
`Abilities` says so: callers ask it, never the codec's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..scheduler.types import Region
from .av1 import AV1_ABILITIES, Av1Encoder
from .errors import CodecError
from .pictures import Picture
from .video import X264_ABILITIES, Abilities, EncodedVideo, VideoEncoder, VideoSettings
from .vpx import VP8_ABILITIES, VP9_ABILITIES, VpxEncoder

ABILITIES: dict[str, Abilities] = {
    "h264": X264_ABILITIES,
    "vp8": VP8_ABILITIES,
    "vp9": VP9_ABILITIES,
    "av1": AV1_ABILITIES,
}
"""What can be asked of each codec. H.264 is the default: the fastest, and small keyframes."""
CODECS = tuple(ABILITIES)


class AnyVideoEncoder(Protocol):
    """What all video encoders offer. One caller at a time (see `worker`)."""

    abilities: Abilities
    settings: VideoSettings

    @property
    def bitrate_bps(self) -> float:
        """The target now, bits a second."""
        ...

    def set_bitrate(self, bps: float, *, fps: float | None = None) -> None:
        """Aim at `bps` bits a second, as soon as `Abilities.live_rate` says."""
        ...

    def encode(
        self,
        picture: Picture,
        *,
        keyframe: bool = False,
        regions: Sequence[tuple[Region, float]] = (),
    ) -> EncodedVideo:
        """The packet for one picture. Raises ValueError for no picture, CodecError on failure."""
        ...

    def lost(self, number: int) -> None:
        """Picture `number` never got through: the next picture does without it."""
        ...

    def lost_after(self, number: int) -> None:
        """The receiver has picture `number` (-1: none) and nothing usable after it."""
        ...

    def close(self) -> None:
        """Free the native state; a second call does nothing."""
        ...


def make_encoder(codec: str, settings: VideoSettings | None = None) -> AnyVideoEncoder:
    """A new encoder. Raises CodecError for an unknown codec, ValueError for what it cannot do."""
    match codec:
        case "h264":
            return VideoEncoder(settings)
        case "vp8" | "vp9":
            return VpxEncoder(codec, settings)
        case "av1":
            return Av1Encoder(settings)
        case _:
            raise CodecError(f"unknown video codec {codec!r}: known are {', '.join(CODECS)}")
