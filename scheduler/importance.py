"""Tags in, importance out: how separate statements about the media fuse and fade.

Each tag says "this scope is worth v now, half of that one half-life later". The one idea here is
the *noisy or*: were every statement an independent reason to attend, a track is ignored only when
all of them fail, so importance = 1 - (1 - base) * prod(1 - v_i). It saturates at 1, any number of
sources may speak, and the order in which tags arrive changes nothing. Within one kind, scope and
source a later statement replaces the earlier one, since it is the same witness speaking again.

Importance becomes a share of the link through `weight`, which is exponential (see there).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from dataclasses import replace as with_fields

from .types import Region, Tag

WEIGHT_RANGE = 64.0
"""Weight of importance 1 over that of importance 0. With 64, a vital 160-byte audio frame outruns
a full packet of anything, and an ambient flow beside one vital flow gets 1.5 %: the floor share."""

DEAD = 1.0 / 256.0
"""A decayed value below this moves a weight by under 2 % (64 ** (1/256) = 1.016) and counts as 0,
so that every decaying tag ends and an idle session can sleep."""

REGION_THRESHOLD = 0.05
"""Regions worth less than this are not reported: the encoder would not show it."""

MAX_LEAD_S = 1.0
"""A tag may speak of at most this far ahead; a later time would outlast all its successors."""


def weight(importance: float) -> float:
    """The share weight in [1, 64] for an importance in [0, 1]; outside values are clamped.

    Exponential, so that the ratio of two shares depends on the *difference* in importance alone:
    a step of 0.1 is worth a factor of 1.52 wherever it happens. A linear map would make the step
    from 0.1 to 0.2 double a share and that from 0.8 to 0.9, where it matters, add an eighth.
    """
    if not 0.0 <= importance <= 1.0:
        importance = 1.0 if importance > 1.0 else 0.0
    return math.pow(WEIGHT_RANGE, importance)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one tag does to a track's importance at one moment."""

    tag: Tag
    value: float
    """The decayed value in [0, 1]."""
    share: float
    """Its part in [0, 1] of all that lifts the importance above 0 (base included)."""


_Key = tuple[str, int, str]  # kind, layer (-1: the whole track), source


class _TrackTags:
    """The tags of one track, with the columns that the tick reads laid out beside them."""

    __slots__ = ("changing_until", "rows", "tags")

    def __init__(self) -> None:
        self.tags: dict[_Key, Tag] = {}
        self.rows: list[tuple[int, float, float, float, float]] = []
        self.changing_until = -math.inf

    def arrange(self) -> None:
        """Rebuild the rows, sorted by key so that rounding does not depend on arrival order."""
        self.rows = []
        self.changing_until = -math.inf
        for key in sorted(self.tags):
            tag = self.tags[key]
            end = _dead_at(tag)
            self.rows.append((key[1], tag.value, tag.time, 1.0 / tag.half_life, end))
            if math.isfinite(tag.half_life):
                self.changing_until = max(self.changing_until, end)


def _dead_at(tag: Tag) -> float:
    if tag.value <= DEAD:
        return -math.inf
    return tag.time + tag.half_life * math.log2(tag.value / DEAD)


def _rank(tag: Tag) -> tuple[float, float, float, tuple[float, ...]]:
    """A total order, so that of two tags of one key the same one wins in any order of arrival."""
    region = tag.scope.region
    corner = () if region is None else (region.x, region.y, region.width, region.height)
    return (tag.time, tag.value, tag.half_life, corner)


class TagStore:
    """The tags that hold now, per track. Feed it with `add`; ask `importance` when a weight is due.

    Holds at most `max_tags` tags; above that, dead ones and then those worth least now are dropped.
    """

    def __init__(self, max_tags: int = 1024) -> None:
        if max_tags < 1:
            raise ValueError(f"a tag store holds at least 1 tag, got max_tags={max_tags}")
        self._max_tags = max_tags
        self._tracks: dict[str, _TrackTags] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, tag: Tag, *, now: float) -> bool:
        """Take a tag; False when a later one of the same kind, track, layer and source stands.

        A time more than `MAX_LEAD_S` after `now` is moved back to there.
        """
        if tag.time > now + MAX_LEAD_S:
            tag = with_fields(tag, time=now + MAX_LEAD_S)
        track = self._tracks.get(tag.scope.track)
        if track is None:
            track = self._tracks[tag.scope.track] = _TrackTags()
        layer = tag.scope.layer
        key = (tag.kind, -1 if layer is None else layer, tag.source)
        standing = track.tags.get(key)
        if standing is None:
            self._count += 1
        elif _rank(standing) >= _rank(tag):
            return False
        track.tags[key] = tag
        track.arrange()
        if self._count > self._max_tags:
            self._evict(now)
        return True

    def cancel(self, track: str, *, kind: str | None = None, source: str | None = None) -> int:
        """Drop the tags of a track, or those of one kind or source; returns how many."""
        tags = self._tracks.get(track)
        if tags is None:
            return 0
        stale = [
            key
            for key in tags.tags
            if (kind is None or key[0] == kind) and (source is None or key[2] == source)
        ]
        self._remove([(track, key) for key in stale])
        return len(stale)

    def importance(self, track: str, *, now: float, base: float, layer: int | None = None) -> float:
        """The fused importance in [0, 1] of a track or of one of its layers at `now` (seconds).

        Tags on the whole track speak for all layers. Asked without a layer, all tags count.
        """
        missed = 1.0 - base
        tags = self._tracks.get(track)
        if tags is not None:
            exp2 = math.exp2
            for of_layer, value, time, decay, end in tags.rows:
                if now >= end or (layer is not None and of_layer not in (-1, layer)):
                    continue
                age = now - time
                missed *= 1.0 - (value * exp2(-age * decay) if age > 0.0 else value)
        return min(1.0, max(0.0, 1.0 - missed))

    def regions(self, track: str, *, now: float) -> list[tuple[Region, float]]:
        """The regions that tags point at, with their decayed values above 0.05, largest first."""
        found = [
            (tag.scope.region, value)
            for tag, value in self._live(track, now)
            if tag.scope.region is not None and value > REGION_THRESHOLD
        ]
        return sorted(found, key=lambda item: -item[1])

    def breakdown(
        self, track: str, *, now: float, base: float = 0.0, layer: int | None = None
    ) -> list[Contribution]:
        """Which tag lifts the importance by how much, largest first.

        In a noisy or the terms log(1 - v) add up, so a tag's share is its part of that sum.
        """
        live = [
            (tag, value)
            for tag, value in self._live(track, now)
            if layer is None or tag.scope.layer in (None, layer)
        ]
        total = _evidence(base) + sum(_evidence(value) for _, value in live)
        if total <= 0.0:
            return []
        found = [Contribution(tag, value, _evidence(value) / total) for tag, value in live]
        return sorted(found, key=lambda item: -item.share)

    def changing_until(self, track: str) -> float:
        """Until when (seconds) the importance of this track still moves by itself."""
        tags = self._tracks.get(track)
        return -math.inf if tags is None else tags.changing_until

    def is_live(self, now: float) -> bool:
        """Whether any tag is still decaying at `now`."""
        return any(tags.changing_until > now for tags in self._tracks.values())

    def _live(self, track: str, now: float) -> list[tuple[Tag, float]]:
        tags = self._tracks.get(track)
        if tags is None:
            return []
        return [(t, t.value_at(now)) for _, t in sorted(tags.tags.items()) if now < _dead_at(t)]

    def _evict(self, now: float) -> None:
        """Make room in a batch, so that a flood of tags does not pay for a scan each."""
        scored = sorted(
            (
                (tag.value_at(now) if now < _dead_at(tag) else 0.0, tag.time, track, key)
                for track, tags in self._tracks.items()
                for key, tag in tags.tags.items()
            ),
        )
        surplus = self._count - self._max_tags + self._max_tags // 16
        self._remove([(track, key) for _, _, track, key in scored[:surplus]])

    def _remove(self, doomed: list[tuple[str, _Key]]) -> None:
        touched = set()
        for track, key in doomed:
            del self._tracks[track].tags[key]
            touched.add(track)
        self._count -= len(doomed)
        for track in touched:
            if self._tracks[track].tags:
                self._tracks[track].arrange()
            else:
                del self._tracks[track]


def _evidence(value: float) -> float:
    return -math.log1p(-min(value, 1.0 - 1e-9))
