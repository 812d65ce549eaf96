"""What can go wrong with media: the one family of errors this room raises.

Misuse by the caller (a wrong shape, a setting out of range) is a plain ValueError or TypeError,
which a session turns into a UsageError.
What the media itself or the codec library brings about is a `CodecError`, so that a session can
catch it, count it and go on.
"""

from __future__ import annotations

from ..scheduler.errors import LimenError


class CodecError(LimenError):
    """An encoder or decoder refused its input or failed; the text says what and what to do."""


class UnsupportedMedia(CodecError):  # noqa: N818 - reads as what it is
    """An input exists but holds nothing that can be sent: not media, empty, or no decoder."""
