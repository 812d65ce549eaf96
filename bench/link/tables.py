"""The distributions of delay variation, as the tables of integers that netem draws from.

netem picks a random entry of a table and scales it by the jitter: an entry of 8,192 stands for one
times the jitter. Its tables are inverse cumulative distributions, sampled evenly. They are made
here from their formulas:

- `normal`: quantiles of the standard normal distribution.
- `pareto`: of a Pareto distribution with shape 3, moved to mean 0 and stretched to variance ~1:
  `(u ** (-1/3) - 3/2) * 4/3`, cut where 16 bits end (four times the jitter).
- `paretonormal`: a quarter of the normal one plus three quarters of the Pareto one.
- `uniform` has no table: within ± the jitter, all the same.

A bound cuts a table: what lies further out than the bound is left out, which makes it the
truncated distribution.
"""

from __future__ import annotations

import functools
import statistics

SCALE = 8192
"""The table's entry for one times the jitter (NETEM_DIST_SCALE in Linux's uapi headers)."""
ENTRIES = 4096
"""As many as the tables that iproute2 ships, so that the tails end where theirs do."""
LARGEST = 32767
"""Entries are 16 bits, signed."""
DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")


@functools.cache
def table(distribution: str, bound: float | None = None) -> tuple[int, ...]:
    """A distribution's table; `bound`: the largest deviation, in multiples of the jitter.

    Empty for `uniform` without a bound. Raises ValueError for an unknown distribution or a bound
    that leaves nothing.
    """
    if distribution == "uniform":
        values: list[int] = []
    elif distribution == "normal":
        values = _normal()
    elif distribution == "pareto":
        values = _pareto()
    elif distribution == "paretonormal":
        pairs = zip(_normal(), _pareto(), strict=True)
        values = [round(0.25 * a + 0.75 * b) for a, b in pairs]
    else:
        raise ValueError(f"a distribution is one of {list(DISTRIBUTIONS)}, got {distribution!r}")
    if bound is None:
        return tuple(values)
    if not values:
        raise ValueError("a uniform distribution ends at its jitter; it takes no further bound")
    kept = tuple(value for value in values if abs(value) <= bound * SCALE)
    if not kept:
        raise ValueError(f"a bound of {bound} times the jitter leaves nothing of {distribution}")
    return kept


def _normal() -> list[int]:
    quantile = statistics.NormalDist().inv_cdf
    inner = [round(SCALE * quantile(i / ENTRIES)) for i in range(1, ENTRIES)]
    return [-LARGEST - 1, *inner]


def _pareto() -> list[int]:
    rising = (((i / ENTRIES) ** (-1 / 3) - 1.5) * 4 / 3 for i in range(ENTRIES, 0, -1))
    return [min(LARGEST, round(SCALE * value)) for value in rising]


def table_file(values: tuple[int, ...]) -> str:
    """A table in the text form that `tc` reads."""
    rows = (values[i : i + 8] for i in range(0, len(values), 8))
    return "".join(" ".join(str(value) for value in row) + "\n" for row in rows)
