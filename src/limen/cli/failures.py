"""Errors of commands, and how every error becomes one line."""

from __future__ import annotations

import os
from typing import Any

from ..bench.samples import SamplesUnavailable
from ..scheduler.errors import LimenError, UsageError
from ..scheduler.sources.gaze import GazeFileError


class CommandError(Exception):
    """A command cannot go on; the text is the line its user reads."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(Exception):  # noqa: N818 - a wish of the user, no error
    """A signal ended the command, in order."""

    def __init__(self, code: int) -> None:
        super().__init__(f"interrupted ({code})")
        self.code = code


def usage(message: str) -> CommandError:
    """A command line that makes no sense."""
    return CommandError(message, code=2)


def explain(error: Exception) -> tuple[str, int]:
    """The one line and the exit code for an error."""
    words: Any = getattr(error, "format_message", None)  # of typer's, whatever it is built on
    if callable(words):
        context: Any = getattr(error, "ctx", None)  # of the subcommand, where there is one
        command = getattr(context, "command_path", None) or "limen"
        return f"{_one_line(str(words()))} (see `{command} --help`)", 2
    if isinstance(error, CommandError):
        return _one_line(str(error)), error.code
    if isinstance(error, UsageError):
        return _one_line(str(error)), 2
    if isinstance(error, LimenError | GazeFileError | SamplesUnavailable):
        return _one_line(str(error)), 1
    if isinstance(error, OSError):
        if error.filename is not None and error.strerror:
            return f"{os.fsdecode(error.filename)}: {error.strerror}", 1
        return _one_line(str(error)) or type(error).__name__, 1
    kind = type(error).__name__
    return f"internal error: {kind}: {_one_line(str(error))} (LIMEN_DEBUG=1 shows where)", 70


def _one_line(text: str) -> str:
    return " ".join(text.split())
