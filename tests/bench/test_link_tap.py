"""What both ends of a link see: packets matched, their fate judged, and the model's own word."""

import socket
import struct
import sys
import time

import pytest

from limen.bench.link.lab.passages import Passages
from limen.bench.link.packets import mark_congestion
from limen.bench.link.profile import LinkProfile
from limen.bench.link.spec import LinkSpec, RandomLoss, RateStep

linux = pytest.mark.skipif(sys.platform != "linux", reason="packet sockets need Linux")
SLOW = LinkSpec(delay=0.02, steps=(RateStep(0.0, 80_000.0),), queue_seconds=0.5)


def test_the_queue_is_what_is_left_of_the_delay() -> None:
    account = Passages(SLOW, base_delay=0.001)
    account.start(10.0)
    # Two packets of 100 bytes at once: 10 ms each on the wire, 21 ms of flight.
    account.sent(b"a", time=10.0, size=100)
    account.sent(b"b", time=10.0, size=100)
    account.arrived(b"a", time=10.031)
    account.arrived(b"b", time=10.041)
    account.settle(20.0)
    stats = account.stats(now=11.0)
    assert stats["offered"] == stats["through"] == {"packets": 2, "bytes": 200}
    waits = [wait for _, wait in stats["series"]["queue_delay_ms"]]
    assert waits == pytest.approx([0.0, 10.0], abs=0.01)
    assert stats["one_way_delay_ms"]["max"] == pytest.approx(41.0, abs=0.5)
    assert stats["capacity_bytes"] == 10_000
    assert sum(stats["series"]["through_bytes"]["bins"]) == 200


def test_duplicates_strangers_marks_and_packets_of_before() -> None:
    account = Passages(LinkSpec(delay=0.02))
    account.sent(b"early", time=9.0, size=100)
    account.start(10.0)
    account.arrived(b"early", time=10.01)
    for _ in range(2):  # the same packet sent twice, and come three times
        account.sent(b"twin", time=10.1, size=100, ecn=1)
    for at in (10.12, 10.13, 10.14):
        account.arrived(b"twin", time=at, ecn=3)
    account.arrived(b"stranger", time=10.2)
    account.settle(100.0)
    stats = account.stats(now=11.0)
    assert stats["offered"]["packets"] == stats["through"]["packets"] == 2
    assert (stats["duplicated"], stats["corrupted"], stats["marked"]) == (1, 1, 2)


def test_a_loss_is_the_queues_only_where_the_queue_was_full() -> None:
    spec = LinkSpec(delay=0.0, steps=(RateStep(0.0, 1e6),), queue_seconds=0.1, loss=RandomLoss(0.1))
    account = Passages(spec)
    account.start(0.0)
    for number, wait in enumerate([0.0, None, 0.0, 0.095, None, 0.095]):
        key, at = bytes([number]), float(number)
        account.sent(key, time=at, size=100)
        if wait is not None:
            account.arrived(key, time=at + wait + 0.0008)
    account.settle(1e9)
    dropped = account.stats(now=6.0)["dropped"]
    assert dropped["loss"] == {"packets": 1, "bytes": 100}
    assert dropped["queue"] == {"packets": 1, "bytes": 100}


def test_a_link_that_loses_nothing_drops_at_its_queue() -> None:
    account = Passages(SLOW)
    account.start(0.0)
    account.sent(b"gone", time=0.0, size=100)
    account.settle(10.0)
    assert account.stats(now=1.0)["offered"]["packets"] == 0  # it may still come
    account.settle(31.0)
    assert account.stats(now=1.0)["dropped"]["queue"]["packets"] == 1


@linux
def test_a_packet_is_known_by_what_no_link_changes() -> None:
    from limen.bench.link.lab.tap import packet_key

    head = struct.pack("!BBHHHBBH4s4s", 0x45, 1, 60, 7, 0, 64, 17, 99, b"aaaa", b"bbbb")
    packet = head + bytes(range(40))
    key = packet_key(packet)
    assert key is not None
    assert key[1:] == (60, 1)
    marked = packet_key(mark_congestion(packet))
    assert marked == (key[0], 60, 3)
    hopped = packet[:8] + b"\x3f" + packet[9:]
    assert packet_key(hopped) == key
    assert packet_key(packet[:-1] + b"x") != key
    assert packet_key(b"\x60" + bytes(50)) is not None
    assert packet_key(b"") is packet_key(b"\x10" + bytes(50)) is None


@linux
@pytest.mark.realtime
def test_the_taps_say_what_the_model_says() -> None:
    from limen.bench.link.lab.backends import probe
    from limen.bench.link.lab.links import FAR, open_link
    from limen.bench.link.lab.tap_launch import TapProcess

    if (why := probe()["tun"]) is not None:
        pytest.skip(why)
    spec = LinkSpec(
        delay=0.02, steps=(RateStep(0.0, 1e6),), queue_seconds=0.15, loss=RandomLoss(0.05)
    )
    profile = LinkProfile("tapped", "tapped", up=spec, down=spec)
    with open_link(profile, backend="tun") as link:
        for attempt in range(2):  # a busy machine may spoil it once
            link.shape(profile, seed=3)
            with TapProcess(link, profile, base_delay=0.0) as tap, link.near.entered():
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                at = time.monotonic()
                link.start(at)
                tap.start(at)
                with sock:
                    for number in range(250):
                        sock.sendto(number.to_bytes(2, "big").ljust(472, b"\0"), (FAR, 9))
                        time.sleep(0.0033)  # 1.2 of the rate: the queue fills, then overflows
                time.sleep(0.3)
                seen = tap.stop()
            own = link.finish()
            taps, model = seen["down"], own["down"]
            apart = taps["queue_delay_ms"]["p95"] - model["queue_delay_ms"]["p95"]
            if abs(apart) <= 1.0 or attempt:
                break
    assert seen["missed_by_tap"] == 0
    assert taps["offered"] == model["offered"]
    assert taps["offered"]["packets"] >= 250
    assert taps["through"] == model["through"]
    lost = sum(taps["dropped"][cause]["packets"] for cause in ("queue", "loss"))
    assert lost == sum(model["dropped"][cause]["packets"] for cause in ("queue", "loss")) > 5
    assert abs(apart) <= 1.0, (taps["queue_delay_ms"], model["queue_delay_ms"])
