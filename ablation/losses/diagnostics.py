"""What the loop logs beside a loss: how hard the contrast of a batch is, and how the rows lie. No gradients.

Everything is computed in float64. Shapes and symbols are those of `ablation.losses.kernel`.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ablation.losses.infonce import softplus
from ablation.losses.kernel import Temperature, contrast, count_images, log_xi

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
UNIFORMITY_T = 2  # of arXiv:2005.10242


@dataclass(frozen=True)
class Contrast:
    """How hard the contrast of one batch is; means are over its 2B anchors."""

    log10_xi_mean: float
    log10_xi: tuple[float, ...]  # its `QUANTILES` over the anchors
    xi_below_1e3: float  # share of anchors with xi < 1e-3
    xi_below_1e7: float
    ess: float  # mean effective sample size of the negatives' softmax, over 2B - 2
    mi_bound: float  # nats: log(2B - 1) - InfoNCE
    mi_closeness: float  # the same over its limit log(2B - 1)


@dataclass(frozen=True)
class Geometry:
    """How rows of unit length lie."""

    alignment: float  # mean squared distance of the two views
    uniformity: float  # log of the mean of e^(-2 distance^2), over rows of different images
    effective_rank: float  # at most min(2B, d)


@torch.no_grad()
def p_positive(z: Tensor, temperature: Temperature) -> float:
    """Mean over the 2B anchors of 1 / (1 + xi), the softmax probability of the positive among all 2B - 1 candidates.

    `z` and `temperature` are those of `Loss.forward`.
    """
    return torch.sigmoid(-log_xi(z, temperature)).mean().item()


@torch.no_grad()
def effective_sample_size(z: Tensor, temperature: Temperature) -> Tensor:
    """Mean over the anchors of 1 / sum w^2, w the softmax of the negatives, over 2B - 2: in [1 / (2B - 2), 1]."""
    return _effective_sample_size(contrast(z, temperature)[0], z, temperature)


def _effective_sample_size(lse_neg: Tensor, z: Tensor, temperature: Temperature) -> Tensor:
    lse_twice, _ = contrast(z, temperature / 2)  # at half the temperature every e^s is squared
    return (2 * lse_neg - lse_twice).exp().mean() / (len(z) - 2)


@torch.no_grad()
def measure_contrast(z: Tensor, temperature: float) -> Contrast:
    """Of (2B, d) rows of unit length, in float64."""
    lse_neg, s_pos = contrast(z, temperature)
    v = lse_neg - s_pos
    log10 = v / math.log(10)
    limit = math.log(len(z) - 1)
    bound = limit - softplus(v).mean().item()
    return Contrast(
        log10_xi_mean=log10.mean().item(),
        log10_xi=tuple(log10.quantile(log10.new_tensor(QUANTILES)).tolist()),
        xi_below_1e3=(log10 < -3).double().mean().item(),
        xi_below_1e7=(log10 < -7).double().mean().item(),
        ess=_effective_sample_size(lse_neg, z, temperature).item(),
        mi_bound=bound,
        mi_closeness=bound / limit,
    )


@torch.no_grad()
def measure_geometry(z: Tensor) -> Geometry:
    """Alignment and uniformity (arXiv:2005.10242), effective rank (RankMe, arXiv:2210.02885), in float64."""
    images = count_images(z)
    # For unit rows e^(-t |a - b|^2) = e^(2t cos - 2t): a logsumexp of negatives at the temperature 1 / 2t.
    lse_neg, _ = contrast(z, 1 / (2 * UNIFORMITY_T))
    pairs = len(z) * (len(z) - 2)
    shares = torch.linalg.svdvals(z)
    shares = shares / shares.sum()
    return Geometry(
        alignment=(z[:images] - z[images:]).square().sum(1).mean().item(),
        uniformity=lse_neg.logsumexp(0).item() - math.log(pairs) - 2 * UNIFORMITY_T,
        effective_rank=torch.special.entr(shares).sum().exp().item(),
    )


def rounding_error(gradient: Tensor, exact: Tensor) -> float | None:
    """|gradient - exact| / |exact|, both float64; None where the gradient is not finite or the exact one is 0."""
    scale = exact.norm()
    error = (gradient - exact).norm() / scale
    return error.item() if error.isfinite() else None
