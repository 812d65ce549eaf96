"""Records one session: what was seen and heard, when it was seen and heard, in one MP4.

Encoding happens in a thread of its own. The beginning is held back for a quarter second: tracks
start a little apart, and the file begins with whichever was first. Sound fills the whole length;
a picture that freezes is repeated now and then, so that the file on disk keeps up. A second
picture track gets a file of its own beside the first.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path

import av
import av.error

from ..transport.media.kinds import AudioFrame, VideoFrame
from .mp4_file import Mp4File, even_size, free_path
from .sound_timeline import SETTLE, SoundTimeline

HOLD = 0.25
"""Seconds of the beginning that are held back."""
PICTURE_WAIT = 2.0
"""Seconds the beginning waits for the first picture of a track that was offered."""
REPEAT = 0.5
"""Seconds after which a frozen picture is written again: a fragment's length."""
MOST_WAITING = 120
"""Pictures waiting to be encoded; beyond that they are left out. 640x360: 41 MB."""

Item = tuple[str, str, float, AudioFrame | VideoFrame | None]


class Recorder:
    """Records into `folder`; `note` is called, from the recording thread, with troubles."""

    def __init__(self, folder: Path, stem: str, note: Callable[[str], None]) -> None:
        self.path: Path | None = None
        """The file, once it has begun."""
        self.problem: str | None = None
        """Why recording ended early."""
        self.left_out = 0
        """Pictures that the encoder had no time for."""
        self.expect_picture = False
        """Set when a picture track was offered: the beginning waits for its size."""
        self._folder, self._stem = folder, stem
        self._note = note
        self._main: Mp4File | None = None
        self._others: dict[str, Mp4File] = {}
        self._sound: SoundTimeline | None = None
        self._main_track: str | None = None
        self._latest: dict[str, tuple[float, av.VideoFrame]] = {}
        self._start = 0.0
        self._end = 0.0
        self._began: float | None = None
        self._held: list[Item] = []
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="limen-record", daemon=True)
        self._thread.start()

    # -- on the loop

    def picture(self, track: str, frame: VideoFrame) -> None:
        """A picture was shown."""
        if self._queue.qsize() > MOST_WAITING:
            self.left_out += 1
            return
        self._queue.put(("picture", track, frame.shown, frame))

    def sound(self, track: str, frame: AudioFrame) -> None:
        """A block of sound was played."""
        self._queue.put(("sound", track, frame.played, frame))

    def advance(self, now: float) -> None:
        """Time passed, whether or not something came."""
        self._queue.put(("advance", "", now, None))

    def close(self) -> None:
        """Finish the file. Blocks until it is written; call it from a thread."""
        self._queue.put(("close", "", 0.0, None))
        self._thread.join()

    @property
    def seconds(self) -> float:
        """Length of the recording."""
        return 0.0 if self._main is None else self._main.seconds

    @property
    def paths(self) -> list[Path]:
        """The files written."""
        return [f.path for f in (self._main, *self._others.values()) if f is not None]

    # -- in the thread

    def _work(self) -> None:
        logging.getLogger("libav").setLevel(logging.ERROR)
        while (item := self._queue.get())[0] != "close":
            self._guarded(self._take, item)
        self._guarded(self._finish)

    def _guarded(self, step: Callable[..., None], *args: Item) -> None:
        """Do a step of the recording; after one that fails nothing more is recorded."""
        if self.problem is not None:
            return
        try:
            step(*args)
        except (av.error.FFmpegError, OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or str(error)
            self.problem = f"the recording {self.path or self._folder} ended early: {cause}"
            self._note(self.problem)
            with contextlib.suppress(av.error.FFmpegError, OSError, ValueError):
                self._close_files()

    def _take(self, item: Item) -> None:
        if self._main is not None:
            self._write(item)
            return
        kind, _, time, _ = item
        if kind == "advance":
            if self._began is not None and self._may_begin(time):
                self._begin()
        else:
            self._began = time if self._began is None else min(self._began, time)
            self._held.append(item)

    def _may_begin(self, now: float) -> bool:
        if self._began is None or now - self._began < HOLD:
            return False
        has_picture = any(kind == "picture" for kind, _, _, _ in self._held)
        return has_picture or not self.expect_picture or now - self._began > PICTURE_WAIT

    def _begin(self) -> None:
        self._start = self._end = self._began or 0.0
        size = None
        for _, track, _, frame in self._held:
            if isinstance(frame, VideoFrame):
                size, self._main_track = even_size(frame.picture), track
                break
        self._sound = SoundTimeline(self._start)
        self.path = free_path(self._folder, self._stem)
        self._main = Mp4File(self.path, size=size, sound=True)
        held, self._held = self._held, []
        for item in held:
            self._write(item)

    def _write(self, item: Item) -> None:
        _, track, time, frame = item
        if isinstance(frame, AudioFrame) and self._sound is not None:
            self._sound.add(track, frame.samples, played=time)
            self._end = max(self._end, time + len(frame.samples) / 48_000)
        elif isinstance(frame, VideoFrame):
            self._show(track, frame.picture, time)
            self._end = max(self._end, time)
        else:
            self._pass_time(time - SETTLE)

    def _show(self, track: str, picture: av.VideoFrame, time: float) -> None:
        file = self._file_of(track, picture)
        before = len(file.rescaled)
        file.picture(picture, time - self._start)
        self._latest[track] = (time, picture)
        if len(file.rescaled) > before and file.size is not None:
            self._note(
                f"{file.path.name} stays at {file.size[0]}x{file.size[1]}: pictures of "
                f"{picture.width}x{picture.height} are scaled to it"
            )

    def _file_of(self, track: str, picture: av.VideoFrame) -> Mp4File:
        if self._main is not None and track == self._main_track:
            return self._main
        if track not in self._others:
            stem = self._stem if self.path is None else self.path.stem
            path = free_path(self._folder, f"{stem}-{_safe(track)}")
            self._others[track] = Mp4File(path, size=even_size(picture), sound=False)
        return self._others[track]

    def _pass_time(self, until: float) -> None:
        """Everything before `until` is final."""
        if self._main is None or self._sound is None:
            return
        self._main.sound(self._sound.take(until))
        for track, (shown, picture) in list(self._latest.items()):
            if until - shown > REPEAT:
                self._show(track, picture, until)

    def _finish(self) -> None:
        if self._main is None and self._held:
            self._begin()
        if self._main is None:
            return  # nothing was seen or heard
        for track, (shown, picture) in list(self._latest.items()):
            if self._end - shown > REPEAT / 2:
                self._show(track, picture, self._end)
        if self._sound is not None:
            self._main.sound(self._sound.take(self._end))
        self._close_files()

    def _close_files(self) -> None:
        for file in [self._main, *self._others.values()]:
            if file is not None:
                file.close()


def _safe(name: str) -> str:
    """A peer's track name as part of a file name."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
    return kept[:40] or "track"
