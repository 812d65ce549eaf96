"""The control stream: HELLO, tracks offered and wanted, tags, requests; checked and counted.

One bidirectional stream, opened by the client. `receive` turns its bytes into events, in order, and
raises at the first thing a peer may not do: speak before HELLO, announce a track twice or too
many, flood. What came before that is still delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..scheduler.types import ObjectId, Scope, Tag
from . import wire
from .errors import PeerError, VersionError, WireError
from .events import (
    Connected,
    Event,
    KeyframeRequested,
    ObjectsGone,
    Subscribed,
    TagReceived,
    TrackFinished,
    TrackInfo,
    TrackOffered,
    Unsubscribed,
)
from .settings import SessionSettings

AGENT = "limen/0.1"


class Dialogue:
    """Both directions of one session's control stream. `send` hands bytes to the stream."""

    def __init__(
        self,
        settings: SessionSettings,
        *,
        send: Callable[[int, bytes], None],
        is_client: bool,
    ) -> None:
        self._settings = settings
        self._send = send
        self._is_client = is_client
        self._reader = wire.ControlReader(settings.limits)
        self._tokens = settings.limits.control_messages_per_second
        self._refilled: float | None = None
        self._tracks: dict[int, TrackInfo] = {}
        self._offers: dict[int, TrackInfo] = {}
        self.stream_id: int | None = None
        """The control stream; None before it is open."""
        self.version: int | None = None
        """The wire version agreed on; None before the peer's HELLO."""

    def open(self, stream_id: int) -> None:
        """Begin the conversation (client)."""
        self.stream_id = stream_id
        self._hello()

    def send(self, message: wire.Message) -> None:
        """Send a message; nothing happens before the stream is open."""
        if self.stream_id is not None:
            self._send(self.stream_id, message.encode())

    def announce(self, track: TrackInfo) -> None:
        """Offer a track to the peer."""
        self._tracks[track.number] = track
        self.send(wire.Announce(track.number, track.name, track.media, track.params))

    def finish(self, track: int, objects: int) -> None:
        """Tell the peer that a track has ended."""
        self._tracks.pop(track, None)
        self.send(wire.Finished(track, objects))

    def receive(self, stream_id: int, data: bytes, *, end: bool, now: float) -> Iterator[Event]:
        """Events for bytes of a bidirectional stream. Raises PeerError."""
        if self.stream_id is None and stream_id == 0 and not self._is_client:
            self.stream_id = 0
        if stream_id != self.stream_id:
            raise PeerError(f"a second control stream ({stream_id}) was opened")
        for message in self._reader.feed(data):
            self._spend_token(now)
            yield from self._on_message(message, now)
        if end:
            raise PeerError("the peer ended the control stream")

    def _hello(self) -> None:
        self.send(wire.Hello(list(wire.VERSIONS), AGENT, self._settings.idle_timeout))

    def _spend_token(self, now: float) -> None:
        rate = self._settings.limits.control_messages_per_second
        if self._refilled is not None:
            elapsed = max(0.0, now - self._refilled)
            self._tokens = min(rate, self._tokens + elapsed * rate)
        self._refilled = now
        self._tokens -= 1
        if self._tokens < 0:
            raise PeerError(f"more than {rate:g} control messages a second")

    def _on_message(self, message: wire.Message, now: float) -> Iterator[Event]:
        if self.version is None and not isinstance(message, wire.Hello):
            raise WireError(f"expected HELLO first, got {type(message).__name__}")
        match message:
            case wire.Hello():
                yield self._on_hello(message)
            case wire.Announce():
                yield self._on_announce(message)
            case wire.Finished():
                if self._offers.pop(message.track, None) is not None:
                    yield TrackFinished(message.track, message.objects)
            case wire.Subscribe():
                yield Subscribed(message.track)
            case wire.Unsubscribe():
                yield Unsubscribed(message.track)
            case wire.RequestKeyframe():
                yield KeyframeRequested(message.track, message.as_id())
            case wire.Gone():
                ids = (ObjectId(message.track, *entry) for entry in message.objects)
                yield ObjectsGone(tuple(ids))
            case wire.TagMessage():
                track = self._tracks.get(message.track)
                if track is not None:  # else it has just ended here
                    yield TagReceived(_as_tag(message, track, now))
            case _:
                raise WireError(f"no handler for {type(message).__name__}")

    def _on_hello(self, message: wire.Hello) -> Connected:
        if self.version is not None:
            raise WireError("a second HELLO")
        common = set(wire.VERSIONS) & set(message.versions)
        if not common:
            raise VersionError(
                f"no common wire version: this end speaks {list(wire.VERSIONS)}, "
                f"the peer {message.versions}"
            )
        self.version = max(common)
        if not self._is_client:
            self._hello()
        return Connected(self.version, message.agent)

    def _on_announce(self, message: wire.Announce) -> TrackOffered:
        limits = self._settings.limits
        if len(message.name) > limits.name_length:
            raise WireError(f"a track's name has at most {limits.name_length} characters")
        if message.track in self._offers or any(
            offer.name == message.name for offer in self._offers.values()
        ):
            raise WireError(f"track {message.name!r} ({message.track}) was announced twice")
        if len(self._offers) >= limits.tracks:
            raise PeerError(f"more than {limits.tracks} tracks were announced")
        info = TrackInfo(message.track, message.name, message.media, dict(message.params))
        self._offers[message.track] = info
        return TrackOffered(info)


def _as_tag(message: wire.TagMessage, track: TrackInfo, now: float) -> Tag:
    return Tag(
        kind=message.kind,
        value=float(message.value),
        time=now - message.age,
        half_life=float(message.half_life),
        scope=Scope(track.name, message.layer, message.as_region()),
        source=f"peer:{message.source}",
    )
