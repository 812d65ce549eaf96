"""A live session as users hold it: tracks out, tracks in, tags, stats.

Both directions work the same way on both ends. A session belongs to one event loop; its methods
are called from there. Cancelling an awaiting call leaves the session in order.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

from ..scheduler.checks import instance, number, one_of, text, whole
from ..scheduler.errors import UsageError
from ..scheduler.rates import split_rate
from ..scheduler.types import MediaObject, ObjectId, Region, Scope, Tag, check_kind
from .close_reasons import CloseCode
from .core import SessionCore
from .endpoint import Wire
from .errors import SessionClosedError, TrackNotOfferedError, WireError
from .events import (
    Closed,
    Connected,
    Event,
    KeyframeRequested,
    ObjectReceived,
    ObjectSent,
    ObjectsGone,
    ObjectShed,
    RepairsAbandoned,
    Subscribed,
    TagReceived,
    TrackFinished,
    TrackInfo,
    TrackOffered,
    Unsubscribed,
)
from .media.audio_receive import AudioReceiver
from .media.audio_send import AudioPublication
from .media.data_receive import DataReceiver
from .media.data_send import DataPublication
from .media.kinds import Audio, AudioFrame, Data, DataFrame, Frame, Kind, Video, VideoFrame
from .media.publication import Publication
from .media.subscription import Receiver, Subscription
from .media.video_receive import VideoReceiver
from .media.video_send import VideoPublication
from .playout.clock import PlayoutClock
from .settings import SessionSettings
from .wire import ObjectHeader

T = TypeVar("T")
MOST_NAME = 256
"""Characters of a track's name that the wire can carry."""
LAST_TRACK = 65535
"""Largest track number on the wire; numbers are used once."""
RATE_INTERVAL = 0.02
"""Seconds between splits of the rate: within a frame at 30 fps."""
SHARES_INTERVAL = 0.1
"""Seconds between traced shares."""


class Session:
    """One connection to one peer. Made by `limen.connect` and given to `limen.serve`'s handler."""

    def __init__(self, core: SessionCore, settings: SessionSettings) -> None:
        self.core = core
        self.settings = settings
        self.playout_clock = PlayoutClock()
        self._wire: Wire | None = None
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[Closed] = self._loop.create_future()
        self._connected = asyncio.Event()
        self._offers: dict[int, TrackInfo] = {}
        self._offers_changed = asyncio.Condition()
        self._publications: dict[int, Publication] = {}
        self._ended: dict[int, int] = {}
        self._subscriptions: dict[int, Subscription[Any]] = {}
        self._waiting: weakref.WeakSet[Subscription[Any]] = weakref.WeakSet()
        self._played_out: dict[str, dict[str, Any]] = {}
        self._next_track = 0
        self._next_split = 0.0
        self._next_shares = 0.0
        self._background: set[asyncio.Task[None]] = set()
        self.peer_agent = ""

    # -- what users call

    @property
    def offers(self) -> Mapping[str, TrackInfo]:
        """The tracks the peer offers now, by name."""
        return MappingProxyType({info.name: info for info in self._offers.values()})

    @property
    def is_closed(self) -> bool:
        """True once the session has ended, for whatever reason."""
        return self._closed.done()

    @property
    def failure(self) -> str | None:
        """Why the session broke off; None while it lives and after an orderly close."""
        if not self._closed.done() or not self._closed.result().error:
            return None
        return self._closed.result().reason

    @overload
    def publish(self, name: str, kind: Audio) -> AudioPublication: ...
    @overload
    def publish(self, name: str, kind: Video) -> VideoPublication: ...
    @overload
    def publish(self, name: str, kind: Data) -> DataPublication: ...
    def publish(self, name: str, kind: Kind) -> Publication:
        """Offer a track to the peer and return what sends on it.

        Raises UsageError for a name that is empty, too long or in use, SessionClosedError.
        """
        self.check_open()
        text("a track's name", name, self.settings.limits.name_length)
        if any(p.name == name for p in self._publications.values()):
            raise UsageError(f"this session publishes a track named {name!r} already")
        if len(self._publications) >= self.settings.limits.tracks:
            raise UsageError(
                f"a session offers at most {self.settings.limits.tracks} tracks at once "
                "(Limits.tracks); finish one first"
            )
        if self._next_track > LAST_TRACK:
            raise UsageError(f"a session offers at most {LAST_TRACK + 1} tracks in its life")
        number, self._next_track = self._next_track, self._next_track + 1
        publication: Publication
        match kind:
            case Audio():
                publication = AudioPublication(self, number, name, kind)
            case Video():
                publication = VideoPublication(self, number, name, kind)
            case Data():
                publication = DataPublication(self, number, name, kind)
            case _:
                raise UsageError(f"a track is Audio, Video or Data, got {type(kind).__name__}")
        self.core.scheduler.add_flow(
            number,
            track=name,
            base=kind.importance,
            max_queue_bytes=publication.scheduler_bytes,
        )
        self._publications[number] = publication
        self.core.announce(publication.info)
        self.wake()
        return publication

    @overload
    def subscribe(
        self, name: str, media: Literal["audio"], *, wait: float = ..., max_frames: int = ...
    ) -> Subscription[AudioFrame]: ...
    @overload
    def subscribe(
        self, name: str, media: Literal["video"], *, wait: float = ..., max_frames: int = ...
    ) -> Subscription[VideoFrame]: ...
    @overload
    def subscribe(
        self, name: str, media: Literal["data"], *, wait: float = ..., max_frames: int = ...
    ) -> Subscription[DataFrame]: ...
    @overload
    def subscribe(
        self, name: str, media: None = None, *, wait: float = ..., max_frames: int = ...
    ) -> Subscription[Frame]: ...
    def subscribe(
        self,
        name: str,
        media: str | None = None,
        *,
        wait: float = 5.0,
        max_frames: int | None = None,
    ) -> Subscription[Any]:
        """An iterator over a track of the peer's; `media` tells a type checker what comes.

        It waits up to `wait` seconds for the track to be offered. At most `max_frames` frames
        are kept for a reader that is behind.
        """
        self.check_open()
        text("a track's name", name, MOST_NAME)
        one_of("media", media, "audio", "video", "data", None)
        number("wait", wait, 0.0, unit="of seconds")
        if max_frames is None:
            max_frames = self.settings.limits.queued_frames
        whole("max_frames", max_frames, 1, 1 << 62)
        subscription: Subscription[Any] = Subscription(self, name, wait=wait, max_frames=max_frames)
        subscription.expected_media = media
        self._waiting.add(subscription)
        return subscription

    def tag(
        self,
        kind: str,
        value: float,
        *,
        track: str,
        region: Region | None = None,
        layer: int | None = None,
        half_life: float = 0.3,
        at: float | None = None,
        source: str = "app",
    ) -> None:
        """State that a track (or a region or layer of it) is worth `value` in [0, 1].

        For a track published here it acts at once; for one of the peer's it is sent there.
        It halves every `half_life` seconds from `at` (`limen.now()`; None, or later than now: now;
        `math.inf` holds it until it is replaced, for instance by a value of 0). A later tag of
        the same kind, track, layer and source replaces it. Raises UsageError, also for a
        track that neither end offers. `kind` is one of `limen.TagKind`, or a name of your own
        with a dot in it ("chat.mention").
        """
        self.check_open()
        self.add_tag(
            Tag(
                kind=kind,
                value=value,
                time=time.monotonic() if at is None else at,
                half_life=half_life,
                scope=Scope(track, layer, region),
                source=source,
            )
        )

    def add_tag(self, tag: Tag) -> None:
        """As `tag`, for a tag that is made already: what the sources in `limen.scheduler` give.

        Raises UsageError when neither end offers its track, or its values cannot be sent.
        """
        self.check_open()
        instance("a tag", tag, Tag, "a limen.Tag, as the sources give them")
        check_kind(tag.kind)
        now, track = time.monotonic(), tag.scope.track
        if any(p.name == track for p in self._publications.values()):
            self.tag_own(tag, now=now)
            return
        info = self.offers.get(track)
        if info is None:
            raise UsageError(f"neither end offers a track named {track!r} to tag")
        try:
            self.core.tag_remote(info.number, tag, now=now)
        except WireError as error:
            raise UsageError(f"a tag for the other end: {error}") from error
        self.wake()

    def stats(self) -> dict[str, Any]:
        """What the session knows of itself, in plain values; times in seconds, rates in bit/s."""
        now = time.monotonic()
        estimate = self.core.controller.estimate()
        lateness = self.core.tick_lateness
        return {
            "closed": self._closed.result().reason if self._closed.done() else None,
            "link": {
                "target_bps": estimate.target_bps,
                "pacing_bps": estimate.pacing_bps,
                "window_bytes": estimate.window_bytes,
                "delivered_bps": estimate.delivered_bps,
                "queue_delay": estimate.queue_delay,
                "rtt": self.core.quic.smoothed_rtt,
                "loss": estimate.loss,
                "state": estimate.state,
                "bytes_in_flight": self.core.quic.bytes_in_flight,
                "datagram_limit": self.core.quic.datagram_limit,
            },
            "clock_offset": self.core.clock.offset,
            "tick": {
                "count": lateness.count,
                "lateness_p50": lateness.percentile(50),
                "lateness_p99": lateness.percentile(99),
                "lateness_max": lateness.maximum,
            },
            "scheduler": self.core.scheduler.stats(now),
            "objects_out": dict(self.core.outgoing.counts),
            "objects_in": dict(self.core.incoming.counts),
            "streams": self.core.quic.live_streams,
            "sockets": {} if self._wire is None else dict(self._wire.counts),
            "published": {p.name: p.stats() for p in self._publications.values()},
            "subscribed": {
                **self._played_out,
                **{s.name: s.stats() for s in self._subscriptions.values()},
            },
        }

    async def close(self, reason: str = "") -> None:
        """End the session in order; the peer is told. Safe to call twice."""
        instance("a reason to close", reason, str, "a string")
        self.close_now(reason)
        await asyncio.sleep(0)  # let readers see the end

    async def wait_closed(self) -> str:
        """Wait for the end and return its reason."""
        return (await asyncio.shield(self._closed)).reason

    # -- for the parts of the session

    def close_now(self, reason: str = "", *, code: CloseCode = CloseCode.DONE) -> None:
        """Tell the peer and end, without waiting."""
        if not self._closed.done():
            self.core.close(reason, code=code)
            if self._wire is not None:
                self._wire.pump()

    def bind(self, wire: Wire) -> None:
        """Tie the session to what moves its packets."""
        self._wire = wire

    def wake(self) -> None:
        """Something was queued."""
        if self._wire is not None:
            self._wire.wake()

    def check_open(self) -> None:
        """Raise SessionClosedError when the session has ended."""
        if self._closed.done():
            raise SessionClosedError(self._closed.result().reason)

    async def wait_connected(self) -> None:
        """Wait for the handshake. Raises SessionClosedError with the reason it failed for."""
        await self.race(self._connected.wait())

    async def race(self, awaitable: Awaitable[T]) -> T:
        """Await something unless the session ends first (SessionClosedError)."""
        task: asyncio.Future[Any] = asyncio.ensure_future(awaitable)
        over: asyncio.Future[Any] = self._closed
        try:
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                result: T = task.result()
                return result
            raise SessionClosedError(self._closed.result().reason)
        finally:
            if not task.done():
                task.cancel()

    def trace(self, event: str, **values: Any) -> None:
        """Hand an event to the trace, if there is one."""
        if self.settings.trace is not None:
            self.settings.trace(event, values)

    def delay_of(self, captured: float, now: float) -> float | None:
        """Seconds since a capture on the peer's clock; None while the offset is unknown."""
        offset = self.core.clock.offset
        return None if offset is None else now - (captured - offset)

    def tag_own(self, tag: Tag, *, now: float) -> None:
        """A tag on a track of this end."""
        self.core.scheduler.tag(tag, now=now)
        self.trace(
            "tag",
            track=tag.scope.track,
            kind=tag.kind,
            value=tag.value,
            half_life=tag.half_life,
            source=tag.source,
            at=tag.time,
        )

    def send_object(
        self, obj: MediaObject, header: ObjectHeader, *, delivery: str, now: float
    ) -> None:
        """Queue an object of one of this session's publications."""
        if self._closed.done():
            return
        self.trace(
            "object_queued",
            id=tuple(obj.id),
            captured=obj.captured,
            at=now,
            bytes=header.size,
            importance=header.importance,
            keyframe=header.keyframe,
            silence=header.silence,
        )
        self.core.send_object(obj, delivery=delivery, now=now)
        self.wake()

    def end_publication(self, publication: Publication) -> None:
        """Close a publication's flow and tell the peer."""
        number = publication.info.number
        if self._publications.pop(number, None) is None:
            return
        if not self._closed.done():
            self.core.scheduler.remove_flow(number, now=time.monotonic())
            self.core.finish(number, publication.objects)
            self.wake()

    async def attach(self, subscription: Subscription[Any], wait: float) -> None:
        """Wait for the offer a subscription needs, and ask for the track."""
        name = subscription.name
        self._waiting.add(subscription)
        try:
            info = await asyncio.wait_for(self.race(self._offered(subscription)), wait)
        except TimeoutError:
            offered = ", ".join(sorted(self.offers)) or "none"
            raise TrackNotOfferedError(
                f"the peer offered no track named {name!r} within {wait:g} s; offered: {offered}"
            ) from None
        if subscription.receiver is not None or info is None:
            return  # another reader was faster, or the subscription was closed meanwhile
        if info.number in self._subscriptions:
            raise UsageError(f"this session is subscribed to {name!r} already")
        expected = subscription.expected_media
        if expected is not None and expected != info.media:
            raise UsageError(f"track {name!r} is {info.media}, not {expected}")
        subscription.receiver = self._make_receiver(info, subscription)
        self._waiting.discard(subscription)
        self._subscriptions[info.number] = subscription
        self.core.subscribe(info.number)
        if info.number in self._ended:
            subscription.on_track_finished(self._ended[info.number])
        self.wake()

    def _make_receiver(self, info: TrackInfo, subscription: Subscription[Any]) -> Receiver[Any]:
        if info.media == "audio":
            if self._sounds() == []:
                self.playout_clock.set_master(info.name)
            return AudioReceiver(self, info, subscription)
        if info.media == "video":
            return VideoReceiver(self, info, subscription)
        return DataReceiver(self, info, subscription)

    def _sounds(self) -> list[str]:
        """The names of the audio tracks that are being played."""
        receivers = [s.receiver for s in self._subscriptions.values()]
        return [r.info.name for r in receivers if r is not None and r.info.media == "audio"]

    def release(self, subscription: Subscription[Any]) -> None:
        """A track is played out: keep its figures, give back everything else."""
        receiver = subscription.receiver
        if receiver is None or self._subscriptions.pop(receiver.info.number, None) is None:
            return
        self.core.incoming.wanted.discard(receiver.info.number)
        self._played_out[subscription.name] = subscription.stats()
        while len(self._played_out) > self.settings.limits.tracks:
            del self._played_out[next(iter(self._played_out))]
        sounds = self._sounds()
        if receiver.info.media == "audio" and not self.playout_clock.is_master(*sounds):
            self.playout_clock.set_master(sounds[0] if sounds else None)

    def detach(self, subscription: Subscription[Any]) -> None:
        """A subscription was closed by its user."""
        self._waiting.discard(subscription)
        receiver = subscription.receiver
        if receiver is None:
            if not self._closed.done():
                self._notify_offers()  # it may be waiting for one
            return
        if self._subscriptions.pop(receiver.info.number, None) is not None:
            self.core.unsubscribe(receiver.info.number)
            self.wake()

    async def _offered(self, subscription: Subscription[Any]) -> TrackInfo | None:
        name = subscription.name
        async with self._offers_changed:
            await self._offers_changed.wait_for(
                lambda: subscription.is_closed or name in self.offers
            )
            return None if subscription.is_closed else self.offers[name]

    # -- what the core tells

    def on_event(self, event: Event) -> None:
        """Take one event of the core's."""
        now = time.monotonic()
        match event:
            case ObjectReceived():
                self._on_object(event)
            case ObjectSent():
                self._on_sent(event)
            case ObjectShed():
                obj = event.shed.object
                self.trace(
                    "object_shed",
                    id=tuple(obj.id),
                    at=event.shed.time,
                    reason=event.shed.reason.value,
                    sent_bytes=obj.sent_bytes,
                )
                publication = self._publications.get(obj.id.track)
                if publication is not None:
                    publication.on_shed(event.shed, now)
            case RepairsAbandoned():
                for object_id in event.objects:
                    self.trace("object_shed", id=tuple(object_id), at=now, reason="late_repair")
            case ObjectsGone():
                self._on_gone(event.objects, now)
            case TagReceived():
                self.tag_own(event.tag, now=now)
            case KeyframeRequested():
                publication = self._publications.get(event.track)
                if publication is not None:
                    publication.on_keyframe_request(now, event.since)
            case Subscribed():
                publication = self._publications.get(event.track)
                if publication is not None:
                    publication.on_subscribe(now)
                    self._split_rate(now)
            case Unsubscribed():
                publication = self._publications.get(event.track)
                if publication is not None:
                    publication.on_unsubscribe()
            case TrackOffered():
                self._offers[event.track.number] = event.track
                self._notify_offers()
            case TrackFinished():
                self._on_track_finished(event)
            case Connected():
                self.peer_agent = event.agent
                self._connected.set()
            case Closed():
                self._on_closed(event)

    def after_pump(self) -> None:
        """Once per batch of packets: rates to encoders, shares to the trace."""
        now = time.monotonic()
        if now >= self._next_split and self._publications:
            self._split_rate(now)
        if self.settings.trace is not None and now >= self._next_shares and self._publications:
            self._next_shares = now + SHARES_INTERVAL
            scheduler = self.core.scheduler.stats(now)
            estimate = self.core.controller.estimate()
            self.trace(
                "shares",
                at=now,
                flows=scheduler["flows"],
                target_bps=estimate.target_bps,
                queue_delay=estimate.queue_delay,
                state=estimate.state,
            )

    def _split_rate(self, now: float) -> None:
        self._next_split = now + RATE_INTERVAL
        demands = [
            demand
            for p in self._publications.values()
            if p.is_subscribed and (demand := p.demand(now)) is not None
        ]
        if demands:
            shares = split_rate(self.core.controller.target_bps, demands)
            for number, bps in shares.items():
                self._publications[number].set_rate(bps)

    def _on_object(self, event: ObjectReceived) -> None:
        header = event.header
        self.trace(
            "object_received",
            id=tuple(header.id),
            captured=header.captured,
            at=event.arrived,
            first_byte=event.first_byte,
            bytes=header.size,
        )
        subscription = self._subscriptions.get(header.id.track)
        receiver = None if subscription is None else subscription.receiver
        if receiver is not None:
            receiver.count(header.id)
            receiver.on_object(event)

    def _on_sent(self, event: ObjectSent) -> None:
        obj = event.sent.object
        self.trace("object_sent", id=tuple(obj.id), first=obj.first_sent, at=event.sent.time)
        publication = self._publications.get(obj.id.track)
        if publication is not None:
            publication.on_sent(obj)

    def _on_gone(self, objects: tuple[ObjectId, ...], now: float) -> None:
        for object_id in objects:
            subscription = self._subscriptions.get(object_id.track)
            receiver = None if subscription is None else subscription.receiver
            if receiver is not None and receiver.count(object_id):
                receiver.on_gone(object_id, now)

    def _on_track_finished(self, event: TrackFinished) -> None:
        info = self._offers.pop(event.track, None)
        if info is not None:
            self._ended[event.track] = event.objects
            while len(self._ended) > self.settings.limits.tracks:
                del self._ended[next(iter(self._ended))]
        subscription = self._subscriptions.get(event.track)
        if subscription is not None:
            subscription.on_track_finished(event.objects)
        self._notify_offers()

    def _notify_offers(self) -> None:
        async def notify() -> None:
            async with self._offers_changed:
                self._offers_changed.notify_all()

        task = self._loop.create_task(notify())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _on_closed(self, event: Closed) -> None:
        if self._closed.done():
            return
        self._closed.set_result(event)
        self.trace("closed", reason=event.reason, error=event.error)
        error = SessionClosedError(event.reason) if event.error else None
        for subscription in [*self._subscriptions.values(), *self._waiting]:
            subscription.fail(error)
        for publication in list(self._publications.values()):
            publication.close_now()


def now() -> float:
    """The clock of every time in limen's interface: seconds, monotonic, this machine's."""
    return time.monotonic()
