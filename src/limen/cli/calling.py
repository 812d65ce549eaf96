"""Reaching a receiver, noticing that it is gone, and reaching it again.

A receiver that was closed says so. One that was killed says nothing, and QUIC would wait out its
idle time; so when a receiver that is being sent media has been silent for two seconds, a second
connection is tried beside the first. Whichever answers first is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from ..scheduler.errors import LimenError
from ..transport.api import connect
from ..transport.errors import ConnectError, SessionClosedError
from ..transport.quic.tls import kept_development_fingerprint
from ..transport.session import Session
from ..transport.settings import SessionSettings
from .failures import CommandError
from .parsing import Address
from .terminal import Terminal

SILENCE = 2.0
"""Seconds without a packet from a receiver that is sent media, which reports every 10 ms."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds between attempts: each pause is 1.6 times the one before."""
ATTEMPT = 5.0
"""Seconds one attempt may take at most: four retransmissions of the first packet."""
WATCH = 0.1


@dataclass(frozen=True, slots=True)
class Destination:
    """Whom to call, and how to know that it is them."""

    address: Address
    fingerprint: str | None = None
    ca_file: str | None = None

    def expected_fingerprint(self) -> str | None:
        """On this machine, the development certificate kept here counts as known."""
        if self.fingerprint is None and self.ca_file is None and self.address.is_loopback:
            return kept_development_fingerprint()
        return self.fingerprint


class Call:
    """A session and what closes it."""

    def __init__(self, session: Session, stack: AsyncExitStack) -> None:
        self.session = session
        self._stack = stack

    async def close(self, reason: str = "") -> None:
        """Tell the receiver and release everything. Safe to call twice."""
        await self.session.close(reason)
        await self._stack.aclose()


class Caller:
    """Makes calls to one destination, patiently."""

    def __init__(self, to: Destination, terminal: Terminal, settings: SessionSettings) -> None:
        self._to = to
        self._terminal = terminal
        self._settings = settings

    async def call(self, patience: float, *, again: bool = False) -> Call:
        """Reach the receiver within `patience` seconds. Raises CommandError with the last cause.

        Someone who answers but is not a limen receiver with the right certificate is not tried
        a second time, unless it was reached before (`again`): it may just be closing.
        """
        end = time.monotonic() + patience
        pause = FIRST_PAUSE
        told = again
        while True:
            left = end - time.monotonic()
            try:
                return await self._attempt(max(0.05, min(left, ATTEMPT)))
            except TimeoutError:
                cause = f"no answer from {self._to.address}: is the name server slow?"
            except ConnectError as error:
                cause = str(error)
                if isinstance(error.__cause__, SessionClosedError) and not again:
                    raise CommandError(cause) from error
            left = end - time.monotonic()
            if left <= pause:
                raise CommandError(cause)
            if not told:
                told = True
                self._terminal.note(
                    f"no receiver at {self._to.address} yet; trying for {patience:g} s"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.6, LONGEST_PAUSE)

    async def _attempt(self, timeout: float) -> Call:
        stack = AsyncExitStack()
        address = self._to.address
        try:
            async with asyncio.timeout(timeout + 0.1):  # a name look-up may hang before connect
                session = await stack.enter_async_context(
                    connect(
                        address.host,
                        address.port,
                        fingerprint=self._to.expected_fingerprint(),
                        ca_file=self._to.ca_file,
                        timeout=timeout,
                        settings=self._settings,
                    )
                )
        except BaseException:
            await stack.aclose()
            raise
        return Call(session, stack)

    async def watch(self, call: Call, *, patience: float) -> Call | None:
        """Wait until a call is over. None: it ended. A call: the receiver was reached anew."""
        ear = _Ear(call.session)
        attempt: asyncio.Task[Call] | None = None
        try:
            while not call.session.is_closed:
                await asyncio.sleep(WATCH)
                silent = ear.silent_for(time.monotonic())
                if attempt is not None and attempt.done():
                    found, attempt = attempt, None
                    if found.exception() is None:
                        return found.result()
                if silent > SILENCE and attempt is None and not call.session.is_closed:
                    self._terminal.note(
                        f"nothing heard from the receiver for {silent:.0f} s; trying anew"
                    )
                    attempt = asyncio.create_task(self.call(patience, again=True))
                elif silent < WATCH and attempt is not None:
                    self._terminal.say("the receiver answers again")
                    await _give_up(attempt)
                    attempt = None
            if attempt is not None:
                with contextlib.suppress(CommandError):
                    found, attempt = attempt, None
                    return await found
            return None
        finally:
            if attempt is not None:
                await _give_up(attempt)


class _Ear:
    """How long nothing came, seen from the packet numbers received."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._largest = session.core.quic.largest_received
        self._since = time.monotonic()
        self._looked = self._since

    def silent_for(self, now: float) -> float:
        largest = self._session.core.quic.largest_received
        # A process that was itself stopped has not listened, and must not call that silence.
        if largest != self._largest or now - self._looked > 10 * WATCH:
            self._largest, self._since = largest, now
        self._looked = now
        return now - self._since


async def _give_up(attempt: asyncio.Task[Call]) -> None:
    attempt.cancel()
    with contextlib.suppress(asyncio.CancelledError, CommandError, LimenError):
        late = await attempt
        await late.close()
