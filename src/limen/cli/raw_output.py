"""Played-out media into files or pipes, for players and programs of one's own.

Pictures are written as YUV4MPEG2: raw frames behind one line that states their size, which
`ffplay -` and `mpv -` read as they are. Sound is 16-bit little-endian PCM, 48 kHz, stereo,
continuous: `ffplay -f s16le -ar 48000 -ch_layout stereo -`. A reader that is slow loses pictures
and not time; one that closes its end ends the output.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from io import RawIOBase

import av
import numpy as np

from ..transport.media.kinds import AudioFrame, VideoFrame
from .sound_timeline import SETTLE, SoundTimeline

MOST_PICTURES = 8
"""Pictures waiting for the reader: a quarter second."""
MOST_SOUND = 250
"""Blocks of sound waiting: 5 s, so that a player may take its time to start."""


class RawPipe:
    """One output, opened and written in a thread: a pipe without a reader blocks."""

    def __init__(self, target: str, most: int, note: Callable[[str], None]) -> None:
        self.target = target
        self.dropped = 0
        self.problem: str | None = None
        """Why the output is not whole; None while all is well."""
        self.closed = threading.Event()
        self._most = most
        self._note = note
        self._chunks: queue.SimpleQueue[Callable[[], bytes] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="limen-raw", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """True while the reader is behind."""
        return self._chunks.qsize() >= self._most

    def put(self, chunk: Callable[[], bytes]) -> None:
        """Write a chunk, made in the thread, unless the reader is behind or gone."""
        if self.is_full:
            self.dropped += 1
        elif not self.closed.is_set():
            self._chunks.put(chunk)

    def close(self, timeout: float = 0.3) -> None:
        """Write what waits, but no longer than `timeout` seconds."""
        self._chunks.put(None)
        self._thread.join(timeout)

    def _work(self) -> None:
        try:
            with contextlib.ExitStack() as stack:
                # Unbuffered: what could not be written must not be tried again at exit.
                target = os.dup(sys.stdout.fileno()) if self.target == "-" else self.target
                out = stack.enter_context(open(target, "wb", buffering=0))  # noqa: PTH123 - may be a FIFO
                while (chunk := self._chunks.get()) is not None:
                    _write_all(out, chunk())
        except BrokenPipeError:
            self._fail(f"the reader of {self._name} closed it before the end")
        except OSError as error:
            self._fail(f"cannot write to {self._name}: {error.strerror or error}")
        finally:
            self.closed.set()

    @property
    def _name(self) -> str:
        return "standard output" if self.target == "-" else self.target

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._note(problem)


class RawOutput:
    """The pipes of one `limen recv`; one session at a time owns them."""

    def __init__(self, video: str | None, audio: str | None, note: Callable[[str], None]) -> None:
        self.video = None if video is None else RawPipe(video, MOST_PICTURES, note)
        self.audio = None if audio is None else RawPipe(audio, MOST_SOUND, note)
        self.owner: object | None = None
        self._size: tuple[int, int] | None = None
        self._track: str | None = None
        self._sound: SoundTimeline | None = None

    def take_over(self, owner: object) -> bool:
        """True when `owner` has the pipes now; False while another session has them."""
        if self.owner is not None and self.owner is not owner:
            return False
        if self.owner is None:
            self.owner, self._track, self._sound = owner, None, None
        return True

    def release(self, owner: object) -> None:
        """The owner's session is over."""
        if self.owner is owner:
            self.advance(time.monotonic() + SETTLE)  # the rest of the sound
            self.owner = None

    def picture(self, track: str, frame: VideoFrame, fps: float) -> None:
        """A picture was shown; the first track that shows one is the one that is written."""
        if self.video is None or self._track not in (None, track):
            return
        self._track = track
        picture = frame.picture
        head = b""
        if self._size is None:
            self._size = picture.width, picture.height
            rate = f"{round(fps * 1000)}:1000"
            head = f"YUV4MPEG2 W{self._size[0]} H{self._size[1]} F{rate} Ip A1:1 C420\n".encode()
            self.video.put(lambda: head)
        size = self._size
        self.video.put(lambda: b"FRAME\n" + _planes(picture, size))

    def sound(self, track: str, frame: AudioFrame) -> None:
        """A block of sound was played."""
        if self.audio is not None:
            if self._sound is None:
                self._sound = SoundTimeline(frame.played)
            self._sound.add(track, frame.samples, played=frame.played)

    def advance(self, now: float) -> None:
        """Time passed: what has settled is written."""
        if self.audio is not None and self._sound is not None:
            # Players buffer by themselves; waiting for other tracks costs 60 ms, not SETTLE.
            samples = self._sound.take(now - min(SETTLE, 0.06))
            if len(samples):
                self.audio.put(lambda: (samples * 32767).astype("<i2").tobytes())

    @property
    def pipes(self) -> list[RawPipe]:
        """The outputs there are."""
        return [pipe for pipe in (self.video, self.audio) if pipe is not None]

    @property
    def problem(self) -> str | None:
        """What went wrong first with an output; None when nothing did."""
        return next((pipe.problem for pipe in self.pipes if pipe.problem), None)

    def close(self) -> None:
        """End both outputs."""
        for pipe in self.pipes:
            pipe.close()


def _write_all(out: RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[out.write(left) or 0 :]


def _planes(picture: av.VideoFrame, size: tuple[int, int]) -> bytes:
    frame = picture.reformat(width=size[0], height=size[1], format="yuv420p")
    out: list[bytes] = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)  # type: ignore[call-overload]
        out.append(rows[: plane.height, : plane.width].tobytes())
    return b"".join(out)
