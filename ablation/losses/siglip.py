"""The pairwise sigmoid loss of SigLIP (arXiv:2303.15343), on the two views of an image: a reference."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablation.losses.base import Loss
from ablation.losses.kernel import Temperature, count_images


class SigLIP(Loss):
    """-1/B sum over i, j of log sigmoid(y_ij (s_ij + b)): view 1 against view 2, y_ij = 1 on the diagonal, else -1.

    The bias b is learned; it starts at -10, so that the B - 1 negatives of a row don't swamp its positive at first.
    """

    def __init__(self, bias: float = -10.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor(float(bias)))

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`; the mean over the B images of view 1."""
        images = count_images(z)
        logits = z[:images] @ z[images:].T / temperature + self.bias
        signs = 2 * torch.eye(images, dtype=z.dtype, device=z.device) - 1
        return -F.logsigmoid(signs * logits).sum() / images
