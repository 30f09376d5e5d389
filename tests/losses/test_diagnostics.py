"""Diagnostics against closed forms and naive sums."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.losses.diagnostics import (
    QUANTILES,
    effective_sample_size,
    measure_contrast,
    measure_geometry,
    p_positive,
    rounding_error,
)


def views(images: int, d: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(2 * images, d, generator=generator, dtype=torch.float64), dim=1)


def negatives(z: Tensor) -> list[tuple[int, list[int]]]:
    images = len(z) // 2
    return [(i, [j for j in range(len(z)) if j % images != i % images]) for i in range(len(z))]


def test_p_positive_of_identical_rows_and_of_a_random_batch() -> None:
    assert p_positive(F.normalize(torch.ones(10, 3), dim=1), 0.1) == pytest.approx(1 / 9, rel=1e-5)
    z = views(5, 6)
    logits = (z @ z.T / 0.3).fill_diagonal_(-torch.inf)
    expected = logits.softmax(1)[torch.arange(10), torch.arange(10).roll(5)].mean().item()
    assert p_positive(z, 0.3) == pytest.approx(expected, rel=1e-12)


def test_contrast_of_a_random_batch_against_the_definitions() -> None:
    z, t = views(6, 4), 0.2
    similar = (z @ z.T / t).exp()
    xi = torch.stack([similar[i, rows].sum() / similar[i, (i + 6) % 12] for i, rows in negatives(z)])
    weights = [similar[i, rows] / similar[i, rows].sum() for i, rows in negatives(z)]
    ess = torch.stack([1 / (w**2).sum() / 10 for w in weights]).mean().item()
    got = measure_contrast(z, t)
    assert got.log10_xi_mean == pytest.approx(xi.log10().mean().item())
    assert list(got.log10_xi) == pytest.approx(xi.log10().quantile(torch.tensor(QUANTILES).double()).tolist())
    assert got.ess == pytest.approx(ess)
    assert effective_sample_size(z, t).item() == pytest.approx(ess)
    bound = math.log(11) - (1 + xi).log().mean().item()
    assert (got.mi_bound, got.mi_closeness) == pytest.approx((bound, bound / math.log(11)))


def test_the_shares_of_anchors_that_are_well_apart() -> None:
    # Two images at right angles with equal views: xi = 2 e^(-1/t), 1.3e-6 at .07 and 7e-9 at .0515.
    z = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    assert measure_contrast(z, 0.2).xi_below_1e3 == 0
    got = measure_contrast(z, 0.07)
    assert (got.xi_below_1e3, got.xi_below_1e7) == (1, 0)
    assert measure_contrast(z, 0.0515).xi_below_1e7 == 1
    assert got.log10_xi == pytest.approx([(math.log(2) - 1 / 0.07) / math.log(10)] * 5)
    assert got.mi_closeness == pytest.approx(1, abs=1e-5)


def test_effective_sample_size_between_its_ends() -> None:
    same = F.normalize(torch.ones(10, 3, dtype=torch.float64), dim=1)
    assert effective_sample_size(same, 0.1).item() == pytest.approx(1)
    lone = views(5, 16)
    assert effective_sample_size(lone, 0.001).item() == pytest.approx(1 / 8, rel=1e-2)


def test_geometry_of_a_random_batch_against_the_definitions() -> None:
    z = views(6, 4)
    got = measure_geometry(z)
    assert got.alignment == pytest.approx(sum(float((z[i] - z[i + 6]).pow(2).sum()) for i in range(6)) / 6)
    pairs = [math.exp(-2 * float((z[i] - z[j]).pow(2).sum())) for i, rows in negatives(z) for j in rows]
    assert got.uniformity == pytest.approx(math.log(sum(pairs) / len(pairs)))


def test_geometry_of_rows_that_are_known() -> None:
    axes = measure_geometry(torch.eye(4, dtype=torch.float64).repeat(2, 1))
    assert axes.effective_rank == pytest.approx(4)
    assert axes.alignment == 0
    assert axes.uniformity == pytest.approx(-4)  # rows of different images are sqrt(2) apart
    line = measure_geometry(torch.ones(8, 1, dtype=torch.float64))
    assert (line.effective_rank, line.uniformity) == pytest.approx((1, 0))


def test_rounding_error_is_relative_and_says_when_it_says_nothing() -> None:
    exact = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert rounding_error(exact + torch.tensor([0.0, 0.5]), exact) == pytest.approx(0.1)
    assert rounding_error(torch.zeros(2).double(), exact) == 1
    assert rounding_error(exact, torch.zeros(2).double()) is None
    assert rounding_error(exact * torch.inf, exact) is None
