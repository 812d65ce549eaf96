"""Points become regions, staying becomes a dwell, and bad points and files are told apart."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.scheduler.importance import TagStore
from limen.scheduler.sources.gaze import GazeFileError, GazeSample, GazeSource, read_gaze_csv
from limen.scheduler.types import Region, Tag, TagKind


def look_for(
    source: GazeSource, x: float, y: float, *, start: float, seconds: float, hz: float = 60.0
) -> list[Tag]:
    tags: list[Tag] = []
    for index in range(round(seconds * hz)):
        wobble = 0.02 * math.sin(index)
        tags += source.look(x + wobble, y - wobble, time=start + index / hz)
    return tags


def test_a_point_is_a_region_weighed_by_confidence() -> None:
    source = GazeSource("face", radius=0.1)
    (tag,) = source.look(0.5, 0.4, time=1.0, confidence=0.5)
    assert tag.kind == TagKind.GAZE
    assert tag.value == pytest.approx(0.45)
    assert tag.scope.region == Region.around(0.5, 0.4, 0.1)
    assert tag.scope.track == "face"


def test_dwell_once_after_1_2_seconds_and_its_end() -> None:
    source = GazeSource("face")
    tags = look_for(source, 0.5, 0.5, start=0.0, seconds=2.5)
    (dwell,) = source.take_events()
    assert dwell.kind == "dwell"
    assert dwell.time == pytest.approx(1.2, abs=0.02)
    assert dwell.x == pytest.approx(0.5, abs=0.01)
    assert dwell.y == pytest.approx(0.5, abs=0.01)
    renewed = [tag.time for tag in tags if tag.kind == TagKind.DWELL]
    assert renewed == pytest.approx([1.2, 1.7, 2.2], abs=0.05)
    look_for(source, 0.9, 0.2, start=2.5, seconds=1.0)
    (end,) = source.take_events()
    assert end.kind == "dwell_end"
    assert end.length == pytest.approx(2.5, abs=0.05)


def test_a_wandering_look_is_no_dwell() -> None:
    source = GazeSource("face")
    for index in range(20):
        look_for(source, 0.2 + 0.6 * (index % 2), 0.5, start=index * 1.0, seconds=1.0)
    assert source.take_events() == []


def test_a_blink_says_nothing_and_does_not_break_a_dwell() -> None:
    source = GazeSource("face")
    look_for(source, 0.5, 0.5, start=0.0, seconds=0.8)
    for index in range(12):
        assert source.look(math.nan, 0.5, time=0.8 + index / 60) == []
    assert source.look(0.5, 0.5, time=0.99, confidence=0.0) == []
    look_for(source, 0.5, 0.5, start=1.0, seconds=0.4)
    assert [event.kind for event in source.take_events()] == ["dwell"]


def test_a_long_gap_ends_a_dwell() -> None:
    source = GazeSource("face")
    look_for(source, 0.5, 0.5, start=0.0, seconds=1.0)
    look_for(source, 0.5, 0.5, start=5.0, seconds=1.0)
    assert source.take_events() == []


@pytest.mark.parametrize("point", [(1.2, 0.5), (0.5, -0.1), (-3.0, 9.0)])
def test_looking_away_takes_the_region_back(point: tuple[float, float]) -> None:
    source, store = GazeSource("face"), TagStore()
    for tag in source.look(0.5, 0.5, time=0.0):
        store.add(tag, now=0.0)
    assert store.regions("face", now=0.0)
    away = source.look(*point, time=0.1)
    for tag in away:
        store.add(tag, now=0.1)
    assert len(away) == 1
    assert store.regions("face", now=0.1) == []
    assert store.importance("face", now=0.1, base=0.2) == pytest.approx(0.2)
    assert source.look(*point, time=0.2) == []


def test_times_that_do_not_advance_are_ignored() -> None:
    source = GazeSource("face")
    assert source.look(0.5, 0.5, time=1.0)
    assert source.look(0.5, 0.5, time=1.0) == []
    assert source.look(0.5, 0.5, time=0.5) == []
    with pytest.raises(ValueError, match="time"):
        source.look(0.5, 0.5, time=math.nan)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats(0, 1e6), st.floats()), max_size=30))
def test_no_input_breaks_it(points: list[tuple[float, float, float, float]]) -> None:
    source = GazeSource("face")
    for x, y, time, confidence in points:
        for tag in source.look(x, y, time=time, confidence=confidence):
            assert tag.time == time


def test_a_file_with_all_it_may_have(tmp_path: Path) -> None:
    path = tmp_path / "gaze.csv"
    path.write_text(
        "\ufefftime,x,y,radius\n# a comment\n0.0, 0.5, 0.4\n\n"
        "0.1,nan,nan\n0.2,,,\n0.3,1.5,0.2,0.3\n",
        encoding="utf-8",
    )
    samples = read_gaze_csv(path)
    assert samples[0] == GazeSample(0.0, 0.5, 0.4)
    assert math.isnan(samples[1].x)
    assert math.isnan(samples[2].y)
    assert samples[3] == GazeSample(0.3, 1.5, 0.2, 0.3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no gaze points"),
        ("time,x,y\n", "no gaze points"),
        ("0,0.5,0.5\n1,left,0.5\n", "line 2: x is a number, got 'left'"),
        ("time,x,y\n0,0.5\n", "line 2: expected time,x,y"),
        ("0,0.5,0.5\n1,2,3,4,5\n", "line 2: expected time,x,y"),
        ("# a\n0,0.5,0.5\nnan,0.5,0.5\n", "line 3: time is a finite"),
        (",0.5,0.5\n", "line 1: time is a number"),
        ("1,0.5,0.5\n0.5,0.5,0.5\n", "line 2: time 0.5 goes back"),
        ("1,0.5,0.5,-1\n", "line 1: radius"),
        ("1,0.5,0.5,nan\n", "line 1: radius"),
        ("a;b;c\n1;2;3\n", "line 1: expected time,x,y"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "gaze.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GazeFileError, match=message):
        read_gaze_csv(path)


def test_a_file_that_is_not_text_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "gaze.csv"
    path.write_bytes(b"\xff\xfe\x00\x9f")
    with pytest.raises(GazeFileError, match="UTF-8"):
        read_gaze_csv(path)
    with pytest.raises(FileNotFoundError):
        read_gaze_csv(tmp_path / "absent.csv")


def test_misuse_is_named() -> None:
    for bad in ({"radius": 0.0}, {"radius": math.nan}, {"value": 1.5}, {"dwell_seconds": 0.0}):
        with pytest.raises(ValueError, match=r"gaze|dwell"):
            GazeSource("face", **bad)  # type: ignore[arg-type]
