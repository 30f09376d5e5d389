"""What every loss is: a module, so that a loss with running state is checkpointed like any other module."""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from ablation.losses.kernel import Temperature, contrast


class Loss(nn.Module, ABC):
    """A loss on the two views of B images."""

    unit_rows: ClassVar[bool] = True  # False: z is given as the projection head leaves it
    sees_labels: ClassVar[bool] = False  # True: `forward` is given `labels`, the (B,) classes of the images

    @abstractmethod
    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """The value, a scalar; for most losses the mean over the 2B anchors.

        Logits, reductions and gradient have the dtype of `z`.

        Args:
            z: (2B, d) rows, of unit length unless `unit_rows` is False, B >= 2; rows i and i + B are the views of
                image i.
            temperature: above 0; a tensor without dimensions where it is learned.

        Raises:
            ValueError: the rows are odd in number or fewer than 4.
        """


class ContrastiveLoss(Loss):
    """A loss of every anchor's positive logit s_pos and of the logsumexp of its negatives, lse_neg; N anchors.

    v, xi, s_pos and lse_neg are those of `ablation.losses.kernel`.
    """

    @abstractmethod
    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: Temperature) -> Tensor:
        """The mean over the anchors, a scalar, of their statistics, each (N,)."""

    def of_logits(self, positive: Tensor, negatives: Tensor, temperature: Temperature) -> Tensor:
        """The same of logits that are at hand: `positive` (N,) and `negatives` (N, K), any K of them."""
        return self.of_statistics(negatives.logsumexp(1), positive, temperature)

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        return self.of_statistics(*contrast(z, temperature), temperature)
