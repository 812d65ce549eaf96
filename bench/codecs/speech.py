"""Speech through Opus over losses: PESQ (ITU-T P.862.2, wide band) and exact lengths."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...codecs.opus import OpusDecoder, OpusEncoder
from ..speech_quality import PesqMissing, pesq_wb

FRAME = 960
LOSS, BURST = 0.05, 3
"""Isolated loss, and the length of bursts that make 10 %."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One way of losing and mending."""

    name: str
    pesq: float | None
    """Mean opinion score, 1 to 4.64; None without the package pesq."""
    lost: float
    """Share of frames lost."""
    repaired: int
    concealed: int
    exact: bool
    """Whether exactly as many samples came out as went in."""


def speech(
    sound: NDArray[np.float32], *, bitrate_bps: int = 32_000, expected_loss: float = 0.1
) -> list[Heard]:
    """`sound` at 48 kHz, mono, a few seconds of talk, through six kinds of weather."""
    frames = sound[: len(sound) // FRAME * FRAME].reshape(-1, FRAME, 1)
    count = len(frames)
    rng = random.Random(5)
    isolated = {i for i in range(3, count - 1) if rng.random() < LOSS}
    isolated -= {i for i in isolated if i - 1 in isolated}
    bursts: set[int] = set()
    while len(bursts) < 0.1 * count:
        start = rng.randrange(3, count - BURST - 1)
        bursts |= set(range(start, start + BURST))
    out = []
    for name, lost, fec, told in (
        ("nothing lost, no FEC", set[int](), False, 0.0),
        ("nothing lost, FEC ready", set[int](), True, expected_loss),
        ("5 % isolated, concealed", isolated, False, 0.0),
        ("5 % isolated, FEC", isolated, True, expected_loss),
        ("10 % in bursts of 3, concealed", bursts, False, 0.0),
        ("10 % in bursts of 3, FEC", bursts, True, 2 * expected_loss),
    ):
        encoder = OpusEncoder(bitrate_bps=bitrate_bps, expected_loss=told, fec=fec)
        packets = [encoder.encode(frame) for frame in frames]
        heard, repaired, concealed = _decode(packets, lost, fec=fec)
        score = _pesq(sound[: len(heard)], heard, encoder.lookahead)
        exact = len(heard) == count * FRAME
        out.append(Heard(name, score, len(lost) / count, repaired, concealed, exact))
    return out


def _decode(
    packets: list[bytes], lost: set[int], *, fec: bool
) -> tuple[NDArray[np.float32], int, int]:
    decoder = OpusDecoder()
    parts, repaired, concealed = [], 0, 0
    for index, packet in enumerate(packets):
        if index not in lost:
            parts.append(decoder.decode(packet))
        elif (
            fec
            and index + 1 < len(packets)
            and index + 1 not in lost
            and decoder.can_repair(packets[index + 1])
        ):
            parts.append(decoder.repair(packets[index + 1], FRAME))
            repaired += 1
        else:
            parts.append(decoder.conceal(FRAME))
            concealed += 1
    return np.concatenate(parts)[:, 0], repaired, concealed


def _pesq(sound: NDArray[np.float32], heard: NDArray[np.float32], lookahead: int) -> float | None:
    try:
        return pesq_wb(sound[:-lookahead], heard[lookahead:])
    except PesqMissing:
        return None
