"""Link profiles: one TOML file per link, each direction its own.

`down` goes from whoever sends the media to whoever receives it, `up` the other way. Every key is
listed in bench/README.md. Unknown keys are errors: a limit that was misspelt must not silently be
no limit. A profile can be `based_on` another and say only what differs.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .profile_direction import direction_dict, parse_direction
from .spec import LinkSpec
from .trace import TraceError, read_trace

PROFILES = Path(__file__).resolve().parent.parent / "profiles"
"""Where the profiles that ship with the project are."""
MAX_BASES = 4
"""Profiles that may lean on one another in a row; more is a circle."""


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
            "down": direction_dict(self.down),
            "up": direction_dict(self.up),
        }

    def with_trace(self, path: Path) -> LinkProfile:
        """The same link with `down` served by a trace file. Raises ProfileError."""
        try:
            trace = read_trace(path)
            down = dataclasses.replace(
                self.down,
                steps=trace.steps,
                repeat=trace.repeat,
                opportunities=trace.opportunities,
                burst_bytes=None,
            )
        except (TraceError, ValueError) as error:
            raise ProfileError(f"profile {self.name} with a trace: {error}") from error
        return dataclasses.replace(self, name=f"{self.name}+{path.name}", down=down)


def profile_names() -> list[str]:
    """The names of the profiles that ship with the project."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def load_profile(
    name_or_path: str | Path, *, duration: float | None = None, trace: Path | None = None
) -> LinkProfile:
    """Read a shipped profile by name, or any by path.

    `duration` is the run's length in seconds, needed by profiles with steps given as a fraction
    of it. `trace` replaces the rate of `down`. Raises ProfileError with the file and key at fault.
    """
    path = _path_of(name_or_path)
    table = _read(path, depth=0)
    profile = parse_profile(table, name=path.stem, duration=duration, folder=path.parent)
    return profile if trace is None else profile.with_trace(trace)


def _path_of(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.suffix == ".toml":
        return path
    path = PROFILES / f"{name_or_path}.toml"
    if not path.is_file():
        known = ", ".join(profile_names())
        raise ProfileError(f"there is no profile {str(name_or_path)!r}; known: {known}")
    return path


def _read(path: Path, *, depth: int) -> dict[str, Any]:
    """A profile's table with those it is based on merged in."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: is not valid TOML: {error}") from error
    base = table.pop("based_on", None)
    if base is None:
        return table
    if not isinstance(base, str) or depth >= MAX_BASES:
        raise ProfileError(f"{path}: based_on is the name of another profile, got {base!r}")
    if base.endswith(".toml"):
        base = str(path.parent / base)
    merged = _read(_path_of(base), depth=depth + 1)
    for key, value in table.items():
        if key in ("up", "down") and isinstance(value, dict):
            merged[key] = {**merged.get(key, {}), **value}
        else:
            merged[key] = value
    return merged


def parse_profile(
    table: dict[str, Any],
    *,
    name: str,
    duration: float | None = None,
    folder: Path | None = None,
) -> LinkProfile:
    """A profile from a TOML document's content; errors as `load_profile`.

    `folder` is where relative names of trace files start.
    """
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
            up=parse_direction(table["up"], "up", duration=duration, folder=folder),
            down=parse_direction(table["down"], "down", duration=duration, folder=folder),
        )
    except (ValueError, TypeError) as error:
        raise ProfileError(f"profile {name}: {error}") from error
