"""Flow control towards the peer (RFC 9000 section 4) that follows what was consumed."""

from __future__ import annotations

from aioquic.quic.connection import Limit

RECEIVE_WINDOW = 8_000_000
"""Bytes a peer may have sent that the session has not taken over yet. aioquic doubles its window
whatever is consumed, which lets a peer that never finishes its streams fill the memory."""


class ReceiveWindow(Limit):
    """MAX_DATA that follows what the session has consumed instead of doubling for ever."""

    def __init__(self, template: Limit) -> None:
        self.consumed = 0
        super().__init__(frame_type=template.frame_type, name=template.name, value=RECEIVE_WINDOW)

    @property
    def value(self) -> int:
        """The offset the peer may send up to."""
        return self._value

    @value.setter
    def value(self, wanted: int) -> None:
        if not hasattr(self, "_value"):
            self._value = wanted
            return
        offered = min(wanted, self.consumed + RECEIVE_WINDOW)
        if offered - self._value > RECEIVE_WINDOW // 4:  # not a frame for every packet
            self._value = offered
