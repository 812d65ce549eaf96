"""UDP sockets and time for session cores.

A plain non-blocking socket beats asyncio's datagram transport: a burst is drained in one go and
answered with one transmit, and nothing is queued in user space between the scheduler and the
kernel. Each session has a one-shot timer exact to 0.1 ms that is armed only for what is due
next, so an idle session costs no wake-ups.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE, QuicConfiguration
from aioquic.quic.packet import (
    QuicPacketType,
    encode_quic_version_negotiation,
    pull_quic_header,
)

from ..scheduler.checks import text, whole
from .close_reasons import CloseCode
from .core import SessionCore
from .errors import ConnectError
from .events import Event
from .quic.timer import make_timer

logger = logging.getLogger("limen")
DRAIN = 64
"""Packets read in one go before answering: 64 × 50 µs keeps one turn of the loop near 3 ms."""
SOCKET_BUFFER = 4 << 20
"""Bytes asked of the kernel each way: 60 ms of a blocked loop at 500 Mbit/s."""
CONNECTION_ID_LENGTH = 8

Address = Any
"""What the socket module uses: a tuple whose form depends on the address family."""


class Wire:
    """Moves one core's packets through a socket, and its events to whoever owns it."""

    def __init__(
        self,
        core: SessionCore,
        sock: socket.socket,
        loop: asyncio.AbstractEventLoop,
        on_event: Callable[[Event], None],
        *,
        connected: bool,
    ) -> None:
        self.core = core
        self.counts: Counter[str] = Counter()
        self.after_pump: Callable[[], None] = lambda: None
        """Called after each pump; the server uses it to follow connection IDs."""
        self._sock = sock
        self._loop = loop
        self._on_event = on_event
        self._connected = connected
        self._pending: deque[Event] = deque()
        self._timer = make_timer(loop, self._on_timer)
        self._armed: float | None = None
        self._woken = False
        self._closed = False

    def wake(self) -> None:
        """Something was queued: transmit at the loop's next turn, once."""
        if not self._woken and not self._closed:
            self._woken = True
            self._loop.call_soon(self._on_wake)

    def receive(self, data: bytes, address: Address, *, now: float) -> None:
        """Feed a packet; call `pump` after the last of a batch."""
        self.counts["bytes_in"] += len(data)
        try:
            self.core.receive(data, address, now=now)
        except Exception:
            self._fail()

    def pump(self) -> None:
        """Transmit, hand out events, arm the timer. May be called from within itself."""
        if self._closed:
            return
        now = time.monotonic()
        try:
            self._exchange(now)
        except Exception:
            self._fail()
            with contextlib.suppress(Exception):
                self._exchange(now)  # the good-bye
        if self._closed:
            return
        when = self.core.next_timeout(now=now)
        if when != self._armed:
            self._armed = when
            if when is None:
                self._timer.cancel()
            else:
                self._timer.arm(when)

    def _exchange(self, now: float) -> None:
        for data, address in self.core.transmit(now=now):
            self._send(data, address)
        self._pending += self.core.events()
        while self._pending:  # a nested call goes on here, so events keep their order
            self._on_event(self._pending.popleft())
        self.after_pump()

    def _fail(self) -> None:
        """A fault in this one session ends it; the loop and other sessions go on."""
        logger.exception("a fault in one session; that session is closed, others go on")
        self.counts["faults"] += 1
        self.core.close("internal error", code=CloseCode.INTERNAL)

    def close(self) -> None:
        """Stop for good; the socket stays open."""
        if not self._closed:
            self._closed = True
            self._timer.close()

    def _send(self, data: bytes, address: Address) -> None:
        self.counts["bytes_out"] += len(data)
        try:
            if self._connected:
                self._sock.send(data)
            else:
                self._sock.sendto(data, address)
        except (BlockingIOError, InterruptedError):
            self.counts["send_buffer_full"] += 1  # lost here, as it would be on the link
        except OSError:
            self.counts["send_errors"] += 1  # no route just now; QUIC will notice if it lasts

    def _on_wake(self) -> None:
        self._woken = False
        self.pump()

    def _on_timer(self) -> None:
        self._armed = None
        try:
            self.core.handle_timeout(now=time.monotonic())
        except Exception:
            self._fail()
        self.pump()


def open_socket(family: int, address: Address, *, connect: bool) -> socket.socket:
    """A non-blocking UDP socket, bound to or connected with `address`."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):  # a system with a lower limit may refuse
                sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
        if connect:
            sock.connect(address)
        else:
            sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


async def resolve(host: str, port: int) -> tuple[int, Address]:
    """Address family and address for a host name or number. Raises ConnectError."""
    whole("a port", port, 0, 65535)
    text("a host", host, 255, least=0)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise ConnectError(f"the host name {host!r} cannot be resolved: {error}") from error
    family, _, _, _, address = found[0]
    return family, address


def watch(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, readable: Callable[[], None]
) -> Callable[[], None]:
    """Call `readable` when the socket has packets; returns what ends that.

    On loops without `add_reader` (Windows' default) the socket is looked at every millisecond.
    """
    try:
        loop.add_reader(sock.fileno(), readable)
    except NotImplementedError:
        task = loop.create_task(_poll(readable))
        return task.cancel  # type: ignore[return-value]
    return lambda: loop.remove_reader(sock.fileno())  # type: ignore[return-value]


async def _poll(readable: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(0.001)
        readable()


class ClientEndpoint:
    """One socket, one session."""

    def __init__(
        self, sock: socket.socket, core: SessionCore, on_event: Callable[[Event], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.refused = False
        """True once the system said that nothing listens at the peer's port."""
        self.on_refused: Callable[[], None] = lambda: None
        self.wire = Wire(core, sock, loop, on_event, connected=True)
        self._sock = sock
        self._address = sock.getpeername()
        self._unwatch = watch(loop, sock, self._readable)

    def connect(self) -> None:
        """Start the handshake."""
        self.wire.core.connect(self._address, now=time.monotonic())
        self.wire.pump()

    def close(self) -> None:
        """Close the socket."""
        self.wire.close()
        self._unwatch()
        self._sock.close()

    def _readable(self) -> None:
        for _ in range(DRAIN):
            try:
                data = self._sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionError:
                self.refused = True
                self.on_refused()
                continue
            except OSError:
                break
            self.wire.receive(data, self._address, now=time.monotonic())
        self.wire.pump()


class ServerEndpoint:
    """One socket, many sessions, told apart by connection ID (RFC 9000 section 5.2)."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        make_core: Callable[[bytes], SessionCore],
        on_session: Callable[[Wire], Callable[[Event], None]],
        max_sessions: int,
    ) -> None:
        self._sock = sock
        self._make_core = make_core
        self._on_session = on_session
        self._max_sessions = max_sessions
        self._loop = asyncio.get_running_loop()
        self._by_id: dict[bytes, Wire] = {}
        self._wires: dict[Wire, None] = {}
        self.counts: Counter[str] = Counter()
        self._versions = QuicConfiguration().supported_versions
        self._unwatch = watch(self._loop, sock, self._readable)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._sock.getsockname()

    @property
    def wires(self) -> list[Wire]:
        """Every session's wire, those still shaking hands included."""
        return list(self._wires)

    def remove(self, wire: Wire) -> None:
        """Forget a session."""
        wire.close()
        self._wires.pop(wire, None)
        for connection_id in [k for k, v in self._by_id.items() if v is wire]:
            del self._by_id[connection_id]

    def stop_accepting(self) -> None:
        """Answer no new handshakes; sessions that are live go on."""
        self._max_sessions = 0

    def close(self) -> None:
        """Close the socket and every wire. Safe to call twice."""
        if self._sock.fileno() < 0:
            return
        for wire in self.wires:
            self.remove(wire)
        self._unwatch()
        self._sock.close()

    def _readable(self) -> None:
        touched: dict[Wire, None] = {}
        for _ in range(DRAIN):
            try:
                data, address = self._sock.recvfrom(65536)
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionError:
                continue  # an earlier packet's peer is gone; its session will notice by itself
            except OSError:
                break
            now = time.monotonic()
            wire = self._find(data, address)
            if wire is not None:
                wire.receive(data, address, now=now)
                touched[wire] = None
        for wire in touched:
            wire.pump()

    def _find(self, data: bytes, address: Address) -> Wire | None:
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=CONNECTION_ID_LENGTH)
        except ValueError:
            self.counts["not_quic"] += 1
            return None
        wire = self._by_id.get(header.destination_cid)
        if wire is not None:
            return wire
        if header.version is not None and header.version not in self._versions:
            if len(data) >= SMALLEST_MAX_DATAGRAM_SIZE:
                self._answer_version(header.destination_cid, header.source_cid, address)
            return None
        if (
            header.packet_type is not QuicPacketType.INITIAL
            or len(data) < SMALLEST_MAX_DATAGRAM_SIZE
        ):
            self.counts["unknown_connection"] += 1
            return None
        if len(self._wires) >= self._max_sessions:
            self.counts["too_many_sessions" if self._max_sessions else "closing"] += 1
            return None
        return self._accept(header.destination_cid)

    def _accept(self, destination: bytes) -> Wire:
        core = self._make_core(destination)
        wire = Wire(core, self._sock, self._loop, lambda _: None, connected=False)
        wire._on_event = self._on_session(wire)  # noqa: SLF001 - same module, made in two steps
        wire.after_pump = lambda: self._follow_ids(wire)
        self._wires[wire] = None
        self._by_id[destination] = wire
        self._by_id[core.quic.host_cid] = wire
        return wire

    def _follow_ids(self, wire: Wire) -> None:
        for issued, connection_id in wire.core.connection_ids:
            if issued:
                self._by_id[connection_id] = wire
            else:
                self._by_id.pop(connection_id, None)
        wire.core.connection_ids.clear()

    def _answer_version(self, destination: bytes, source: bytes, address: Address) -> None:
        packet = encode_quic_version_negotiation(
            source_cid=destination, destination_cid=source, supported_versions=self._versions
        )
        try:
            self._sock.sendto(packet, address)
        except OSError:
            self.counts["send_errors"] += 1
