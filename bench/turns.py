"""Who speaks when: turns of talkers, read from RTTM (the format of speaker diarization).

An RTTM line is `SPEAKER file channel start duration <NA> <NA> talker ...`, times in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Turn:
    """`talker` speaks from `start` to `end`, seconds."""

    talker: str
    start: float
    end: float


def read_rttm(path: str | Path) -> list[Turn]:
    """Turns in order of their start. Raises ValueError naming file and line, OSError as usual."""
    turns = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        try:
            start, length, talker = float(fields[3]), float(fields[4]), fields[7]
        except (IndexError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not an RTTM SPEAKER line") from error
        if not (math.isfinite(start + length) and start >= 0.0 and length > 0.0):
            raise ValueError(f"{path}, line {number}: a turn from {start} s lasting {length} s")
        turns.append(Turn(talker, start, start + length))
    return sorted(turns, key=lambda turn: (turn.start, turn.talker))


def write_rttm(path: str | Path, turns: Iterable[Turn], *, recording: str) -> None:
    """Write turns so that `read_rttm` reads them back."""
    lines = (
        f"SPEAKER {recording} 1 {turn.start:.3f} {turn.end - turn.start:.3f} "
        f"<NA> <NA> {turn.talker} <NA> <NA>\n"
        for turn in turns
    )
    Path(path).write_text("".join(lines), encoding="utf-8")
