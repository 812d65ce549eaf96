"""From what both ends noted to records of objects: everything captured, and what became of it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..objects import ObjectRecord, TagMark
from ..peers.capture import PERIOD
from ..peers.recorder import PlayedBlock, read_events, read_sound
from ..scene import Scene
from ..tagger import ReferenceTagger

SAME = 0.005
"""Seconds between two stamps of one object at most; objects of a track are 20 ms apart."""
HEARD = ("played", "repaired", "stretched")
"""Kinds of blocks in which captured sound is heard; the others are made up."""
SHARE_WINDOW = 0.4
"""Seconds over which shares of the bytes sent are taken."""


@dataclass(slots=True)
class RunLog:
    """A run's events, by track, with run time 0 at `start`."""

    start: float
    arrived: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """(captured, arrived) by track, monotonic clock."""
    sizes: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """(captured, payload bytes) by track."""
    shown: list[tuple[float, float]] = field(default_factory=list)
    """(captured, shown) of pictures, in order of showing."""
    size: tuple[int, int] | None = None
    """(width, height) of the pictures shown."""
    sound: dict[str, list[PlayedBlock]] = field(default_factory=dict)
    tags: list[TagMark] = field(default_factory=list)
    shares: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    """The sender's session.stats() at the end of capture; empty for a peer without."""


def read_run(folder: Path, *, start: float) -> RunLog:
    """Read what a run left in its folder."""
    log = RunLog(start)
    sent: list[tuple[float, dict[str, int]]] = []
    for event in read_events(folder / "sender.jsonl"):
        match event["event"]:
            case "queued":
                entry = (event["captured"], event["bytes"])
                log.sizes.setdefault(event["track"], []).append(entry)
            case "tag":
                log.tags.append(
                    TagMark(
                        event["at"] - start,
                        event["track"],
                        event["kind"],
                        event["value"],
                        event["half_life"],
                    )
                )
            case "shares":
                flows = event["flows"].values()
                sent.append((event["at"] - start, {f["track"]: f["sent_bytes"] for f in flows}))
            case "stats":
                log.stats = event["stats"]
    for event in read_events(folder / "receiver.jsonl"):
        if event["event"] == "received":
            entry = (event["captured"], event["at"])
            log.arrived.setdefault(event["track"], []).append(entry)
        elif event["event"] == "shown":
            log.shown.append((event["captured"], event["at"]))
            log.size = (event["width"], event["height"])
    log.tags.sort(key=lambda tag: tag.time)
    log.shares = shares_of(sent)
    log.sound = read_sound(folder)
    return log


def shares_of(
    sent: Sequence[tuple[float, dict[str, int]]],
) -> dict[str, list[tuple[float, float]]]:
    """Per track its share of the bytes sent in the window before each time.

    `sent` is (run time, bytes sent so far by track); times before 0 are left out.
    """
    shares: dict[str, list[tuple[float, float]]] = {}
    times = [at for at, _ in sent]
    for at, totals in sent:
        if at < 0.0:
            continue
        before = sent[max(0, bisect.bisect_left(times, at - SHARE_WINDOW) - 1)][1]
        grown = {track: total - before.get(track, 0) for track, total in totals.items()}
        whole = sum(grown.values())
        for track, amount in grown.items():
            share = amount / whole if whole > 0 else 0.0
            shares.setdefault(track, []).append((at, share))
    return shares


def make_records(
    scene: Scene, log: RunLog, *, pictures: Sequence[float], chunks: int
) -> list[ObjectRecord]:
    """Every captured object of a run in one list, ordered by track and time.

    `pictures` are the run times of the scene's pictures, `chunks` is how many chunks of sound
    each microphone has. Pictures that were skipped before encoding are captured objects too.
    """
    tagger = ReferenceTagger(scene)
    records = []
    track = scene.picture_track
    arrived, sizes = log.arrived.get(track, []), dict(log.sizes.get(track, []))
    came, seen = _Stamps(arrived), _Stamps(log.shown)
    weighed = _Stamps((captured, float(size)) for captured, size in sizes.items())
    for time in pictures:
        captured = log.start + time
        label = tagger.picture(time=time)
        records.append(
            ObjectRecord(
                track,
                label.cls,
                captured,
                log.start + label.deadline,
                came.at(captured),
                seen.at(captured),
                label.importance,
                int(weighed.at(captured) or 0),
            )
        )
    for microphone in scene.microphones:
        track = microphone.track
        came = _Stamps(log.arrived.get(track, []))
        weighed = _Stamps((c, float(s)) for c, s in log.sizes.get(track, []))
        heard = heard_times(log.sound.get(track, []))
        for index in range(chunks):
            end = (index + 1) * PERIOD
            captured = log.start + end
            label = tagger.sound(track, start=index * PERIOD, end=end)
            records.append(
                ObjectRecord(
                    track,
                    label.cls,
                    captured,
                    log.start + label.deadline,
                    came.at(captured),
                    heard.at(captured),
                    label.importance,
                    int(weighed.at(captured) or 0),
                )
            )
    return records


class _Stamps:
    """Something by capture time, found by a stamp that may differ in the last digits."""

    def __init__(self, pairs: Iterable[tuple[float, float]], *, before: float = SAME) -> None:
        self._pairs = sorted(pairs)
        self._before = before

    def at(self, captured: float) -> float | None:
        """The earliest value noted for `captured`; None for none."""
        low = bisect.bisect_left(self._pairs, (captured - self._before, -math.inf))
        high = bisect.bisect_right(self._pairs, (captured + SAME, math.inf))
        return min((value for _, value in self._pairs[low:high]), default=None)


class _Heard:
    """When the end of a chunk was heard: in the block that covers it, at its place there.

    A block covers the 20 ms up to its stamp; a stretched one all since the block before, if that
    is less than two: a period of a voice that was left out was not lost.
    """

    def __init__(self, blocks: Iterable[PlayedBlock]) -> None:
        self._blocks: list[tuple[float, float, float]] = []
        before = -math.inf
        for block in sorted(blocks, key=lambda block: block.captured):
            since = block.captured - before
            is_longer = block.kind == "stretched" and PERIOD < since < 2 * PERIOD - 1e-4
            covered = since if is_longer else PERIOD
            self._blocks.append((block.captured, block.played, covered))
            before = block.captured

    def at(self, captured: float) -> float | None:
        """When sound captured at this moment was heard; None: never."""
        index = bisect.bisect_left(self._blocks, (captured - 1e-4, -math.inf, 0.0))
        if index == len(self._blocks):
            return None
        end, played, covered = self._blocks[index]
        rest = max(0.0, end - captured)
        return played + max(0.0, PERIOD - rest) if rest < covered - 1e-4 else None


def heard_times(blocks: Iterable[PlayedBlock]) -> _Heard:
    """What was heard when, from the blocks played."""
    return _Heard(b for b in blocks if b.kind in HEARD and not math.isnan(b.captured))
