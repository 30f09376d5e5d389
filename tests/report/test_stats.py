"""The statistics against numbers computed by hand, closed forms and an independent implementation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from ablation.report import stats


def test_the_t_interval_of_three_seeds() -> None:
    found = stats.estimate([0.90, 0.92, 0.94])
    assert found is not None
    assert (found.n, found.mean, found.sd) == pytest.approx((3, 0.92, 0.02))  # ddof = 1
    assert found.half_width == pytest.approx(4.302653 * 0.02 / math.sqrt(3), rel=1e-6)  # t table: t(2, .975)
    assert (found.low, found.high) == pytest.approx((0.870317, 0.969683), abs=1e-6)


def test_one_seed_has_a_mean_and_no_interval_and_none_has_nothing() -> None:
    assert stats.estimate([0.9]) == stats.Estimate(1, 0.9, None, None)
    assert stats.estimate([]) is None


def test_the_paired_t_test_in_closed_form() -> None:
    # differences .02, .01, .04: t = sqrt 7 at 2 degrees of freedom, where p = 1 - t / sqrt(t^2 + 2) = 1 - sqrt 7 / 3
    found = stats.paired({0: 0.90, 1: 0.92, 2: 0.94, 9: 0.1}, {2: 0.90, 1: 0.91, 0: 0.88, 8: 0.1})
    assert found.estimate is not None
    assert found.estimate.n == 3
    assert found.estimate.mean == pytest.approx(0.07 / 3)
    assert found.estimate.sd == pytest.approx(math.sqrt(7 / 3) / 100)
    assert found.p == pytest.approx(1 - math.sqrt(7) / 3)
    assert found.means == pytest.approx((0.92, 2.69 / 3))
    assert found.correlation == pytest.approx(0.654654, abs=1e-6)


def test_equal_differences_are_no_evidence_however_they_round() -> None:
    # .95 - .93 and .94 - .92 differ in the last bit; a t-test of that would report p = 0
    found = stats.paired({0: 0.95, 1: 0.94, 2: 0.31}, {0: 0.93, 1: 0.92, 2: 0.29})
    assert found.estimate is not None
    assert (found.estimate.sd, found.estimate.half_width, found.p) == (0.0, 0.0, None)


def test_identical_results_differ_by_exactly_nothing() -> None:
    found = stats.paired({0: 0.1 + 0.2, 1: 0.5}, {0: 0.3, 1: 0.5})
    assert found.estimate is not None
    assert (found.estimate.mean, found.estimate.sd, found.p) == (0.0, 0.0, None)


def test_one_pair_and_no_pair_are_not_tested() -> None:
    single = stats.paired({0: 0.9, 1: 0.8}, {1: 0.7, 2: 0.6})
    assert single.estimate is not None
    assert (single.estimate.n, single.estimate.half_width, single.p, single.correlation) == (1, None, None, None)
    assert single.estimate.mean == pytest.approx(0.1)
    assert stats.paired({0: 0.9}, {1: 0.9}) == stats.Paired(None, None, None, None)


def test_the_correlation_needs_three_pairs_and_variance() -> None:
    assert stats.paired({0: 0.1, 1: 0.2}, {0: 0.3, 1: 0.5}).correlation is None
    assert stats.paired({0: 0.1, 1: 0.1, 2: 0.1}, {0: 0.3, 1: 0.5, 2: 0.4}).correlation is None


def test_equivalence_in_closed_form() -> None:
    # differences .02, .01, .04 within .05: t = -sqrt(64 / 7) at 2 degrees of freedom
    found = stats.estimate([0.02, 0.01, 0.04])
    assert found is not None
    t = math.sqrt(64 / 7)
    assert stats.equivalence(found, 0.05) == pytest.approx((1 - t / math.sqrt(t * t + 2)) / 2)  # .0471
    assert stats.equivalence(found, found.mean) == pytest.approx(0.5)


def test_equivalence_is_the_ninety_percent_interval_within_the_margin() -> None:
    found = stats.estimate([0.001, -0.002, 0.004, 0.0])
    assert found is not None
    assert found.sd is not None
    end = abs(found.mean) + 2.353363 * found.sd / 2  # t(3, .95)
    below, above = stats.equivalence(found, end * 1.0001), stats.equivalence(found, end * 0.9999)
    assert below is not None
    assert above is not None
    assert below < 0.05 < above


def test_equivalence_without_variance_or_with_one_pair_is_not_tested() -> None:
    for values in ([0.0, 0.0], [0.01, 0.01, 0.01], [0.0]):
        found = stats.estimate(values)
        assert found is not None
        assert stats.equivalence(found, 0.05) is None


def test_sign_flips_by_hand() -> None:
    assert stats.sign_flip([0.02, 0.01, 0.04]) == 2 / 8  # only all + and all -
    assert stats.sign_flip([0.02, -0.01, 0.04]) == 4 / 8  # sums of 5 and 7 of 7, 5, 3, 1, each twice
    assert stats.sign_flip([0.01] * 5) == 2 / 32  # the least that five pairs can give
    assert stats.sign_flip([0.0, 0.0]) == 1.0
    assert stats.sign_flip([0.1]) is None


def test_many_pairs_flip_at_random_and_agree_with_the_t_test() -> None:
    values = [0.3 + value for value in np.random.default_rng(1).normal(size=30)]
    found = stats.estimate(values)
    assert found is not None
    expected = scipy_stats.ttest_1samp(values, 0).pvalue
    assert stats.sign_flip(values) == pytest.approx(expected, abs=0.02)
    assert stats.sign_flip(values) == stats.sign_flip(values)


def test_holms_adjustment_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == [
        pytest.approx(0.03),
        pytest.approx(0.06),
        pytest.approx(0.06),  # not .04: the steps never fall
        pytest.approx(0.02),
    ]
    assert stats.holm([0.5, 0.9]) == [1.0, 1.0]
    assert stats.holm([]) == []


def test_tests_to_come_count_in_the_family() -> None:
    assert stats.holm([None, 0.01, None]) == [None, pytest.approx(0.03), None]


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_the_pairs_needed_are_those_of_the_standard_tables(effect: float, pairs: int) -> None:
    assert stats.pairs_needed(effect) == pairs


def test_five_seeds_resolve_an_effect_of_1_7_sd() -> None:
    assert stats.resolvable(5) == pytest.approx(1.68, abs=0.01)


def test_an_effect_of_nothing_needs_too_many_pairs() -> None:
    assert stats.pairs_needed(0.0) is None


@pytest.mark.parametrize("n", [2, 3, 5, 30])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 24])
@pytest.mark.parametrize("effect", [0.0, 0.3, 2.0, 20.0])
def test_the_power_agrees_with_another_noncentral_t(n: int, alpha: float, effect: float) -> None:
    critical = scipy_stats.t.ppf(1 - alpha / 2, n - 1)
    shift = effect * math.sqrt(n)
    expected = scipy_stats.nct.sf(critical, n - 1, shift) + scipy_stats.nct.sf(critical, n - 1, -shift)
    assert stats.power(n, effect, alpha) == pytest.approx(expected, abs=1e-3)


def test_bold_is_what_is_not_separable_from_the_best() -> None:
    best = {0: 0.95, 1: 0.96, 2: 0.94}
    close = {0: 0.94, 1: 0.97, 2: 0.92}
    worse = {0: 0.85, 1: 0.861, 2: 0.84}
    assert stats.near_best({"best": best, "close": close, "worse": worse}) == {"best", "close"}


def test_nothing_is_bold_where_nothing_can_be_tested() -> None:
    assert stats.near_best({"a": {0: 0.9, 1: 0.8}, "b": {0: 0.7}}) == set()
    assert stats.near_best({"a": {0: 0.9, 1: 0.8}, "b": {2: 0.7, 3: 0.6}}) == set()
    assert stats.near_best({"a": {}, "b": {}}) == set()


def test_the_sampling_error_of_360_test_digits() -> None:
    assert stats.sampling_sd(0.945, 360) == pytest.approx(0.012, abs=1e-4)


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=12), st.integers(0, 2**32 - 1))
def test_intervals_and_tests_agree_with_scipy(counts: list[int], seed: int) -> None:
    x = dict(enumerate(count / 10_000 for count in counts))
    noise = np.random.default_rng(seed).integers(-300, 300, len(counts))
    y = {key: value + int(shift) / 10_000 for (key, value), shift in zip(x.items(), noise, strict=True)}
    found = stats.paired(x, y)
    assert found.estimate is not None
    if len(set(noise)) == 1:
        assert found.p is None
        return
    expected = scipy_stats.ttest_rel(list(x.values()), list(y.values()))
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((interval.low, interval.high), abs=1e-9)
