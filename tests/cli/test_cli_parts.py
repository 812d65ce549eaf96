"""The parts of the command line that need no process: clocks, mixing, figures, words."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from limen.cli.failures import CommandError, explain
from limen.cli.figures import DelayFigures
from limen.cli.media_clock import ArrivalClock, MediaClock
from limen.cli.parsing import Address, parse_address, parse_rate, parse_seconds
from limen.cli.reader import in_due_order
from limen.cli.sound_timeline import SoundTimeline
from limen.codecs.sources import SourceItem, SourceStream
from limen.transport.errors import ConnectError

RATE = 48_000
PIECES = 3_000
"""60 s of 20 ms."""


def test_b43_late_wake_ups_do_not_add_up() -> None:
    clock = MediaClock(100.0)
    now, sent = 100.0, []
    for index in range(PIECES):
        now = max(now, clock.due(index * 0.02)) + 0.001  # woken 1 ms late each time
        clock.stamp(index * 0.02, now=now)
        sent.append(now)
    gaps = np.diff(sent)
    assert gaps.mean() == pytest.approx(0.02, abs=2e-5)
    assert abs(sent[-1] - (100.0 + (PIECES - 1) * 0.02)) < 0.02
    assert clock.stalls == 0


def test_b43_a_stop_moves_the_stamps_and_makes_no_burst() -> None:
    clock = MediaClock(0.0)
    now, sent, stamps = 0.0, [], []
    for index in range(PIECES):
        time = index * 0.02
        if index == 1500:
            now += 5.0  # SIGSTOP
        now = max(now, clock.due(time))
        stamps.append(clock.stamp(time, now=now))
        sent.append(now)
    gaps, jumps = np.diff(sent), np.diff(stamps)
    assert np.sort(gaps)[-2:] == pytest.approx([0.02, 5.0], abs=0.03)
    assert gaps.min() > 0.019, "overdue pieces leave one after the other, at their pace"
    assert jumps.max() == pytest.approx(5.0, abs=0.03)
    assert max(abs(s - t) for s, t in zip(sent, stamps, strict=True)) < 1e-6
    assert (clock.stalls, round(clock.lost, 1)) == (1, 5.0)


def test_a_short_stall_is_caught_up() -> None:
    clock = MediaClock(0.0)
    assert clock.stamp(1.0, now=1.08) == 1.0
    assert clock.stalls == 0


def test_devices_are_stamped_by_their_earliest_reading() -> None:
    clock = ArrivalClock()
    jitter = random.Random(3)
    stamps = [
        clock.stamp(n * 0.02, now=50.0 + n * 0.02 + jitter.uniform(0, 0.03)) for n in range(500)
    ]
    late = np.diff(stamps[100:])
    assert np.abs(late - 0.02).max() < 0.002, "the stamps keep the device's own pace"
    after_gap = clock.stamp(10.0, now=63.0)
    assert after_gap == pytest.approx(63.0)


def _stream(index: int, kind: str) -> SourceStream:
    return SourceStream(index, "video" if kind == "video" else "audio", "x")


def _items() -> Iterator[SourceItem]:
    """Sound in lumps of a quarter second beside pictures at 25 a second, by start time."""
    items = []
    for lump in range(4):
        sound = av.AudioFrame.from_ndarray(
            np.zeros((1, RATE // 4), np.float32), format="flt", layout="mono"
        )
        sound.sample_rate = RATE
        items.append(SourceItem(_stream(1, "audio"), sound, lump * 0.25, 0.25))
    items += [
        SourceItem(_stream(0, "video"), av.VideoFrame(16, 16, "yuv420p"), n / 25, 1 / 25)
        for n in range(25)
    ]
    return iter(sorted(items, key=lambda item: item.time))


def test_items_leave_the_reader_in_due_order() -> None:
    out = list(in_due_order(_items()))
    due = [item.due for item in out]
    assert due == sorted(due)
    pictures = [item for item in out if item.sample_rate == 0]
    sound = [item for item in out if item.sample_rate]
    assert len(pictures) == 25
    assert sum(len(item.data) for item in sound if isinstance(item.data, np.ndarray)) == RATE
    assert all(isinstance(i.data, np.ndarray) and len(i.data) <= 0.025 * RATE for i in sound)
    assert due[-1] == pytest.approx(1.0)


def _tone(value: float, length: int = 960, channels: int = 1) -> NDArray[np.float32]:
    return np.full((length, channels), value, np.float32)


def test_sound_of_two_tracks_is_mixed_in_time() -> None:
    line = SoundTimeline(10.0)
    for n in range(5):
        line.add("a", _tone(0.25), played=10.0 + n * 0.02)
    line.add("b", _tone(0.5, channels=2), played=10.04)
    out = line.take(10.1)
    assert out.shape == (4800, 2)
    assert out[0, 0] == pytest.approx(0.25)
    assert out[1920:2880] == pytest.approx(0.75)
    assert out[2880, 1] == pytest.approx(0.25)


def test_sound_is_silent_where_nothing_came_and_goes_on_in_time() -> None:
    line = SoundTimeline(0.0)
    line.add("a", _tone(0.5), played=0.0)
    first = line.take(1.0)
    line.add("a", _tone(0.5), played=1.5)
    second = line.take(2.0)
    both = np.concatenate([first, second])
    assert len(both) == 2 * RATE
    assert np.flatnonzero(both[:, 0])[[0, 959, 960, -1]].tolist() == [0, 959, 72_000, 72_959]


def test_small_wobble_of_play_times_leaves_no_seam() -> None:
    line = SoundTimeline(0.0)
    wobble = itertools.cycle([0.0, 0.004, -0.003])
    for n in range(50):
        line.add("a", _tone(0.5), played=n * 0.02 + next(wobble))
    assert line.take(1.0).min() == pytest.approx(0.5)


def test_sound_stays_within_full_scale_and_late_blocks_are_counted() -> None:
    line = SoundTimeline(0.0)
    for name in ("a", "b", "c"):
        line.add(name, _tone(0.6), played=0.0)
    assert line.take(0.02).max() == 1.0
    line.add("d", _tone(0.6), played=0.01)
    assert line.late == 480
    rest = line.take(0.04)
    assert rest[:480].min() == pytest.approx(0.6)
    assert rest[480:].max() == 0.0


def test_delay_figures() -> None:
    figures = DelayFigures()
    assert figures.percentile(50) is None
    for ms in range(1, 101):
        figures.add(ms / 1000)
    figures.add(-1.0)
    figures.add(99.0)
    assert figures.percentile(50) == pytest.approx(0.050, abs=0.002)
    assert figures.percentile(95) == pytest.approx(0.096, abs=0.002)
    assert figures.percentile(100) == 10.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:4433", Address("127.0.0.1", 4433)),
        ("[::1]:4433", Address("::1", 4433)),
        ("host.example:1", Address("host.example", 1)),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    assert parse_address(text, "--to") == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "::1", "h:x", "h:0", "h:65536", "h:²"])
def test_bad_addresses_name_the_option(text: str) -> None:
    with pytest.raises(CommandError, match="--to takes"):
        parse_address(text, "--to")


def test_loopback() -> None:
    assert Address("localhost", 1).is_loopback
    assert Address("::1", 1).is_loopback
    assert not Address("10.0.0.1", 1).is_loopback
    assert Address("0.0.0.0", 1).is_any  # noqa: S104 - a word, not a socket


def test_rates_and_seconds() -> None:
    assert parse_rate("64k", "--bitrate", 1, 1e9) == 64_000
    assert parse_rate("1.5M", "--bitrate", 1, 1e9) == 1_500_000
    for bad in ("", "k", "fast", "nan", "-1", "2G", "1e12"):
        with pytest.raises(CommandError, match="--bitrate is"):
            parse_rate(bad, "--bitrate", 1, 1e9)
    assert parse_seconds(None, "--duration") is None
    with pytest.raises(CommandError, match="--duration"):
        parse_seconds(float("nan"), "--duration")


def test_every_error_is_one_line() -> None:
    assert explain(ConnectError("two\nlines")) == ("two lines", 1)
    assert explain(FileNotFoundError(2, "No such file", "x.csv")) == ("x.csv: No such file", 1)
    message, code = explain(RuntimeError("a\nbug"))
    assert "\n" not in message
    assert code == 70
