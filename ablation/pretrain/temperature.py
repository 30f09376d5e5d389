"""The temperature of a run: fixed, learned, or steered by the effective sample size. State that is checkpointed."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ablation.cell import Component
from ablation.losses.diagnostics import effective_sample_size
from ablation.losses.kernel import Temperature


class Fixed(nn.Module):
    """The same number throughout."""

    def __init__(self, initial: float) -> None:
        super().__init__()
        self.initial = initial

    def forward(self) -> Temperature:
        """The temperature of the next update."""
        return self.initial

    def adapt(self, z: Tensor) -> None:
        """After an update on the rows `z` (2B, d), of unit length."""


class Learned(Fixed):
    """log(1 / temperature) is a weight like others, without decay, put back into its range after every update.

    Losses that are linear in v = log xi push 1 / temperature up without end: for them the minimum is what they find.
    """

    def __init__(self, initial: float, minimum: float, maximum: float) -> None:
        super().__init__(initial)
        self._range = (-math.log(maximum), -math.log(minimum))
        self.log_scale = nn.Parameter(torch.tensor(-math.log(initial)))

    def forward(self) -> Temperature:
        """See `Fixed.forward`."""
        return (-self.log_scale).exp()

    @torch.no_grad()
    def adapt(self, z: Tensor) -> None:
        """See `Fixed.adapt`."""
        self.log_scale.clamp_(*self._range)


class EffectiveSampleSize(Fixed):
    """Raises log(1 / temperature) by rate x (ESS - target) an update, within its range (arXiv:2107.01152).

    The ESS, in (0, 1], is that of the negatives' softmax weights, and falls as 1 / temperature grows.
    """

    log_scale: Tensor

    def __init__(self, initial: float, target: float, rate: float, minimum: float, maximum: float) -> None:
        super().__init__(initial)
        self._target, self._rate = target, rate
        self._range = (-math.log(maximum), -math.log(minimum))
        self.register_buffer("log_scale", torch.tensor(-math.log(initial)))

    def forward(self) -> Temperature:
        """See `Fixed.forward`."""
        return (-self.log_scale).exp()

    @torch.no_grad()
    def adapt(self, z: Tensor) -> None:
        """See `Fixed.adapt`."""
        excess = effective_sample_size(z, self()).to(self.log_scale.dtype) - self._target
        self.log_scale.add_(self._rate * excess).clamp_(*self._range)


_CONTROLS: Mapping[str, Callable[..., Fixed]] = {"fixed": Fixed, "learned": Learned, "ess": EffectiveSampleSize}


def build_temperature(component: Component, initial: float) -> Fixed:
    """The control that `ablation.catalog.TEMPERATURES` describes, starting at `initial`."""
    return _CONTROLS[component.name](initial, **component.parameters)
