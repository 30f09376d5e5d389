"""What the loop logs beside a loss: how hard the contrast of a batch is. No gradients."""

import torch
from torch import Tensor

from ablation.losses.kernel import Temperature, log_xi


@torch.no_grad()
def p_positive(z: Tensor, temperature: Temperature) -> float:
    """Mean over the 2B anchors of 1 / (1 + xi), the softmax probability of the positive among all 2B - 1 candidates.

    `z` and `temperature` are those of `Loss.forward`.
    """
    return torch.sigmoid(-log_xi(z, temperature)).mean().item()
