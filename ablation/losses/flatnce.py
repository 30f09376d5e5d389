"""FlatNCE (arXiv:2107.01152): InfoNCE with every anchor's gradient divided by its own weight 1 - p_pos."""

import torch
from torch import Tensor

from ablation.losses.base import Loss
from ablation.losses.infonce import softplus
from ablation.losses.kernel import Temperature, log_xi


class FlatNCE(Loss):
    """exp(v - sg v), sg stopping the gradient: constantly 1, with the gradient of v.

    A constant looks like a broken loss, so InfoNCE's value is reported in its place.
    """

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        v = log_xi(z, temperature)
        return (torch.exp(v - v.detach()) - 1 + softplus(v.detach())).mean()


class FlatNCELog(Loss):
    """log xi = v: the same gradient, with a value that shows it. May be negative."""

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        return log_xi(z, temperature).mean()
