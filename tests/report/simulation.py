"""How the statistics fare on accuracies as they are: bounded, skewed, with the binomial noise of a test split."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ablation.report import stats

Array = NDArray[np.float64]

TEST_IMAGES = 360
LOST = 0.05  # mean error rate
SHAPE = 4.0  # of its gamma distribution over seeds: skewness 2 / sqrt(4) = 1, sd LOST / 2


def errors(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """True error rates of seeds, skewed to the right; their mean is `LOST`."""
    return np.minimum(rng.gamma(SHAPE, LOST / SHAPE, size), 1.0)


def observed(rng: np.random.Generator, error: Array) -> Array:
    """Accuracies on `TEST_IMAGES` images."""
    return rng.binomial(TEST_IMAGES, 1 - error) / TEST_IMAGES


def coverage(n: int, replicates: int, seed: int = 0) -> float:
    """The share of 95 % t-intervals of n seeds that hold the true mean accuracy."""
    rng = np.random.default_rng(seed)
    hits = 0
    for row in observed(rng, errors(rng, (replicates, n))):
        found = stats.estimate(list(row))
        assert found
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1 - LOST <= found.high
    return hits / replicates


def null_p_values(n: int, replicates: int, tests: int = 1, seed: int = 0) -> list[list[float | None]]:
    """p of paired t-tests of two losses that are the same; half of a seed's error is shared by all that it trains."""
    rng = np.random.default_rng(seed)
    shared = errors(rng, (replicates, 1, 1, n)) / 2
    accuracies = observed(rng, shared + errors(rng, (replicates, tests, 2, n)) / 2)
    return [
        [stats.paired(dict(enumerate(a)), dict(enumerate(b))).p for a, b in family] for family in accuracies.tolist()
    ]


def false_alarms(n: int, replicates: int) -> float:
    """The share of null tests that come out below 5 %."""
    return _below([family[0] for family in null_p_values(n, replicates)])


def family_false_alarms(n: int, replicates: int, tests: int) -> float:
    """The share of families of null tests with any Holm-adjusted p below 5 %."""
    families = null_p_values(n, replicates, tests, seed=1)
    return _below([min((p for p in stats.holm(family) if p is not None), default=None) for family in families])


def simulated_pairs(effect: float, replicates: int, alpha: float = stats.ALPHA, seed: int = 0) -> int:
    """The fewest pairs whose simulated power for `effect` (in sd of the difference) is 80 %."""
    rng = np.random.default_rng(seed)
    n = 2
    while True:
        differences = rng.normal(effect, 1, (replicates, n))
        t = differences.mean(1) / (differences.std(1, ddof=1) / np.sqrt(n))
        if np.mean(np.abs(t) > stats.t_quantile(n - 1, alpha)) >= stats.POWER:
            return n
        n += 1


def _below(p_values: Sequence[float | None]) -> float:
    return sum(p is not None and p < stats.ALPHA for p in p_values) / len(p_values)
