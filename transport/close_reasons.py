"""Why a session ended, in words a person can act on.

aioquic reports codes and terse phrases ("Idle timeout", "No common ALPN protocols", nothing at
all); this turns them into one line that says what was expected, what came and what to do.
"""

from __future__ import annotations

from enum import IntEnum

from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicErrorCode
from aioquic.tls import AlertDescription

from . import wire
from .events import Closed
from .settings import SessionSettings


class CloseCode(IntEnum):
    """limen's application error codes in CONNECTION_CLOSE."""

    DONE = 0x00
    PROTOCOL = 0x01
    VERSION = 0x02
    CERTIFICATE = 0x03
    INTERNAL = 0x04


_ALERT_BASE = int(QuicErrorCode.CRYPTO_ERROR)


def _one_line(phrase: str) -> str:
    """The peer chose these words: no line breaks or control characters reach a terminal."""
    return "".join(c if c.isprintable() else " " for c in phrase)[:200].strip()


def explain_close(
    event: ConnectionTerminated, settings: SessionSettings, *, handshake: bool
) -> Closed:
    """The reason in words; `handshake` is True when the session was not yet set up."""
    phrase = _one_line(event.reason_phrase)
    if event.frame_type is None and event.error_code in CloseCode.__members__.values():
        code = CloseCode(event.error_code)
        if code is CloseCode.DONE:
            return Closed(phrase or "closed by the peer", error=False)
        return Closed(f"the peer closed the session: {phrase or code.name.lower()}", error=True)
    if phrase == "Idle timeout":
        if handshake:
            return Closed("no answer: is the server running, and UDP not blocked?", error=True)
        return Closed(
            f"nothing was heard from the peer for {settings.idle_timeout:g} s", error=True
        )
    if event.error_code == QuicErrorCode.APPLICATION_ERROR:  # QUIC hides reasons until it is set up
        return Closed(
            "the peer ended the handshake: it may not have accepted the certificate", error=True
        )
    alert = event.error_code - _ALERT_BASE
    if alert == AlertDescription.no_application_protocol or "ALPN" in phrase:
        return Closed(
            f"the other end does not speak {wire.ALPN} (TLS found no common ALPN protocol)",
            error=True,
        )
    if 0 < alert < 256:
        words = phrase or f"TLS alert {alert}"
        return Closed(
            f"the certificate was not accepted or TLS failed: {words}; pin a development "
            "certificate by its fingerprint, or give the CA file that signed it",
            error=True,
        )
    return Closed(phrase or f"QUIC error 0x{event.error_code:x}", error=True)
