"""Coverage, false alarms and power of the statistics by simulation; `make bench` prints the same at more replicates."""

import pytest

from ablation.report import stats
from tests.report.simulation import coverage, false_alarms, family_false_alarms, simulated_pairs

REPLICATES = 1500
SIGMA = (0.05 * 0.95 / REPLICATES) ** 0.5  # of a simulated 5 % rate: .0056


@pytest.mark.parametrize("n", [3, 5, 10])
def test_intervals_cover_what_they_say_up_to_skewness(n: int) -> None:
    assert 0.91 <= coverage(n, REPLICATES) <= 0.95 + 3 * SIGMA


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_paired_test_raises_no_more_false_alarms_than_it_says(n: int) -> None:
    assert 0.05 - 4 * SIGMA <= false_alarms(n, REPLICATES) <= 0.05 + 3 * SIGMA


@pytest.mark.parametrize("n", [3, 5, 10])
def test_holm_holds_the_family(n: int) -> None:
    assert family_false_alarms(n, REPLICATES // 3, tests=8) <= 0.05 + 3 * SIGMA * 3**0.5


@pytest.mark.parametrize(("effect", "alpha"), [(0.5, 0.05), (1.0, 0.05), (1.7, 0.05), (1.0, 0.05 / 8)])
def test_the_power_hint_is_within_a_fifth_of_simulation(effect: float, alpha: float) -> None:
    hinted = stats.pairs_needed(effect, alpha)
    assert hinted == pytest.approx(simulated_pairs(effect, 4000, alpha), rel=0.2, abs=1)
