"""The two ways into a session: `connect` to a server, or `serve` and be given each one.

Both are asynchronous context managers. Leaving one ends its sessions in order, and the peers are
told at once; nothing keeps running afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ..scheduler.checks import instance, number, text
from ..scheduler.errors import UsageError
from .close_reasons import CloseCode
from .core import SessionCore
from .endpoint import ClientEndpoint, ServerEndpoint, Wire, open_socket, resolve
from .errors import ConnectError, SessionClosedError
from .events import Event
from .quic.tls import Certificate, Trust, development_certificate
from .session import Session
from .settings import SessionSettings

logger = logging.getLogger("limen")
Handler = Callable[[Session], Awaitable[object]]
"""What it returns is not used."""
HANDSHAKE_TIMEOUT = 5.0
"""Seconds after which a server gives up a handshake that did not complete."""
HANDLER_GRACE = 1.0
"""Seconds a handler gets to end by itself once its session or the server is closed."""


@contextlib.asynccontextmanager
async def connect(
    host: str,
    port: int,
    *,
    fingerprint: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    server_name: str | None = None,
    timeout: float = 5.0,
    settings: SessionSettings | None = None,
) -> AsyncIterator[Session]:
    """Connect to a limen server and yield the session; leaving closes it.

    The server's certificate must have `fingerprint` (SHA-256, 64 hexadecimal digits), or else
    be signed by an authority in `ca_file` (None: the system's) for `server_name` (None: `host`).
    Raises ConnectError within `timeout` seconds, with the cause in one line.
    """
    number("timeout", timeout, sys.float_info.min, unit="of seconds")
    settings = _settings(settings)
    if server_name is not None:
        text("server_name", server_name, 255)
    for name, value in (("fingerprint", fingerprint), ("ca_file", ca_file)):
        if value is not None:
            kinds = (str,) if name == "fingerprint" else (str, os.PathLike)
            instance(name, value, kinds, "text as people write it")
    trust = Trust(fingerprint, None if ca_file is None else os.fspath(ca_file))
    family, address = await resolve(host, port)
    where = f"{host} port {port}"
    try:
        sock = open_socket(family, address, connect=True)
    except OSError as error:
        raise ConnectError(f"no UDP socket towards {where}: {error}") from error
    core = SessionCore(settings=settings, trust=trust, server_name=server_name or host)
    session = Session(core, settings)
    endpoint = ClientEndpoint(sock, core, session.on_event)
    session.bind(endpoint.wire)
    endpoint.wire.after_pump = session.after_pump
    refused = asyncio.Event()
    endpoint.on_refused = refused.set
    try:
        endpoint.connect()
        await _handshake(session, refused, where, timeout)
        yield session
    finally:
        session.close_now()
        endpoint.close()


async def _handshake(session: Session, refused: asyncio.Event, where: str, timeout: float) -> None:
    connected = asyncio.ensure_future(session.wait_connected())
    nobody = asyncio.ensure_future(refused.wait())
    try:
        done, _ = await asyncio.wait(
            {connected, nobody}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if connected in done:
            connected.result()
        elif nobody in done:
            raise ConnectError(f"nothing listens on UDP at {where}: is the server running?")
        else:
            raise ConnectError(
                f"no answer from {where} within {timeout:g} s: "
                "is the server running there, and UDP not blocked?"
            )
    except SessionClosedError as error:
        raise ConnectError(f"no session with {where}: {error.reason}") from error
    finally:
        for task in (connected, nobody):
            task.cancel()
        await asyncio.gather(connected, nobody, return_exceptions=True)


def _settings(settings: SessionSettings | None) -> SessionSettings:
    if settings is None:
        return SessionSettings()
    return instance("settings", settings, SessionSettings, "limen.SessionSettings")


class Server:
    """A listening server. Made by `serve`."""

    def __init__(
        self,
        handler: Handler,
        certificate: Certificate,
        settings: SessionSettings,
        sock: Any,
    ) -> None:
        self._handler = handler
        self._certificate = certificate
        self._settings = settings
        self._sessions: dict[Wire, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._endpoint = ServerEndpoint(
            sock,
            make_core=self._make_core,
            on_session=self._on_session,
            max_sessions=settings.limits.sessions,
        )

    @property
    def port(self) -> int:
        """The UDP port it listens on."""
        return int(self._endpoint.address[1])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its certificate, for `connect(fingerprint=...)`."""
        return self._certificate.fingerprint

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are live now."""
        return [s for s in self._sessions.values() if not s.is_closed]

    @property
    def counts(self) -> dict[str, int]:
        """Packets and handshakes that were turned away, by reason."""
        return dict(self._endpoint.counts)

    async def close(self) -> None:
        """End every session and stop listening. Safe to call twice."""
        self._endpoint.stop_accepting()  # who calls now would be left without a good-bye
        for session in list(self._sessions.values()):
            session.close_now("the server is closing")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=HANDLER_GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._endpoint.close()

    def _make_core(self, original_destination: bytes) -> SessionCore:
        return SessionCore(
            settings=self._settings,
            certificate=self._certificate,
            original_destination_connection_id=original_destination,
        )

    def _on_session(self, wire: Wire) -> Callable[[Event], None]:
        session = Session(wire.core, self._settings)
        session.bind(wire)
        self._sessions[wire] = session
        task = asyncio.get_running_loop().create_task(self._run(session, wire))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return session.on_event

    async def _run(self, session: Session, wire: Wire) -> None:
        """One session's life; whatever happens in it stays in it."""
        follow = wire.after_pump

        def after_pump() -> None:
            follow()
            session.after_pump()

        wire.after_pump = after_pump
        try:
            try:
                await asyncio.wait_for(session.wait_connected(), HANDSHAKE_TIMEOUT)
            except TimeoutError:
                self._endpoint.counts["handshakes_given_up"] += 1
                return
            await self._handle(session)
        except SessionClosedError:
            pass  # a handshake that failed, or a handler that ended with its session
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("a session's handler failed; that session is closed, others go on")
            session.close_now("internal error", code=CloseCode.INTERNAL)
        finally:
            session.close_now()
            self._sessions.pop(wire, None)
            self._endpoint.remove(wire)

    async def _handle(self, session: Session) -> None:
        """Run the handler; once its session is over it has a second to end by itself."""
        work = asyncio.ensure_future(self._handler(session))
        over = asyncio.ensure_future(session.wait_closed())
        try:
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait({work}, timeout=HANDLER_GRACE)
            if work.done():
                work.result()
        finally:
            for task in (work, over):
                task.cancel()
            await asyncio.gather(work, over, return_exceptions=True)


@contextlib.asynccontextmanager
async def serve(
    handler: Handler,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    certificate: Certificate | None = None,
    settings: SessionSettings | None = None,
) -> AsyncIterator[Server]:
    """Listen and run `handler(session)` for each peer; leaving ends all sessions.

    A handler that returns ends its session; one that raises ends its session and no other.
    Without a `certificate` (`Certificate.load(...)`) the user's development certificate is used.
    Port 0 lets the system choose. Raises ConnectError when the port cannot be bound.
    """
    if not callable(handler):
        raise UsageError(f"serve's handler is an async function of a session, got {handler!r}")
    if certificate is not None:
        instance("certificate", certificate, Certificate, "a limen.Certificate (Certificate.load)")
    settings = _settings(settings)
    certificate = certificate or development_certificate()
    family, address = await resolve(host, port)
    try:
        sock = open_socket(family, address, connect=False)
    except OSError as error:
        raise ConnectError(f"cannot listen on UDP {host} port {port}: {error}") from error
    server = Server(handler, certificate, settings, sock)
    try:
        yield server
    finally:
        await server.close()
