"""Media from anywhere PyAV reads: files, cameras and microphones, generated test pictures.

`open_source` takes one line of text:

    talk.mp4                          a file (mp4, mkv, wav, ...)
    device:v4l2:/dev/video0           a device, by FFmpeg's format (alsa, avfoundation, dshow, ...)
    lavfi:testsrc2=size=640x360       an FFmpeg filter source

and gives items in the order of their times: pictures in display order (B-frames included) with
strictly increasing stamps, turned upright, and sound without overlaps. Times are seconds from the
start of the source. Nothing seeks, so pipes and devices work too. Items of a file come as fast as
they can be decoded; whoever sends them in real time waits for each one's time.

Reading blocks: use it from a worker thread. PyAV releases the GIL while it reads and decodes.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, cast

import av
import av.error
import av.filter
from av.audio.stream import AudioStream
from av.codec.context import ThreadType
from av.container.input import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from .closing import Closing
from .errors import UnsupportedMedia
from .stamps import PictureStamps, SoundStamps, StampCounts

_NOT_MEDIA = {"tty", "lrc", "bin", "xbin", "adf", "idf"}
"""FFmpeg formats that would show any text or binary file as pictures."""
_MAX_WAITING = 48
"""Items held back to bring badly interleaved streams into the order of time."""


@dataclass(frozen=True, slots=True)
class SourceStream:
    """One stream of pictures or sound in a source."""

    index: int
    """Its number in the source."""
    kind: Literal["video", "audio"]
    codec: str
    width: int = 0
    """Pixels, upright (video)."""
    height: int = 0
    """Pixels, upright (video)."""
    fps: float = 0.0
    """Nominal pictures a second (video); stamps may say otherwise."""
    sample_rate: int = 0
    """Hz (audio)."""
    channels: int = 0
    """Channels (audio)."""


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One picture or one piece of sound."""

    stream: SourceStream
    frame: av.VideoFrame | av.AudioFrame
    time: float
    """Seconds from the start of the source: the picture, or the first sample."""
    duration: float
    """Seconds (for a picture: nominal)."""

    @property
    def end(self) -> float:
        """Seconds from the start of the source at which it ends."""
        return self.time + self.duration


@dataclass(slots=True)
class SourceStats:
    """What was read and what had to be repaired."""

    pictures: int = 0
    sounds: int = 0
    damaged: int = 0
    """Packets that could not be decoded and were passed over."""
    loops: int = 0


class MediaSource(Closing):
    """An open source: iterate over it, or call `read` until it gives None; then `close` it."""

    def __init__(self, spec: str, *, loop: bool = False) -> None:
        self.spec = spec
        self.live = spec.startswith("device:")
        """Whether items come in real time by themselves."""
        self.stats = SourceStats()
        self.stamps = StampCounts()
        """Stamps that were repaired or dropped."""
        self._loop = loop and not self.live
        self._shift = 0.0
        self._end = 0.0
        self._waiting: list[tuple[float, int, SourceItem]] = []
        self._order = itertools.count()
        self._container: InputContainer | None = None
        self._turners: dict[tuple[int, int, str, int], av.filter.Graph] = {}
        self._start()
        self.streams: tuple[SourceStream, ...] = tuple(self._described.values())
        """What the source holds."""
        if not self.live:
            first = self.read()  # what cannot be decoded at all is said now, not in mid-run
            if first is not None:
                self._put(first)

    def read(self) -> SourceItem | None:
        """The next item in the order of time, or None at the end. Blocks.

        Raises UnsupportedMedia when the source holds nothing that can be decoded, or a device
        ends with an error.
        """
        while self._container is not None and not self._ready():
            try:
                packet = next(self._packets)
            except StopIteration:
                self._finish_pass()
                continue
            except av.error.FFmpegError as problem:
                if self.live:
                    raise UnsupportedMedia(f"{self.spec} stopped: {problem.strerror}") from problem
                self.stats.damaged += 1
                self._finish_pass()
                continue
            self._decode(packet)
        if not self._waiting:
            return None
        item = heapq.heappop(self._waiting)[2]
        self._held[item.stream.index] -= 1
        return item

    def close(self) -> None:
        """Release the file or device; a second call does nothing."""
        container, self._container = self._container, None
        if container is not None:
            self._packets.close()
            container.close()
        self._turners.clear()

    def __iter__(self) -> Iterator[SourceItem]:
        while (item := self.read()) is not None:
            yield item

    def _start(self) -> None:
        """Open the container and take up its streams; also for each further loop."""
        self._container = container = _open(self.spec)
        found = _usable_streams(container)
        if not found or container.format.name in _NOT_MEDIA:
            container.close()
            self._container = None
            raise UnsupportedMedia(f"{self.spec} holds no pictures and no sound")
        start = cast("int | None", container.start_time)  # None for some devices and filters
        self._origin = None if start is None else start / av.time_base
        self._described: dict[int, SourceStream] = {}
        self._pictures: dict[int, PictureStamps] = {}
        self._sounds: dict[int, SoundStamps] = {}
        for stream in found:
            if isinstance(stream, VideoStream):
                # Slice threads and no low_delay: pictures leave in display order, none stay behind.
                stream.thread_type = ThreadType.SLICE
            described = _describe(stream)
            self._described[stream.index] = described
            if described.kind == "video":
                self._pictures[stream.index] = PictureStamps(1 / described.fps, self.stamps)
            else:
                self._sounds[stream.index] = SoundStamps(self.stamps)
        self._held = dict.fromkeys(self._described, 0)
        self._packets = _packets(container, found)
        self._decoded = False

    def _ready(self) -> bool:
        """Whether the earliest waiting item can leave: no stream can still bring an earlier one."""
        waiting = len(self._waiting)
        return waiting > 0 and (
            self.live or waiting >= _MAX_WAITING or all(count > 0 for count in self._held.values())
        )

    def _finish_pass(self) -> None:
        if not self._decoded:
            self.close()
            raise UnsupportedMedia(f"{self.spec} holds nothing that can be decoded")
        held = self._held
        self.close()
        if self._loop:
            self.stats.loops += 1
            self._shift = self._end
            self._start()
            for index, count in held.items():
                self._held[index] = self._held.get(index, 0) + count

    def _decode(self, packet: Packet[Any]) -> None:
        try:
            frames = packet.decode()
        except (av.error.FFmpegError, EOFError):
            self.stats.damaged += 1
            return
        described = self._described[packet.stream.index]
        for frame in frames:
            time = frame.time
            if time is not None:
                if self._origin is None:
                    self._origin = time
                time = float(time) - self._origin
            if isinstance(frame, av.VideoFrame):
                self._add_picture(described, frame, time)
            elif isinstance(frame, av.AudioFrame) and frame.samples:
                self._add_sound(described, frame, time)

    def _add_picture(self, stream: SourceStream, frame: av.VideoFrame, time: float | None) -> None:
        stamps = self._pictures[stream.index]
        repaired = stamps.repair(time)
        if repaired is None:
            return
        self.stats.pictures += 1
        upright = self._upright(frame)
        self._put(SourceItem(stream, upright, repaired + self._shift, stamps.nominal))

    def _add_sound(self, stream: SourceStream, frame: av.AudioFrame, time: float | None) -> None:
        duration = frame.samples / frame.sample_rate
        start = self._sounds[stream.index].repair(time, duration)
        self.stats.sounds += 1
        self._put(SourceItem(stream, frame, start + self._shift, duration))

    def _put(self, item: SourceItem) -> None:
        self._decoded = True
        self._end = max(self._end, item.end)
        self._held[item.stream.index] = self._held.get(item.stream.index, 0) + 1
        heapq.heappush(self._waiting, (item.time, next(self._order), item))

    def _upright(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The picture turned as its display matrix says (phones film sideways)."""
        turn = round(frame.rotation / 90) % 4
        if turn == 0:
            return frame
        return turned(frame, turn, self._turners)


def open_source(spec: str, *, loop: bool = False) -> MediaSource:
    """Open a file, `device:FORMAT:NAME` or `lavfi:GRAPH`; `loop` starts a file again at its end.

    Raises FileNotFoundError for what does not exist, UnsupportedMedia for what is no media, is
    empty, cannot be read, or holds nothing that this build decodes. The text names the source.
    """
    return MediaSource(spec, loop=loop)


def turned(
    frame: av.VideoFrame,
    quarters: int,
    graphs: dict[tuple[int, int, str, int], av.filter.Graph] | None = None,
) -> av.VideoFrame:
    """The picture turned counterclockwise by `quarters` × 90°; `graphs` keeps what was built."""
    key = (frame.width, frame.height, frame.format.name, quarters % 4)
    graph = graphs.get(key) if graphs is not None else None
    if graph is None:
        steps = {
            0: ["null"],
            1: ["transpose=cclock"],
            2: ["hflip", "vflip"],
            3: ["transpose=clock"],
        }
        graph = av.filter.Graph()
        last = graph.add_buffer(
            width=key[0],
            height=key[1],
            format=av.VideoFormat(key[2], key[0], key[1]),
            time_base=frame.time_base or Fraction(1, 90_000),
        )
        for step in steps[key[3]]:
            name, _, argument = step.partition("=")
            following = graph.add(name, argument or None)
            last.link_to(following)
            last = following
        sink = graph.add("buffersink")
        last.link_to(sink)
        graph.configure()
        if graphs is not None:
            graphs[key] = graph
    graph.vpush(frame)
    return graph.vpull()


def _open(spec: str) -> InputContainer:
    """The container for a spec, with errors that say what is wrong with it."""
    scheme, _, rest = spec.partition(":")
    options: dict[str, str] = {}
    name: str | None = None
    if scheme == "lavfi":
        target, name, what = rest, "lavfi", f"the filter source {rest!r}"
        if not rest:
            raise UnsupportedMedia("lavfi: needs a filter, for example lavfi:testsrc2=size=640x360")
    elif scheme == "device":
        name, _, target = rest.partition(":")
        what = f"the {name} device {target!r}"
        if not name or not target:
            raise UnsupportedMedia(
                f"{spec!r} names no device: write device:FORMAT:NAME, "
                "for example device:v4l2:/dev/video0 or device:alsa:default"
            )
    else:
        path = Path(spec)
        target, what = spec, spec
        if not path.exists():
            raise FileNotFoundError(f"no such file: {spec}")
        if path.is_dir():
            raise UnsupportedMedia(f"{spec} is a folder, not a media file")
        if path.is_file() and path.stat().st_size == 0:
            raise UnsupportedMedia(f"{spec} is empty")
    try:
        return av.open(target, mode="r", format=name, options=options)
    except av.error.FileNotFoundError as problem:
        raise FileNotFoundError(f"{what} does not exist") from problem
    except av.error.InvalidDataError as problem:
        raise UnsupportedMedia(f"{what} is no media that can be read") from problem
    except av.error.FFmpegError as problem:
        raise UnsupportedMedia(f"cannot open {what}: {problem.strerror}") from problem
    except (ValueError, OSError) as problem:
        raise UnsupportedMedia(f"cannot open {what}: {problem}") from problem


def _usable_streams(container: InputContainer) -> list[VideoStream | AudioStream]:
    """Streams of pictures and sound with a decoder; cover art is none."""
    found: list[VideoStream | AudioStream] = []
    found.extend(
        stream
        for stream in container.streams.video
        if not stream.disposition & Disposition.attached_pic and _decodable(stream)
    )
    found.extend(stream for stream in container.streams.audio if _decodable(stream))
    return found


def _decodable(stream: Stream) -> bool:
    # The type stubs say it always has a context; without a decoder it has none.
    return getattr(stream, "codec_context", None) is not None


def _packets(
    container: InputContainer, streams: list[VideoStream | AudioStream]
) -> Generator[Packet[Any], None, None]:
    yield from container.demux(streams)


def _describe(stream: VideoStream | AudioStream) -> SourceStream:
    context = stream.codec_context
    codec = context.name
    if isinstance(stream, VideoStream):
        rate = stream.average_rate or stream.guessed_rate or stream.base_rate
        fps = float(rate) if rate else 30.0
        if not 0.1 <= fps <= 1000:
            fps = 30.0
        return SourceStream(
            stream.index, "video", codec, width=stream.width, height=stream.height, fps=fps
        )
    return SourceStream(
        stream.index,
        "audio",
        codec,
        sample_rate=stream.sample_rate,
        channels=len(stream.layout.channels),
    )
