"""Two session cores and a simulated link, stepping virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import limen
from limen.bench.link.model import LinkModel
from limen.bench.link.profile import parse_profile
from limen.scheduler.types import MediaObject, ObjectId
from limen.transport.core import SessionCore
from limen.transport.events import Event, ObjectReceived, TrackInfo
from limen.transport.quic.tls import Certificate, Trust, make_certificate
from limen.transport.settings import SessionSettings
from limen.transport.wire import ObjectHeader

CERTIFICATE = make_certificate()
CLIENT = ("10.0.0.1", 1000)
SERVER = ("10.0.0.2", 2000)


@dataclass
class Rig:
    """A client and a server core; `run` steps both and the link until a virtual time."""

    client: SessionCore
    server: SessionCore | None
    down: LinkModel[bytes]
    up: LinkModel[bytes]
    make_server: Callable[[bytes], SessionCore]
    now: float = 100.0
    events: dict[str, list[tuple[float, Event]]] = field(
        default_factory=lambda: {"client": [], "server": []}
    )
    on_event: Callable[[str, Event], None] = lambda _who, _event: None
    sent: list[tuple[float, str, int]] = field(default_factory=list)
    drop: Callable[[str, bytes], bool] = lambda _who, _data: False
    server_offset: float = 0.0
    """The server's clock minus the client's."""
    wakes: dict[str, int] = field(default_factory=lambda: {"client": 0, "server": 0})
    """How often each end's timer was handled."""
    _calls: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    @property
    def time(self) -> float:
        """Virtual seconds since the start."""
        return self.now - 100.0

    def core(self, who: str) -> SessionCore:
        """One end."""
        core = self.client if who == "client" else self.server
        assert core is not None
        return core

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Do something at a virtual time, relative to the rig's start at 100 s."""
        self._count += 1
        heapq.heappush(self._calls, (100.0 + when, self._count, call))

    def run(self, until: float) -> None:
        """Step to `until` seconds after the start."""
        end = 100.0 + until
        self._flush()
        while True:
            times = [self.down.next_event(), self.up.next_event()]
            armed = {who: self._due(who, core) for who, core in self._cores()}
            times += armed.values()
            if self._calls:
                times.append(self._calls[0][0])
            upcoming = min((t for t in times if t is not None), default=math.inf)
            if upcoming > end:
                self.now = end
                return
            self.now = max(self.now, upcoming)
            while self._calls and self._calls[0][0] <= self.now:
                heapq.heappop(self._calls)[2]()
            for data in self.up.pop(now=self.now):
                if self.server is None:
                    self.server = self.make_server(data)
                self.server.receive(data, CLIENT, now=self.clock("server"))
            for data in self.down.pop(now=self.now):
                self.client.receive(data, SERVER, now=self.clock("client"))
            for who, core in self._cores():
                due = armed.get(who)
                if due is not None and due <= self.now:
                    self.wakes[who] += 1
                    core.handle_timeout(now=self.clock(who))
            self._flush()

    def of(self, who: str, kind: type) -> list[Any]:
        """Events of one kind at one end."""
        return [event for _, event in self.events[who] if isinstance(event, kind)]

    def offer(
        self, who: str, number: int, name: str, media: str = "data", base: float = 0.3
    ) -> None:
        """Announce a track and open its flow; the other end subscribes once it has heard."""
        core = self.core(who)
        core.announce(TrackInfo(number, name, media, {}))
        core.scheduler.add_flow(number, track=name, base=base)

    def send(
        self,
        who: str,
        track: int,
        index: int,
        size: int,
        *,
        deadline: float = 0.5,
        delivery: str = "stream",
        depends_on: tuple[ObjectId, ...] = (),
    ) -> MediaObject:
        """Queue one object of `size` bytes and transmit what may leave."""
        core, now = self.core(who), self.clock(who)
        object_id = ObjectId(track, 0, index)
        header = ObjectHeader(
            id=object_id,
            captured=now,
            duration=0.02,
            deadline=deadline if math.isfinite(deadline) else None,
            importance=0.5,
            size=size,
            sequence=index,
            depends_on=depends_on,
        )
        obj = MediaObject(
            id=object_id,
            payload=header.encode() + bytes(size),
            captured=now,
            deadline=now + deadline,
            depends_on=depends_on,
        )
        core.send_object(obj, delivery=delivery, now=now)
        return obj

    def received(self, who: str) -> list[tuple[float, ObjectReceived]]:
        """(virtual time, object) for everything that arrived at one end."""
        return [(t, e) for t, e in self.events[who] if isinstance(e, ObjectReceived)]

    def flush(self) -> None:
        """Transmit what is due now, as a driver does after each call."""
        self._flush()

    def clock(self, who: str) -> float:
        """What one end's clock shows; a nanosecond on, so that due times survive rounding."""
        return self.now + 1e-9 + (0.0 if who == "client" else self.server_offset)

    def _due(self, who: str, core: SessionCore) -> float | None:
        clock = self.clock(who)
        due = core.next_timeout(now=clock)
        return None if due is None else self.now + max(1e-9, due - clock)

    def _cores(self) -> list[tuple[str, SessionCore]]:
        return [("client", self.client)] + ([("server", self.server)] if self.server else [])

    def _flush(self) -> None:
        for who, core, link in (
            ("client", self.client, self.up),
            ("server", self.server, self.down),
        ):
            if core is None:
                continue
            for data, _ in core.transmit(now=self.clock(who)):
                self.sent.append((self.now, who, len(data)))
                if not self.drop(who, data):
                    link.push(data, now=self.now, size=len(data) + 28)
            for event in core.events():
                self.events[who].append((self.now - 100.0, event))
                self.on_event(who, event)


def destination_of(data: bytes) -> bytes:
    """The destination connection ID of a long-header packet."""
    return data[6 : 6 + data[5]]


def make_rig(
    *,
    rate_bps: float = 10_000_000,
    delay_ms: float = 25.0,
    down: dict[str, Any] | None = None,
    up: dict[str, Any] | None = None,
    client: SessionSettings | None = None,
    server: SessionSettings | None = None,
    seed: int = 1,
    server_offset: float = 0.0,
    trust: Trust | None = None,
    connect: bool = True,
) -> Rig:
    """A rig whose handshake is done at virtual time 1 s, unless `connect` is False."""
    base = {"rate_bps": rate_bps, "delay_ms": delay_ms, "queue_ms": 200.0}
    profile = parse_profile(
        {"down": {**base, **(down or {})}, "up": {**base, **(up or {})}}, name="rig"
    )
    client_core = SessionCore(
        settings=client or SessionSettings(),
        trust=trust or Trust(fingerprint=CERTIFICATE.fingerprint),
    )

    def make_server(data: bytes) -> SessionCore:
        return SessionCore(
            settings=server or SessionSettings(),
            certificate=CERTIFICATE,
            original_destination_connection_id=destination_of(data),
        )

    rig = Rig(
        client_core,
        None,
        LinkModel(profile.down, seed),
        LinkModel(profile.up, seed + 1),
        make_server,
        server_offset=server_offset,
    )
    rig.down.start(now=rig.now)
    rig.up.start(now=rig.now)
    client_core.connect(SERVER, now=rig.now)
    if connect:
        rig.run(1.0)
        assert rig.server is not None
        assert rig.client.version == rig.server.version == 1
    return rig


@pytest.fixture
def rig() -> Callable[..., Rig]:
    """Makes rigs; see `make_rig`."""
    return make_rig


@pytest.fixture(scope="session")
def certificate() -> Certificate:
    """A development certificate made for this run."""
    return CERTIFICATE


Pair = tuple[limen.Session, limen.Session]
PairMaker = Callable[..., contextlib.AbstractAsyncContextManager[Pair]]


@pytest.fixture
def sessions(certificate: Certificate) -> PairMaker:
    """Makes two live sessions over real loopback: (the client's, the server's)."""

    @contextlib.asynccontextmanager
    async def make(
        client: SessionSettings | None = None, server: SessionSettings | None = None
    ) -> AsyncIterator[tuple[limen.Session, limen.Session]]:
        accepted: asyncio.Future[limen.Session] = asyncio.get_running_loop().create_future()

        async def handler(session: limen.Session) -> None:
            accepted.set_result(session)
            await session.wait_closed()

        async with (
            limen.serve(handler, certificate=certificate, settings=server) as listening,
            limen.connect(
                "127.0.0.1",
                listening.port,
                fingerprint=listening.fingerprint,
                settings=client,
            ) as session,
        ):
            yield session, await accepted

    return make
