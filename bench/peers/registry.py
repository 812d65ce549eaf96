"""Every peer by name: what it is called, what it can carry, and why it cannot run here, if so.

The table imports no peer: each has its own heavy imports, and one that is not installed must not
keep the others from running. A peer that can be missing says so itself, with `missing()` in its
module, which is imported only when it is asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

PICTURE, SOUND, SEVERAL_PICTURES, DATA, TAGS = (
    "picture",
    "sound",
    "several-pictures",
    "data",
    "tags",
)
"""What a peer may carry: one picture, microphones, more pictures than one, data tracks, and the
viewer's tags."""


class UnknownPeerError(ValueError):
    """There is no such peer; the text lists those there are."""


def _nothing() -> str | None:
    return None


def _asked(module: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        reason: str | None = importlib.import_module(module).missing()
        return reason

    return missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One way of sending media, as the runner and the report know it."""

    name: str
    label: str
    """How a report calls it."""
    module: str
    """What `python -m` runs, with `send PLAN` or `receive PLAN`."""
    missing: Callable[[], str | None]
    """Why it cannot run on this machine, in one line that says what would help; None: it can."""
    needs_namespaces: bool
    """It cannot be sent through the UDP proxy: its two ends find each other by address."""
    carries: frozenset[str]
    """Of picture, sound, several-pictures, data, tags: what a scene may ask of it."""
    packages: tuple[str, ...] = ()
    """Packages of the package index whose versions belong into its results."""


_HERE = __name__.rpartition(".")[0]
_MEDIA = frozenset({PICTURE, SOUND})

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            name="fifo",
            label="bare QUIC (fifo)",
            module=f"{_HERE}.fifo",
            missing=_nothing,
            needs_namespaces=False,
            carries=_MEDIA,
        ),
        Peer(
            name="static",
            label="limen without tags (static)",
            module=f"{_HERE}.static",
            missing=_nothing,
            needs_namespaces=False,
            carries=_MEDIA,
        ),
        Peer(
            name="limen",
            label="limen",
            module=f"{_HERE}.limen",
            missing=_nothing,
            needs_namespaces=False,
            carries=_MEDIA | {TAGS},
        ),
        Peer(
            name="chromium",
            label="WebRTC (Chromium)",
            module=f"{_HERE}.chromium",
            missing=_asked(f"{_HERE}.chromium"),
            needs_namespaces=True,
            carries=_MEDIA,
        ),
        Peer(
            name="moq",
            label="Media over QUIC (moq-rs)",
            module=f"{_HERE}.moq",
            missing=_asked(f"{_HERE}.moq"),
            needs_namespaces=False,
            carries=_MEDIA,
            packages=("moq-rs",),
        ),
        Peer(
            name="aiortc",
            label="WebRTC (aiortc)",
            module=f"{_HERE}.aiortc",
            missing=_asked(f"{_HERE}.aiortc"),
            needs_namespaces=True,
            carries=_MEDIA,
            packages=("aiortc",),
        ),
    )
}
"""All peers by name, in the order a report lists them."""


def find_peer(name: str) -> Peer:
    """The peer of that name. Raises UnknownPeerError."""
    if name not in PEERS:
        raise UnknownPeerError(f"there is no peer {name!r}; known: {', '.join(PEERS)}")
    return PEERS[name]
