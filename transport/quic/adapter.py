"""The one place that reaches into aioquic.

aioquic buffers whatever it is handed and serves streams in an arbitrary order; media that sits
in those buffers can no longer be reweighed. So this adapter turns the direction around: once per
packet, at the moment aioquic is about to fill it, it asks a `PacketSource` for exactly the bytes
that fit. Nothing unsent stays inside QUIC.

aioquic offers no hook for that, nor for an own congestion controller's pacing, receive times or
the peer's limits, so the names it does not promise are used here and nowhere else; the version
is pinned exactly, and `tests/transport/test_adapter.py` covers each name so that an upgrade
that moves one fails loudly. `check_aioquic` refuses to run on another version.

Contract: call `connect` (client) or feed `receive_datagram`; after every call that can change
something, drain `next_event` until None, then call `pump` and send what it returns, then arm a
timer for `get_timer` and call `handle_timer` when it fires.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Iterable
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.congestion.base import QuicCongestionControl
from aioquic.quic.connection import (
    Limit,
    QuicConnection,
    QuicConnectionState,
    QuicNetworkPath,
)
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet_builder import QuicPacketBuilder, QuicSentPacket
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.tls import Epoch
from cryptography.hazmat.primitives.serialization import Encoding

from ..congestion.base import Controller
from .packet_room import PacketRoom, PacketSource
from .receive_window import ReceiveWindow

AIOQUIC_VERSION = "1.7.2"
STREAM_CREDIT = 1024
"""Unidirectional streams granted to the peer at once. aioquic's 128, returned one per finished
stream, caps a peer at 128 objects per round trip; 1024 is 80 objects/s over a 12 s outage, and
some 3 MB of state when a hostile peer leaves all of them open."""
DATAGRAM_OVERHEAD = 30
"""Short header, AEAD tag and DATAGRAM frame header: a payload above `max_datagram_size − 30`
would never be sent and would block all later ones (measured on aioquic 1.7.2)."""
PROMPT_ACK = 0.001
LAZY_ACK = 0.02
"""Seconds an acknowledgement may wait (the peer assumes up to 25 ms). An end that only gets
reports and probes need not answer each: on a slow link those answers displace media."""
ENDING = (
    QuicConnectionState.CLOSING,
    QuicConnectionState.DRAINING,
    QuicConnectionState.TERMINATED,
)
STREAM_RECENCY = 0.2
"""Seconds after which incoming stream data counts as over."""


class _Quieter(logging.LoggerAdapter[Any]):
    """aioquic's log at debug level alone: what it warns of, limen gives as a session's end."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """See LoggerAdapter."""
        super().log(min(level, logging.DEBUG), msg, *args, **kwargs)


def check_aioquic() -> None:
    """Raise RuntimeError unless the pinned aioquic is installed."""
    found = importlib.metadata.version("aioquic")
    if found != AIOQUIC_VERSION:
        raise RuntimeError(
            f"limen needs aioquic {AIOQUIC_VERSION} exactly (it uses names aioquic does not "
            f"promise), found {found}: pip install 'aioquic=={AIOQUIC_VERSION}'"
        )


class _ControlShim(QuicCongestionControl):
    """Lets a limen controller stand where aioquic expects one of its own."""

    def __init__(self, controller: Controller, pacer: Pacer) -> None:
        self.controller = controller
        self.pacer = pacer
        self.bytes_in_flight = 0
        self.packets_lost = 0

    @property
    def congestion_window(self) -> int:  # type: ignore[override]
        return self.controller.window_bytes

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        self.bytes_in_flight += packet.sent_bytes
        if packet.epoch == Epoch.ONE_RTT:
            self.controller.on_sent(
                packet.packet_number,
                packet.sent_bytes,
                in_flight=self.bytes_in_flight,
                now=packet.sent_time or 0.0,
            )

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        self.bytes_in_flight -= packet.sent_bytes
        if packet.epoch == Epoch.ONE_RTT:
            self.controller.on_acked(packet.packet_number, packet.sent_bytes, now=now)

    def on_packets_expired(self, *, packets: Iterable[QuicSentPacket]) -> None:
        for packet in packets:
            self.bytes_in_flight -= packet.sent_bytes

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        for packet in packets:
            self.packets_lost += 1
            self.bytes_in_flight -= packet.sent_bytes
            if packet.epoch == Epoch.ONE_RTT:
                self.controller.on_lost(packet.packet_number, packet.sent_bytes, now=now)

    def on_persistent_congestion(self) -> None:
        self.controller.on_persistent_congestion()

    def on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        self.controller.on_rtt(rtt, now=now)


class Pacer:
    """A token bucket in bytes at the controller's pacing rate (RFC 9002 section 7.7).

    aioquic's own counts packets, whatever their size, and knows no rate but window/RTT. It tells
    `update_after_send` no size, so the adapter hands it the packet being built.
    """

    BURST_SECONDS = 0.002
    """Two ticks' worth: a late tick must not cost rate, a burst must not build a queue."""

    def __init__(self, controller: Controller, packet_size: int) -> None:
        self._controller = controller
        self._packet_size = packet_size
        self._tokens = float(packet_size)
        self._updated: float | None = None
        self.builder: QuicPacketBuilder | None = None

    def next_send_time(self, now: float) -> float | None:
        """None when a packet may leave at `now`, else the time from which one may."""
        rate = max(self._controller.pacing_bps / 8.0, 1.0)
        burst = max(self._packet_size, rate * self.BURST_SECONDS)
        if self._updated is not None:
            self._tokens = min(burst, self._tokens + max(0.0, now - self._updated) * rate)
        self._updated = now
        return None if self._tokens > 0 else now - self._tokens / rate + 1e-6

    def update_after_send(self, now: float) -> None:  # noqa: ARG002 - aioquic's signature
        """Charge the packet just built, unless it only acknowledges."""
        builder = self.builder
        if builder is None:
            self._tokens -= self._packet_size
        elif builder._packet is not None and builder._packet.in_flight:
            self._tokens -= builder._buffer.tell() - builder._packet_start

    def update_rate(self, **_: Any) -> None:
        """The rate is the controller's; aioquic's window/RTT estimate is not used."""


class MediaQuic(QuicConnection):
    """A QUIC connection that is filled at the last moment and paced by a limen controller."""

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        controller: Controller,
        source: PacketSource,
        original_destination_connection_id: bytes | None = None,
    ) -> None:
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_destination_connection_id,
        )
        self._logger = _Quieter(self._logger.logger, self._logger.extra)  # type: ignore[assignment]
        self._source = source
        self._pump_now = 0.0
        self._cut_short = False
        self._last_stream_data = float("-inf")
        self._media_pacer = Pacer(controller, configuration.max_datagram_size)
        self._loss._cc = self._shim = _ControlShim(controller, self._media_pacer)
        self._loss._pacer = self._media_pacer  # type: ignore[assignment]
        self._local_max_streams_uni = Limit(
            frame_type=self._local_max_streams_uni.frame_type,
            name=self._local_max_streams_uni.name,
            value=STREAM_CREDIT,
        )
        self._local_max_data = self._window = ReceiveWindow(self._local_max_data)

    # -- sending

    def pump(self, *, now: float) -> list[tuple[bytes, Any]]:
        """Everything that may leave at `now`.

        A frame that does not fit (a RESET_STREAM, say) ends aioquic's batch early, hence the loop.
        """
        self._pump_now = now
        out: list[tuple[bytes, Any]] = []
        while batch := self.datagrams_to_send(now):
            out += batch
            if not self._cut_short:
                break
        return out

    def _write_application(
        self, builder: QuicPacketBuilder, network_path: QuicNetworkPath, now: float
    ) -> None:
        """As aioquic's, which begins a packet to find out that there is nothing to put in it."""
        self._cut_short = False
        flight = builder.max_flight_bytes
        due = self._spaces[Epoch.ONE_RTT].ack_at if Epoch.ONE_RTT in self._spaces else None
        if flight is not None and flight <= 0 and (due is None or due > now):
            return  # all but acknowledgements and the good-bye counts as in flight
        self._cut_short = True  # stays so when a frame that does not fit is thrown out of here
        super()._write_application(builder, network_path, now)
        self._cut_short = False

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        super()._write_connection_limits(builder, space)
        self._media_pacer.builder = builder
        now = self._pump_now
        if not self._handshake_complete or self._state is not QuicConnectionState.CONNECTED:
            return
        if self._media_pacer.next_send_time(now) is not None:
            return  # the packet exists only because an ACK is due
        room = builder.remaining_flight_space - self._queued_inside()
        if room > 0:
            shortened = builder.remaining_flight_space < builder.remaining_buffer_space
            self._source.fill(PacketRoom(self, room, shortened), now=now)

    def _queued_inside(self) -> int:
        """Bytes aioquic itself will put into this packet: control data and retransmissions."""
        queued = sum(len(data) + 3 for data in self._datagrams_pending)
        for stream in self._streams_queue:
            sender = stream.sender
            if sender.reset_pending:
                queued += 12
            elif not sender.buffer_is_empty and not stream.is_blocked:
                pending = sender._pending
                if len(pending) or sender._pending_eof:
                    queued += sum(r.stop - r.start for r in pending) + 12
        return queued

    def receive_datagram(self, data: bytes, addr: Any, now: float) -> None:
        """As aioquic's, with the acknowledgement delay that fits what has been coming in."""
        recent = now - self._last_stream_data < STREAM_RECENCY
        self._ack_delay = PROMPT_ACK if recent else LAZY_ACK
        super().receive_datagram(data, addr, now)

    @property
    def waiting_datagrams(self) -> int:
        """DATAGRAMs handed over (reports, clock answers) that no packet has taken yet."""
        return len(self._datagrams_pending)

    def note_stream_data(self, *, now: float) -> None:
        """Stream data came in: its sender repairs losses only as fast as it is acknowledged."""
        self._last_stream_data = now

    # -- what the peer allows

    @property
    def datagram_limit(self) -> int:
        """Largest DATAGRAM payload the peer takes, in bytes; 0 when it takes none (RFC 9221)."""
        peer = self._remote_max_datagram_frame_size
        if peer is None:
            return 0
        # aioquic's receiver wants length field + payload below its limit, frame type not counted.
        return max(0, min(peer - 4, self._max_datagram_size - DATAGRAM_OVERHEAD))

    def can_open_stream(self) -> bool:
        """True when the peer's credit allows one more unidirectional stream."""
        return self._local_next_stream_id_uni // 4 < self._remote_max_streams_uni

    @property
    def new_stream_credit(self) -> int:
        """Bytes a new unidirectional stream may carry before the peer grants more."""
        return self._remote_max_stream_data_uni

    def stream_credit(self, stream_id: int) -> int:
        """Highest offset the peer allows on an open stream."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.max_stream_data_remote

    def connection_credit(self) -> int:
        """Bytes the peer still accepts over all streams."""
        return max(0, self._remote_max_data - self._remote_max_data_used)

    # -- what became of streams

    def stream_is_open(self, stream_id: int) -> bool:
        """True while our side of the stream has not been wholly acknowledged or reset."""
        stream = self._streams.get(stream_id)
        return stream is not None and not stream.sender.is_finished

    def stream_needs_repair(self, stream_id: int) -> bool:
        """True when bytes of the stream were lost and wait to be sent again."""
        stream = self._streams.get(stream_id)
        return stream is not None and bool(
            len(stream.sender._pending) or stream.sender._pending_eof
        )

    def abandon_stream(self, stream_id: int, error_code: int) -> None:
        """RESET_STREAM an own stream; nothing happens if it is finished or unknown."""
        if stream_id in self._streams:
            self.reset_stream(stream_id, error_code)

    def refuse_stream(self, stream_id: int, error_code: int) -> None:
        """STOP_SENDING a peer's stream; nothing happens if it is finished or unknown."""
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.receiver.is_finished:
            self.stop_stream(stream_id, error_code)

    @property
    def live_streams(self) -> int:
        """Streams aioquic keeps state for."""
        return len(self._streams)

    # -- what was received and measured

    def consume(self, size: int) -> None:
        """The session took over (or gave up) `size` bytes: the peer may send as many more."""
        self._window.consumed += size

    def consume_rest(self, stream_id: int) -> None:
        """The peer reset a stream: its bytes that never came count as taken over too."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self.consume(max(0, stream.receiver.highest_offset - stream.receiver._buffer_start))

    @property
    def largest_received(self) -> int:
        """Largest 1-RTT packet number received; −1 before the first."""
        space = self._spaces.get(Epoch.ONE_RTT)
        return -1 if space is None else space.largest_received_packet

    @property
    def packets_sent(self) -> int:
        """The next packet number, which is also one past the newest sent."""
        return self._packet_number

    @property
    def packets_lost(self) -> int:
        """Packets declared lost so far."""
        return self._shim.packets_lost

    @property
    def smoothed_rtt(self) -> float | None:
        """Smoothed round-trip time in seconds (RFC 9002 section 5.3); None before a sample."""
        return self._loss._rtt_smoothed if self._loss._rtt_initialized else None

    @property
    def bytes_in_flight(self) -> int:
        """Bytes sent and neither acknowledged nor declared lost."""
        return self._loss.bytes_in_flight

    @property
    def is_connected(self) -> bool:
        """True between the handshake's completion and the start of closing."""
        return self._handshake_complete and self._state is QuicConnectionState.CONNECTED

    @property
    def termination(self) -> ConnectionTerminated | None:
        """Why the connection is ending, as soon as that is so.

        aioquic's own event comes only after the draining period of three probe time-outs
        (RFC 9000 section 10.2), in which nothing can be sent or received any more.
        """
        return self._close_event if self._state in ENDING else None

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER form, once the handshake has shown it."""
        certificate = self.tls._peer_certificate if hasattr(self, "tls") else None
        return None if certificate is None else certificate.public_bytes(Encoding.DER)
