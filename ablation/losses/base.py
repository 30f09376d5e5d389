"""What every loss is: a module, so that a loss with running state is checkpointed like any other module."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from ablation.losses.kernel import Temperature


class Loss(nn.Module, ABC):
    """A loss on the two views of B images; v, xi, s_pos and lse_neg are those of `ablation.losses.kernel`."""

    @abstractmethod
    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """The mean over the 2B anchors, a scalar.

        Args:
            z: (2B, d) rows of unit length, B >= 2; rows i and i + B are the views of image i.
            temperature: above 0; a tensor without dimensions where it is learned.

        Raises:
            ValueError: the rows are odd in number or fewer than 4.
        """
