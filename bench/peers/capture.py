"""The scene's media, captured in real time: the same pictures and sounds at the same moments.

All pictures are decoded before the run (20 s of 640×360 are 160 MB), so that the loop that is
measured does nothing but capture. Moments are absolute (start + k / fps): a loop that was late
for one picture is not late for the next, and captures keep their nominal stamps whatever the
lateness, which therefore shows as delay.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import av

from ..barcode import stamp
from ..scene import SOUND_RATE, Floats, Scene

BLOCK = 960
"""Samples of one chunk of sound: 20 ms."""
PERIOD = BLOCK / SOUND_RATE


@dataclass(frozen=True, slots=True)
class Source:
    """A scene's media in memory; times are run time."""

    picture_track: str
    pictures: list[tuple[float, av.VideoFrame]]
    sounds: dict[str, list[Floats]]
    """Per track, in chunks of 20 ms."""

    @property
    def fps(self) -> float:
        """Pictures a second, on the average."""
        if len(self.pictures) < 2:
            return 25.0
        return (len(self.pictures) - 1) / (self.pictures[-1][0] - self.pictures[0][0])


def load_source(scene: Scene, *, barcode: bool) -> Source:
    """Decode everything; `barcode`: each picture carries its number (`bench/barcode.py`)."""
    pictures = [
        (at, frame if frame.format.name == "yuv420p" else frame.reformat(format="yuv420p"))
        for at, frame in scene.pictures()
    ]
    if barcode:
        pictures = [(at, stamp(frame, number)) for number, (at, frame) in enumerate(pictures)]
    sounds = {}
    for microphone in scene.microphones:
        sound = scene.sound(microphone.track)
        whole = len(sound) // BLOCK * BLOCK
        sounds[microphone.track] = [sound[i : i + BLOCK] for i in range(0, whole, BLOCK)]
    return Source(scene.picture_track, pictures, sounds)


async def wait_until(moment: float) -> None:
    """Sleep until `moment` on the monotonic clock; never wakes early."""
    while (left := moment - time.monotonic()) > 0.0:  # noqa: ASYNC110 - waits for a time
        await asyncio.sleep(left)


async def capture(
    source: Source,
    *,
    start: float,
    on_picture: Callable[[av.VideoFrame, float], Awaitable[object]],
    on_sound: Callable[[str, Floats, float], Awaitable[object]],
) -> None:
    """Hand out every picture and chunk of sound at its moment, with its capture stamp.

    A chunk's stamp is when its last sample was captured.
    """

    async def pictures() -> None:
        for at, frame in source.pictures:
            await wait_until(start + at)
            await on_picture(frame, start + at)

    async def sound(track: str) -> None:
        for index, chunk in enumerate(source.sounds[track]):
            captured = start + (index + 1) * PERIOD
            await wait_until(captured)
            await on_sound(track, chunk, captured)

    gc.collect()
    gc.freeze()
    async with asyncio.TaskGroup() as group:
        group.create_task(pictures())
        for track in source.sounds:
            group.create_task(sound(track))
