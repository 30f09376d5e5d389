"""Decoupled contrastive learning (arXiv:2110.06848): InfoNCE without the positive in its denominator."""

from torch import Tensor

from ablation.losses.base import Loss
from ablation.losses.kernel import Temperature, contrast


class DCL(Loss):
    """-s_pos + log of the sum over negatives e^s_ij = v, with the 2B - 2 negatives of both views."""

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        lse_neg, s_pos = contrast(z, temperature)
        return (lse_neg - s_pos).mean()
