"""Speed, delay, rate steps, aim: each measure is one function from a clip and a codec to figures.

Definitions stand with the fields. Decibels are of luma, squared errors averaged over the pictures
first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...codecs.video_codecs import AnyVideoEncoder
from .clips import Clip, psnr
from .coding import Coded, code

HIGH_BPS, LOW_BPS = 800_000.0, 300_000.0
"""The rate step; for another size than 640 × 360 scaled by its pixels, within bounds."""
SETTLE = 10
"""Pictures at the start that no mean counts: the encoder learns what it has to code."""


def scaled(clip: Clip, bps: float) -> float:
    """A rate meant for 640 × 360, for this clip's size, at least 100 kbit/s."""
    return max(100_000.0, bps * min(2.0, clip.pixels / (640 * 360)))


@dataclass(frozen=True, slots=True)
class Speed:
    """Time for one picture in milliseconds, on one core."""

    encode_ms: float
    """Median."""
    encode_p95_ms: float
    decode_ms: float
    held_back: int
    """Pictures that did not come out at once, encoder and decoder together: codec delay."""
    psnr_db: float
    """Quality of the same run, to set beside the speed."""
    kbps: float


def speed(clip: Clip, codec: str) -> Speed:
    """At the high rate, nothing changing."""
    run = code(clip, codec, scaled(clip, HIGH_BPS))
    encode = np.array(run.encode_s[1:]) * 1e3
    return Speed(
        float(np.median(encode)),
        float(np.percentile(encode, 95)),
        float(np.median(run.decode_s[1:]) * 1e3),
        run.held_back,
        psnr(float(np.mean([e.mean() for e in run.errors[SETTLE:]]))),
        float(run.bits(SETTLE).mean() * clip.fps / 1e3),
    )


@dataclass(frozen=True, slots=True)
class RateStep:
    """Sizes against the target before and after a step of the rate, and of a keyframe."""

    high: float
    low: float
    """Mean size over the target's share, before and after."""
    high_spread: float
    low_spread: float
    """Largest picture over the mean, without keyframes."""
    frames_to_follow: int
    """Pictures from the step until one has at most 1.3 × the new share, itself included: 1 is
    the first."""
    keyframe: float
    """A keyframe asked for in mid-run, over the mean picture."""
    after_keyframe: float
    """The largest of the three pictures after it, over the mean."""
    ratios: NDArray[np.float64]
    """Each picture's size over the high rate's share, for the plot."""
    keyframe_at: int
    step_at: int


def rate_step(clip: Clip, codec: str) -> RateStep:
    """High rate, a keyframe at a quarter, the low rate from the half on."""
    count = len(clip.pictures)
    key_at, step_at = count // 4, count // 2
    high, low = scaled(clip, HIGH_BPS), scaled(clip, LOW_BPS)

    def before(index: int, encoder: AnyVideoEncoder) -> bool:
        if index == step_at:
            encoder.set_bitrate(low)
        return index == key_at

    run = code(clip, codec, high, before=before, errors=False)
    sizes = run.bits()
    share_high, share_low = high / clip.fps, low / clip.fps
    plain = np.array([not p.keyframe for p in run.pictures])
    early = plain & (np.arange(count) >= SETTLE) & (np.arange(count) < step_at)
    early[key_at : key_at + 4] = False
    late = np.arange(count) >= step_at
    small = sizes[step_at:] <= 1.3 * share_low
    mean = sizes[early].mean()
    return RateStep(
        float(sizes[early].mean() / share_high),
        float(sizes[late].mean() / share_low),
        float(sizes[early].max() / mean),
        float(sizes[late & plain].max() / sizes[late & plain].mean()),
        int(np.argmax(small)) + 1 if small.any() else count,
        float(sizes[key_at] / mean),
        float(sizes[key_at + 1 : key_at + 4].max() / mean),
        sizes / share_high,
        key_at,
        step_at,
    )


@dataclass(frozen=True, slots=True)
class Aimed:
    """What aiming at a region does at equal bytes."""

    inside_db: float
    """Gain inside the region, decibels."""
    outside_db: float
    """Gain outside it; negative is a loss."""
    bytes_ratio: float
    """Bytes with aim over bytes without."""


def aim(clip: Clip, codec: str, bitrate_bps: float) -> Aimed:
    """The same pictures with and without one region of value 1, over the second half."""
    region = [(clip.gaze, 1.0)]
    plain = code(clip, codec, bitrate_bps)
    aimed = code(clip, codec, bitrate_bps, regions=lambda _: region)
    inside = clip.mask(clip.gaze)
    half = len(clip.pictures) // 2

    def quality(run: Coded, mask: NDArray[np.bool_]) -> float:
        return psnr(float(np.mean([e[mask].mean() for e in run.errors[half:]])))

    return Aimed(
        quality(aimed, inside) - quality(plain, inside),
        quality(aimed, ~inside) - quality(plain, ~inside),
        float(aimed.bits(SETTLE).sum() / plain.bits(SETTLE).sum()),
    )


@dataclass(frozen=True, slots=True)
class GazeStep:
    """How soon a new place is sharp after the gaze has jumped to it."""

    short_db: list[float]
    """For each picture from the jump on: how far it is, inside the region, below a run that has
    looked there all along (its median over seven pictures, since some encoders waver)."""
    frames_to_sharp: int
    """The picture from which on all of the first eight are within 1 dB of that: 1 is the first
    after the jump, 0 none. A picture that is sharp before one that is not does not count."""
    unaimed_db: float
    """How far below it was before the jump: what there was to gain."""
    largest: float
    """Largest picture of the five from the jump on, over the mean."""


def gaze_step(clip: Clip, codec: str, bitrate_bps: float) -> GazeStep:
    """The gaze jumps to the clip's region at the half; against a run that was there all along."""
    jump = len(clip.pictures) // 2
    there, away = [(clip.gaze, 1.0)], [(clip.elsewhere, 1.0)]
    steady = code(clip, codec, bitrate_bps, regions=lambda _: there)
    moved = code(clip, codec, bitrate_bps, regions=lambda i: there if i >= jump else away)
    inside = clip.mask(clip.gaze)
    sharp_db = [psnr(float(e[inside].mean())) for e in steady.errors]
    short = [
        float(np.median(sharp_db[max(0, index - 3) : index + 4])) - psnr(float(e[inside].mean()))
        for index, e in enumerate(moved.errors)
    ]
    after = short[jump : jump + 8]
    below = [index for index, gap in enumerate(after) if gap > 1.0]
    sharp = below[-1] + 2 if below else 1
    sizes = moved.bits()
    return GazeStep(
        after,
        sharp if sharp <= len(after) else 0,
        float(np.mean(short[jump - 5 : jump])),
        float(sizes[jump : jump + 5].max() / sizes[SETTLE:].mean()),
    )
