"""A run's trace: its objects, its link over time, tags and shares, in one small file.

A JSON line holds a run's figures; a report also wants to draw them. Raw pictures and sound are
megabytes a second and are deleted after analysis; this is what stays: some ten kilobytes a run, as
a compressed .npz that numpy alone can read. All times are run time, seconds since capture began.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..objects import ObjectClass, ObjectRecord, TagMark

FORMAT = 1
"""Changes when what is inside does."""
_STAMPS = ("captured", "deadline", "arrived", "shown")


class TraceFileError(ValueError):
    """Not a run's trace; the text names the file."""


@dataclass(frozen=True, slots=True)
class RunTrace:
    """What a report draws of one run. Stamps of `records` and all other times are run time, s."""

    records: Sequence[ObjectRecord]
    """Every object captured, also those that never came."""
    floors: Sequence[float]
    """The least delay the link allowed each of `records`, s (bench/README.md); infinite for an
    object that it could never have carried."""
    end: float
    """From when on nothing was waited for."""
    rates: Sequence[tuple[float, float]] = ()
    """(time, bit/s): what the link could carry from then on; may begin before 0."""
    queue_ms: Sequence[tuple[float, float]] = ()
    """(time, wait in the bottleneck's queue in ms), peaks kept; empty where the link tells none."""
    tags: Sequence[TagMark] = ()
    """What the product tagged, in order of time; empty for a peer without tags."""
    shares: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Per track (time, share of the bytes sent in [0, 1]); empty for a peer that tells none."""


def pack_trace(trace: RunTrace) -> bytes:
    """The content of a trace file."""
    tracks = list(dict.fromkeys(record.track for record in trace.records))
    classes = [cls.value for cls in ObjectClass]
    head = {
        "format": FORMAT,
        "tracks": tracks,
        "classes": classes,
        "end": trace.end,
        "tags": [
            {**dataclasses.asdict(tag), "half_life": _finite(tag.half_life)} for tag in trace.tags
        ],
    }
    arrays: dict[str, Any] = {
        "head": np.frombuffer(json.dumps(head, allow_nan=False).encode(), np.uint8),
        "track": np.array([tracks.index(r.track) for r in trace.records], np.uint8),
        "class": np.array([classes.index(r.cls.value) for r in trace.records], np.uint8),
        "importance": np.array([r.importance for r in trace.records], np.float32),
        "size": np.array([r.size_bytes for r in trace.records], np.uint32),
        "floor": np.array(trace.floors, np.float64),
        "rates": np.array(trace.rates, np.float64).reshape(-1, 2),
        "queue_ms": np.array(trace.queue_ms, np.float64).reshape(-1, 2),
    }
    for name in _STAMPS:
        values = (getattr(record, name) for record in trace.records)
        arrays[name] = np.array([math.nan if v is None else v for v in values], np.float64)
    for track, points in trace.shares.items():
        arrays[f"share:{track}"] = np.array(points, np.float64).reshape(-1, 2)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def read_trace(path: Path) -> RunTrace:
    """What `pack_trace` made of a run. Raises OSError, TraceFileError."""
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        head = json.loads(arrays["head"].tobytes())
        if head["format"] != FORMAT:
            raise TraceFileError(f"{path}: is of format {head['format']}, this reads {FORMAT}")
        return _unpack(head, arrays)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, TraceFileError):
            raise
        raise TraceFileError(f"{path}: is not the trace of a run: {error}") from error


def _unpack(head: Mapping[str, Any], arrays: Mapping[str, Any]) -> RunTrace:
    columns = [arrays[name].tolist() for name in ("track", "class", *_STAMPS, "importance", "size")]
    records = [
        ObjectRecord(
            head["tracks"][track],
            ObjectClass(head["classes"][cls]),
            captured,
            deadline,
            _known(arrived),
            _known(shown),
            importance,
            size,
        )
        for track, cls, captured, deadline, arrived, shown, importance, size in zip(
            *columns, strict=True
        )
    ]
    tags = [
        TagMark(**{**tag, "half_life": math.inf if tag["half_life"] is None else tag["half_life"]})
        for tag in head["tags"]
    ]
    return RunTrace(
        records=records,
        floors=arrays["floor"].tolist(),
        end=float(head["end"]),
        rates=_points(arrays["rates"]),
        queue_ms=_points(arrays["queue_ms"]),
        tags=tags,
        shares={
            name.removeprefix("share:"): _points(values)
            for name, values in arrays.items()
            if name.startswith("share:")
        },
    )


def _points(values: Any) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values]


def _known(stamp: float) -> float | None:
    return None if math.isnan(stamp) else stamp


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
