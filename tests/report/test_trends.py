"""Statistics of a curve over batch sizes against numbers computed by hand, and their degenerate cases."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablation.report import trends
from ablation.report.trends import Plateau


def curve(**columns: tuple[float, ...]) -> trends.Curve:
    """b8=(.9, .92): accuracies of seeds 0, 1 at batch 8."""
    return {int(name[1:]): dict(enumerate(values)) for name, values in columns.items()}


def test_the_slope_per_doubling_by_hand() -> None:
    # log2 is 3, 5, 7: a seed's slope is (y(128) - y(8)) / 4 whatever y(32) is: .01, .005, .015
    found = trends.slope(curve(b8=(0.90, 0.92, 0.91), b32=(0.5, 0.93, 0.99), b128=(0.94, 0.94, 0.97)))
    assert found is not None
    assert (found.n, found.mean, found.sd) == pytest.approx((3, 0.01, 0.005))
    assert found.half_width == pytest.approx(4.302653 * 0.005 / math.sqrt(3), rel=1e-6)


def test_a_slope_needs_two_batch_sizes_and_complete_seeds() -> None:
    assert trends.slope(curve(b8=(0.9, 0.8))) is None
    assert trends.slope({8: {0: 0.9}, 16: {1: 0.9}}) is None
    assert trends.slope({}) is None
    alone = trends.slope({8: {0: 0.8}, 16: {0: 0.9, 1: 0.1}, 32: {}})  # seed 1 lacks batch 8; batch 32 has nothing
    assert alone is not None
    assert alone.mean == pytest.approx(0.1)
    assert (alone.n, alone.half_width) == (1, None)


def test_the_plateau_by_hand() -> None:
    # short of 128 by .005 at 32 in every seed, and by .01, .01, .04 at 8: .02 +- .043, in doubt at a margin of .01
    points = curve(b8=(0.94, 0.95, 0.93), b32=(0.945, 0.955, 0.965), b128=(0.95, 0.96, 0.97))
    assert trends.plateau(points, 0.01) == Plateau(best=128, batch=32, low=8, high=32, n=3)
    assert trends.plateau(points, 0.0649) == Plateau(best=128, batch=8, low=8, high=8, n=3)
    assert trends.plateau(points, 0.004) == Plateau(best=128, batch=128, low=128, high=128, n=3)  # 32 is surely below


def test_a_plateau_that_ends_is_measured_from_its_best() -> None:
    points = curve(b8=(0.90, 0.901), b16=(0.95, 0.951), b32=(0.95, 0.952), b64=(0.7, 0.7))
    assert trends.plateau(points, 0.01) == Plateau(best=32, batch=16, low=16, high=16, n=2)


def test_a_plateau_of_one_seed_has_no_limits_and_of_nothing_is_none() -> None:
    assert trends.plateau(curve(b8=(0.9,), b16=(0.95,)), 0.1) == Plateau(16, 8, None, None, 1)
    assert trends.plateau(curve(b8=(0.9, 0.9)), 0.1) == Plateau(8, 8, 8, 8, 2)
    assert trends.plateau({8: {}}, 0.1) is None
    assert trends.plateau(curve(b8=(0.9, 0.9), b16=(0.9, 0.9)), 0.1) == Plateau(8, 8, 8, 8, 2)  # the first of equals


def test_a_crossing_by_hand() -> None:
    # differences -.02 -+ .001 at 8 and .02 at 32: zero half-way, at 16. With t(2) / sqrt 3 = 2.484138 the limits
    # solve |-.02 + .04 s| = .002484138 (1 - s): s = .466892 and .529236
    (found,) = trends.crossings(
        curve(b8=(0.90, 0.899, 0.901), b32=(0.95, 0.95, 0.95)), curve(b8=(0.92,) * 3, b32=(0.93,) * 3)
    )
    assert found.batch == pytest.approx(16)
    assert (found.low, found.high) == pytest.approx((2 ** (3 + 2 * 0.466892), 2 ** (3 + 2 * 0.529236)), rel=1e-5)
    assert found.n == 3


def test_a_crossing_in_doubt_down_to_the_smallest_batch() -> None:
    # ten times the spread: |-.02 + .04 s| = .02484138 (1 - s) has one root in [0, 1], .691552
    (found,) = trends.crossings(
        curve(b8=(0.90, 0.89, 0.91), b32=(0.95, 0.95, 0.95)), curve(b8=(0.92,) * 3, b32=(0.93,) * 3)
    )
    assert found.low is None
    assert found.high == pytest.approx(2 ** (3 + 2 * 0.691552), rel=1e-5)


def test_crossings_where_nothing_varies_and_where_a_mean_is_zero() -> None:
    flat = curve(b8=(0.9, 0.9), b16=(0.9, 0.9), b32=(0.9, 0.9))
    steps = curve(b8=(0.8, 0.8), b16=(0.9, 0.9), b32=(0.95, 0.95))
    (found,) = trends.crossings(steps, flat)
    assert (found.batch, found.low, found.high) == pytest.approx((16, 16, 16))
    assert trends.crossings(flat, flat) == []
    touching = curve(b8=(0.8, 0.8), b16=(0.9, 0.9), b32=(0.8, 0.8))
    assert trends.crossings(touching, flat) == []  # it touches and does not cross


def test_crossings_need_shared_seeds_and_one_seed_has_no_limits() -> None:
    a, b = curve(b8=(0.8,), b32=(0.9,)), curve(b8=(0.9,), b32=(0.8,))
    (found,) = trends.crossings(a, b)
    assert found.batch == pytest.approx(16)
    assert (found.low, found.high, found.n) == (None, None, 1)
    assert trends.crossings(a, {8: {1: 0.9}, 32: {1: 0.8}}) == []
    assert trends.crossings(curve(b8=(0.8,)), curve(b8=(0.9,))) == []


GRID = st.lists(st.lists(st.integers(0, 1000), min_size=3, max_size=3), min_size=2, max_size=6)


@given(GRID, GRID)
def test_limits_enclose_their_crossing_and_the_interval_has_zero_within(a: list[list[int]], b: list[list[int]]) -> None:
    left, right = ({2**i: {s: v / 1000 for s, v in enumerate(col)} for i, col in enumerate(table)} for table in (a, b))
    for found in trends.crossings(left, right):
        assert (found.low or 0) <= found.batch * (1 + 1e-6)
        assert found.batch <= (found.high or math.inf) * (1 + 1e-6)


@given(GRID, st.floats(0.001, 0.4))
def test_plateau_limits_are_in_order(table: list[list[int]], margin: float) -> None:
    points = {2**i: {s: v / 1000 for s, v in enumerate(col)} for i, col in enumerate(table)}
    found = trends.plateau(points, margin)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.batch <= found.high <= found.best
