"""The judge of the link's fidelity itself: it knows CoDel's forks, and still tells a wrong law."""

import random

import pytest

from limen.bench.link import aqm
from limen.bench.link.fidelity import judge, model_sample, model_samples
from limen.bench.link.fidelity_cases import CASES
from limen.bench.link.lab.measure import Passage, Sent

CASE = next(case for case in CASES if case.name.startswith("CoDel 5"))


def noisy_passage(seed: int) -> Passage:
    """The case's plan as a sender would really send it: up to 0.1 ms late."""
    source = random.Random(seed)
    late = sorted((time + source.uniform(0.0, 1e-4), size) for time, size in CASE.plan())
    return Passage([Sent(time, size) for time, size in late], [])


def best_failures(seed: int) -> list[str]:
    """What the judge says when the law as it is now is held against the right one."""
    reality = REALITY[seed]
    paths = model_samples(CASE, noisy_passage(0), seed=1)
    return min((judge(CASE, path, reality, reality).failures for path in paths), key=len)


REALITY = {
    seed: model_sample(CASE, [(s.time, s.size) for s in noisy_passage(seed).sent], seed=1)
    for seed in (1, 2)
}


def test_the_reality_samples_fork() -> None:
    alone = {
        bool(judge(CASE, model_samples(CASE, noisy_passage(seed), seed=1)[0], r, r).failures)
        for seed in range(10, 14)
        for r in REALITY.values()
    }
    assert alone == {True, False}


@pytest.mark.parametrize("seed", REALITY)
def test_whichever_way_reality_went_the_model_knows_it(seed: int) -> None:
    assert best_failures(seed) == []


@pytest.mark.parametrize("seed", REALITY)
def test_a_law_with_the_exact_square_root_is_told_apart(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exact(self: aqm.CoDel) -> None:
        self._inverse_root = self._count**-0.5

    monkeypatch.setattr(aqm.CoDel, "_newton", exact)
    assert best_failures(seed) != []
