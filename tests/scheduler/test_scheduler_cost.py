"""What a tick and a packet cost. Prints figures (pytest -s); asserts only how they grow.

Run alone for a quiet reading: python tests/scheduler/test_scheduler_cost.py
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np

from limen.scheduler.scheduler import Scheduler
from limen.scheduler.sources.gesture import GestureSource
from limen.scheduler.sources.speech import SpeechSettings, SpeechSource
from limen.scheduler.types import MediaObject, ObjectId, Region, Scope, Tag


def loaded(flows: int) -> Scheduler:
    """Each flow with ten queued objects, two decaying tags and one that holds."""
    scheduler = Scheduler()
    scheduler.set_link(rate_bps=50e6, one_way_delay=0.02)
    for flow in range(flows):
        scheduler.add_flow(flow, track=f"t{flow}", base=0.1 + 0.8 * flow / flows)
        for index in range(10):
            obj = MediaObject(ObjectId(flow, 0, index), bytes(100_000), 0.0, 1e6 + index)
            scheduler.enqueue(obj, now=0.0)
        scope = Scope(f"t{flow}", region=Region.around(0.5, 0.5, 0.1))
        scheduler.tag(Tag("gaze", 0.9, 0.0, 0.3, scope), now=0.0)
        scheduler.tag(Tag("speech", 0.7, 0.0, 0.2, Scope(f"t{flow}")), now=0.0)
        scheduler.tag(Tag("hint", 0.2, 0.0, float("inf"), Scope(f"t{flow}")), now=0.0)
    return scheduler


def median_us(step: Callable[[float], object], *, count: int) -> float:
    """Median microseconds of one step with `now` a millisecond further each time."""
    costs = []
    for index in range(count):
        start = perf_counter()
        step(0.001 * (index + 1))
        costs.append((perf_counter() - start) * 1e6)
    return statistics.median(costs)


def tick_us(scheduler: Scheduler) -> float:
    return median_us(lambda now: scheduler.tick(now=now), count=400)


def packet_us(scheduler: Scheduler, *, count: int) -> float:
    def packet(now: float) -> None:
        obj = scheduler.pick(now=0.0005)
        if obj is not None:
            scheduler.commit(obj, min(1200, obj.remaining), now=0.0005)

    scheduler.tick(now=0.0005)
    return median_us(packet, count=count)


def test_cost_grows_no_faster_than_the_number_of_flows() -> None:
    ticks = {}
    for flows in (4, 16, 64):
        scheduler = loaded(flows)
        ticks[flows] = tick_us(scheduler)
        packet = packet_us(scheduler, count=400)
        print(f"{flows:4d} flows: tick {ticks[flows]:6.1f} us, packet {packet:5.1f} us")
    assert ticks[64] <= 8 * ticks[16]
    assert ticks[16] <= 8 * ticks[4]


def test_a_tick_with_nothing_decaying_is_much_cheaper() -> None:
    scheduler = loaded(16)
    decaying = tick_us(scheduler)
    for flow in range(16):
        scheduler.cancel_tags(f"t{flow}")
    quiet = tick_us(scheduler)
    print(f"16 flows: tick {decaying:.1f} us with 48 tags, {quiet:.1f} us without")
    assert quiet < 0.6 * decaying


def test_sources_cost_little_beside_an_encoder() -> None:
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 255, (360, 640), dtype=np.uint8) for _ in range(4)]
    whole = [rng.standard_normal(960).astype(np.float32) * 0.1 for _ in range(4)]
    gesture = GestureSource("face")
    speech = SpeechSource("voice", SpeechSettings(detector="energy"))
    one = median_us(lambda now: gesture.feed(pictures[int(now * 1e3) % 4], time=now), count=200)
    two = median_us(
        lambda now: speech.feed(whole[int(now * 1e3) % 4], sample_rate=48000, time=20 * now),
        count=200,
    )
    print(f"gesture 640x360 {one:.0f} us a picture, speech {two:.0f} us per 20 ms")
    assert one < 5000
    assert two < 5000


if __name__ == "__main__":
    test_cost_grows_no_faster_than_the_number_of_flows()
    test_a_tick_with_nothing_decaying_is_much_cheaper()
    test_sources_cost_little_beside_an_encoder()
