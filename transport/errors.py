"""Two families of errors: the caller's misuse, and faults of the peer or the network.

Every message says what was expected, what came, and what to do.
"""

from __future__ import annotations


class LimenError(Exception):
    """Anything limen raises on purpose."""


class UsageError(LimenError, ValueError):
    """The caller asked for something that cannot be done."""


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
