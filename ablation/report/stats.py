"""The statistics of a handful of seeds: t-intervals, paired tests, equivalence, Holm's correction, power.

Pure functions of numbers; `ablation.report.trends` has those of a whole curve over batch sizes.

Only `scipy.special` is needed: it holds the (noncentral) t distribution and loads in a fraction of `scipy.stats`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEVEL = 0.95  # of every interval
ALPHA = 0.05  # two-sided, for the family of tests
POWER = 0.8
MOST_PAIRS = 1000  # beyond this many, "more than" is answer enough

# Accuracies are multiples of 1 / test images: what is smaller than this is rounding of the subtraction, not variance.
_ROUNDING = 1e-9

_EXACT_FLIPS = 14  # pairs up to which all 2^n sign patterns are counted; beyond, as many random ones stand for them

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(200)
_QUANTILES, _WEIGHTS = (_NODES + 1) / 2, _NODE_WEIGHTS / 2  # Gauss-Legendre on (0, 1)


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds with its t-interval, in the values' unit."""

    n: int
    mean: float
    sd: float | None  # of the values, ddof = 1; None for one value
    half_width: float | None  # of the 95 % t-interval, t(n - 1) sd / sqrt(n); None for one value

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return None if self.half_width is None else self.mean + self.half_width


@dataclass(frozen=True)
class Paired:
    """Differences x - y paired by seed. `estimate` is None without a complete pair."""

    estimate: Estimate | None
    means: tuple[float, float] | None  # of x and of y over the complete pairs
    correlation: float | None  # Pearson's, of x with y; None below three pairs or without variance
    p: float | None  # two-sided paired t; None below two pairs, or where all differences are equal
    sign_flip: float | None = None  # two-sided sign-flip test, see `sign_flip`; None below two pairs


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and t-interval; None for no values."""
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(1, mean, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    sd = sd if sd > _ROUNDING else 0.0
    mean = mean if sd or abs(mean) > _ROUNDING else 0.0
    return Estimate(n, mean, sd, t_quantile(n - 1) * sd / math.sqrt(n))


def paired(x: Mapping[int, float], y: Mapping[int, float]) -> Paired:
    """Compare two losses, or two batch sizes, over the seeds that both have."""
    seeds = sorted(x.keys() & y.keys())
    left, right = [x[seed] for seed in seeds], [y[seed] for seed in seeds]
    differences = [a - b for a, b in zip(left, right, strict=True)]
    found = estimate(differences)
    if found is None:
        return Paired(None, None, None, None)
    means = (math.fsum(left) / len(seeds), math.fsum(right) / len(seeds))
    return Paired(found, means, _correlation(left, right), _t_test(found), sign_flip(differences))


def sign_flip(differences: Sequence[float]) -> float | None:
    """The two-sided p of the sign-flip test of the mean (Fisher 1935, The Design of Experiments, section 21).

    The share of sign patterns whose mean is at least as far from zero as the one seen: no normal distribution is
    assumed, but n pairs can't give a p below 2^(1 - n). None below two differences.
    """
    n = len(differences)
    if n < 2:
        return None
    values = np.asarray(differences)
    seen = abs(values.sum()) - _ROUNDING
    as_far = np.abs(_signs(n) @ values) >= seen
    if n <= _EXACT_FLIPS:
        return float(np.mean(as_far))
    return float((1 + np.sum(as_far)) / (1 + len(as_far)))  # the pattern seen is one of them


def equivalence(differences: Estimate, margin: float) -> float | None:
    """The p of two one-sided t-tests that the mean lies within +- margin (Schuirmann 1987, J. Pharmacokin. 15, 657).

    Below 5 % exactly where the 90 % t-interval lies within the margin. None below two pairs, or without variance.
    """
    if not differences.sd:
        return None
    t = (abs(differences.mean) - margin) / (differences.sd / math.sqrt(differences.n))
    return float(special.stdtr(differences.n - 1, t))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment over the declared family (Holm 1979, Scand. J. Statist. 6, 65-70).

    A test that can't be made yet (None) still counts in the family, so that a partial report is no more certain.
    """
    adjusted: list[float | None] = [None] * len(p_values)
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, index) in enumerate(known):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[index] = largest
    return adjusted


def power(n: int, effect: float, alpha: float = ALPHA) -> float:
    """Power of the two-sided paired t-test with n pairs for an effect in sd of the paired difference.

    The noncentral t distribution is that of (Z + shift) / S, Z standard normal and S^2 chi-square over its df: the
    power is the mean over S of two normal tails, by quadrature over S's quantiles, right to 1e-3 in the far tails too.
    """
    critical, shift = t_quantile(n - 1, alpha), effect * math.sqrt(n)
    scale = np.sqrt(2 * special.gammaincinv((n - 1) / 2, _QUANTILES) / (n - 1))
    return float(_WEIGHTS @ (special.ndtr(shift - critical * scale) + special.ndtr(-shift - critical * scale)))


def pairs_needed(effect: float, alpha: float = ALPHA) -> int | None:
    """The fewest pairs with 80 % power for `effect` (> 0, in sd); None where more than `MOST_PAIRS` are needed."""
    if power(MOST_PAIRS, effect, alpha) < POWER:
        return None
    low, high = 1, MOST_PAIRS  # low is too few (one pair tests nothing), high is enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle, effect, alpha) >= POWER else (middle, high)
    return high


def resolvable(n: int, alpha: float = ALPHA) -> float:
    """The smallest effect, in sd of the paired difference, that n >= 2 pairs find with 80 % power, to 0.1 %."""
    low, high = 0.0, 1.0
    while power(n, high, alpha) < POWER:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(n, middle, alpha) >= POWER else (middle, high)
    return high


def near_best(scores: Mapping[str, Mapping[int, float]]) -> set[str]:
    """Who a paired t-test at 5 % does not separate from the best mean; empty where nobody can be tested against it."""
    means = {name: math.fsum(values.values()) / len(values) for name, values in scores.items() if len(values) >= 2}
    if not means:
        return set()
    best = max(means, key=lambda name: means[name])
    tests = {name: paired(scores[best], scores[name]) for name in means if name != best}
    tested = {name: test.p for name, test in tests.items() if test.estimate and test.estimate.n >= 2}
    return {best, *(name for name, p in tested.items() if p is None or p >= ALPHA)} if tested else set()


def sampling_sd(accuracy: float, test_images: int) -> float:
    """The binomial standard deviation of an accuracy that a finite test split causes by itself."""
    return math.sqrt(accuracy * (1 - accuracy) / test_images)


def t_quantile(df: int, alpha: float = ALPHA) -> float:
    """The two-sided critical value of Student's t."""
    return float(special.stdtrit(df, 1 - alpha / 2))


@cache
def _signs(n: int) -> NDArray[np.float64]:
    """All sign patterns of n differences, a row each, or as many random ones as there are for `_EXACT_FLIPS`."""
    if n <= _EXACT_FLIPS:
        flipped = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    else:
        flipped = np.random.default_rng(0).integers(0, 2, (2**_EXACT_FLIPS, n))
    return np.asarray(1 - 2 * flipped, dtype=np.float64)


def _t_test(differences: Estimate) -> float | None:
    if not differences.sd:
        return None
    t = differences.mean / (differences.sd / math.sqrt(differences.n))
    return float(2 * special.stdtr(differences.n - 1, -abs(t)))


def _correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    if len(x) < 3 or np.ptp(x) < _ROUNDING or np.ptp(y) < _ROUNDING:
        return None
    return float(np.corrcoef(x, y)[0, 1])
