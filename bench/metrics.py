"""The figures of a run, from records of its objects and from what the link saw.

Definitions stand in bench/README.md; this is their only implementation. Everything returned is
JSON-safe: a figure that does not exist is None, never NaN or infinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .objects import ObjectClass, ObjectRecord

Measure = Literal["arrived", "shown"]
FULL_PACKET_BYTES = 1228
"""A 1,200-byte QUIC packet with its UDP and IPv4 headers: what a link cannot preempt."""


def delays(
    records: Sequence[ObjectRecord], *, end: float, measure: Measure = "arrived"
) -> NDArray[np.float64]:
    """The delay of every object in seconds, those that never came included.

    An object that never came counts as the longest of: the time from its capture to `end` (the
    end of the run), its deadline, the slowest object of `records` that did come. So losing an
    object never looks better than delivering it late, however late.
    """
    came = [getattr(r, measure) - r.captured for r in records if getattr(r, measure) is not None]
    slowest = max(came, default=0.0)
    values = [
        stamp - r.captured
        if (stamp := getattr(r, measure)) is not None
        else max(end - r.captured, r.deadline - r.captured, slowest)
        for r in records
    ]
    return np.array(values, dtype=np.float64)


def class_table(
    records: Sequence[ObjectRecord], *, end: float, measure: Measure = "arrived"
) -> dict[str, dict[str, float | int | None]]:
    """Per class `{n_sent, n_came, n_shown, p50_ms, p95_ms, p99_ms, std_ms, on_time}`, all classes
    present. `n_came` counts what came by `measure`: the rest is in the percentiles as never come.

    `end` is when the run was over, on the records' clock.
    """
    return {
        cls.value: _class_figures([r for r in records if r.cls is cls], end, measure)
        for cls in ObjectClass
    }


def _class_figures(
    records: Sequence[ObjectRecord], end: float, measure: Measure
) -> dict[str, float | int | None]:
    shown = sum(r.shown is not None for r in records)
    came = sum(getattr(r, measure) is not None for r in records)
    figures: dict[str, float | int | None] = {
        "n_sent": len(records),
        "n_came": came,
        "n_shown": shown,
    }
    if not records:
        return figures | dict.fromkeys(("p50_ms", "p95_ms", "p99_ms", "std_ms", "on_time"))
    values = delays(records, end=end, measure=measure)
    for percent in (50, 95, 99):
        figures[f"p{percent}_ms"] = milli(percentile(values, percent))
    figures["std_ms"] = milli(float(values.std()))
    in_time = sum(
        stamp is not None and stamp <= r.deadline
        for r in records
        for stamp in (getattr(r, measure),)
    )
    figures["on_time"] = round(in_time / len(records), 5)
    return figures


def percentile(values: NDArray[np.float64], percent: float) -> float:
    """A percentile that is one of the values, rounded up: with doubt, the worse figure."""
    return float(np.percentile(values, percent, method="higher"))


def importance_weighted_ms(
    records: Sequence[ObjectRecord], *, end: float, measure: Measure = "arrived"
) -> float | None:
    """Mean delay with each object weighted by its importance at capture, ms."""
    weights = np.array([r.importance for r in records])
    if not len(weights) or weights.sum() <= 0.0:
        return None
    return milli(float(np.average(delays(records, end=end, measure=measure), weights=weights)))


def floor_delay(*, size_bytes: float, rate_bps: float, delay: float) -> float:
    """The least delay a link allows, seconds: propagation, the object, one full packet ahead."""
    if math.isinf(rate_bps):
        return delay
    if rate_bps <= 0.0:
        return math.inf
    return delay + 8.0 * (size_bytes + FULL_PACKET_BYTES) / rate_bps


def floor_ratios(
    records: Sequence[ObjectRecord],
    floors: Sequence[float],
    *,
    end: float,
    measure: Measure = "arrived",
) -> dict[str, float | None]:
    """Per class the p95 of its delays ÷ the p95 of its objects' floors (`floors`, s, in order).

    1 is a link on which nobody else is in the way. None for a class without objects, and where
    the link could not carry the objects at all.
    """
    ratio: dict[str, float | None] = {}
    for cls in ObjectClass:
        chosen = [(r, f) for r, f in zip(records, floors, strict=True) if r.cls is cls]
        if not chosen:
            ratio[cls.value] = None
            continue
        least = percentile(np.array([floor for _, floor in chosen]), 95)
        worst = percentile(delays([r for r, _ in chosen], end=end, measure=measure), 95)
        ratio[cls.value] = rounded(worst / least) if 0.0 < least < math.inf else None
    return ratio


def loss_share(link: Mapping[str, Any]) -> float | None:
    """Share of the packets offered to a link direction that did not get through; its queue's
    drops are counted in. None when none was offered, or the link does not tell."""
    offered = link.get("offered", {}).get("packets")
    if not offered or "dropped" not in link:
        return None
    lost = sum(reason["packets"] for reason in link["dropped"].values())
    return round(float(lost / offered), 5)


def concealed_share(tracks: Iterable[Sequence[str]]) -> float | None:
    """Share of the blocks played that were made up because sound was missing ("concealed").

    `tracks` has the kinds of each track's blocks in order. Silence before a track's first sound
    and after its last does not count.
    """
    made_up, heard = 0, 0
    for kinds in tracks:
        loud = [index for index, kind in enumerate(kinds) if kind != "silence"]
        if loud:
            span = kinds[loud[0] : loud[-1] + 1]
            made_up += sum(kind == "concealed" for kind in span)
            heard += len(span)
    return round(made_up / heard, 5) if heard else None


def utilization(link: Mapping[str, Any], *, start: float, end: float) -> float | None:
    """Share of what a link direction could carry between two times that it did carry.

    `link` is one direction of the link's statistics; times are link time, seconds. None when the
    link was unlimited or could carry nothing. Counted in the statistics' bins (0.1 s), so short
    windows are coarse.
    """
    capacity = _capacity_bytes(link["rate_bps"], start, end)
    if not capacity:
        return None
    width = float(link["series"]["through_bytes"]["width_s"])
    carried = 0.0
    for index, size in enumerate(link["series"]["through_bytes"]["bins"]):
        overlap = min(end, (index + 1) * width) - max(start, index * width)
        carried += size * max(0.0, overlap) / width
    return round(carried / capacity, 4)


def _capacity_bytes(steps: Sequence[Sequence[float]], start: float, end: float) -> float:
    bits = 0.0
    for index, (at, rate) in enumerate(steps):
        until = end if index + 1 == len(steps) else min(end, steps[index + 1][0])
        bits += max(0.0, until - max(start, at)) * rate
    return bits / 8.0


def freezes(shown: Sequence[float], *, frame_time: float) -> tuple[int, float]:
    """How often the picture stood still for more than 3 frame times, and the longest gap, s."""
    gaps = np.diff(np.sort(np.array(shown, dtype=np.float64)))
    if not len(gaps):
        return 0, 0.0
    return int((gaps > 3.0 * frame_time).sum()), float(gaps.max())


def run_summary(
    records: Sequence[ObjectRecord],
    *,
    start: float,
    end: float,
    link: Mapping[str, Any],
    region_psnr_db: float | None,
    background_psnr_db: float | None,
    tick_lateness_p99_ms: float | None,
    media_end: float | None = None,
    measure: Measure = "arrived",
) -> dict[str, Any]:
    """One run as it stands in report.json.

    `start` and `end` bound the run on the records' clock; `media_end` is when capture stopped
    (default: the last capture) and closes the window that utilization is taken over. `link` is
    what the link proxy's `stop` returned; its `down` direction is the one that is judged.
    """
    down = link["down"]
    origin = link["started"] if link["started"] is not None else start
    last = max((r.captured for r in records), default=end) if media_end is None else media_end
    return {
        "classes": class_table(records, end=end, measure=measure),
        "classes_shown": class_table(records, end=end, measure="shown"),
        "region_psnr_db": rounded(region_psnr_db),
        "background_psnr_db": rounded(background_psnr_db),
        "bytes_sent": int(down["offered"]["bytes"]),
        "utilization": utilization(down, start=max(0.0, start - origin), end=last - origin),
        "queue_p95_ms": down["queue_delay_ms"]["p95"],
        "tick_lateness_p99_ms": rounded(tick_lateness_p99_ms),
    }


def ratios(
    runs: Mapping[str, Mapping[str, Any]], *, base: str = "fifo", other: str = "limen"
) -> dict[str, float | None]:
    """What `other` is of `base`: quotients of delays and bytes, differences of PSNR in dB."""
    b, o = runs[base], runs[other]
    out: dict[str, float | None] = {}
    for cls in ObjectClass:
        for key in ("p50_ms", "p95_ms", "p99_ms", "std_ms"):
            out[f"{cls.value}_{key.removesuffix('_ms')}"] = _quotient(
                o["classes"][cls.value][key], b["classes"][cls.value][key]
            )
    out["bytes_sent"] = _quotient(o["bytes_sent"], b["bytes_sent"])
    out["queue_p95"] = _quotient(o["queue_p95_ms"], b["queue_p95_ms"])
    for key in ("region_psnr_db", "background_psnr_db"):
        both = o[key], b[key]
        out[f"{key.removesuffix('_db')}_gain_db"] = (
            None if None in both else rounded(both[0] - both[1])
        )
    return out


def _quotient(value: float | None, base: float | None) -> float | None:
    if value is None or not base:
        return None
    return round(value / base, 4)


def milli(seconds: float) -> float | None:
    """Milliseconds to a microsecond; None for what is not a number."""
    return rounded(seconds * 1e3)


def rounded(value: float | None) -> float | None:
    """Three decimals; None for what is not a number."""
    return None if value is None or not math.isfinite(value) else round(float(value), 3)
