"""A file of JSON lines, one finished run each, that survives whatever ends the command.

A line is written when its run is over and is on the disk before the next begins. A command that
was killed in the middle of a line leaves it torn: `LineFile` cuts that off when it opens the file
again, and the run it belonged to is run again. A failed run has a line too, with `error`; a later
good one of the same run takes its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]


class LineFileError(ValueError):
    """Not a file of runs; the text names the file and the line."""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The runs in a file, of each its newest good line, else its newest; a torn end is left out.

    In the order in which the runs stand there first. Raises OSError, LineFileError.
    """
    lines, _ = _parse(path)
    return newest(lines)


def newest(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each run (by `key`) its newest good line, else its newest."""
    chosen: dict[str, dict[str, Any]] = {}
    for line in lines:
        before = chosen.get(line["key"])
        if before is None or "error" in before or "error" not in line:
            chosen[line["key"]] = line
    return list(chosen.values())


def good_keys(lines: Sequence[Line]) -> set[str]:
    """The runs that need not be run again."""
    return {line["key"] for line in lines if "error" not in line}


class LineFile:
    """A file that runs are added to. Opening it repairs a torn end."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, LineFileError when there is a file already that holds something else."""
        self.path = path
        self.lines: list[dict[str, Any]] = []
        """What it held when it was opened, in order."""
        self.torn = 0
        """Bytes of a torn last line that were cut off."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self.lines, whole = _parse(path)
            self.torn = path.stat().st_size - whole
            if self.torn:
                os.truncate(path, whole)

    def add(self, line: Line) -> None:
        """Write one line, down to the disk."""
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        with self.path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _parse(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a file, and how many bytes they take."""
    content = path.read_bytes()
    lines, whole = [], 0
    rows = content.splitlines(keepends=True)
    for number, row in enumerate(rows, 1):
        try:
            line = json.loads(row)
        except ValueError as error:
            if number == len(rows) and not row.endswith(b"\n"):
                break  # torn: its command was ended while it wrote
            raise LineFileError(f"{path}, line {number}: is not JSON: {error}") from error
        if not row.endswith(b"\n"):
            break  # it looks whole, and may still have lost its last digits
        if not isinstance(line, dict) or not isinstance(line.get("key"), str):
            raise LineFileError(
                f"{path}, line {number}: is not a run of `limen bench run` (it has no key)"
            )
        lines.append(line)
        whole += len(row)
    return lines, whole
