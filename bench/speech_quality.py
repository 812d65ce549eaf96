"""Wide-band PESQ (ITU-T P.862.2) of sound that was heard against what was said.

The package `pesq` is an extra of its own, because it comes as source and needs a C compiler.
"""

from __future__ import annotations

import warnings

import av
import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.float32]
RATE = 48_000
WORST_PESQ = 1.0
"""The scale's lower end: given where no speech at all is heard."""


class PesqMissing(RuntimeError):  # noqa: N818 - named for what the caller can do about it
    """The `pesq` package is not installed."""


def pesq_wb(said: Sound, heard: Sound) -> float:
    """PESQ-WB, 1 to 4.64, of mono sound at 48 kHz; 0.3 to 30 s of it. Raises PesqMissing.

    The two need not be aligned nor equally long: PESQ finds the delay, within a second.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pesq import (  # noqa: PLC0415 - an extra  # pyright: ignore[reportMissingImports]
                PesqError,
                pesq,
            )
    except ImportError as error:
        words = "PESQ needs the package pesq, and that a C compiler: pip install 'limen[pesq]'"
        raise PesqMissing(words) from error
    try:
        return float(pesq(16_000, _to_16k(said), _to_16k(heard), "wb"))
    except PesqError:  # too little of it, or no speech in it
        return WORST_PESQ


def _to_16k(sound: Sound) -> Sound:
    resampler = av.AudioResampler(format="flt", layout="mono", rate=16_000)
    frame = av.AudioFrame.from_ndarray(
        np.ascontiguousarray(sound[None], dtype=np.float32), format="flt", layout="mono"
    )
    frame.sample_rate = RATE
    frames = [*resampler.resample(frame), *resampler.resample(None)]
    return np.concatenate([f.to_ndarray()[0] for f in frames]).astype(np.float32)
