"""One clip through one encoder and decoder, with everything noted that the measures need."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...codecs.video import EncodedVideo, VideoDecoder, VideoSettings
from ...codecs.video_codecs import AnyVideoEncoder, make_encoder
from ...scheduler.types import Region
from .clips import Clip, luma

Regions = Sequence[tuple[Region, float]]
Errors = NDArray[np.float32]


@dataclass(slots=True)
class Coded:
    """What came of one clip."""

    pictures: list[EncodedVideo] = field(default_factory=list)
    encode_s: list[float] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)
    errors: list[Errors] = field(default_factory=list)
    """Squared luma error of each pixel of each picture; empty unless asked for."""
    held_back: int = 0
    """Pictures that did not come out of the decoder at once."""

    def bits(self, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Sizes of the pictures from `start` to `stop`."""
        return np.array([8.0 * len(p.payload) for p in self.pictures[start:stop]])


def settings_for(clip: Clip, bitrate_bps: float, *, layers: int = 1) -> VideoSettings:
    """The settings that every measure uses: only the rate and the layers differ."""
    return VideoSettings(
        bitrate_bps=bitrate_bps,
        max_bitrate_bps=max(2_500_000.0, bitrate_bps),
        fps=clip.fps,
        gop_seconds=1000.0,
        temporal_layers=layers,
    )


def code(
    clip: Clip,
    codec: str,
    bitrate_bps: float,
    *,
    layers: int = 1,
    regions: Callable[[int], Regions] = lambda _: (),
    before: Callable[[int, AnyVideoEncoder], bool] = lambda *_: False,
    errors: bool = True,
) -> Coded:
    """Code and decode every picture; `before(index, encoder)` may change the rate, and says
    whether the picture is to be a keyframe."""
    encoder = make_encoder(codec, settings_for(clip, bitrate_bps, layers=layers))
    decoder = VideoDecoder(codec)
    out = Coded()
    for index, picture in enumerate(clip.pictures):
        keyframe = before(index, encoder)
        started = time.perf_counter()
        coded = encoder.encode(picture, keyframe=keyframe, regions=regions(index))
        encoded = time.perf_counter()
        shown = decoder.decode(coded.payload)
        out.decode_s.append(time.perf_counter() - encoded)
        out.encode_s.append(encoded - started)
        out.pictures.append(coded)
        out.held_back += len(shown) != 1
        if errors and shown:
            out.errors.append((luma(picture) - luma(shown[-1])) ** 2)
    encoder.close()
    decoder.close()
    return out
