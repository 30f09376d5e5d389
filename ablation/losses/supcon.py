"""Supervised contrastive learning (arXiv:2004.11362): a reference that sees labels."""

from typing import ClassVar

import torch
from torch import Tensor

from ablation.losses.base import Loss
from ablation.losses.kernel import Temperature, count_images


class SupCon(Loss):
    """Every row of the anchor's class is a positive; the mean of their log-probabilities, outside the log (L_out).

    -1/|P(i)| sum over p in P(i) of log(e^s_ip / sum over a != i of e^s_ia). With all labels different it is InfoNCE.
    """

    sees_labels: ClassVar[bool] = True

    def forward(self, z: Tensor, temperature: Temperature, labels: Tensor | None = None) -> Tensor:
        """See `Loss.forward`; without `labels`, (B,), every image is a class of its own. Forms the dense logits."""
        images = count_images(z)
        labels = torch.arange(images, device=z.device) if labels is None else labels
        logits = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
        classes = labels.repeat(2)
        same = (classes[:, None] == classes).fill_diagonal_(fill_value=False)
        cross_entropies = logits.logsumexp(1, keepdim=True) - logits
        return (cross_entropies.masked_fill(~same, 0).sum(1) / same.sum(1)).mean()
