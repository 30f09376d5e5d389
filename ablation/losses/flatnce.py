"""FlatNCE (arXiv:2107.01152): InfoNCE with every anchor's gradient divided by its own weight 1 - p_pos."""

import torch
from torch import Tensor

from ablation.losses.base import ContrastiveLoss
from ablation.losses.infonce import softplus
from ablation.losses.kernel import Temperature


class FlatNCE(ContrastiveLoss):
    """exp(v - sg v), sg stopping the gradient: constantly 1, with the gradient of v.

    A constant looks like a broken loss, so InfoNCE's value is reported in its place.
    """

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_statistics`."""
        v = lse_neg - s_pos
        return (torch.exp(v - v.detach()) - 1 + softplus(v.detach())).mean()


class FlatNCELog(ContrastiveLoss):
    """log xi = v: the same gradient, with a value that shows it. May be negative."""

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_statistics`."""
        return (lse_neg - s_pos).mean()
