"""limen: real-time media over QUIC that spends a scarce link on what matters at this moment.

The whole interface for embedding is here; see the README for twenty lines that use it.
"""

from .scheduler.errors import LimenError, UsageError
from .scheduler.types import Region, Tag, TagKind
from .transport.api import Server, connect, serve
from .transport.errors import ConnectError, PeerError, SessionClosedError, TrackNotOfferedError
from .transport.events import TrackInfo
from .transport.limits import Limits
from .transport.media.kinds import Audio, AudioFrame, Data, DataFrame, Frame, Video, VideoFrame
from .transport.quic.tls import Certificate
from .transport.session import Session, now
from .transport.settings import SessionSettings
from .transport.tuning import tune_process

__version__ = "0.1.0"
__all__ = [
    "Audio",
    "AudioFrame",
    "Certificate",
    "ConnectError",
    "Data",
    "DataFrame",
    "Frame",
    "LimenError",
    "Limits",
    "PeerError",
    "Region",
    "Server",
    "Session",
    "SessionClosedError",
    "SessionSettings",
    "Tag",
    "TagKind",
    "TrackInfo",
    "TrackNotOfferedError",
    "UsageError",
    "Video",
    "VideoFrame",
    "connect",
    "now",
    "serve",
    "tune_process",
]
