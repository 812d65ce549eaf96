"""A hand that begins to move is found where it is; noise, cuts and camera moves are not hands."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from limen.scheduler.sources.gesture import GestureSource
from limen.scheduler.types import Tag, TagKind

FPS = 30.0


def picture(
    hand: tuple[float, float] | None, *, shift: int = 0, seed: int = 0
) -> NDArray[np.uint8]:
    """A textured still room with sensor noise; the hand is a bright square of 60 pixels."""
    y, x = np.mgrid[0:360, 0:640]
    room = 110.0 + 50.0 * np.sin((x + shift) / 11.0) * np.cos(y / 17.0)
    room += np.random.default_rng(seed).normal(0.0, 2.0, room.shape)
    if hand is not None:
        left, top = int(hand[0] * 640), int(hand[1] * 360)
        room[top : top + 60, left : left + 60] = 230.0
    seen: NDArray[np.uint8] = np.clip(room, 0, 255).astype(np.uint8)
    return seen


def wave(source: GestureSource, *, start: int, frames: int) -> list[Tag]:
    tags: list[Tag] = []
    for index in range(frames):
        place = (0.65 + 0.08 * np.sin(index * 0.9), 0.3)
        tags += source.feed(picture(place, seed=start + index), time=(start + index) / FPS)
    return tags


def rest(source: GestureSource, *, start: int, frames: int) -> list[Tag]:
    tags: list[Tag] = []
    for index in range(start, start + frames):
        tags += source.feed(picture((0.65, 0.3), seed=index), time=index / FPS)
    return tags


def test_an_onset_is_found_where_it_is_within_two_frames() -> None:
    source = GestureSource("face")
    assert rest(source, start=0, frames=30) == []
    tags = wave(source, start=30, frames=30)
    assert {tag.kind for tag in tags} == {TagKind.GESTURE}
    assert tags[0].time <= 32 / FPS
    assert tags[0].value == 0.9
    assert all(tag.value == 0.5 for tag in tags[1:])
    assert 5 <= len(tags) <= 11  # once in 0.1 s while it lasts
    region = tags[1].scope.region
    assert region is not None
    assert 0.45 <= region.x < 0.72 < region.x + region.width <= 0.95
    assert 0.1 <= region.y < 0.38 < region.y + region.height <= 0.6
    (event,) = source.take_events()
    assert event.time == tags[0].time


def test_after_stillness_the_next_motion_is_an_onset_again() -> None:
    source = GestureSource("face")
    rest(source, start=0, frames=20)
    wave(source, start=20, frames=10)
    rest(source, start=30, frames=20)
    wave(source, start=50, frames=10)
    assert len(source.take_events()) == 2


def test_a_camera_that_moves_and_a_cut_are_no_gesture() -> None:
    source = GestureSource("face")
    tags = rest(source, start=0, frames=20)
    for index in range(20, 40):
        tags += source.feed(picture(None, shift=9 * index, seed=index), time=index / FPS)
    tags += source.feed(np.full((360, 640), 20, np.uint8), time=41 / FPS)
    assert tags == []


def test_a_new_size_starts_afresh_and_small_pictures_work() -> None:
    source = GestureSource("face")
    rest(source, start=0, frames=10)
    assert source.feed(np.zeros((9, 16), np.uint8), time=1.0) == []
    (tag,) = source.feed(np.pad(np.full((3, 3), 255, np.uint8), ((0, 6), (0, 13))), time=2.0)
    assert tag.scope.region is not None
    assert tag.scope.region.x == 0.0
    assert tag.scope.region.width == pytest.approx(3 / 16)


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((360, 640, 3), np.uint8),
        np.zeros((360, 640), np.float32),
        np.zeros((8, 640), np.uint8),
        np.zeros((360, 15), np.uint8),
    ],
)
def test_what_is_not_a_brightness_plane_is_named(bad: NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match="two-dimensional uint8"):
        GestureSource("face").feed(bad, time=0.0)


def test_what_still_moves_when_the_camera_comes_to_rest_is_no_onset() -> None:
    source = GestureSource("face")
    rest(source, start=0, frames=20)
    for index in range(20, 30):
        source.feed(picture((0.65, 0.3), shift=9 * index, seed=index), time=index / FPS)
    source.feed(picture((0.65, 0.3), seed=30), time=30 / FPS)
    assert all(tag.value == 0.5 for tag in wave(source, start=31, frames=6))
    assert source.take_events() == []
