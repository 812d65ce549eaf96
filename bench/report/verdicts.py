"""What a condition's figures come to, in a sentence: who was best, and by how much.

A difference is called one only where the ranges over seeds do not overlap; with one seed there is
no range, and the sentence says so.
"""

from __future__ import annotations

from .conditions import Condition, Spread, label


def verdict(condition: Condition) -> str:
    """The sentence for one condition, as plain text."""
    figure = condition.class_figure("vital", "p95_ms")
    found = [(peer, condition.spread(peer, figure)) for peer in condition.peers]
    ranked = sorted(
        ((peer, s) for peer, s in found if s is not None), key=lambda item: item[1].median
    )
    if not ranked:
        return "No vital object was captured: nothing can be said of the delay that matters most."
    best, least = ranked[0]
    until = "were heard" if condition.measure == "shown" else "arrived"
    seeds = f" over {least.count} seeds" if least.count > 1 else ", one seed only"
    text = (
        f"Vital objects {until} soonest with {label(best)}: "
        f"p95 {_p95(condition, best, least)}{seeds}"
    )
    if len(ranked) == 1:
        return text + "; there is no other peer to compare with."
    second, after = ranked[1]
    text += f"; next {label(second)} with {_p95(condition, second, after)}"
    ratio = condition.ratio(best, figure, base=second)
    if ratio is not None:
        text += f", of which it took {times(ratio)}"
    if least.count > 1 and least.overlaps(after):
        text += " (their ranges overlap: too close to call)"
    text += "."
    if condition.subject not in {best, second}:
        place = [peer for peer, _ in ranked].index(condition.subject) + 1
        own = ranked[place - 1][1]
        text += f" {label(condition.subject)} came {_ordinal(place)} with "
        text += f"{_p95(condition, condition.subject, own)}."
    timely = condition.spread(best, condition.class_figure("vital", "on_time"))
    if timely is not None:
        text += f" On time with {label(best)}: {timely.median * 100:.1f} %."
    return text


def _p95(condition: Condition, peer: str, found: Spread) -> str:
    """A p95 in words; where more than 5 % never came it is what they are counted as."""
    if lost_reach(condition, peer, "vital", 95):
        return f"{ms_range(found)} (more than 5 % never came and are counted as that long)"
    return ms_range(found)


def lost_reach(condition: Condition, peer: str, cls: str, percent: float) -> bool:
    """Whether objects that never came reach into a percentile, in any seed."""
    came = condition.class_figure(cls, "n_came")
    sent = condition.class_figure(cls, "n_sent")
    return any(
        sent(run.line) and came(run.line) / sent(run.line) < percent / 100.0
        for run in condition.peers[peer]
    )


def ms_range(found: Spread) -> str:
    """`61 ms (58 to 66)`."""
    if found.count < 2:
        return ms(found.median)
    return f"{ms(found.median)} ({found.low:,.0f} to {found.high:,.0f})"


def ms(value: float) -> str:
    """Milliseconds as people read them."""
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms"


def times(ratio: Spread) -> str:
    """`0.62 × (0.58 to 0.66)`."""
    if ratio.count < 2:
        return f"{ratio.median:.2f} ×"
    return f"{ratio.median:.2f} × ({ratio.low:.2f} to {ratio.high:.2f})"


def _ordinal(place: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(place, f"{place}th")
