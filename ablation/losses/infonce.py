"""InfoNCE, in SimCLR's form NT-Xent (arXiv:2002.05709): -log(e^s_pos / (e^s_pos + sum over negatives e^s_ij))."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.losses.base import ContrastiveLoss
from ablation.losses.kernel import Temperature, count_images


def softplus(v: Tensor) -> Tensor:
    """log(1 + e^v), exact in every dtype up to float64 (at torch's threshold of 20 the term left out is 2e-9)."""
    return F.softplus(v, threshold=40)


class InfoNCE(ContrastiveLoss):
    """log(1 + xi) = softplus(v). An anchor's gradient has weight sigmoid(v) = 1 - p_pos, which never cancels."""

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_statistics`."""
        return softplus(lse_neg - s_pos).mean()


class InfoNCETextbook(ContrastiveLoss):
    """The same value as most code computes it: cross entropy of the dense logits.

    The gradient at the positive logit is formed as p_pos - 1, which cancels when p_pos is near 1.
    """

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """The negatives as one logit: see `ContrastiveLoss.of_statistics`."""
        return self.of_logits(s_pos, lse_neg[:, None], temperature)

    def of_logits(self, positive: Tensor, negatives: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_logits`."""
        logits = torch.cat((positive[:, None], negatives), dim=1)
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        images = count_images(z)
        logits = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
        positives = torch.arange(2 * images, device=z.device).roll(images)
        return F.cross_entropy(logits, positives)


class InfoNCERescaled(ContrastiveLoss):
    """softplus(v) / m, with m the running mean of the anchors' weights 1 - p_pos: no gradient flows through m.

    A control for FlatNCE: it undoes the shrinking of InfoNCE's gradient as a whole, but not anchor by anchor. m is an
    exponential average over updates, corrected for its start at 0 as in Adam; evaluation mode leaves it as it is.
    """

    total: Tensor
    share: Tensor

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("total", torch.zeros(()))  # m x share
        self.register_buffer("share", torch.zeros(()))  # how much of the average is measured: 1 - decay^updates

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """See `ContrastiveLoss.of_statistics`."""
        v = lse_neg - s_pos
        weight = torch.sigmoid(v.detach()).mean()
        if self.training:
            self.total.lerp_(weight.to(self.total.dtype), 1 - self.decay)
            self.share.lerp_(torch.ones_like(self.share), 1 - self.decay)
        mean = torch.where(self.share > 0, self.total / self.share, weight.to(self.total.dtype))
        return softplus(v).mean() / mean.to(v.dtype)
