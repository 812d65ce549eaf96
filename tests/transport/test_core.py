"""Two session cores over a simulated link, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from limen.scheduler.types import ObjectId, Region, Scope, ShedReason, Tag
from limen.transport import wire
from limen.transport.close_reasons import CloseCode
from limen.transport.dialogue import Dialogue
from limen.transport.events import (
    Closed,
    Connected,
    KeyframeRequested,
    ObjectsGone,
    ObjectShed,
    Subscribed,
    TagReceived,
    TrackFinished,
    TrackOffered,
    Unsubscribed,
)
from limen.transport.quic.tls import Trust, make_certificate
from limen.transport.settings import SessionSettings

RigMaker = Callable[..., Any]


def reason(rig: Any, who: str) -> str:
    (closed,) = rig.of(who, Closed)
    return str(closed.reason)


def subscribed_rig(rig: RigMaker, *tracks: tuple[str, float], **options: Any) -> Any:
    """A rig on whose server the client has subscribed to tracks 0, 1, ... at virtual time 1.5 s."""
    r = rig(**options)
    for number, (name, base) in enumerate(tracks):
        r.offer("server", number, name, base=base)
    r.run(1.2)
    for number in range(len(tracks)):
        r.client.subscribe(number)
    r.run(1.5)
    return r


# -- setting up


def test_handshake_takes_two_round_trips_and_tells_both_ends(rig: RigMaker) -> None:
    r = rig(delay_ms=50)
    for who in ("client", "server"):
        ((when, event),) = [(t, e) for t, e in r.events[who] if isinstance(e, Connected)]
        assert event.version == 1
        assert event.agent.startswith("limen/")
        assert when < 0.35


def test_another_protocol_name_is_refused_in_words(
    rig: RigMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "ALPN", "chat/9")
    r = rig(connect=False)
    monkeypatch.setattr(wire, "ALPN", "limen/1")
    r.run(2.0)
    assert "does not speak limen/1" in reason(r, "client")
    assert "ALPN" in reason(r, "client")
    assert r.time < 2.1


def test_a_certificate_that_is_not_the_pinned_one_ends_it(rig: RigMaker) -> None:
    r = rig(trust=Trust(fingerprint=make_certificate().fingerprint), connect=False)
    r.run(2.0)
    assert "not the one that was pinned" in reason(r, "client")
    assert not r.of("client", Connected)
    assert not r.of("server", Connected)
    assert "ended the handshake" in reason(r, "server")
    assert "certificate" in reason(r, "server")


def test_an_unknown_authority_is_refused(rig: RigMaker) -> None:
    r = rig(trust=Trust(), connect=False)
    r.run(2.0)
    assert "certificate was not accepted" in reason(r, "client")
    assert "fingerprint" in reason(r, "client")


def test_no_common_version_is_said_with_both_lists(
    rig: RigMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Dialogue._hello

    def newer(self: Dialogue) -> None:
        if not self._is_client:
            inner(self)
            return
        self.send(wire.Hello([7, 8], "later", 10.0))

    monkeypatch.setattr(Dialogue, "_hello", newer)
    r = rig(connect=False)
    r.run(2.0)
    for who in ("client", "server"):
        assert "no common wire version" in reason(r, who)
        assert "[7, 8]" in reason(r, who)


def test_the_highest_common_version_is_used(rig: RigMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Dialogue._hello

    def both(self: Dialogue) -> None:
        if not self._is_client:
            inner(self)
            return
        self.send(wire.Hello([1, 9], "later", 10.0))

    monkeypatch.setattr(Dialogue, "_hello", both)
    r = rig(connect=False)
    r.run(1.0)
    assert r.client.version == r.server.version == 1


def test_nobody_there_is_noticed_at_the_idle_limit(rig: RigMaker) -> None:
    r = rig(connect=False, client=SessionSettings(idle_timeout=2.0))
    r.drop = lambda _who, _data: True
    r.run(10.0)
    (when,) = [t for t, e in r.events["client"] if isinstance(e, Closed)]
    assert "is the server running" in reason(r, "client")
    assert 1.9 < when < 4.0


# -- control


def test_tracks_subscriptions_tags_and_requests_reach_the_other_end(rig: RigMaker) -> None:
    r = rig(server_offset=5000.0)
    r.offer("server", 3, "face", media="video")
    r.run(1.2)
    ((offer,),) = ([e.track for e in r.of("client", TrackOffered)],)
    assert (offer.number, offer.name, offer.media) == (3, "face", "video")
    r.client.subscribe(3)
    r.client.request_keyframe(3)
    made = r.clock("client") - 0.1
    scope = Scope("face", None, Region.around(0.5, 0.25, 0.1))
    r.client.tag_remote(3, Tag("gaze", 0.75, made, 0.3, scope, "app"), now=r.clock("client"))
    r.run(1.4)
    assert [e.track for e in r.of("server", Subscribed)] == [3]
    assert [e.track for e in r.of("server", KeyframeRequested)] == [3]
    ((when, event),) = [(t, e) for t, e in r.events["server"] if isinstance(e, TagReceived)]
    tag = event.tag
    assert (tag.kind, tag.value, tag.half_life, tag.scope, tag.source) == (
        "gaze",
        0.75,
        0.3,
        scope,
        "peer:app",
    )
    # On the server's clock: as old as it was when it was sent.
    assert tag.time == pytest.approx(100 + when + 5000 - 0.1, abs=1e-3)
    r.client.unsubscribe(3)
    r.server.finish(3, 0)
    r.run(1.6)
    assert [e.track for e in r.of("server", Unsubscribed)] == [3]
    assert r.of("client", TrackFinished) == [TrackFinished(3, 0)]


def test_a_tag_for_a_track_that_has_ended_is_ignored(rig: RigMaker) -> None:
    r = rig()
    r.client.tag_remote(5, Tag("gaze", 1, r.now, 1, Scope("x")), now=r.now)
    r.run(1.5)
    assert not r.of("server", TagReceived)
    assert r.server.closed is None


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([wire.Hello([1], "x", 10.0)], "second HELLO"),
        ([wire.Announce(1, "a", "data", {}), wire.Announce(1, "b", "data", {})], "twice"),
        ([wire.Announce(1, "a", "data", {}), wire.Announce(2, "a", "data", {})], "twice"),
        ([wire.Announce(n, f"t{n}", "data", {}) for n in range(65)], "more than 64 tracks"),
        ([wire.Announce(1, "n" * 65, "data", {})], "at most 64 characters"),
        ([wire.RequestKeyframe(1)] * 4000, "control messages a second"),
    ],
    ids=["hello", "number", "name", "many", "long", "flood"],
)
def test_contradictions_and_floods_end_the_session_with_a_reason(
    rig: RigMaker, messages: list[wire.Message], words: str
) -> None:
    r = rig()
    for message in messages:
        r.client._send(message)
    r.run(3.0)
    assert words in reason(r, "server")
    assert words in reason(r, "client"), "the offender is told"


def test_garbage_on_the_control_stream_ends_the_session(rig: RigMaker) -> None:
    r = rig()
    r.client.quic.send_stream_data(0, b"GET / HTTP/1.1\r\n\r\n")
    r.run(1.5)
    assert "control message of 1195725856 bytes" in reason(r, "server")


@pytest.mark.parametrize("what", ["second", "ended", "reset", "stopped"])
def test_the_control_stream_is_one_and_stays_open(rig: RigMaker, what: str) -> None:
    r = rig()
    quic = r.client.quic
    if what == "second":
        quic.send_stream_data(4, b"abc")
    elif what == "ended":
        quic.send_stream_data(0, b"", end_stream=True)
    elif what == "reset":
        quic.reset_stream(0, 1)
    else:
        quic.stop_stream(0, 1)
    r.run(1.5)
    assert "control stream" in reason(r, "server")


@pytest.mark.parametrize(
    "datagram",
    [b"\x01", b"\x01\x00\x05abc", b"\x02", b"\x02" + bytes(12) + b"\xff" * 4, b"\x03abc", b"\x04"],
)
def test_malformed_datagrams_end_the_session(rig: RigMaker, datagram: bytes) -> None:
    r = rig()
    r.client.quic.send_datagram_frame(datagram)
    r.run(1.5)
    assert reason(r, "server")
    assert r.of("server", Closed)[0].error


def test_datagrams_of_later_versions_are_skipped(rig: RigMaker) -> None:
    r = rig()
    for datagram in (b"", b"\x00", b"\x7fnew", b"\xff"):
        r.client.quic.send_datagram_frame(datagram)
    r.run(1.5)
    assert r.server.closed is None


# -- closing


@pytest.mark.parametrize("who", ["client", "server"])
def test_closing_tells_the_other_end_within_a_trip(rig: RigMaker, who: str) -> None:
    r = rig(delay_ms=25)
    other = "server" if who == "client" else "client"
    r.core(who).close("enough for today")
    begin = r.time
    r.run(2.0)
    ((when, closed),) = [(t, e) for t, e in r.events[other] if isinstance(e, Closed)]
    assert closed == Closed("enough for today", error=False)
    assert when - begin < 0.05
    assert r.of(who, Closed) == [Closed("enough for today", error=False)]
    assert r.client.next_timeout(now=r.now) is None
    assert r.server.next_timeout(now=r.now) is None
    r.core(who).close("again")
    r.flush()
    assert len(r.of(who, Closed)) == 1


@pytest.mark.parametrize("at", [0.0, 0.03, 0.06, 0.09, 0.12, 0.5])
@pytest.mark.parametrize("who", ["client", "server"])
def test_closing_at_any_time_with_any_reason_sends_a_packet(
    rig: RigMaker, who: str, at: float
) -> None:
    r = rig(connect=False)
    r.run(at)
    if who == "server" and r.server is None:
        return
    before = len(r.sent)
    r.core(who).close("€" * 300, code=CloseCode.INTERNAL)
    r.flush()
    assert len(r.sent) > before
    r.run(3.0)


def test_an_error_close_says_so_in_one_line(rig: RigMaker) -> None:
    r = rig()
    r.server.close("two\nlines\x1b[31m", code=CloseCode.INTERNAL)
    r.run(1.5)
    closed = r.of("client", Closed)[0]
    assert closed.error
    assert closed.reason == "the peer closed the session: two lines [31m"
    r = rig()
    r.server.close("", code=CloseCode.INTERNAL)
    r.run(1.5)
    assert reason(r, "client") == "the peer closed the session: internal"
    r = rig()
    r.server.close("", code=CloseCode.DONE)
    r.run(1.5)
    assert r.of("client", Closed)[0] == Closed("closed by the peer", error=False)


def test_the_death_of_the_peer_is_noticed_at_the_idle_limit(rig: RigMaker) -> None:
    r = rig(client=SessionSettings(idle_timeout=3.0))
    r.drop = lambda who, _data: who == "server"
    died = r.time
    r.run(8.0)
    ((when, closed),) = [(t, e) for t, e in r.events["client"] if isinstance(e, Closed)]
    assert closed.error
    assert "nothing was heard from the peer for 3 s" in closed.reason
    assert 2.0 < when - died < 4.5


# -- idleness


@pytest.mark.parametrize("datagrams", [True, False])
def test_an_idle_session_costs_no_wakeups(rig: RigMaker, datagrams: bool) -> None:
    settings = SessionSettings(idle_timeout=9.0, datagrams=datagrams)
    r = rig(client=settings, server=settings)
    r.run(4.0)  # clock probes and acknowledgements after the handshake die down
    r.wakes.update(client=0, server=0)
    r.run(7.0)
    # In 3 s: one keepalive, its acknowledgement and the ends of both.
    assert r.wakes["client"] + r.wakes["server"] <= 8, r.wakes
    r.run(60.0)
    assert r.client.closed is None
    assert r.server.closed is None
    assert r.wakes["client"] + r.wakes["server"] <= 56 / 3 * 8


@pytest.mark.parametrize("datagrams", [True, False])
def test_after_media_a_session_falls_asleep_again(rig: RigMaker, datagrams: bool) -> None:
    settings = SessionSettings(datagrams=datagrams)
    r = subscribed_rig(rig, ("x", 0.5), client=settings)
    for i in range(20):
        r.at(1.5 + i * 0.02, lambda i=i: r.send("server", 0, i, 300))
    r.run(6.0)
    assert len(r.received("client")) == 20
    r.wakes.update(client=0, server=0)
    r.run(9.0)
    assert r.wakes["client"] + r.wakes["server"] <= 8, r.wakes


def test_ticks_run_only_while_there_is_a_backlog(rig: RigMaker) -> None:
    r = subscribed_rig(rig, ("x", 0.5), rate_bps=400_000)
    before = r.server.tick_lateness.count
    r.at(1.6, lambda: r.send("server", 0, 0, 20_000, deadline=5.0))
    r.run(1.5999)
    assert r.server.tick_lateness.count == before
    r.run(3.5)
    ((done, _),) = r.received("client")
    ticks = r.server.tick_lateness.count - before
    busy = done - 1.6
    assert 0.7 * busy * 1000 < ticks < busy * 1000 + 50
    assert r.client.tick_lateness.count == 0


# -- objects


def test_objects_arrive_whole_with_their_headers(rig: RigMaker) -> None:
    r = subscribed_rig(rig, ("x", 0.5), server_offset=-50.0)
    sizes = [0, 1, 1000, 1150, 1200, 5000, 100_000]
    for i, size in enumerate(sizes):
        r.send("server", 0, i, size, deadline=20.0)
    r.run(8.0)
    got = {e.header.id.index: e for _, e in r.received("client")}
    assert [len(got[i].payload) for i in range(len(sizes))] == sizes
    assert all(e.header.captured == pytest.approx(51.5, abs=1e-5) for e in got.values())
    assert r.server.scheduler.backlog_bytes == 0
    assert r.server.outgoing.open_streams == 0
    assert r.client.incoming.held_objects == 0
    assert r.client.clock.offset == pytest.approx(-50.0, abs=0.03)


def test_objects_nobody_asked_for_are_refused_and_cost_little(rig: RigMaker) -> None:
    r = rig()
    r.offer("server", 0, "x")
    r.run(1.2)
    r.send("server", 0, 0, 500_000, deadline=30.0)
    r.run(6.0)
    assert not r.received("client")
    assert r.client.incoming.counts["unwanted"] == 1
    assert r.server.outgoing.counts["refused_by_peer"] == 1
    assert r.server.scheduler.backlog_bytes == 0
    assert sum(n for _, who, n in r.sent if who == "server") < 60_000
    assert r.server.closed is None
    (shed,) = [e.shed for e in r.of("server", ObjectShed)]
    assert shed.reason is ShedReason.CANCELLED


def test_a_refusal_after_the_last_byte_breaks_nothing(rig: RigMaker) -> None:
    r = rig()
    r.offer("server", 0, "x")
    r.run(1.2)
    for i in range(20):
        r.at(1.3 + i * 0.05, lambda i=i: r.send("server", 0, i, 300))
    r.run(4.0)
    assert r.server.closed is None
    assert r.client.closed is None
    assert r.client.incoming.held_objects == 0
    assert r.server.quic.live_streams <= 2
    assert r.client.quic.live_streams <= 2


def test_b36_an_important_object_overtakes_a_large_one_in_the_next_packet(rig: RigMaker) -> None:
    r = subscribed_rig(rig, ("bulk", 0.1), ("voice", 0.9), rate_bps=2_000_000, delay_ms=20)
    r.at(1.6, lambda: r.send("server", 0, 0, 300_000, deadline=30.0))
    for i in range(100):
        r.at(2.0 + i * 0.02, lambda i=i: r.send("server", 1, i, 160))
    order: list[tuple[int, float]] = []
    r.on_event = lambda who, e: (
        order.append((e.sent.object.id.track, e.sent.time - e.sent.object.captured))
        if who == "server" and hasattr(e, "sent")
        else None
    )
    r.run(12.0)
    voice = sorted(
        t + 100 - e.header.captured for t, e in r.received("client") if e.header.id.track == 1
    )
    assert len(voice) == 100
    assert voice[94] <= 0.06, f"p95 {voice[94] * 1e3:.0f} ms one way behind a 300 kB object"
    waited = sorted(wait for track, wait in order if track == 1)
    assert waited[94] < 0.012, "queued behind more than the packet being sent"
    assert [e.header.size for _, e in r.received("client") if e.header.id.track == 0] == [300_000]


def test_b36_two_tracks_of_equal_importance_share_equally(rig: RigMaker) -> None:
    r = subscribed_rig(rig, ("a", 0.3), ("b", 0.3), rate_bps=1_000_000)
    for i in range(40):
        r.send("server", 0, i, 10_000, deadline=60.0)
        r.send("server", 1, 1_000_000 + i, 10_000, deadline=60.0)
    r.run(5.0)
    flows = r.server.scheduler.stats(r.now)["flows"]
    a, b = flows[0]["sent_bytes"], flows[1]["sent_bytes"]
    assert a + b > 200_000
    assert 0.45 < a / (a + b) < 0.55


def test_what_is_shed_is_gone_and_the_receiver_is_told(rig: RigMaker) -> None:
    r = subscribed_rig(rig, ("x", 0.5), rate_bps=300_000)
    for i in range(30):
        r.at(1.6 + i * 0.02, lambda i=i: r.send("server", 0, i, 4000, deadline=0.3))
    r.run(5.0)
    shed = {e.shed.object.id for e in r.of("server", ObjectShed)}
    arrived = {e.header.id for _, e in r.received("client")}
    gone = {i for e in r.of("client", ObjectsGone) for i in e.objects}
    assert len(shed) > 5, "the link could not carry this"
    assert shed <= gone, "each is named to the receiver"
    assert not shed & arrived
    assert len(shed | arrived) == 30
    assert r.client.incoming.held_objects == 0


def test_a_shed_object_takes_its_dependents_along(rig: RigMaker) -> None:
    r = subscribed_rig(rig, ("x", 0.5), rate_bps=300_000)

    def burst() -> None:
        r.send("server", 0, 0, 40_000, deadline=0.3)  # a second at this rate
        for i in range(1, 6):
            r.send("server", 0, i, 500, deadline=2.0, depends_on=(ObjectId(0, 0, i - 1),))

    r.at(1.6, burst)
    r.run(5.0)
    reasons = {e.shed.object.id.index: e.shed.reason for e in r.of("server", ObjectShed)}
    assert set(reasons) == {0, 1, 2, 3, 4, 5} - {e.header.id.index for _, e in r.received("client")}
    assert reasons[0] in (ShedReason.HOPELESS, ShedReason.EXPIRED)
    assert reasons[5] is ShedReason.DEPENDENCY


def test_an_object_without_a_deadline_is_never_given_up(rig: RigMaker) -> None:
    loss = {"loss": {"model": "random", "probability": 0.05}}
    r = subscribed_rig(rig, ("file", 0.2), rate_bps=500_000, down=loss)
    for i in range(10):
        r.send("server", 0, i, 30_000, deadline=math.inf)
    r.run(25.0)
    got = [e for _, e in r.received("client")]
    assert sorted(e.header.id.index for e in got) == list(range(10))
    assert all(e.header.deadline is None for e in got)
    assert not r.of("server", ObjectShed)


def test_a_slow_object_without_a_deadline_outlives_the_limit_while_it_progresses(
    rig: RigMaker,
) -> None:
    r = subscribed_rig(rig, ("file", 0.2), rate_bps=100_000)
    r.send("server", 0, 0, 200_000, deadline=math.inf)  # 16 s and more at this rate
    r.run(40.0)
    assert [len(e.payload) for _, e in r.received("client")] == [200_000]
    assert r.received("client")[0][0] > 12


def test_repairs_that_would_be_too_late_are_not_made(rig: RigMaker) -> None:
    r = subscribed_rig(rig, ("x", 0.5), delay_ms=100)
    lost = {"on": False}
    r.drop = lambda who, data: lost["on"] and who == "server"
    r.at(1.6, lambda: (lost.update(on=True), r.send("server", 0, 0, 1000, deadline=0.15)))
    r.at(1.65, lambda: lost.update(on=False))
    for i in range(1, 30):
        r.at(1.7 + i * 0.02, lambda i=i: r.send("server", 0, i, 100, deadline=5.0))
    r.run(4.0)
    assert {e.header.id.index for _, e in r.received("client")} == set(range(1, 30))
    assert r.server.outgoing.counts["repairs_abandoned"] == 1
    gone = [i for e in r.of("client", ObjectsGone) for i in e.objects]
    assert ObjectId(0, 0, 0) in gone
    assert r.server.outgoing.open_streams == 0


def test_small_urgent_objects_travel_as_datagrams_when_a_repair_would_be_late(
    rig: RigMaker,
) -> None:
    for delay_ms, expected in ((100, "datagrams"), (5, "streams")):
        r = subscribed_rig(rig, ("voice", 0.5), delay_ms=delay_ms)
        for i in range(20):
            r.at(
                1.6 + i * 0.02,
                lambda i=i, r=r: r.send("server", 0, i, 100, deadline=0.3, delivery="auto"),
            )
        r.run(4.0)
        assert len(r.received("client")) == 20
        assert (r.server.outgoing.counts["datagrams"] == 20) == (expected == "datagrams")


def test_clock_offset_is_found_whatever_the_clocks(rig: RigMaker) -> None:
    for offset in (0.0, 5000.0, -80.0):
        r = subscribed_rig(rig, ("x", 0.5), server_offset=offset)
        for i in range(100):
            r.at(1.6 + i * 0.02, lambda i=i, r=r: r.send("server", 0, i, 200))
        r.run(4.0)
        assert len(r.received("client")) == 100
        assert r.client.clock.offset == pytest.approx(offset, abs=0.005)
        assert r.server.clock.offset == pytest.approx(-offset, abs=0.005)


def test_clock_probes_without_end_fill_no_memory(rig: RigMaker) -> None:
    r = rig()
    r.server.controller._settings  # noqa: B018 - the delay controller
    r.drop = lambda who, _data: who == "client"  # the server hears no acknowledgements
    r.run(1.05)
    for _ in range(5000):
        r.server._on_datagram(wire.encode_ping(1.0), r.clock("server"))
    assert r.server.quic.waiting_datagrams <= 16
