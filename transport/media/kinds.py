"""What can be published, and what a subscriber gets.

A kind's settings travel with the announcement as far as the receiver needs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import av
import numpy as np
from numpy.typing import NDArray

from ...codecs.video_codecs import ABILITIES, CODECS
from ...scheduler.checks import flag, number, one_of, whole
from ...scheduler.types import ObjectId
from ..wire import LONGEST_DEADLINE

Delivery = Literal["auto", "stream", "datagram"]
"""How objects travel: "auto" uses a stream while a lost packet could still be repaired in time."""


@dataclass(frozen=True, slots=True)
class Audio:
    """Settings of an audio track, coded with Opus at 48 kHz (RFC 6716)."""

    channels: int = 1
    bitrate_bps: float = 32_000
    """6,000 to 510,000; 24,000 to 32,000 is transparent for one talker."""
    frame_ms: float = 20.0
    """2.5, 5, 10, 20, 40 or 60. Shorter frames cost bit rate (a header each) and save delay."""
    application: Literal["voip", "audio", "lowdelay"] = "voip"
    """Opus's mode: speech, any sound, or any sound with 2.5 ms less look-ahead."""
    deadline: float = 0.2
    """Seconds after capture by which a frame must arrive."""
    importance: float = 0.4
    """Without any tag. Speech raises it to 0.8 and more, so silence is what gives way."""
    speech_tags: bool = True
    """Derive tags from the sound itself: speech, onsets, peaks, pauses."""
    delivery: Delivery = "auto"
    hold: float = 0.0
    """Seconds of sound kept for a subscriber who comes late, 0 to 5. What is older is counted as
    unheard. A live talk wants 0; an utterance that must be heard whole wants its length."""

    def __post_init__(self) -> None:
        one_of("channels", self.channels, 1, 2)
        one_of("frame_ms", self.frame_ms, 2.5, 5, 10, 20, 40, 60)
        one_of("application", self.application, "voip", "audio", "lowdelay")
        one_of("delivery", self.delivery, "auto", "stream", "datagram")
        number("bitrate_bps", self.bitrate_bps, 6_000, 510_000)
        number("deadline", self.deadline, 0.02, 30)
        number("importance", self.importance, 0, 1)
        number("hold", self.hold, 0, 5)
        flag("speech_tags", self.speech_tags)


@dataclass(frozen=True, slots=True)
class Video:
    """Settings of a video track."""

    bitrate_bps: float = 1_500_000
    """The most it may use; the link decides how much of it there is."""
    minimum_bps: float = 60_000
    """Below this, frames are skipped rather than coded worse."""
    fps: float = 30.0
    """Nominal; pictures may come at any pace."""
    deadline: float = 0.3
    """Seconds after capture by which a picture must arrive."""
    importance: float = 0.3
    """Without any tag; gaze and gesture raise it."""
    gesture_tags: bool = False
    """Derive gesture onsets from motion in the picture (0.5 ms a picture at 640 × 360)."""
    gop_seconds: float = 10.0
    """Seconds between keyframes that nobody asked for."""
    threads: int = 1
    """Slice threads of the encoder, 1 to 16: more encode big pictures sooner, at some quality."""
    codec: Literal["h264", "vp8", "vp9", "av1"] = "h264"
    """H.264 is the fastest and holds its rate best. VP8 and VP9 have layers and repair a loss
    without a keyframe; AV1 codes best where the rate stands still. `docs/codecs.md` has figures."""
    layers: int = 1
    """Temporal layers, 1 to 3, with VP8 and VP9: the upper ones can be dropped without harm."""

    def __post_init__(self) -> None:
        whole("threads", self.threads, 1, 16)
        number("bitrate_bps", self.bitrate_bps, 20_000, 50_000_000)
        number("minimum_bps", self.minimum_bps, 20_000, self.bitrate_bps)
        number("fps", self.fps, 0.1, 240)
        number("deadline", self.deadline, 0.02, 30)
        number("importance", self.importance, 0, 1)
        number("gop_seconds", self.gop_seconds, 0.1, 3600)
        flag("gesture_tags", self.gesture_tags)
        one_of("codec", self.codec, *CODECS)
        most = ABILITIES[self.codec].temporal_layers
        whole(f"layers with {self.codec}", self.layers, 1, most)


@dataclass(frozen=True, slots=True)
class Data:
    """Settings of a track of raw objects: telemetry, coded media of your own, files."""

    deadline: float | None = None
    """Seconds after capture by which an object must arrive; None: it is never too late."""
    importance: float = 0.2
    """Without any tag."""
    delivery: Delivery = "auto"
    queue_bytes: int = 262_144
    """`send` waits while more than this is queued (back-pressure)."""
    hold: float = 0.0
    """Seconds of objects kept for a subscriber who comes late, 0 to 5."""

    def __post_init__(self) -> None:
        one_of("delivery", self.delivery, "auto", "stream", "datagram")
        if self.deadline is not None:
            number("deadline", self.deadline, 0.001, LONGEST_DEADLINE)
        number("importance", self.importance, 0, 1)
        whole("queue_bytes", self.queue_bytes, 1, 1 << 30)
        number("hold", self.hold, 0, 5)


Kind = Audio | Video | Data


@dataclass(frozen=True, slots=True, eq=False)
class AudioFrame:
    """20 ms of sound, due now."""

    samples: NDArray[np.float32]
    """Shape (960, channels), −1 to 1, at 48 kHz."""
    captured: float | None
    """Sender's monotonic clock at the end of the sound; None where nothing was said."""
    played: float
    """Own monotonic clock: when it was due."""
    delay: float | None
    """Seconds from capture to now; None while the clocks' offset or the capture is unknown."""
    kind: str
    """"played", "repaired", "concealed", "stretched" or "silence"."""
    importance: float


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrame:
    """A picture, due now."""

    picture: av.VideoFrame
    """`picture.to_ndarray(format="rgb24")` gives (height, width, 3) bytes."""
    captured: float
    """Sender's monotonic clock."""
    shown: float
    """Own monotonic clock."""
    delay: float | None
    """Seconds from capture to now; None while the clocks' offset is unknown."""
    id: ObjectId
    keyframe: bool


@dataclass(frozen=True, slots=True, eq=False)
class DataFrame:
    """A raw object, as soon as it is whole. Objects of one track may overtake each other."""

    payload: bytes
    captured: float
    """Sender's monotonic clock."""
    arrived: float
    """Own monotonic clock."""
    delay: float | None
    """Seconds from capture to arrival; None while the clocks' offset is unknown."""
    id: ObjectId
    importance: float


Frame = AudioFrame | VideoFrame | DataFrame
