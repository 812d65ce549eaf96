"""The root of all errors limen raises on purpose, and the caller's misuse.

They live in the lowest room so that every other one can raise them: `except limen.LimenError`
then catches whatever goes wrong with a session, its media and its arguments.
"""

from __future__ import annotations


class LimenError(Exception):
    """Anything limen raises on purpose."""


class UsageError(LimenError, ValueError):
    """The caller asked for something that cannot be done: a wrong type, range, name or time."""
