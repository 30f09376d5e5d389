"""InfoNCE, in SimCLR's form NT-Xent (arXiv:2002.05709): -log(e^s_pos / (e^s_pos + sum over negatives e^s_ij))."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.losses.base import Loss
from ablation.losses.kernel import Temperature, count_images, log_xi


def softplus(v: Tensor) -> Tensor:
    """log(1 + e^v), exact in every dtype up to float64 (at torch's threshold of 20 the term left out is 2e-9)."""
    return F.softplus(v, threshold=40)


class InfoNCE(Loss):
    """log(1 + xi) = softplus(v). An anchor's gradient has weight sigmoid(v) = 1 - p_pos, which never cancels."""

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        return softplus(log_xi(z, temperature)).mean()


class InfoNCETextbook(Loss):
    """The same value as most code computes it: cross entropy of the dense logits, in the precision z comes in.

    The gradient at the positive logit is formed as p_pos - 1, which cancels when p_pos is near 1.
    """

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        images = count_images(z)
        logits = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
        positives = torch.arange(2 * images, device=z.device).roll(images)
        return F.cross_entropy(logits, positives)
