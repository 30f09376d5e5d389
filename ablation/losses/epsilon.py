"""A bridge from InfoNCE to FlatNCE: log(eps + xi)."""

import math

from torch import Tensor

from ablation.losses.base import ContrastiveLoss
from ablation.losses.infonce import softplus
from ablation.losses.kernel import Temperature


class Epsilon(ContrastiveLoss):
    """log(eps + xi) = log eps + softplus(v - log eps): InfoNCE at eps = 1, FlatNCE's gradient as eps goes to 0.

    An anchor's gradient has weight xi / (eps + xi): 1 while xi >> eps, InfoNCE's divided by eps where xi << eps.
    """

    def __init__(self, eps: float = 1.0) -> None:
        super().__init__()
        self.log_eps = math.log(eps)

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_statistics`."""
        return (softplus(lse_neg - s_pos - self.log_eps) + self.log_eps).mean()
