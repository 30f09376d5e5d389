"""Decoupled contrastive learning (arXiv:2110.06848): InfoNCE without the positive in its denominator."""

from torch import Tensor

from ablation.losses.base import ContrastiveLoss
from ablation.losses.kernel import Temperature


class DCL(ContrastiveLoss):
    """-s_pos + log of the sum over negatives e^s_ij = v, with the 2B - 2 negatives of both views."""

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_statistics`."""
        return (lse_neg - s_pos).mean()


class DCLW(ContrastiveLoss):
    """lse_neg - w s_pos, w = 2 - e^(c / sigma) / mean e^(c / sigma) with c the positive's cosine (section 4 there).

    Pairs that are far apart weigh more; the mean of w is 1, and no gradient flows through it.
    """

    def __init__(self, sigma: float = 0.5) -> None:
        super().__init__()
        self.sigma = sigma

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_statistics`."""
        cosines = (s_pos * temperature).detach()
        weight = 2 - len(s_pos) * (cosines / self.sigma).softmax(0)
        return (lse_neg - weight * s_pos).mean()
