"""What both ends of a run are told, as a JSON file: all but ports and the moment of start."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from ..scene import MediaChoice, Scene, load_scene


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run's settings, the same for every peer of a comparison."""

    scene: str
    """A shipped scene's name or a .toml path."""
    media: MediaChoice
    seed: int
    duration: float
    """Seconds of capture."""
    video_bps: int = 500_000
    """The picture's nominal (and highest) rate. With both voices and the packets' own bytes it
    takes 70 % of 1 Mbit/s: it fits with headroom, and not into 400 kbit/s."""
    voice_bps: int = 28_000
    """Each microphone's rate."""
    gop_seconds: float = 60.0
    """Seconds between keyframes that nobody asked for: none within a run, as live senders do."""
    voice_deadline: float = 0.4
    """Seconds after capture until which sound is worth sending: later than "on time", since late
    sound is still better than none (ITU-T G.114 calls 400 ms the most one can talk over)."""
    video_deadline: float = 0.6
    """The same for pictures: giving one up costs a keyframe, so it has to be hopeless."""
    lead: float = 1.2
    """Seconds a sender that is ready waits before it captures; link time begins with them, so that
    a profile's first seconds are the same for a peer that was long in setting up."""
    drain: float = 3.0
    """Seconds after the last capture; what has not come by then never came."""
    listen_host: str = "127.0.0.1"
    """Where an end opens its ports; "0.0.0.0" when the ends are in namespaces of their own."""

    barcode: bool = False
    """Each picture carries its number as a barcode in its bottom rows: how pictures are known
    again behind a peer that carries no stamps. The same for every peer of a comparison."""

    @property
    def link_duration(self) -> float:
        """The length a timed link profile is laid out for: its middle is the capture's middle."""
        return self.duration + 2.0 * self.lead

    def load_scene(self) -> Scene:
        """The scene with its media; they are in the cache by now."""
        return load_scene(self.scene, media=self.media, seed=self.seed, duration=self.duration)

    def write(self, path: Path) -> None:
        """Save for `read`."""
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> RunPlan:
        """What `write` saved."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))
