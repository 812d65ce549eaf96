"""What happened at one end of a run, kept in memory while it runs and written when it is over.

Nothing is written during a run: a write that blocks would be measured as the peer's delay.
Layout of a run's folder: `sender.jsonl` and `receiver.jsonl` (one event a line), `pictures.yuv`
(the pictures shown, raw yuv420p, in order of showing) and `sound.npz` (the sound played, per
track: int16 samples and each block's times).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

Pictures = NDArray[np.uint8]
PICTURES_FILE = "pictures.yuv"


class EventLog:
    """Events of one end: `add` while it runs, `write` afterwards."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def add(self, event: str, **values: Any) -> None:
        """Note an event."""
        self._events.append({"event": event, **values})

    def write(self, path: Path) -> None:
        """One JSON object a line."""
        with path.open("w", encoding="utf-8") as file:
            for event in self._events:
                file.write(json.dumps(event) + "\n")


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """What an EventLog wrote."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@dataclass(frozen=True, slots=True)
class PlayedBlock:
    """20 ms of sound as it was played."""

    samples: NDArray[np.int16]
    captured: float
    """Of its last sample; NaN where nothing captured was heard."""
    played: float
    """When it began to be heard."""
    kind: str


class Viewer:
    """Keeps what a viewer saw and heard."""

    def __init__(self) -> None:
        self._pictures: list[tuple[av.VideoFrame, float, float]] = []
        self._blocks: dict[str, list[PlayedBlock]] = {}

    def see(self, picture: av.VideoFrame, *, captured: float, shown: float) -> None:
        """A picture came on screen."""
        self._pictures.append((picture, captured, shown))

    def hear(
        self,
        track: str,
        samples: NDArray[np.float32],
        *,
        captured: float | None,
        played: float,
        kind: str,
    ) -> None:
        """A block of sound was played."""
        whole = (np.clip(samples[:, 0], -1.0, 1.0) * 32767.0).astype(np.int16)
        stamp = np.nan if captured is None else captured
        self._blocks.setdefault(track, []).append(PlayedBlock(whole, stamp, played, kind))

    def write(self, folder: Path, log: EventLog) -> None:
        """Write pictures and sound; the pictures' times go to the log as `shown` events."""
        with (folder / PICTURES_FILE).open("wb") as file:
            for picture, captured, shown in self._pictures:
                planes = picture.to_ndarray()
                file.write(planes.tobytes())
                log.add(
                    "shown",
                    captured=captured,
                    at=shown,
                    width=picture.width,
                    height=picture.height,
                )
        write_sound(folder, self._blocks)


def read_pictures(folder: Path, *, width: int, height: int) -> Pictures:
    """The shown pictures as (n, height * 3 / 2, width) uint8, yuv420p, mapped and not read."""
    path = folder / PICTURES_FILE
    rows = height * 3 // 2
    if path.stat().st_size == 0:
        return np.zeros((0, rows, width), np.uint8)
    return np.memmap(path, np.uint8, mode="r").reshape(-1, rows, width)


def write_sound(folder: Path, sound: Mapping[str, Sequence[PlayedBlock]]) -> None:
    """Write `sound.npz`: each track's blocks, in order; a track has one at least."""
    arrays: dict[str, NDArray[Any]] = {}
    for track, blocks in sound.items():
        arrays[f"{track}:samples"] = np.stack([b.samples for b in blocks])
        arrays[f"{track}:captured"] = np.array([b.captured for b in blocks])
        arrays[f"{track}:played"] = np.array([b.played for b in blocks])
        arrays[f"{track}:kind"] = np.array([b.kind for b in blocks])
    np.savez(folder / "sound.npz", **arrays)  # type: ignore[arg-type]  # its stub, numpy 2.3


def read_sound(folder: Path) -> dict[str, list[PlayedBlock]]:
    """The played blocks by track, in order."""
    with np.load(folder / "sound.npz") as arrays:
        tracks = sorted({name.rpartition(":")[0] for name in arrays.files})
        return {
            track: [
                PlayedBlock(samples, float(captured), float(played), str(kind))
                for samples, captured, played, kind in zip(
                    *(arrays[f"{track}:{part}"] for part in _PARTS), strict=True
                )
            ]
            for track in tracks
        }


_PARTS = ("samples", "captured", "played", "kind")


class LiveDelays:
    """Running median delays by track, for whoever watches a run."""

    def __init__(self) -> None:
        self._recent: dict[str, list[float]] = {}

    def add(self, track: str, delay: float) -> None:
        """One object arrived `delay` seconds after its capture."""
        self._recent.setdefault(track, []).append(delay)

    def take(self) -> dict[str, float]:
        """Median delay in ms of what arrived since the last call."""
        taken = {t: round(float(np.median(d)) * 1e3, 1) for t, d in self._recent.items() if d}
        self._recent.clear()
        return taken
