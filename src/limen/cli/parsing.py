"""Words of the command line that are more than a number or a path."""

from __future__ import annotations

import ipaddress
import math
from typing import NamedTuple

from .failures import usage

EXAMPLE = "127.0.0.1:4433"


class Address(NamedTuple):
    """Where to connect to, or to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True where only this machine can be meant."""
        if self.host.lower() in ("localhost", "localhost."):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_any(self) -> bool:
        """True for a wildcard to listen on."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


def parse_address(text: str, option: str, *, lowest_port: int = 1) -> Address:
    """HOST:PORT, [IPV6]:PORT; port 0 (any free one) only where something listens."""
    host, separator, digits = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    bad = not separator or not host or not digits.isascii() or not digits.isdigit()
    if bad or (":" in host and not bracketed):
        raise usage(f"{option} takes HOST:PORT, for example {EXAMPLE} or [::1]:4433, got {text!r}")
    if not lowest_port <= int(digits) <= 65535:
        raise usage(f"{option} takes a port from {lowest_port} to 65535, got {digits}")
    return Address(host, int(digits))


def parse_rate(text: str, option: str, low: float, high: float) -> float:
    """Bits a second: a number, or one with k or M."""
    factors = {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6}
    digits, factor = (text[:-1], factors[text[-1]]) if text[-1:] in factors else (text, 1.0)
    try:
        rate = float(digits) * factor
    except ValueError:
        rate = math.nan
    if not low <= rate <= high:
        raise usage(
            f"{option} is {low:,.0f} to {high:,.0f} bit/s, written like 64k or 1.5M, got {text!r}"
        )
    return rate


def parse_seconds(value: float | None, option: str) -> float | None:
    """A length of time above 0, or None."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise usage(f"{option} is a number of seconds above 0, got {value:g}")
    return value
