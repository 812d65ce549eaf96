"""Every name that the adapter borrows from aioquic: that it exists, and that it still does its job.

When one of these fails after an upgrade of aioquic, read the changes around the named attribute,
mend `transport/quic/adapter.py`, and only then move `AIOQUIC_VERSION`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import Limit, QuicConnection
from aioquic.quic.packet_builder import QuicPacketBuilder

from limen.transport.congestion.delay import DelayController, DelaySettings
from limen.transport.quic import adapter, receive_window
from limen.transport.quic.adapter import MediaQuic, Pacer
from limen.transport.quic.packet_room import PacketRoom

HELP = "aioquic has changed here; see this file's first lines"
BORROWED = {
    "connection": {
        "_ack_delay",
        "_close_event",
        "_datagrams_pending",
        "_handshake_complete",
        "_local_max_data",
        "_local_max_streams_uni",
        "_local_next_stream_id_uni",
        "_loss",
        "_max_datagram_size",
        "_packet_number",
        "_remote_max_data",
        "_remote_max_data_used",
        "_remote_max_datagram_frame_size",
        "_remote_max_stream_data_uni",
        "_remote_max_streams_uni",
        "_spaces",
        "_state",
        "_streams",
        "_streams_queue",
        "_write_connection_limits",
    },
    "loss": {"_cc", "_pacer", "_rtt_initialized", "_rtt_smoothed"},
    "builder": {"_buffer", "_packet", "_packet_start"},
    "sender": {"_pending", "_pending_eof"},
    "receiver": {"_buffer_start"},
    "tls": {"_peer_certificate"},
}
"""What `adapter.py` reaches for, by the object it belongs to."""
PUBLIC = {
    "loss": {"bytes_in_flight", "congestion_window"},
    "builder": {"remaining_flight_space", "remaining_buffer_space"},
    "sender": {"reset_pending", "buffer_is_empty", "is_finished"},
    "receiver": {"highest_offset", "is_finished"},
    "stream": {"is_blocked", "max_stream_data_remote", "sender", "receiver"},
    "space": {"largest_received_packet"},
}


class Source:
    """A packet source whose behaviour a test sets."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, int, bool]] = []
        self.write: Callable[[PacketRoom], None] = lambda _packet: None

    def fill(self, packet: PacketRoom, *, now: float) -> None:
        self.calls.append((now, packet.room, packet.shortened))
        self.write(packet)


class Pair:
    """A client and a server that exchange packets without delay, in virtual time."""

    def __init__(
        self,
        certificate: Any,
        *,
        datagrams: int | None = 65536,
        rate_bps: float = 100e6,
        **server_options: Any,
    ) -> None:
        self.now = 50.0
        self.source, self.server_source = Source(), Source()
        settings = DelaySettings(initial_bps=rate_bps, maximum_bps=rate_bps)
        self.controller = DelayController(settings)
        common: dict[str, Any] = {"alpn_protocols": ["x"], "max_datagram_size": 1200}
        self.client = MediaQuic(
            configuration=QuicConfiguration(
                is_client=True, verify_mode=0, max_datagram_frame_size=65536, **common
            ),
            controller=self.controller,
            source=self.source,
        )
        options = QuicConfiguration(
            is_client=False, max_datagram_frame_size=datagrams, **common, **server_options
        )
        options.certificate, options.private_key = certificate.certificate, certificate.private_key
        self._options = options
        self.server: MediaQuic | None = None
        self.client.connect(("s", 1), now=self.now)
        self.packets: list[bytes] = []
        for _ in range(8):
            self.turn()
        assert self.client.is_connected
        assert self.peer.is_connected

    @property
    def peer(self) -> MediaQuic:
        assert self.server is not None
        return self.server

    def out(self) -> list[bytes]:
        """What the client sends now."""
        return [data for data, _ in self.client.pump(now=self.now)]

    def turn(self, seconds: float = 0.03) -> None:
        """Exchange packets, then let time pass."""
        for data in self.out():
            self.packets.append(data)
            if self.server is None:
                self.server = MediaQuic(
                    configuration=self._options,
                    controller=DelayController(),
                    source=self.server_source,
                    original_destination_connection_id=data[6 : 6 + data[5]],
                )
            self.server.receive_datagram(data, ("c", 1), self.now)
        for data, _ in self.peer.pump(now=self.now):
            self.client.receive_datagram(data, ("s", 1), self.now)
        self.now += seconds
        for end in (self.client, self.peer):
            timer = end.get_timer()
            if timer is not None and timer <= self.now:
                end.handle_timer(self.now)

    def server_events(self) -> list[Any]:
        events = []
        while (event := self.peer.next_event()) is not None:
            events.append(event)
        return events


@pytest.fixture
def pair(certificate: Any) -> Callable[..., Pair]:
    return lambda **options: Pair(certificate, **options)


# -- the names


def test_the_table_of_borrowed_names_is_complete() -> None:
    tree = ast.parse(inspect.getsource(adapter))
    own = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    theirs = {name for names in BORROWED.values() for name in names}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
    }
    assert used - own <= theirs, f"new private names without a test: {used - own - theirs}"
    assert theirs <= used, f"no longer used, take them off the table: {theirs - used}"


def test_every_borrowed_name_exists(pair: Any) -> None:
    p = pair()
    p.source.write = lambda packet: packet.write_stream(None, 0, b"x", fin=False) and None
    p.turn()
    quic = p.client
    stream = next(iter(quic._streams.values()))
    builder = QuicPacketBuilder(
        host_cid=b"", peer_cid=b"", version=1, is_client=True, max_datagram_size=1200
    )
    objects = {
        "connection": QuicConnection(
            configuration=QuicConfiguration(is_client=True)
        ),  # aioquic's own, where the adapter cannot hide a missing name
        "loss": quic._loss,
        "builder": builder,
        "sender": stream.sender,
        "receiver": stream.receiver,
        "stream": stream,
        "tls": quic.tls,
        "space": next(iter(quic._spaces.values())),
    }
    missing = [
        f"{owner}.{name}"
        for table in (BORROWED, PUBLIC)
        for owner, names in table.items()
        for name in names
        if not (hasattr(type(objects[owner]), name) or hasattr(objects[owner], name))
    ]
    assert not missing, f"{HELP}: {missing}"


def test_a_limit_is_still_made_of_frame_type_name_and_value() -> None:
    limit = Limit(frame_type=0x10, name="max_data", value=7)
    assert (limit.frame_type, limit.name, limit.value, limit.used, limit.sent) == (
        (0x10, "max_data", 7, 0, 7)
    ), HELP


def test_another_version_of_aioquic_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter.check_aioquic()
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.7.3")
    with pytest.raises(RuntimeError, match=r"1\.7\.2 exactly.*found 1\.7\.3.*pip install"):
        adapter.check_aioquic()


# -- the hook


def test_the_source_is_asked_once_per_packet_before_datagrams_and_streams(pair: Any) -> None:
    p = pair()
    order: list[str] = []
    client = p.client
    for name in ("_write_datagram_frame", "_write_stream_frame", "_write_ping_frame"):
        inner = getattr(client, name)

        def spy(*args: Any, _inner: Any = inner, _name: str = name, **kwargs: Any) -> Any:
            order.append(_name)
            return _inner(*args, **kwargs)

        setattr(client, name, spy)
    left = [b"s" * 3000]

    def write(packet: PacketRoom) -> None:
        order.append("fill")
        if packet.datagram_fits(100) and len(order) < 3:
            packet.write_datagram(bytes(100))
        size = min(packet.stream_room(None, 0), len(left[0]))
        if size > 0:
            packet.write_stream(None, 0, left[0][:size], fin=True)
            left[0] = left[0][size:]

    p.source.write = write
    client.send_ping(1)
    packets = p.out()
    assert len(packets) >= 3
    assert order[0] == "fill", f"{HELP}: something is written before the source is asked"
    asked = order.count("fill")
    # Once per packet, once to find no more, and once for the batch that finds nothing at all.
    assert len(packets) <= asked <= len(packets) + 2, HELP
    assert order[1:4] == ["_write_ping_frame", "_write_datagram_frame", "_write_stream_frame"]


def test_nothing_unsent_stays_inside(pair: Any) -> None:
    p = pair()
    budget = [200_000]

    def write(packet: PacketRoom) -> None:
        while packet.room > 20 and budget[0] > 0:
            size = min(packet.stream_room(None, 0), 700, budget[0])
            if size <= 0:
                return
            packet.write_stream(None, 0, bytes(size), fin=True)
            budget[0] -= size
            if packet.datagram_fits(90):
                packet.write_datagram(bytes(90))

    p.source.write = write
    p.out()
    client = p.client
    pending = [len(s.sender._pending) for s in client._streams.values()]
    assert pending
    assert not any(pending), f"{HELP}: stream bytes were handed over that no packet took"
    assert client.waiting_datagrams == 0


def test_packets_are_filled_to_the_last_byte(pair: Any) -> None:
    p = pair()
    state: dict[str, Any] = {"stream": None, "offset": 0}

    def write(packet: PacketRoom) -> None:
        room = packet.stream_room(state["stream"], state["offset"])
        if room > 0:
            state["stream"] = packet.write_stream(
                state["stream"], state["offset"], bytes(room), fin=False
            )
            state["offset"] += room
        assert packet.room == 0

    p.source.write = write
    p.turn()
    p.turn()
    p.packets.clear()
    p.turn()
    sizes = [len(data) for data in p.packets]
    assert len(sizes) > 5
    # STREAM frames carry two bytes of length; aioquic leaves out nothing, so nothing is spare.
    assert set(sizes) == {1200}, f"{HELP}: sizes of full packets {sorted(set(sizes))}"


def test_a_full_datagram_fits_exactly(pair: Any) -> None:
    p = pair()
    largest = p.client.datagram_limit
    taken: list[int] = []

    def write(packet: PacketRoom) -> None:
        if not taken and packet.datagram_fits(largest):
            packet.write_datagram(bytes(largest))
            taken.append(packet.room)

    p.source.write = write
    p.turn()
    assert taken, HELP
    assert taken[0] >= 0
    assert p.client.waiting_datagrams == 0, "a DATAGRAM larger than a packet blocks all later ones"
    assert [len(e.data) for e in p.server_events() if hasattr(e, "data")] == [largest]


def test_room_is_kept_for_what_aioquic_writes_itself(pair: Any) -> None:
    p = pair()
    p.turn()
    p.source.calls.clear()
    p.out()
    free = p.source.calls[0][1]
    p.client.send_stream_data(0, bytes(500))
    p.client.send_datagram_frame(bytes(50))
    p.source.calls.clear()
    p.out()
    room = p.source.calls[0][1]
    assert 500 + 50 <= free - room <= 500 + 50 + 40, HELP


def test_retransmissions_and_resets_are_counted_as_queued(pair: Any) -> None:
    p = pair()
    sent: list[int] = []

    def write(packet: PacketRoom) -> None:
        if not sent:
            sent.append(packet.write_stream(None, 0, bytes(900), fin=True))

    p.source.write = write
    assert len(p.out()) == 1  # and lost
    (stream_id,) = sent
    assert not p.client.stream_needs_repair(stream_id)
    assert p.client.stream_is_open(stream_id)
    for _ in range(40):
        p.turn(0.05)
        if p.client.stream_needs_repair(stream_id):
            break
    else:
        pytest.fail(f"{HELP}: a lost stream never asks for repair")
    p.source.calls.clear()
    p.out()
    assert p.source.calls[0][1] < 300, "the repair's bytes were not set aside"


def test_an_abandoned_stream_is_reset_and_forgotten(pair: Any) -> None:
    p = pair()
    sent: list[int] = []

    def write(packet: PacketRoom) -> None:
        if not sent:
            sent.append(packet.write_stream(None, 0, bytes(100), fin=False))

    p.source.write = write
    p.turn()
    assert p.client.live_streams == 1
    p.client.abandon_stream(sent[0], 0x10)
    p.client.abandon_stream(9999999, 0x10)  # unknown: nothing happens
    for _ in range(6):
        p.turn()
    resets = [e for e in p.server_events() if type(e).__name__ == "StreamReset"]
    assert [(e.stream_id, e.error_code) for e in resets] == [(sent[0], 0x10)]
    assert not p.client.stream_is_open(sent[0])
    assert p.client.live_streams == 0, HELP


def test_a_refused_stream_is_stopped(pair: Any) -> None:
    p = pair()
    sent: list[int] = []

    def write(packet: PacketRoom) -> None:
        if not sent:
            sent.append(packet.write_stream(None, 0, bytes(100), fin=False))

    p.source.write = write
    p.turn()
    p.peer.refuse_stream(sent[0], 0x11)
    p.peer.refuse_stream(9999999, 0x11)
    for _ in range(6):
        p.turn()
    stops = []
    while (event := p.client.next_event()) is not None:
        if type(event).__name__ == "StopSendingReceived":
            stops.append((event.stream_id, event.error_code))
    assert stops == [(sent[0], 0x11)]
    assert p.peer.live_streams == 0, HELP


# -- pacing and the window


class FixedController(DelayController):
    window = 100_000
    pacing = 800_000.0

    @property
    def window_bytes(self) -> int:
        return self.window

    @property
    def pacing_bps(self) -> float:
        return self.pacing


def endless(packet: PacketRoom) -> None:
    while (room := packet.stream_room(None, 0)) > 0:
        packet.write_stream(None, 0, bytes(room), fin=True)


def with_controller(p: Pair, controller: FixedController) -> None:
    p.client._media_pacer._controller = controller
    p.client._loss._cc.controller = controller  # type: ignore[attr-defined]


def test_pacing_counts_bytes_not_packets(pair: Any) -> None:
    for size in (100, 1100):
        p = pair()
        controller = FixedController()
        with_controller(p, controller)

        def write(packet: PacketRoom, size: int = size) -> None:
            if packet.room > 1100 + 20:
                packet.write_stream(None, 0, bytes(size), fin=True)

        p.source.write = write
        begin, sent = p.now, 0
        while p.now < begin + 1.0:
            before = len(p.packets)
            p.turn(0.001)
            sent += sum(len(data) for data in p.packets[before:])
        assert 88_000 < sent < 125_000, f"{size}-byte pieces at 800 kbit/s: {sent} bytes in 1 s"


def test_acknowledgements_alone_are_not_charged_to_the_pacer() -> None:
    pacer = Pacer(FixedController(), 1200)
    assert pacer.next_send_time(1.0) is None

    class Packet:
        in_flight = False

    class Builder:
        _packet = Packet()
        _packet_start = 0

        class _buffer:  # noqa: N801 - aioquic's name
            @staticmethod
            def tell() -> int:
                return 1200

    pacer.builder = Builder()  # type: ignore[assignment]
    for _ in range(50):
        pacer.update_after_send(1.0)
    assert pacer.next_send_time(1.0) is None
    Packet.in_flight = True
    pacer.update_after_send(1.0)
    pacer.update_after_send(1.0)
    when = pacer.next_send_time(1.0)
    assert when is not None
    assert when == pytest.approx(1.0 + 1200 / 100_000, abs=1e-3)


def test_the_pacers_debt_is_bounded_and_a_pause_earns_no_burst() -> None:
    pacer = Pacer(FixedController(), 1200)
    pacer.next_send_time(0.0)
    pacer.next_send_time(1000.0)  # a long pause
    sent = 0
    while pacer.next_send_time(1000.0) is None:
        pacer.update_after_send(1000.0)
        sent += 1
    assert sent <= 2


def test_the_window_is_the_controllers(pair: Any) -> None:
    p = pair()
    controller = FixedController()
    controller.window, controller.pacing = 5_000, 1e9
    with_controller(p, controller)
    p.source.write = endless
    p.out()
    assert 5_000 - 1_200 <= p.client.bytes_in_flight <= 5_000, HELP
    assert any(shortened for _, _, shortened in p.source.calls), "the last packet was cut"
    controller.window = 50_000
    p.out()
    assert p.client.bytes_in_flight > 45_000


def test_the_controller_hears_of_every_packet(pair: Any) -> None:
    p = pair()
    heard: list[tuple[str, int]] = []

    class Listening(FixedController):
        def on_sent(self, packet_number: int, size: int, *, in_flight: int, now: float) -> None:
            heard.append(("sent", packet_number))

        def on_acked(self, packet_number: int, size: int, *, now: float) -> None:
            heard.append(("acked", packet_number))

        def on_lost(self, packet_number: int, size: int, *, now: float) -> None:
            heard.append(("lost", packet_number))

        def on_rtt(self, rtt: float, *, now: float) -> None:
            heard.append(("rtt", 0))

    with_controller(p, Listening())
    budget = [20]

    def write(packet: PacketRoom) -> None:
        if budget[0] and packet.room > 1000:
            budget[0] -= 1
            packet.write_stream(None, 0, bytes(300), fin=True)

    p.source.write = write
    first = p.client.packets_sent
    p.client.pump(now=p.now)  # the first batch is lost
    for _ in range(60):
        p.turn()
    assert p.client.packets_sent > first + 5
    kinds = {kind for kind, _ in heard}
    assert kinds == {"sent", "acked", "lost", "rtt"}, f"{HELP}: {kinds}"
    assert any(kind == "lost" and first <= number < first + 20 for kind, number in heard)
    assert p.client.bytes_in_flight == 0
    assert p.client.smoothed_rtt is not None


def test_no_round_trip_before_a_sample() -> None:
    quic = MediaQuic(
        configuration=QuicConfiguration(is_client=True),
        controller=DelayController(),
        source=Source(),
    )
    assert quic.smoothed_rtt is None
    assert quic.largest_received == -1
    assert quic.peer_certificate is None
    assert quic.datagram_limit == 0
    assert not quic.is_connected


# -- what the peer allows


@pytest.mark.parametrize(
    ("announced", "limit"),
    [(65536, 1170), (1400, 1170), (200, 196), (4, 0), (1, 0), (None, 0), (0, 0)],
)
def test_the_peers_datagram_limit(pair: Any, announced: int | None, limit: int) -> None:
    p = pair(datagrams=announced)
    assert p.client.datagram_limit == limit, HELP
    if limit:
        p.source.write = lambda packet: (
            packet.write_datagram(bytes(limit))
            if packet.datagram_fits(limit) and len(p.source.calls) < 3
            else None
        )
        p.source.calls.clear()
        for _ in range(4):
            p.turn()
        assert p.peer.is_connected, "the peer took a DATAGRAM within its limit for too large"


def test_stream_credit_is_respected_and_comes_back(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "STREAM_CREDIT", 64)
    p = pair()
    assert p.client._remote_max_streams_uni == 64, HELP
    opened: list[int] = []

    def write(packet: PacketRoom) -> None:
        while packet.stream_room(None, 0) > 100:
            opened.append(packet.write_stream(None, 0, bytes(10), fin=True))

    p.source.write = write
    p.out()  # lost, so no credit can come back yet
    assert len(opened) == 64, f"{HELP}: more streams than the peer allows, or fewer"
    assert not p.client.can_open_stream()
    for _ in range(100):
        p.turn(0.01)
        p.server_events()
    assert len(opened) > 64 * 3, f"{HELP}: finished streams gave no credit back"
    assert p.peer.live_streams <= 64
    assert p.client.live_streams <= 64


def test_flow_control_limits_what_fits(pair: Any) -> None:
    p = pair()
    granted: list[tuple[int, int, int]] = []

    def write(packet: PacketRoom) -> None:
        quic = p.client
        if not granted:
            stream = packet.write_stream(None, 0, bytes(100), fin=False)
            granted.append(
                (quic.new_stream_credit, quic.stream_credit(stream), quic.connection_credit())
            )
            quic._streams[stream].max_stream_data_remote = 150
            assert packet.stream_room(stream, 100) == 50
            quic._remote_max_data_used = quic._remote_max_data - 20
            assert packet.stream_room(stream, 100) == 20
            assert packet.stream_room(None, 0) == 20
            quic._remote_max_data_used = quic._remote_max_data
            assert packet.stream_room(None, 0) == 0

    p.source.write = write
    p.out()
    new, per_stream, connection = granted[0]
    assert new == per_stream == 1_048_576, HELP
    assert connection > 0
    assert p.client.stream_credit(9999999) == 0


def test_the_receive_window_follows_what_is_consumed(pair: Any) -> None:
    p = pair()
    server = p.peer
    window = receive_window.RECEIVE_WINDOW
    assert server._local_max_data.value == window
    server._local_max_data.value = window * 2  # what aioquic does when half is used
    assert server._local_max_data.value == window, "nothing consumed: nothing more is granted"
    server.consume(window // 8)
    server._local_max_data.value = window * 2
    assert server._local_max_data.value == window, "not a frame for every packet"
    server.consume(window // 2)
    server._local_max_data.value = window * 2
    assert server._local_max_data.value == window + window // 8 + window // 2


def test_a_peer_that_never_finishes_is_stopped_by_the_window(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive_window, "RECEIVE_WINDOW", 1_000_000)
    p = pair(rate_bps=1e9)
    p.source.write = endless
    for _ in range(200):
        p.turn(0.005)  # the server's session never consumes
    sent = p.client._remote_max_data_used
    assert sent <= receive_window.RECEIVE_WINDOW, f"{HELP}: {sent} bytes were let in"
    assert sent > receive_window.RECEIVE_WINDOW - 100_000, "this test never reached the bound"


def test_consume_rest_counts_what_a_reset_stream_never_delivered(pair: Any) -> None:
    p = pair()
    server = p.peer
    sent: list[int] = []

    def write(packet: PacketRoom) -> None:
        if not sent:
            sent.append(packet.write_stream(None, 0, bytes(300), fin=False))
        elif len(sent) == 1:
            packet.write_stream(sent[0], 300, bytes(400), fin=False)
            sent.append(0)

    p.source.write = write
    p.turn()
    delivered = sum(len(e.data) for e in p.server_events() if hasattr(e, "data"))
    p.client._streams[sent[0]].sender.highest_offset += 1000  # sent, never arrived
    p.client._remote_max_data_used += 1000
    p.client.abandon_stream(sent[0], 0x10)
    before = server._local_max_data.consumed
    for data in p.out():
        server.receive_datagram(data, ("c", 1), p.now)
    assert any(type(e).__name__ == "StreamReset" for e in p.server_events())
    server.consume_rest(sent[0])
    rest = server._local_max_data.consumed - before
    assert delivered + rest == 1700, f"{HELP}: {delivered} + {rest}"


# -- acknowledgements and what is read back


def test_acknowledgements_are_prompt_only_while_stream_data_flows(pair: Any) -> None:
    p = pair()
    server = p.peer
    ping: list[int] = []

    def delay_of_ack() -> float:
        ping.append(1)
        p.client.send_ping(len(ping))
        for data in p.out():
            server.receive_datagram(data, ("c", 1), p.now)
        ack_at = min(s.ack_at for s in server._spaces.values() if s.ack_at is not None)
        return float(ack_at - p.now)

    for _ in range(5):
        p.turn()
    assert delay_of_ack() == pytest.approx(adapter.LAZY_ACK), HELP
    for _ in range(5):
        p.turn()
    server.note_stream_data(now=p.now)
    assert delay_of_ack() == pytest.approx(adapter.PROMPT_ACK), HELP


def test_numbers_read_back(pair: Any, certificate: Any) -> None:
    p = pair()
    sent = p.client.packets_sent
    largest = p.peer.largest_received
    assert largest < sent
    p.client.send_ping(1)
    p.turn()
    assert p.client.packets_sent == sent + 1
    assert p.peer.largest_received == sent, HELP
    from limen.transport.quic.tls import fingerprint_of

    shown = p.client.peer_certificate
    assert shown is not None
    assert fingerprint_of(shown) == certificate.fingerprint
    assert p.peer.peer_certificate is None
