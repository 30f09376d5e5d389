"""Barlow Twins (arXiv:2103.03230): a reference that contrasts features, not images."""

from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from ablation.losses.base import Loss
from ablation.losses.kernel import Temperature, count_images


class BarlowTwins(Loss):
    """sum (1 - C_ii)^2 + weight x sum over i != j of C_ij^2, C (d, d) the cross-correlation of the two views.

    Features are standardised over the batch, each view by itself, with batch norm's epsilon of 1e-5.
    """

    unit_rows: ClassVar[bool] = False

    def __init__(self, weight: float = 0.005) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`; the temperature plays no part."""
        images = count_images(z)
        first, second = (F.batch_norm(view, None, None, training=True) for view in z.chunk(2))
        correlations = first.T @ second / images
        on_diagonal = correlations.diagonal()
        redundancy = correlations.square().sum() - on_diagonal.square().sum()
        return (1 - on_diagonal).square().sum() + self.weight * redundancy
