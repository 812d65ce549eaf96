"""The baseline: bare aioquic, as one would send media over QUIC without this project.

CUBIC, one unidirectional stream per object, sent as soon as it is encoded; encoders at their
nominal rate all along; nothing is weighed, adapted or given up. Codecs, captured media and playout
are the same as limen's, so that what differs is how the link is spent.

aioquic serves open streams in turn, a packet each.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

from ...transport.quic.tls import make_certificate
from .capture import load_source, wait_until
from .nominal import NominalObject, NominalSender, NominalSink
from .parent import Parent
from .plan import RunPlan
from .player import Player
from .program import report_live, run_peer
from .recorder import EventLog, LiveDelays, Viewer

ALPN = ["fifo/1"]


async def send(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Encode at the nominal rates and send everything."""
    source = load_source(plan.load_scene(), barcode=plan.barcode)
    log = EventLog()
    configuration = QuicConfiguration(
        alpn_protocols=ALPN,
        congestion_control_algorithm="cubic",
        verify_mode=ssl.CERT_NONE,  # both ends are this program's, on this host
    )
    parent.tell(ready=True)
    where = (await parent.receive())["connect"]
    async with connect(where["host"], where["port"], configuration=configuration) as protocol:
        quic = protocol._quic  # noqa: SLF001 - aioquic's own asyncio users reach it this way

        def emit(obj: NominalObject) -> None:
            stream = quic.get_next_available_stream_id(is_unidirectional=True)
            quic.send_stream_data(stream, obj.encode(), end_stream=True)
            protocol.transmit()

        sender = NominalSender(source, plan, log, emit, gop_seconds=plan.gop_seconds)
        start = time.monotonic() + plan.lead
        parent.tell(start=start)
        await sender.run(start)
        await wait_until(start + plan.duration + plan.drain)
    sender.close()
    log.write(folder / "sender.jsonl")


class _Receiving(QuicConnectionProtocol):
    """Puts streams together and hands on whole objects."""

    def __init__(self, *args: object, sink: NominalSink, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]  # passed on as it came
        self._sink = sink
        self._parts: dict[int, list[bytes]] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        """See QuicConnectionProtocol."""
        if isinstance(event, StreamDataReceived):
            parts = self._parts.setdefault(event.stream_id, [])
            parts.append(event.data)
            if event.end_stream:
                del self._parts[event.stream_id]
                self._sink.take(NominalObject.decode(b"".join(parts)))


async def receive(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Play out whatever comes."""
    scene = plan.load_scene()
    tracks = [scene.picture_track, *(microphone.track for microphone in scene.microphones)]
    log, viewer, live = EventLog(), Viewer(), LiveDelays()
    player = Player(scene.picture_track, tracks[1:], viewer)
    sink = NominalSink(tracks, player, log, live)
    made = make_certificate()
    configuration = QuicConfiguration(
        is_client=False,
        alpn_protocols=ALPN,
        congestion_control_algorithm="cubic",
        certificate=made.certificate,
        private_key=made.private_key,
    )

    def make_protocol(*args: object, **options: object) -> _Receiving:
        return _Receiving(*args, sink=sink, **options)

    # aioquic's own `serve` does the same but tells no port.
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: QuicServer(configuration=configuration, create_protocol=make_protocol),
        local_addr=(plan.listen_host, 0),
    )
    try:
        parent.tell(ready=True, port=transport.get_extra_info("sockname")[1])
        start = (await parent.receive())["start"]
        gc.collect()
        gc.freeze()
        end = start + plan.duration + plan.drain
        await report_live(live, parent, start=start, end=end)
    finally:
        server.close()
        await player.close()
    viewer.write(folder, log)
    log.write(folder / "receiver.jsonl")


if __name__ == "__main__":
    run_peer(__doc__ or "", send=send, receive=receive)
