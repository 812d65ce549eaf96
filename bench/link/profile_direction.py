"""One direction of a profile: from a TOML table to a LinkSpec, and to JSON-safe values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .spec import (
    CoDelSpec,
    FourStateLoss,
    GilbertElliottLoss,
    LinkSpec,
    LossSpec,
    RandomLoss,
    RateStep,
    ReorderSpec,
    StepMarkingSpec,
)
from .trace import Trace, generate_lte, read_trace

_KEYS = {
    "rate_bps",
    "steps",
    "repeat_s",
    "trace",
    "burst_bytes",
    "queue_ms",
    "queue_bytes",
    "queue_packets",
    "aqm",
    "overhead_bytes",
    "delay_ms",
    "flow_delays_ms",
    "jitter",
    "loss",
    "reorder",
    "duplicate",
    "corrupt",
    "limit_packets",
}
_CORRELATED = (
    "netem's correlated draws miss the probability that was set (its `loss 5% 25%` really loses "
    "0.14 %), so they are refused here; for losses in bursts use loss = {model = "
    "'gilbert-elliott', mean = 0.05, burst = 4}"
)


def parse_direction(
    table: object, where: str, *, duration: float | None, folder: Path | None
) -> LinkSpec:
    """The spec that a [down] or [up] table describes. Raises ValueError or TypeError."""
    if not isinstance(table, dict):
        raise TypeError(f"[{where}] is a table, got {table!r}")
    unknown = set(table) - _KEYS
    if unknown:
        raise ValueError(f"[{where}] has unknown keys {sorted(unknown)}; known: {sorted(_KEYS)}")
    try:
        values: dict[str, Any] = {
            "delay": _number(table.get("delay_ms", 0.0), "delay_ms") / 1e3,
            "loss": _loss(table.get("loss")),
            "aqm": _aqm(table.get("aqm")),
            "reorder": _reorder(table.get("reorder")),
            "duplicate": _chance(table.get("duplicate", 0.0), "duplicate"),
            "corrupt": _chance(table.get("corrupt", 0.0), "corrupt"),
            **_rate(table, duration, folder),
            **_jitter(table.get("jitter")),
        }
        if "queue_ms" in table:
            values["queue_seconds"] = _number(table["queue_ms"], "queue_ms") / 1e3
        for key in (
            "queue_bytes",
            "queue_packets",
            "burst_bytes",
            "overhead_bytes",
            "limit_packets",
        ):
            if key in table:
                values[key] = _whole(table[key], key)
        if "flow_delays_ms" in table:
            values["flow_delays"] = tuple(
                _number(value, "flow_delays_ms") / 1e3
                for value in _list(table["flow_delays_ms"], "flow_delays_ms")
            )
        return LinkSpec(**values)
    except (ValueError, TypeError) as error:
        raise type(error)(f"[{where}] {error}") from error


def _rate(table: dict[str, Any], duration: float | None, folder: Path | None) -> dict[str, Any]:
    if "trace" in table:
        extra = {"rate_bps", "steps", "repeat_s"} & set(table)
        if extra:
            raise ValueError(f"a trace takes the place of {sorted(extra)}")
        trace = _trace(table["trace"], folder)
        return {
            "opportunities": trace.opportunities,
            "steps": trace.steps,
            "repeat": trace.repeat,
        }
    repeat = table.get("repeat_s")
    return {
        "steps": _steps(table, duration),
        "repeat": None if repeat is None else _number(repeat, "repeat_s"),
    }


def _trace(value: object, folder: Path | None) -> Trace:
    if isinstance(value, str):
        return read_trace((folder or Path()) / value)
    expected = "trace is a file's name or {model = 'lte', seed = 1, seconds = 60, mean_bps = 5e6}"
    if not isinstance(value, dict) or value.get("model") != "lte":
        raise ValueError(f"{expected}, got {value!r}")
    if set(value) - {"model", "seed", "seconds", "mean_bps"}:
        raise ValueError(f"{expected}, got {value!r}")
    return generate_lte(
        seed=_whole(value.get("seed", 1), "trace.seed"),
        seconds=_number(value.get("seconds", 60.0), "trace.seconds"),
        mean_bps=_number(value.get("mean_bps", 5e6), "trace.mean_bps"),
    )


def _steps(table: dict[str, Any], duration: float | None) -> tuple[RateStep, ...]:
    steps = []
    if "rate_bps" in table:
        steps.append(RateStep(0.0, _number(table["rate_bps"], "rate_bps")))
    for number, entry in enumerate(_list(table.get("steps", []), "steps"), 1):
        label = f"steps, number {number}:"
        if not isinstance(entry, dict):
            raise TypeError(f"{label} is a table, got {entry!r}")
        unknown = set(entry) - {"at_fraction", "at_s", "rate_bps"}
        if unknown:
            raise ValueError(f"{label} unknown keys {sorted(unknown)}")
        if "rate_bps" not in entry or not {"at_fraction", "at_s"} & set(entry):
            raise ValueError(f"{label} needs rate_bps, and at_s or at_fraction or both")
        fraction = _number(entry.get("at_fraction", 0.0), "at_fraction")
        if "at_fraction" in entry and duration is None:
            raise ValueError(f"{label} at_fraction needs the run's duration")
        at = fraction * (duration or 0.0) + _number(entry.get("at_s", 0.0), "at_s")
        if at < 0.0:
            raise ValueError(f"{label} starts at {at:g} s; the run of {duration} s is too short")
        steps.append(RateStep(at, _number(entry["rate_bps"], "rate_bps")))
    return tuple(steps)


_LOSS_KEYS: dict[object, tuple[set[str], set[str]]] = {
    "random": ({"probability"}, set()),
    "gilbert-elliott": ({"mean", "burst"}, {"bad_loss", "good_loss"}),
    "gemodel": ({"p", "r"}, {"bad_loss", "good_loss"}),
    "four-state": ({"p13", "p31"}, {"p32", "p23", "p14"}),
}
"""Per loss model: the keys it needs, and those it may have."""


def _loss(table: object) -> LossSpec | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise TypeError(f"loss is a table with a model, got {table!r}")
    if "correlation" in table:
        raise ValueError(f"loss has a correlation: {_CORRELATED}")
    values = {key: value for key, value in table.items() if key != "model"}
    model = table.get("model")
    needs, may = _LOSS_KEYS.get(model, (set(), set()))
    if model not in _LOSS_KEYS or not needs <= set(values) <= needs | may:
        forms = "; ".join(
            f"{{model = {name!r}, {', '.join(sorted(must))}"
            + (f", perhaps {', '.join(sorted(can))}}}" if can else "}")
            for name, (must, can) in _LOSS_KEYS.items()
        )
        raise ValueError(f"loss is one of {forms}; got {table!r}")
    numbers = {key: _number(value, f"loss.{key}") for key, value in values.items()}
    if model == "random":
        return RandomLoss(**numbers)
    if model == "gilbert-elliott":
        return GilbertElliottLoss(**numbers)
    if model == "gemodel":
        return GilbertElliottLoss.from_transitions(**numbers)
    return FourStateLoss(**numbers)


def _aqm(table: object) -> CoDelSpec | StepMarkingSpec | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise TypeError(f"aqm is a table with a model, got {table!r}")
    if table.get("model") == "codel" and set(table) <= {"model", "target_ms", "interval_ms", "ecn"}:
        ecn = table.get("ecn", False)
        if not isinstance(ecn, bool):
            raise TypeError(f"aqm.ecn is true or false, got {ecn!r}")
        return CoDelSpec(
            target=_number(table.get("target_ms", 5.0), "aqm.target_ms") / 1e3,
            interval=_number(table.get("interval_ms", 100.0), "aqm.interval_ms") / 1e3,
            ecn=ecn,
        )
    if table.get("model") == "step" and set(table) == {"model", "threshold_ms"}:
        return StepMarkingSpec(_number(table["threshold_ms"], "aqm.threshold_ms") / 1e3)
    raise ValueError(
        "aqm is {model = 'codel', target_ms = 5, interval_ms = 100, ecn = false} or "
        f"{{model = 'step', threshold_ms = 1}}, got {table!r}"
    )


def _jitter(table: object) -> dict[str, Any]:
    if table is None:
        return {}
    keys = {"ms", "distribution", "bound_ms", "correlation", "reorders"}
    if not isinstance(table, dict) or "ms" not in table or set(table) - keys:
        raise ValueError(
            "jitter is {ms = 5, distribution = 'normal', bound_ms = 15, correlation = 0.25, "
            f"reorders = false}}, of which only ms is needed, got {table!r}"
        )
    reorders = table.get("reorders", False)
    if not isinstance(reorders, bool):
        raise TypeError(f"jitter.reorders is true or false, got {reorders!r}")
    bound = table.get("bound_ms")
    return {
        "jitter": _number(table["ms"], "jitter.ms") / 1e3,
        "distribution": str(table.get("distribution", "uniform")),
        "jitter_bound": None if bound is None else _number(bound, "jitter.bound_ms") / 1e3,
        "jitter_correlation": _number(table.get("correlation", 0.0), "jitter.correlation"),
        "jitter_reorders": reorders,
    }


def _reorder(table: object) -> ReorderSpec | None:
    if table is None:
        return None
    if isinstance(table, dict) and "correlation" in table:
        raise ValueError(f"reorder has a correlation: {_CORRELATED}")
    if not isinstance(table, dict) or not {"probability"} <= set(table) <= {"probability", "gap"}:
        raise ValueError(f"reorder is {{probability = 0.25, gap = 1}}, got {table!r}")
    return ReorderSpec(
        _number(table["probability"], "reorder.probability"),
        _whole(table.get("gap", 1), "reorder.gap"),
    )


def _chance(value: object, key: str) -> float:
    if isinstance(value, dict) and "correlation" in value:
        raise ValueError(f"{key} has a correlation: {_CORRELATED}")
    return _number(value, key)


def _list(value: object, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{key} is a list, got {value!r}")
    return value


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{key} is a number, got {value!r}")
    return float(value)


def _whole(value: object, key: str) -> int:
    number = _number(value, key)
    if not number.is_integer():
        raise ValueError(f"{key} is a whole number, got {value!r}")
    return int(number)


def direction_dict(spec: LinkSpec) -> dict[str, Any]:
    """A direction as JSON-safe values. A delivery trace is named by length and mean rate only."""
    values: dict[str, Any] = {
        "rate_bps": [[step.at, step.rate_bps] for step in spec.steps],
        "delay_ms": spec.delay * 1e3,
        "queue_ms": None if spec.queue_seconds is None else spec.queue_seconds * 1e3,
        "queue_bytes": spec.queue_bytes,
        "loss": _plain(spec.loss),
        "overhead_bytes": spec.overhead_bytes,
    }
    optional = {
        "queue_packets": spec.queue_packets,
        "repeat_s": spec.repeat,
        "burst_bytes": spec.burst_bytes,
        "aqm": _plain(spec.aqm),
        "reorder": _plain(spec.reorder),
        "duplicate": spec.duplicate or None,
        "corrupt": spec.corrupt or None,
        "limit_packets": spec.limit_packets,
        "flow_delays_ms": [delay * 1e3 for delay in spec.flow_delays] or None,
    }
    if spec.opportunities:
        optional["trace"] = {
            "seconds": spec.opportunities[-1] / 1e3,
            "mean_bps": round(spec.rate_at(0.0)),
        }
    if spec.jitter:
        bound = spec.jitter_bound
        optional["jitter"] = {
            "ms": spec.jitter * 1e3,
            "distribution": spec.distribution,
            "bound_ms": None if bound is None else bound * 1e3,
            "correlation": spec.jitter_correlation,
            "reorders": spec.jitter_reorders,
        }
    values.update((key, value) for key, value in optional.items() if value is not None)
    return values


def _plain(part: object) -> dict[str, Any] | None:
    names: dict[type, str] = {
        RandomLoss: "random",
        GilbertElliottLoss: "gilbert-elliott",
        FourStateLoss: "four-state",
        CoDelSpec: "codel",
        StepMarkingSpec: "step",
    }
    if part is None:
        return None
    fields = {name: getattr(part, name) for name in part.__dataclass_fields__}  # type: ignore[attr-defined]
    name = names.get(type(part))
    return fields if name is None else {"model": name, **fields}
