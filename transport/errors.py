"""Faults of the network and the peer; the caller's misuse is `scheduler.errors.UsageError`.

Every message says what was expected, what came, and what to do.
"""

from __future__ import annotations

from ..scheduler.errors import LimenError


class ConnectError(LimenError, ConnectionError):
    """A session could not be set up."""


class SessionClosedError(LimenError, ConnectionError):
    """The session has ended; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the session has ended: {reason}")
        self.reason = reason


class TrackNotOfferedError(LimenError, LookupError):
    """The peer does not offer the track that was asked for."""


class PeerError(LimenError):
    """The peer broke the protocol or crossed a limit; its session is ended, nobody else's."""


class WireError(PeerError):
    """A message could not be decoded within its bounds."""


class VersionError(PeerError):
    """The two ends know no common version of the wire format."""
