"""VICReg (arXiv:2105.04906): variance, invariance and covariance; a reference without negatives."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.losses.base import Loss
from ablation.losses.kernel import Temperature, count_images


class VICReg(Loss):
    """invariance x mse(view 1, view 2) + variance x hinge of the features' deviations + covariance x off-diagonals.

    As the authors' code has it: the mean squared error is over images and features, the hinge max(0, 1 - sd) with
    sd = sqrt(var + 1e-4) the mean over features and views, the squared covariances a sum over both views, over d.
    """

    unit_rows: ClassVar[bool] = False

    def __init__(self, invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0) -> None:
        super().__init__()
        self.invariance, self.variance, self.covariance = invariance, variance, covariance

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`; the temperature plays no part."""
        images = count_images(z)
        views = z.view(2, images, -1)
        centred = views - views.mean(1, keepdim=True)
        deviations = (centred.square().sum(1) / (images - 1) + 1e-4).sqrt()
        covariances = centred.mT @ centred / (images - 1)
        off_diagonals = covariances.square().sum() - covariances.diagonal(dim1=1, dim2=2).square().sum()
        return (
            self.invariance * F.mse_loss(views[0], views[1])
            + self.variance * torch.relu(1 - deviations).mean()
            + self.covariance * off_diagonals / z.shape[1]
        )
