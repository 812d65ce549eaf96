"""Link profiles: one TOML file per link, each direction its own.

`down` goes from whoever sends the media to whoever receives it, `up` the other way. Keys per
direction: `rate_bps` (left out: unlimited), `steps` (rates over time, see profiles/demo.toml),
`delay_ms`, `queue_ms` and/or `queue_bytes`, `overhead_bytes`, `loss` (`{model = "random",
probability}` or `{model = "gilbert-elliott", mean, burst}`). Unknown keys are errors: a limit that
was misspelt must not silently be no limit.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .spec import GilbertElliottLoss, LinkSpec, RandomLoss, RateStep

PROFILES = Path(__file__).resolve().parent.parent / "profiles"
"""Where the profiles that ship with the project are."""

_DIRECTION_KEYS = {
    "rate_bps",
    "steps",
    "delay_ms",
    "queue_ms",
    "queue_bytes",
    "overhead_bytes",
    "loss",
}


class ProfileError(ValueError):
    """A profile cannot be used; the text says which, where in it, and what was expected."""


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """Both directions of a link, with every step at its absolute time."""

    name: str
    title: str
    """One line a reader understands."""
    up: LinkSpec
    """From the media's receiver back to its sender."""
    down: LinkSpec
    """From the media's sender to its receiver."""

    def to_dict(self) -> dict[str, Any]:
        """The profile as JSON-safe values, as it stands in a report."""
        return {
            "profile": self.name,
            "title": self.title,
            "down": _direction_dict(self.down),
            "up": _direction_dict(self.up),
        }


def profile_names() -> list[str]:
    """The names of the profiles that ship with the project."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def load_profile(name_or_path: str | Path, *, duration: float | None = None) -> LinkProfile:
    """Read a shipped profile by name, or any by path.

    `duration` is the run's length in seconds, needed by profiles with steps given as a fraction
    of it. Raises ProfileError with the file and key at fault.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = PROFILES / f"{name_or_path}.toml"
        if not path.is_file():
            known = ", ".join(profile_names())
            raise ProfileError(f"there is no profile {str(name_or_path)!r}; known: {known}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: is not valid TOML: {error}") from error
    return parse_profile(table, name=path.stem, duration=duration)


def parse_profile(
    table: dict[str, Any], *, name: str, duration: float | None = None
) -> LinkProfile:
    """A profile from a TOML document's content; errors as `load_profile`."""
    unknown = set(table) - {"title", "up", "down"}
    if unknown:
        raise ProfileError(f"profile {name}: unknown keys {sorted(unknown)}")
    missing = {"up", "down"} - set(table)
    if missing:
        raise ProfileError(f"profile {name}: needs [up] and [down], lacks {sorted(missing)}")
    try:
        return LinkProfile(
            name=name,
            title=str(table.get("title", name)),
            up=_direction(table["up"], "up", duration),
            down=_direction(table["down"], "down", duration),
        )
    except (ValueError, TypeError) as error:
        raise ProfileError(f"profile {name}: {error}") from error


def _direction(table: object, where: str, duration: float | None) -> LinkSpec:
    if not isinstance(table, dict):
        raise TypeError(f"[{where}] is a table, got {table!r}")
    unknown = set(table) - _DIRECTION_KEYS
    if unknown:
        raise ValueError(
            f"[{where}] has unknown keys {sorted(unknown)}; known: {sorted(_DIRECTION_KEYS)}"
        )
    queue_ms = table.get("queue_ms")
    queue_bytes = table.get("queue_bytes")
    try:
        spec = LinkSpec(
            delay=_number(table.get("delay_ms", 0.0), "delay_ms") / 1e3,
            steps=_steps(table, duration),
            queue_seconds=None if queue_ms is None else _number(queue_ms, "queue_ms") / 1e3,
            queue_bytes=None if queue_bytes is None else int(_number(queue_bytes, "queue_bytes")),
            loss=_loss(table.get("loss")),
        )
        overhead = table.get("overhead_bytes")
        if overhead is None:
            return spec
        return LinkSpec(
            spec.delay,
            spec.steps,
            spec.queue_seconds,
            spec.queue_bytes,
            spec.loss,
            int(_number(overhead, "overhead_bytes")),
        )
    except (ValueError, TypeError) as error:
        raise type(error)(f"[{where}] {error}") from error


def _steps(table: dict[str, Any], duration: float | None) -> tuple[RateStep, ...]:
    steps = []
    if "rate_bps" in table:
        steps.append(RateStep(0.0, _number(table["rate_bps"], "rate_bps")))
    for number, entry in enumerate(table.get("steps", []), 1):
        label = f"steps, number {number}:"
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


def _loss(table: object) -> RandomLoss | GilbertElliottLoss | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise TypeError(f"loss is a table with a model, got {table!r}")
    values = {key: value for key, value in table.items() if key != "model"}
    models = {"random": {"probability"}, "gilbert-elliott": {"mean", "burst"}}
    model = table.get("model")
    if model not in models or set(values) != models[model]:
        raise ValueError(
            "loss is {model = 'random', probability = ...} or "
            f"{{model = 'gilbert-elliott', mean = ..., burst = ...}}, got {table!r}"
        )
    numbers = {key: _number(value, f"loss.{key}") for key, value in values.items()}
    return RandomLoss(**numbers) if model == "random" else GilbertElliottLoss(**numbers)


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{key} is a number, got {value!r}")
    return float(value)


def _direction_dict(spec: LinkSpec) -> dict[str, Any]:
    loss: dict[str, Any] | None = None
    if isinstance(spec.loss, RandomLoss):
        loss = {"model": "random", "probability": spec.loss.probability}
    elif isinstance(spec.loss, GilbertElliottLoss):
        loss = {"model": "gilbert-elliott", "mean": spec.loss.mean, "burst": spec.loss.burst}
    return {
        "rate_bps": [[step.at, step.rate_bps] for step in spec.steps],
        "delay_ms": spec.delay * 1e3,
        "queue_ms": None if spec.queue_seconds is None else spec.queue_seconds * 1e3,
        "queue_bytes": spec.queue_bytes,
        "loss": loss,
        "overhead_bytes": spec.overhead_bytes,
    }
