"""One session, without sockets and clocks.

`SessionCore` joins the QUIC connection, the scheduler, the congestion controller, the wire
format and the bounds on a hostile peer. Whoever owns it (the UDP driver, or a test with two
cores and a simulated link) follows one contract:

1. `connect` (client) or `receive` the first packet (server); later `receive` every packet.
2. After any call that can change something: take `events()`, send what `transmit()` returns,
   and arm a timer for `next_timeout()`, on which `handle_timeout()` is called.

All times are seconds on one monotonic clock, passed in as `now`.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

from aioquic.quic import events as quic_events
from aioquic.quic.configuration import QuicConfiguration

from ..scheduler.scheduler import TICK_S, Scheduler
from ..scheduler.types import MediaObject, ObjectId, Sent, Tag
from . import wire
from .close_reasons import CloseCode, explain_close
from .congestion.base import Controller
from .congestion.choice import make_controller
from .congestion.feedback import REPORT, ArrivalRecorder, decode_report
from .dialogue import Dialogue
from .errors import PeerError, VersionError, WireError
from .events import (
    Closed,
    Event,
    ObjectReceived,
    ObjectSent,
    ObjectsGone,
    ObjectShed,
    RepairsAbandoned,
    TrackInfo,
)
from .incoming import Incoming
from .lateness import LatenessHistogram
from .outgoing import Outgoing
from .playout.clock import ClockOffset
from .quic.adapter import MediaQuic, check_aioquic
from .quic.tls import Certificate, Trust, same_fingerprint
from .settings import SessionSettings

CLOCK_INTERVAL = 1.0
"""Seconds between clock probes while media flows; the first four follow each other closely."""
QUIET = 2.0
"""Seconds without media after which probes stop, so that an idle session sleeps."""
PAYLOAD_RECENCY = 0.05
"""Seconds after the last payload during which arrivals are reported. Reports and acknowledgements
alone are not: two ends would report each other's reports for ever."""
MAX_WAITING_ANSWERS = 16
"""DATAGRAMs that may wait for a packet before clock probes go unanswered: a peer that asks
without end and acknowledges nothing fills no memory."""
REASON_BYTES = 200
"""A reason to close is cut to this many bytes of UTF-8, so that any packet has room for it."""


class SessionCore:
    """See the module's text."""

    def __init__(
        self,
        *,
        settings: SessionSettings,
        certificate: Certificate | None = None,
        trust: Trust | None = None,
        server_name: str | None = None,
        original_destination_connection_id: bytes | None = None,
        controller: Controller | None = None,
    ) -> None:
        check_aioquic()
        self._settings = settings
        self._trust = trust
        self._is_client = certificate is None
        self.controller: Controller = controller or make_controller(settings.congestion)
        self.scheduler = Scheduler(settings.scheduler)
        self.outgoing = Outgoing(self.scheduler)
        self.incoming = Incoming(settings.limits)
        self.tick_lateness = LatenessHistogram()
        self.clock = ClockOffset()
        self.quic = MediaQuic(
            configuration=self._configuration(certificate, server_name),
            controller=self.controller,
            source=self.outgoing,
            original_destination_connection_id=original_destination_connection_id,
        )
        self._recorder = ArrivalRecorder()
        self._dialogue = Dialogue(
            settings, send=self.quic.send_stream_data, is_client=self._is_client
        )
        self._events: list[Event] = []
        self._gone: dict[int, list[list[int]]] = {}
        self._next_tick: float | None = None
        self._last_media = float("-inf")
        self._last_heard = float("-inf")
        self._last_payload = float("-inf")
        self._losses_seen = 0
        self._next_clock: float | None = None
        self._clock_probes = 0
        self._pings = 0
        self.connection_ids: list[tuple[bool, bytes]] = []
        """Connection IDs issued (True) or retired (False) since the owner last cleared this."""
        self.closed: Closed | None = None

    def _configuration(
        self, certificate: Certificate | None, server_name: str | None
    ) -> QuicConfiguration:
        settings = self._settings
        configuration = QuicConfiguration(
            is_client=certificate is None,
            alpn_protocols=[wire.ALPN],
            idle_timeout=settings.idle_timeout,
            max_datagram_size=settings.max_packet_size,
            max_datagram_frame_size=65536 if settings.datagrams else None,
            server_name=server_name,
        )
        if certificate is not None:
            configuration.certificate = certificate.certificate
            configuration.certificate_chain = list(certificate.chain)
            configuration.private_key = certificate.private_key
        elif self._trust is not None:
            configuration.verify_mode = self._trust.verify_mode
            if self._trust.ca_file is not None:
                configuration.load_verify_locations(cafile=self._trust.ca_file)
        else:
            configuration.verify_mode = ssl.CERT_REQUIRED
        return configuration

    @property
    def version(self) -> int | None:
        """The wire version agreed on; None before both HELLOs."""
        return self._dialogue.version

    # -- packets and time

    def connect(self, address: Any, *, now: float) -> None:
        """Start the handshake (client)."""
        self.quic.connect(address, now=now)

    def receive(self, data: bytes, address: Any, *, now: float) -> None:
        """Take one UDP payload."""
        if self.closed is not None:
            return
        before = self.quic.largest_received
        self.quic.receive_datagram(data, address, now)
        largest = self.quic.largest_received
        if largest > before:
            self._last_heard = now
        self._drain(now)
        recent = now - self._last_payload < PAYLOAD_RECENCY
        if largest > before and recent and self.quic.datagram_limit:
            self._recorder.add(largest, now=now)

    def transmit(self, *, now: float) -> list[tuple[bytes, Any]]:
        """UDP payloads to send now, with their addresses."""
        if self.closed is not None:
            return self.quic.pump(now=now)
        self._tick_if_due(now)
        due = self._recorder.due_at()
        if due is not None and now >= due and self.quic.is_connected:
            for report in self._recorder.take():
                self.quic.send_datagram_frame(report)
        if self.quic.packets_lost != self._losses_seen:
            self._losses_seen = self.quic.packets_lost
            self._sweep(now, anyway=True)  # before aioquic repairs what would come too late
        out = self.quic.pump(now=now)
        while self._settle():
            out += self.quic.pump(now=now)
        self._drain(now)
        return out

    def next_timeout(self, *, now: float) -> float | None:
        """When `handle_timeout` should be called next; None: never."""
        if self.closed is not None:
            return None
        timer = self.quic.get_timer()
        if timer is not None and timer <= now:
            # An ACK due exactly now does not yet pass aioquic's pacing check; a microsecond on
            # it does. Without this, equal times would be looked at for ever.
            timer = now + 1e-6
        candidates = [
            timer,
            self._recorder.due_at() if self.quic.is_connected else None,
            self.outgoing.next_sweep(),
            self.incoming.next_timeout(),
            self._next_probe(now),
            self._keepalive_at(),
        ]
        if self.scheduler.backlog_bytes > 0 and self.quic.is_connected:
            if self._next_tick is None or self._next_tick <= now:
                self._next_tick = now + TICK_S
            candidates.append(self._next_tick)
        else:
            self._next_tick = None
        return min((c for c in candidates if c is not None), default=None)

    def handle_timeout(self, *, now: float) -> None:
        """Do whatever has become due."""
        if self.closed is not None:
            return
        timer = self.quic.get_timer()
        if timer is not None and now >= timer:
            self.quic.handle_timer(now)
        self.incoming.expire(self.quic, now=now)
        self._sweep(now)
        self._probe_clock(now)
        keepalive = self._keepalive_at()
        if keepalive is not None and now >= keepalive:
            self._pings += 1
            self.quic.send_ping(self._pings)
            self._last_heard = now - self._settings.idle_timeout / 3 + 1.0  # again in a second
        self._drain(now)

    def events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    def _tick_if_due(self, now: float) -> None:
        if self._next_tick is not None and now >= self._next_tick:
            self.tick_lateness.add(now - self._next_tick)
            self._next_tick += TICK_S
            if self._next_tick <= now:  # ticks were missed: go on from here, without a burst
                self._next_tick = now + TICK_S
            self._link_changed()
            self.scheduler.tick(now=now)
            waiting = self.scheduler.backlog_bytes > 0 and not self.outgoing.starved
            self.controller.on_backlog(waiting, now=now)

    def _settle(self) -> bool:
        """Take over what the scheduler decided; True when streams have to be reset."""
        reset = False
        for event in self.outgoing.settle(self.quic):
            if isinstance(event, Sent):
                self._events.append(ObjectSent(event))
                continue
            reset = reset or event.object.stream_id is not None
            self._note_gone([event.object.id])
            self._events.append(ObjectShed(event))
        if self._gone and self.quic.is_connected:
            for track, objects in self._gone.items():
                for start in range(0, len(objects), 64):
                    self._send(wire.Gone(track, objects[start : start + 64]))
            self._gone.clear()
            reset = True
        return reset

    def _note_gone(self, ids: Iterable[ObjectId]) -> None:
        for object_id in ids:
            waiting = self._gone.setdefault(object_id.track, [])
            if len(waiting) < 1024:
                waiting.append([object_id.group, object_id.index, object_id.layer])

    def _sweep(self, now: float, *, anyway: bool = False) -> None:
        expired = self.outgoing.sweep(
            self.quic, now=now, one_way=(self.quic.smoothed_rtt or 0.0) / 2, anyway=anyway
        )
        if expired:
            self._events.append(RepairsAbandoned(tuple(expired)))
        self._note_gone(expired)
        for object_id in expired:
            self.scheduler.drop_dependents(object_id, now=now)

    def _keepalive_at(self) -> float | None:
        if not self.quic.is_connected:
            return None
        return self._last_heard + self._settings.idle_timeout / 3

    def _next_probe(self, now: float) -> float | None:
        """When the clocks are compared next; None while nothing flows or the peer cannot answer."""
        if not self.quic.datagram_limit or not self.quic.is_connected:
            return None
        flowing = now - self._last_media < QUIET or self._clock_probes < 4
        return self._next_clock if flowing else None

    def _probe_clock(self, now: float) -> None:
        due = self._next_probe(now)
        if due is None or now < due:
            return
        self._clock_probes += 1
        self._next_clock = now + (0.05 if self._clock_probes < 4 else CLOCK_INTERVAL)
        self.quic.send_datagram_frame(wire.encode_ping(now))

    def _link_changed(self) -> None:
        estimate = self.controller.estimate()
        if estimate.delivered_bps is None:
            return  # nothing measured yet: nothing should be given up on a guess
        # The queue is counted once: the smoothed round trip has it in it already.
        one_way = (estimate.base_rtt or estimate.rtt or 0.1) / 2 + estimate.queue_delay
        self.scheduler.set_link(rate_bps=self.controller.target_bps, one_way_delay=one_way)

    # -- what this end does

    def announce(self, track: TrackInfo) -> None:
        """Offer a track to the peer."""
        if self.closed is None:
            self._dialogue.announce(track)

    def finish(self, track: int, objects: int) -> None:
        """Tell the peer that a track has ended."""
        if self.closed is None:
            self._dialogue.finish(track, objects)

    def subscribe(self, track: int) -> None:
        """Ask the peer for one of its tracks, by number."""
        self.incoming.wanted.add(track)
        self._send(wire.Subscribe(track))

    def unsubscribe(self, track: int) -> None:
        """Tell the peer to stop sending a track."""
        self.incoming.wanted.discard(track)
        self._send(wire.Unsubscribe(track))

    def request_keyframe(self, track: int, since: ObjectId | None = None) -> None:
        """Tell the peer that its track cannot be decoded any more, `since` the last that was."""
        self._send(wire.RequestKeyframe(track, None if since is None else list(since[1:])))

    def tag_remote(self, track: int, tag: Tag, *, now: float) -> None:
        """State importance for one of the peer's tracks. Raises WireError for what it refuses."""
        region = tag.scope.region
        message = wire.TagMessage(
            track,
            tag.kind,
            tag.value,
            max(0.0, now - tag.time),
            tag.half_life,
            tag.scope.layer,
            None if region is None else [region.x, region.y, region.width, region.height],
            tag.source,
        )
        message.check()  # the peer would end the session over it
        self._send(message)

    def send_object(self, obj: MediaObject, *, delivery: str, now: float) -> None:
        """Queue an object; the scheduler decides when, and whether, it leaves."""
        self._last_media = now
        if self._next_clock is None:
            self._next_clock = now
        obj.atomic = self.outgoing.wants_datagram(
            len(obj.payload), obj.deadline, self.quic, delivery=delivery, now=now
        )
        self.scheduler.enqueue(obj, now=now)

    def close(self, reason: str, *, code: CloseCode = CloseCode.DONE) -> None:
        """Say good-bye; `transmit` afterwards carries it to the peer."""
        if self.closed is None:
            short = reason.encode(errors="replace")[:REASON_BYTES].decode(errors="ignore")
            self.quic.close(error_code=code, reason_phrase=short)
            self._finish(Closed(reason, error=code is not CloseCode.DONE))

    # -- what the peer does

    def _drain(self, now: float) -> None:
        while self.closed is None and (event := self.quic.next_event()) is not None:
            try:
                self._on_quic_event(event, now)
            except VersionError as error:
                self.close(str(error), code=CloseCode.VERSION)
            except PeerError as error:
                self.close(str(error), code=CloseCode.PROTOCOL)
        ending = self.quic.termination
        if self.closed is None and ending is not None:
            self._finish(explain_close(ending, self._settings, handshake=self.version is None))

    def _on_quic_event(self, event: quic_events.QuicEvent, now: float) -> None:
        match event:
            case quic_events.StreamDataReceived():
                self._on_stream_data(event, now)
            case quic_events.DatagramFrameReceived():
                self._on_datagram(event.data, now)
            case quic_events.StreamReset():
                self.quic.consume_rest(event.stream_id)
                if event.stream_id == self._dialogue.stream_id:
                    raise PeerError("the peer reset the control stream")
                header = self.incoming.on_reset(event.stream_id)
                if header is not None:
                    self._events.append(ObjectsGone((header.id,)))
            case quic_events.StopSendingReceived():
                if event.stream_id == self._dialogue.stream_id:
                    raise PeerError("the peer stopped reading the control stream")
                self.outgoing.on_refused(event.stream_id, now=now)
            case quic_events.HandshakeCompleted():
                self._on_handshake(now)
            case quic_events.ConnectionIdIssued():
                self.connection_ids.append((True, event.connection_id))
            case quic_events.ConnectionIdRetired():
                self.connection_ids.append((False, event.connection_id))
            case quic_events.ConnectionTerminated():
                self._finish(explain_close(event, self._settings, handshake=self.version is None))
            case _:
                pass

    def _on_handshake(self, now: float) -> None:
        self._last_heard = now
        trust = self._trust
        if self._is_client and trust is not None and trust.fingerprint is not None:
            shown = self.quic.peer_certificate
            if shown is None or not same_fingerprint(shown, trust.fingerprint):
                self.close(
                    "the server's certificate is not the one that was pinned",
                    code=CloseCode.CERTIFICATE,
                )
                return
        if self._is_client:
            self._dialogue.open(self.quic.get_next_available_stream_id())

    def _on_stream_data(self, event: quic_events.StreamDataReceived, now: float) -> None:
        if event.stream_id % 4 in (0, 1):  # bidirectional: control
            self._last_payload = now
            self.quic.consume(len(event.data))
            for heard in self._dialogue.receive(
                event.stream_id, event.data, end=event.end_stream, now=now
            ):
                self._events.append(heard)
            return
        self._last_payload = now
        self.quic.note_stream_data(now=now)
        received = self.incoming.on_stream(
            event.stream_id, event.data, end=event.end_stream, quic=self.quic, now=now
        )
        if received is not None:
            self._on_object(received)

    def _on_datagram(self, data: bytes, now: float) -> None:
        kind = data[0] if data else 0
        if kind == REPORT:
            try:
                arrivals = decode_report(data, newest_sent=self.quic.packets_sent - 1)
            except ValueError as error:
                raise WireError(str(error)) from error
            self.controller.on_arrivals(arrivals, now=now)
            self._link_changed()
        elif kind == wire.OBJECT:
            self._last_payload = now
            received = self.incoming.on_datagram(data[1:], now=now)
            if received is not None:
                self._on_object(received)
        elif kind == wire.CLOCK_PING:
            pong = wire.encode_pong(data, now, now)
            if self.quic.datagram_limit and self.quic.waiting_datagrams < MAX_WAITING_ANSWERS:
                self.quic.send_datagram_frame(pong)
        elif kind == wire.CLOCK_PONG:
            sent, peer_received, peer_sent = wire.decode_pong(data)
            self.clock.add(sent, peer_received, peer_sent, now)
        # Other kinds come from later versions and are skipped.

    def _on_object(self, received: ObjectReceived) -> None:
        self._last_media = received.arrived
        if self._next_clock is None:
            self._next_clock = received.arrived
        self._events.append(received)

    def _send(self, message: wire.Message) -> None:
        if self.closed is None:
            self._dialogue.send(message)

    def _finish(self, closed: Closed) -> None:
        if self.closed is None:
            self.closed = closed
            self._events.append(closed)
