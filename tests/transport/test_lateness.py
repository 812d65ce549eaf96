"""The histogram of tick lateness: percentiles of what went in, in memory that does not grow."""

from __future__ import annotations

import numpy as np
import pytest

from limen.transport.lateness import BIN, BINS, LatenessHistogram


def test_an_empty_one_has_no_percentiles() -> None:
    histogram = LatenessHistogram()
    assert histogram.percentile(50) is None
    assert (histogram.count, histogram.maximum) == (0, 0.0)


@pytest.mark.parametrize("q", [1, 50, 95, 99, 100])
def test_percentiles_are_right_to_a_bin(q: float) -> None:
    values = np.random.default_rng(1).exponential(0.002, 5000)
    histogram = LatenessHistogram()
    for value in values:
        histogram.add(float(value))
    exact = float(np.percentile(values, q, method="inverted_cdf"))
    found = histogram.percentile(q)
    assert found is not None
    assert exact <= found + 1e-12
    assert found - exact <= BIN + 1e-12
    assert histogram.count == 5000
    assert histogram.maximum == values.max()


def test_extremes_count_in_the_outer_bins() -> None:
    histogram = LatenessHistogram()
    for value in (-1.0, 0.0, 100.0):
        histogram.add(value)
    assert histogram.count == 3
    assert histogram.maximum == 100.0
    assert histogram.percentile(1) == BIN
    assert histogram.percentile(100) == pytest.approx(BIN * BINS)
