"""What to say of a run whose machine had no time for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ADVICE = "the figures show starvation too; run again on a quieter machine"


def busy_words(host: Mapping[str, Any], *, tick_lateness_p99_ms: float | None) -> str:
    """The figures that tell how busy a machine was; `host` is from `runs.host.HostWatch`."""
    words = []
    if host.get("wake_lateness_p99_ms") is not None:
        words.append(f"wake-ups late by {host['wake_lateness_p99_ms']:.1f} ms (p99)")
    if tick_lateness_p99_ms is not None:
        words.append(f"scheduler tick late by {tick_lateness_p99_ms:.1f} ms (p99)")
    if host.get("load_after") is not None:
        words.append(f"load {host['load_after']:.1f} on {host['cpus']} cores")
    return ", ".join(words) or "no figure says how busy"
