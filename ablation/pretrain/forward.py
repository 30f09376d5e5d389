"""The forward pass of an update: views -> encoder -> projection head -> rows -> loss, carried out as asked."""

import logging
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ablation.catalog import LOSSES
from ablation.cell import Pretraining
from ablation.pretrain.encoder import Encoder
from ablation.pretrain.execution import Execution, statistics_kept
from ablation.pretrain.objective import Objective

P = ParamSpec("P")
T = TypeVar("T")
Pass = Callable[[Tensor, Tensor, Tensor | None, int], tuple[Tensor, Tensor]]


class Forward:
    """Gives rows z (2B, d) and loss for views (2B, C, S, S) and labels (B,) of update `step`, counted from 0.

    `nudge` (2B, d), of zeros, is added to z where it is given: its gradient is that of the loss at z. Where
    `takes_nudge`, it always must be, since what is compiled has one form.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        objective: Objective,
        recipe: Pretraining,
        execution: Execution,
        *,
        image_shape: tuple[int, ...],
        device: torch.device,
    ) -> None:
        self._encoder, self._head, self._objective = encoder, head, objective
        self._recipe, self._device = recipe, device
        self._encode: Callable[[Tensor], Tensor] = encoder
        self._pass: Pass = self._whole
        self.compiled = execution.compiles(recipe, device)
        self.micro_batch = execution.held(recipe, encoder, image_shape)
        self.takes_nudge = self.compiled and _compilable(recipe)
        if self.takes_nudge:
            self._pass = _compiled(self._whole, device, graphs=True)
        elif self.compiled:
            self._encode = _compiled(encoder, device, graphs=False)

    def __call__(self, views: Tensor, labels: Tensor, nudge: Tensor | None, step: int) -> tuple[Tensor, Tensor]:
        """The pass of one update: (z, loss)."""
        # A compiled pass is compiled anew for every number; none that may be compiled depends on the step.
        return self._pass(views, labels, nudge, 0 if self.takes_nudge else step)

    def _whole(self, views: Tensor, labels: Tensor, nudge: Tensor | None, step: int) -> tuple[Tensor, Tensor]:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._recipe.precision == "bfloat16"):
            output = self._head(self._features(views))
        z = self._objective.rows(output)
        if nudge is not None:
            z = z + nudge
        return z, self._objective(z, labels, step)

    def _features(self, views: Tensor) -> Tensor:
        """(2B, features); activations beyond those of a micro-batch are computed again for the backward pass."""
        if self._recipe.norm_batch is None:
            return self._encode(views)
        pairs = views.view(2, -1, *views.shape[1:])
        if self.micro_batch is None:
            return self._in_groups(pairs).flatten(0, 1)
        parts = pairs.split(self.micro_batch, dim=1)  # type: ignore[no-untyped-call]
        features = [
            checkpoint(self._in_groups, part, use_reentrant=False, preserve_rng_state=False, context_fn=self._contexts)
            for part in parts
        ]
        return torch.cat(features, dim=1).flatten(0, 1)

    def _in_groups(self, pairs: Tensor) -> Tensor:
        """(2, n, features) of both views of n images, (2, n, C, S, S), with batch norm group by group."""
        groups = pairs.split(self._recipe.norm_batch, dim=1)  # type: ignore[no-untyped-call]
        features = [self._encode(group.flatten(0, 1)).view(2, group.shape[1], -1) for group in groups]
        return torch.cat(features, dim=1)

    def _contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """Of the forward pass, and of what is computed again, which must not count in running statistics twice."""
        return nullcontext(), statistics_kept(self._encoder)


def _compilable(recipe: Pretraining) -> bool:
    """Whether the whole pass may be compiled as one, the loss with the network; else it is the encoder alone.

    Not a loss whose arithmetic in half precision is under test, since a compiler widens what it fuses; nor one that
    draws negatives or that the user wrote, whose Python is not known; nor a batch in parts, which would be unrolled.
    """
    exact = recipe.loss_dtype in ("float32", "float64") and not recipe.gradient_scaling
    return exact and recipe.negatives is None and recipe.norm_batch is None and recipe.loss.name in LOSSES


def _compiled(function: Callable[P, T], device: torch.device, *, graphs: bool) -> Callable[P, T]:
    """`function` compiled at its first call, for fixed shapes; with `graphs`, as a CUDA graph where there is CUDA."""
    torch.compiler.reset()  # it counts what the process compiled for earlier cells, and gives up at the eighth
    options: dict[str, str | int | bool | Callable[..., object]] = {"compile_threads": torch.get_num_threads()}
    if graphs and device.type == "cuda":
        options["triton.cudagraphs"] = True
    warnings.filterwarnings("ignore", module=r"torch\.")  # from now on: of torch about torch
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it has no CUDA, which is no news on a CPU
    return torch.compile(function, dynamic=False, options=options)
