"""A server that is closing takes nobody in whom it could not say good-bye to."""

from __future__ import annotations

import asyncio

import pytest

import limen
from limen.transport.quic.tls import make_certificate

CERTIFICATE = make_certificate()


@pytest.mark.realtime
async def test_who_calls_while_the_server_closes_is_not_left_hanging() -> None:
    async def slow_to_end(session: limen.Session) -> None:
        await session.wait_closed()
        await asyncio.sleep(0.8)

    async with limen.serve(slow_to_end, certificate=CERTIFICATE) as server:
        port, fingerprint = server.port, server.fingerprint
        async with limen.connect("127.0.0.1", port, fingerprint=fingerprint) as first:
            closing = asyncio.create_task(server.close())
            assert await asyncio.wait_for(first.wait_closed(), 5.0) == "the server is closing"
            assert not closing.done()
            with pytest.raises(limen.ConnectError):
                async with limen.connect("127.0.0.1", port, fingerprint=fingerprint, timeout=3.0):
                    pass
            await closing
