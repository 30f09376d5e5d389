"""What every loss is: a module, so that a loss with running state is checkpointed like any other module."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from ablation.losses.kernel import Temperature, contrast


class ClosedForm(NamedTuple):
    """A batch whose value is known."""

    rows: Sequence[Sequence[float]]  # (2B, d); rows i and i + B are the views of image i
    temperature: float
    value: float


class Loss(nn.Module, ABC):
    """A loss on the two views of B images."""

    unit_rows: ClassVar[bool] = True  # False: z is given as the projection head leaves it
    sees_labels: ClassVar[bool] = False  # True: `forward` is given `labels`, the (B,) classes of the images
    closed_forms: Sequence[
        ClosedForm
    ] = ()  # of a loss at its default parameters; what `ablation.losses.conformance` checks

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


class FunctionLoss(Loss):
    """A plain function of rows of unit length and temperature, with its parameters, as a loss."""

    def __init__(self, function: Callable[..., Tensor], parameters: Mapping[str, Any]) -> None:
        super().__init__()
        self.function, self.parameters_given = function, dict(parameters)
        self.closed_forms = getattr(function, "closed_forms", ())

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        """See `Loss.forward`."""
        return self.function(z, temperature, **self.parameters_given)
