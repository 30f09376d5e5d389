"""From the head's output to the number that is minimised: rows, temperature, dtype and negatives of a recipe."""

from copy import deepcopy
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ablation import losses
from ablation.cell import Pretraining
from ablation.errors import UserError
from ablation.losses import ContrastiveLoss
from ablation.losses.kernel import drawn_logits
from ablation.pretrain.random import stream
from ablation.pretrain.temperature import build_temperature


class Objective(nn.Module):
    """The loss of a recipe with its state and temperature; `step` counts updates from 0."""

    def __init__(self, recipe: Pretraining, seed: int) -> None:
        super().__init__()
        self.loss = losses.build(recipe.loss)
        self.temperature = build_temperature(recipe.temperature_control, recipe.temperature)
        self.dtype: torch.dtype = getattr(torch, recipe.loss_dtype)
        self._negatives, self._seed = recipe.negatives, seed
        if recipe.negatives is not None and not isinstance(self.loss, ContrastiveLoss):
            raise UserError(f"loss {recipe.loss.name}: has no negatives of an anchor to draw {recipe.negatives} from")

    def rows(self, output: Tensor) -> Tensor:
        """The rows z that the loss is a function of: `output` (2B, d) of the head, normalised, at least float32."""
        z = _at_least_float32(output)
        return F.normalize(z, dim=1) if self.loss.unit_rows else z

    def unit(self, z: Tensor) -> Tensor:
        """`z` with rows of unit length."""
        return z if self.loss.unit_rows else F.normalize(z, dim=1)

    def forward(self, z: Tensor, labels: Tensor, step: int) -> Tensor:
        """The value, at least float32, of rows z (2B, d); logits and reductions are in the recipe's dtype."""
        z, temperature = z.to(self.dtype), self.temperature()
        if self._negatives is not None:
            assert isinstance(self.loss, ContrastiveLoss)
            chosen = torch.from_numpy(draw_negatives(self._seed, step, len(z) // 2, self._negatives)).to(z.device)
            value = self.loss.of_logits(*drawn_logits(z, temperature, chosen), temperature)
        elif self.loss.sees_labels:
            value = self.loss(z, temperature, labels=labels)
        else:
            value = self.loss(z, temperature)
        return _at_least_float32(value)

    def exact(self) -> Self:
        """A copy that computes in float64 and keeps its state."""
        copy = deepcopy(self).double().eval()
        copy.dtype = torch.float64
        return copy


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def draw_negatives(seed: int, step: int, images: int, count: int) -> NDArray[np.int64]:
    """(2 images, count): for each anchor distinct rows of other images, ascending; a function of its arguments."""
    others = images - 1
    keys = stream(seed, "negatives", step).random((2 * images, 2 * others))
    drawn = np.sort(np.argpartition(keys, count - 1, axis=1)[:, :count], axis=1)
    view, image = np.divmod(drawn, others)
    own = np.arange(2 * images)[:, None] % images
    rows: NDArray[np.int64] = view * images + image + (image >= own)
    return rows
