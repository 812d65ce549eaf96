"""The baseline: bare aioquic, as one would send media over QUIC without this project.

CUBIC, one unidirectional stream per object, sent as soon as it is encoded; encoders at their
nominal rate all along; nothing is weighed, adapted or given up. Codecs, captured media and playout
are the same as limen's, so that what differs is how the link is spent.

aioquic serves open streams in turn, a packet each. An object is `HEADER`, then the payload up to
the end of its stream.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import struct
import time
from pathlib import Path
from typing import NamedTuple

import av
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

from ...codecs.opus import OpusEncoder
from ...codecs.video import VideoEncoder, VideoSettings
from ...codecs.worker import CodecWorker
from ...transport.quic.tls import make_certificate
from ..scene import Floats
from .capture import PERIOD, capture, load_source, wait_until
from .parent import Parent
from .plan import RunPlan
from .player import Player
from .program import report_live, run_peer
from .recorder import EventLog, LiveDelays, Viewer

ALPN = ["fifo/1"]
HEADER = struct.Struct("!BIdd")
"""Track's index, sequence, capture time, duration (s)."""


class FifoObject(NamedTuple):
    """One audio frame or picture."""

    track: int
    """0: the picture; 1 and up: the microphones in the scene's order."""
    sequence: int
    captured: float
    duration: float
    payload: bytes

    def encode(self) -> bytes:
        """The stream's content."""
        head = HEADER.pack(self.track, self.sequence, self.captured, self.duration)
        return head + self.payload

    @classmethod
    def decode(cls, data: bytes) -> FifoObject:
        """What `encode` made. Raises struct.error for less than a header."""
        track, sequence, captured, duration = HEADER.unpack_from(data)
        return cls(track, sequence, captured, duration, data[HEADER.size :])


async def send(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Encode at the nominal rates and send everything."""
    source = load_source(plan.load_scene())
    tracks = [source.picture_track, *source.sounds]
    log = EventLog()
    video = VideoEncoder(
        VideoSettings(
            bitrate_bps=plan.video_bps,
            max_bitrate_bps=plan.video_bps,
            fps=source.fps,
            gop_seconds=plan.gop_seconds,
        )
    )
    voices = {track: OpusEncoder(bitrate_bps=plan.voice_bps) for track in source.sounds}
    workers = {track: CodecWorker(track) for track in tracks}
    sequences = dict.fromkeys(tracks, 0)
    configuration = QuicConfiguration(
        alpn_protocols=ALPN,
        congestion_control_algorithm="cubic",
        verify_mode=ssl.CERT_NONE,  # both ends are this program's, on this host
    )
    parent.tell(ready=True)
    where = (await parent.receive())["connect"]
    async with connect(where["host"], where["port"], configuration=configuration) as protocol:
        quic = protocol._quic  # noqa: SLF001 - aioquic's own asyncio users reach it this way

        def emit(track: str, payload: bytes, captured: float, duration: float) -> None:
            number = tracks.index(track)
            obj = FifoObject(number, sequences[track], captured, duration, payload)
            sequences[track] += 1
            stream = quic.get_next_available_stream_id(is_unidirectional=True)
            quic.send_stream_data(stream, obj.encode(), end_stream=True)
            now = time.monotonic()
            log.add("queued", track=track, captured=captured, at=now, bytes=len(payload))
            protocol.transmit()

        async def on_picture(picture: av.VideoFrame, captured: float) -> None:
            coded = await workers[source.picture_track].run(video.encode, picture)
            emit(source.picture_track, coded.payload, captured, 1 / source.fps)

        async def on_sound(track: str, chunk: Floats, captured: float) -> None:
            payload = await workers[track].run(voices[track].encode, chunk[:, None])
            emit(track, payload, captured, PERIOD)

        start = time.monotonic() + plan.lead
        parent.tell(start=start)
        await capture(source, start=start, on_picture=on_picture, on_sound=on_sound)
        await wait_until(start + plan.duration + plan.drain)
    for worker in workers.values():
        worker.close()
    log.write(folder / "sender.jsonl")


class _Receiving(QuicConnectionProtocol):
    """Puts streams together and hands on whole objects."""

    def __init__(self, *args: object, sink: Sink, **options: object) -> None:
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
                self._sink.take(FifoObject.decode(b"".join(parts)))


class Sink:
    """Notes each object's arrival and hands it to the player."""

    def __init__(self, tracks: list[str], player: Player, log: EventLog, live: LiveDelays) -> None:
        self._tracks = tracks
        self._player = player
        self._log = log
        self._live = live

    def take(self, obj: FifoObject) -> None:
        """One object is whole."""
        now = time.monotonic()
        track = self._tracks[obj.track]
        size = len(obj.payload)
        self._log.add("received", track=track, captured=obj.captured, at=now, bytes=size)
        self._live.add(track, now - obj.captured)
        if obj.track == 0:
            self._player.picture(
                obj.payload,
                sequence=obj.sequence,
                captured=obj.captured,
                duration=obj.duration,
                now=now,
            )
        else:
            self._player.sound(
                track,
                obj.payload,
                sequence=obj.sequence,
                captured=obj.captured,
                duration=obj.duration,
                now=now,
            )


async def receive(plan: RunPlan, folder: Path, parent: Parent) -> None:
    """Play out whatever comes."""
    scene = plan.load_scene()
    tracks = [scene.picture_track, *(microphone.track for microphone in scene.microphones)]
    log, viewer, live = EventLog(), Viewer(), LiveDelays()
    player = Player(scene.picture_track, tracks[1:], viewer)
    sink = Sink(tracks, player, log, live)
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
