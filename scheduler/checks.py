"""Checks of what callers hand in, at the call.

Each returns the value in its plain form (a NumPy number becomes Python's own, which the wire can
carry) or raises UsageError: what was expected, and what came.
"""

from __future__ import annotations

import math
import sys
from numbers import Integral, Real
from typing import TypeVar

from .errors import UsageError

T = TypeVar("T")


def number(
    name: str, value: object, low: float = -math.inf, high: float = math.inf, unit: str = ""
) -> float:
    """A number in [low, high]: never a bool, text or not-a-number."""
    if not isinstance(value, bool) and isinstance(value, Real):
        plain = float(value)
        if low <= plain <= high:  # false for not-a-number
            return plain
    raise UsageError(f"{name} is a number{_span(low, high)}{_of(unit)}, got {value!r}")


def whole(name: str, value: object, low: int, high: int, unit: str = "") -> int:
    """A whole number in [low, high]."""
    if not isinstance(value, bool) and isinstance(value, Integral) and low <= int(value) <= high:
        return int(value)
    raise UsageError(f"{name} is a whole number{_span(low, high)}{_of(unit)}, got {value!r}")


def text(name: str, value: object, most: int, *, least: int = 1) -> str:
    """A string of `least` to `most` characters that UTF-8 can carry; lone surrogates it cannot."""
    if isinstance(value, str) and least <= len(value) <= most:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{name} is text that UTF-8 can carry, got {value!r}") from None
        return str(value)
    raise UsageError(f"{name} is a string of {least} to {most} characters, got {value!r}")


def one_of(name: str, value: object, *allowed: object) -> None:
    """One of the values listed."""
    if not isinstance(value, bool) and any(value == a for a in allowed):
        return
    words = ", ".join(repr(a) for a in allowed)
    raise UsageError(f"{name} is one of {words}, got {value!r}")


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} is True or False, got {value!r}")
    return value


def instance(name: str, value: object, kind: type[T] | tuple[type[T], ...], words: str) -> T:
    """An instance of `kind`; `words` say what that is."""
    if not isinstance(value, kind):
        raise UsageError(f"{name} is {words}, got {type(value).__name__}")
    return value


def _span(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return ""
    if high == sys.float_info.max:
        return ", finite"
    if math.isinf(high):
        return " above 0" if low == sys.float_info.min else f" of at least {low:g}"
    return f" from {low:g} to {high:g}"


def _of(unit: str) -> str:
    return f" {unit}" if unit else ""
