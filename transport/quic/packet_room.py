"""The room left in one packet under construction: what a `PacketSource` is handed to fill.

Nothing here reaches into aioquic; what the peer allows is asked of the adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aioquic.buffer import size_uint_var

if TYPE_CHECKING:
    from .adapter import MediaQuic

STREAM_FRAME_OVERHEAD = 3
"""Type and two-byte length of a STREAM frame; the stream ID and offset come on top."""


class PacketSource(Protocol):
    """Who fills packets at the last moment."""

    def fill(self, packet: PacketRoom, *, now: float) -> None:
        """Write what should leave next into `packet`; writing nothing is fine."""


class PacketRoom:
    """What is left of one packet under construction, and the means to fill it."""

    def __init__(self, quic: MediaQuic, room: int, shortened: bool) -> None:
        self._quic = quic
        self.room = room
        """Bytes of frames that still fit."""
        self.shortened = shortened
        """True when the congestion window, not the packet size, is what limits `room`."""

    def stream_room(self, stream_id: int | None, offset: int) -> int:
        """Payload bytes a STREAM frame at `offset` can carry here; None: a stream not yet open.

        Zero when the peer's stream or flow-control credit is used up.
        """
        quic = self._quic
        if stream_id is None:
            if not quic.can_open_stream():
                return 0
            stream_id, credit = quic.get_next_available_stream_id(True), quic.new_stream_credit
        else:
            credit = quic.stream_credit(stream_id)
        overhead = STREAM_FRAME_OVERHEAD + size_uint_var(stream_id)
        overhead += size_uint_var(offset) if offset else 0
        return max(0, min(self.room - overhead, credit - offset, quic.connection_credit()))

    def write_stream(self, stream_id: int | None, offset: int, data: bytes, *, fin: bool) -> int:
        """Put `data` into this packet on a stream (None opens one) and return the stream ID."""
        if stream_id is None:
            stream_id = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self._quic.send_stream_data(stream_id, data, end_stream=fin)
        overhead = STREAM_FRAME_OVERHEAD + size_uint_var(stream_id)
        self.room -= len(data) + overhead + (size_uint_var(offset) if offset else 0)
        return stream_id

    def datagram_fits(self, size: int) -> bool:
        """True when a DATAGRAM of `size` payload bytes fits here and the peer takes it."""
        return size <= self._quic.datagram_limit and self.room >= size + 1 + size_uint_var(size)

    def write_datagram(self, data: bytes) -> None:
        """Put a DATAGRAM frame into this packet; ask `datagram_fits` first."""
        self._quic.send_datagram_frame(data)
        self.room -= len(data) + 1 + size_uint_var(len(data))
