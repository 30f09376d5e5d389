"""Statistics of a curve over batch sizes: slope per doubling, where a plateau begins, where two curves cross.

A curve maps batch size -> seed -> accuracy. Only the batch sizes that have a result count, and of these the seeds
that have all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ablation.report import stats
from ablation.report.stats import Estimate

Curve = Mapping[int, Mapping[int, float]]

_TOUCH = 1e-6  # of a segment: a double root, where no seed differs from another, is found to within this


@dataclass(frozen=True)
class Plateau:
    """The smallest batch size that a loss can be trained with at no more than a margin of accuracy lost."""

    best: int  # the batch size with the best mean, which the others are measured against
    batch: int  # from here up to the best all means are within the margin
    low: int | None  # 95 % limits: the smallest that can't be excluded ...
    high: int | None  # ... and the smallest that is shown to be within the margin; None with one seed
    n: int


@dataclass(frozen=True)
class Crossing:
    """A batch size at which the mean difference of two losses, piecewise linear in log2, changes its sign."""

    batch: float
    low: float | None  # 95 % limits; None with one seed, or where they reach beyond the batch sizes there are
    high: float | None
    n: int


def slope(curve: Curve) -> Estimate | None:
    """Accuracy per doubling of the batch size: each seed's least-squares slope over log2, with the t-interval.

    None below two batch sizes that share a seed.
    """
    sizes, scores = _matrix([curve])
    if len(sizes) < 2:
        return None
    x = np.log2(sizes) - np.mean(np.log2(sizes))
    return stats.estimate([float(value) for value in scores[0] @ x / (x @ x)])


def plateau(curve: Curve, margin: float) -> Plateau | None:
    """Where the plateau begins; its limits are those batch sizes at which a shortfall from the best is in doubt.

    The shortfall is paired by seed. The smallest batch from which up to the best its mean (its interval's lower end,
    its upper end) is at most the margin is the estimate (the lower, the upper limit). None without a result.
    """
    sizes, scores = _matrix([curve])
    if not sizes:
        return None
    (values,) = scores  # (seeds, sizes)
    best = int(np.argmax(values.mean(0)))
    shortfalls = [stats.estimate([float(d) for d in values[:, best] - values[:, i]]) for i in range(best)]
    found = [estimate for estimate in shortfalls if estimate]

    def first(ends: Sequence[float | None]) -> int | None:
        if any(end is None for end in ends):
            return None
        beyond = [i for i, end in enumerate(ends) if end is not None and end > margin]
        return sizes[max(beyond, default=-1) + 1]

    alone = len(values) == 1
    batch = first([estimate.mean for estimate in found])
    assert batch is not None
    low, high = (None, None) if alone else (first([e.low for e in found]), first([e.high for e in found]))
    return Plateau(sizes[best], batch, low, high, len(values))


def crossings(a: Curve, b: Curve) -> list[Crossing]:
    """Every crossing of two losses' mean curves, smallest first, over the batch sizes and seeds that both have.

    Each seed's difference is joined linearly in log2 of the batch size. A limit is the nearest batch size at which the
    pointwise t-interval of the mean difference no longer contains zero: Fieller's theorem (Fieller 1954, J. R. Statist.
    Soc. B 16, 175) within a segment.
    """
    sizes, (left, right) = _matrix([a, b])
    if len(sizes) < 2:
        return []
    differences, x = left - right, np.log2(sizes)
    found = []
    for segment, share in _sign_changes(differences.mean(0)):
        at = float(x[segment] + share * (x[segment + 1] - x[segment]))
        low, high = (_limit(differences, x, segment, share, up=up) for up in (False, True))
        found.append(Crossing(2**at, low, high, len(differences)))
    return found


def _matrix(curves: Sequence[Curve]) -> tuple[list[int], list[NDArray[np.float64]]]:
    """The shared batch sizes with results, ascending, and each curve's (seeds, sizes) over the shared seeds."""
    sizes = sorted(set.intersection(*({size for size, scores in curve.items() if scores} for curve in curves)))
    seeds = sorted(set.intersection(*(set(curve[size]) for curve in curves for size in sizes))) if sizes else []
    if not seeds:
        sizes = []
    return sizes, [np.array([[curve[size][seed] for size in sizes] for seed in seeds]) for curve in curves]


def _sign_changes(means: NDArray[np.float64]) -> Iterator[tuple[int, float]]:
    """(segment, share of it) of each change of sign; a stretch of zeros counts as its middle node's."""
    signed = [i for i, mean in enumerate(means) if abs(mean) > 1e-12]
    for i, j in pairwise(signed):
        if means[i] * means[j] > 0:
            continue
        if j == i + 1:
            yield i, float(means[i] / (means[i] - means[j]))
        else:
            yield (i + j) // 2, 0.0 if (i + j) % 2 == 0 else 0.5


def _limit(
    differences: NDArray[np.float64], x: NDArray[np.float64], segment: int, share: float, *, up: bool
) -> float | None:
    """The end, as a batch size, of the stretch around a crossing where zero is within the t-interval."""
    if len(differences) < 2:
        return None
    while 0 <= segment < len(x) - 1:
        roots = _fieller(differences[:, segment], differences[:, segment + 1])
        beyond = [s for s in roots if (s >= share - _TOUCH if up else s <= share + _TOUCH)]
        if beyond:
            at = min(beyond) if up else max(beyond)
            return float(2 ** (x[segment] + at * (x[segment + 1] - x[segment])))
        segment, share = (segment + 1, 0.0) if up else (segment - 1, 1.0)
    return None


def _fieller(start: NDArray[np.float64], end: NDArray[np.float64]) -> list[float]:
    """The s in [0, 1] where mean^2 = t^2 var / n of (1 - s) start + s end: the roots of a quadratic."""
    n = len(start)
    scale = stats.t_quantile(n - 1) ** 2 / n
    rise = end - start
    (v_start, covariance), (_, v_rise) = np.cov(start, rise)
    square = rise.mean() ** 2 - scale * v_rise
    linear = 2 * (start.mean() * rise.mean() - scale * covariance)
    constant = start.mean() ** 2 - scale * v_start
    roots = np.roots([square, linear, constant]) if abs(square) + abs(linear) > 0 else np.array([])
    return sorted(float(root.real) for root in roots if abs(root.imag) < _TOUCH and -_TOUCH <= root.real <= 1 + _TOUCH)
