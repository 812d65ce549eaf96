"""What layers cost and what a loss costs: from the references that the encoder names, not from
the decoder, which reports neither."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...codecs.errors import CodecError
from ...codecs.video import VideoDecoder
from ...codecs.video_codecs import ABILITIES, AnyVideoEncoder, make_encoder
from .clips import Clip, luma, psnr
from .coding import code, settings_for
from .measures import HIGH_BPS, SETTLE, scaled

ROUND_TRIP = 0.1
"""Seconds from a picture's loss to the encoder's knowing of it."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Temporal layers against none, at the same rate."""

    layers: int
    cost_db: float
    """Quality lost with all layers there."""
    droppable: float
    """Share of the bytes that are in upper layers."""
    identical: bool
    """Whether the base is bit-identical when all else is dropped."""


def layer_cost(clip: Clip, codec: str, layers: int) -> Layers | None:
    """None for a codec without layers."""
    if ABILITIES[codec].temporal_layers < layers:
        return None
    rate = scaled(clip, HIGH_BPS)
    plain, layered = code(clip, codec, rate), code(clip, codec, rate, layers=layers)
    base, whole = VideoDecoder(codec), VideoDecoder(codec)
    identical = True
    for picture in layered.pictures:
        (full,) = whole.decode(picture.payload)
        if picture.layer == 0:
            (part,) = base.decode(picture.payload)
            identical &= bool((luma(full) == luma(part)).all())
    upper = sum(len(p.payload) for p in layered.pictures if p.layer)
    return Layers(
        layers,
        psnr(float(np.mean([e.mean() for e in plain.errors[SETTLE:]])))
        - psnr(float(np.mean([e.mean() for e in layered.errors[SETTLE:]]))),
        upper / sum(len(p.payload) for p in layered.pictures),
        identical,
    )


def _blindly(decoder: VideoDecoder, payload: bytes, wanted: NDArray[np.float32]) -> float:
    """What a decoder shows that is not told of the loss; NaN when it notices."""
    try:
        shown = decoder.decode(payload)
    except CodecError:
        return float("nan")
    return psnr(float(((wanted - luma(shown[-1])) ** 2).mean())) if shown else float("nan")


@dataclass(frozen=True, slots=True)
class Recovery:
    """One picture lost, told a round trip later."""

    how: str
    """"reference" or "keyframe": what the next picture turned out to be."""
    frames: int
    """Pictures from the news until one is shown, itself included: 1 is the next."""
    size: float
    """The repairing picture over the mean."""
    worst_shown_db: float
    """Quality of the worst picture shown as good, whole run."""
    dip_db: float
    """How far the repairing picture is below the ten before the loss."""
    unnoticed_db: float
    """The worst picture of the gap had it been decoded all the same, as decoders do silently;
    NaN for one that refuses."""
    shown_db: list[float]
    """For the plot: quality of each picture, NaN where none was shown."""


def recovery(clip: Clip, codec: str) -> Recovery:
    """A base picture at the half is lost; what needs it is not shown until the repair."""
    lost = len(clip.pictures) // 2
    told = lost + max(1, round(ROUND_TRIP * clip.fps))
    encoder: AnyVideoEncoder = make_encoder(codec, settings_for(clip, scaled(clip, HIGH_BPS)))
    careful, careless = VideoDecoder(codec), VideoDecoder(codec)
    have: set[int] = set()
    shown, silent, sizes, how = [], [], [], "none"
    for index, picture in enumerate(clip.pictures):
        if index == told:
            encoder.lost(lost)
        coded = encoder.encode(picture)
        sizes.append(len(coded.payload))
        if index == told:
            how = "keyframe" if coded.keyframe else "reference" if coded.repair else "none"
        if index == lost:
            shown.append(float("nan"))
            continue
        if index < told:
            silent.append(_blindly(careless, coded.payload, luma(picture)))
        if not all(n in have for n in coded.references or ()):
            shown.append(float("nan"))
            continue
        (frame,) = careful.decode(coded.payload)
        have.add(coded.number)
        shown.append(psnr(float(((luma(picture) - luma(frame)) ** 2).mean())))
    after = [i for i in range(told, len(shown)) if not math.isnan(shown[i])]
    return Recovery(
        how,
        after[0] - told + 1 if after else 0,
        sizes[told] / float(np.mean(sizes[SETTLE:])),
        float(np.nanmin(shown[SETTLE:])),
        float(np.nanmean(shown[lost - 10 : lost]) - shown[told]),
        min((db for db in silent[lost:] if not math.isnan(db)), default=float("nan")),
        shown,
    )
