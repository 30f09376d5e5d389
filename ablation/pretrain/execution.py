"""How a run is carried out: what changes its seconds and bytes, and its numbers by no more than rounding."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor, nn

from ablation.cell import Frozen, Pretraining
from ablation.errors import UserError
from ablation.host import free_memory, usable_cpus

WORTH_COMPILING = 20_000  # updates: compiling takes 2 to 25 seconds, and saves about a millisecond of each
USABLE = 0.7  # of the free memory, for activations: the backward pass needs some beside them


class Execution(Frozen):
    """What a sweep file asks for under `resources`."""

    compile: bool | Literal["auto"] = False
    micro_batch: int | Literal["auto", "all"] = "all"

    def compiles(self, run: Pretraining, device: torch.device) -> bool:
        """Whether the network of `run` is compiled for `device`.

        Raises:
            UserError: it was asked for, and there is no compiler.
        """
        able = find_spec("triton") is not None if device.type != "cpu" else _cpp_compiler() is not None
        if self.compile is True and not able:
            missing = "a C++ compiler (g++, clang++, or what CXX names)" if device.type == "cpu" else "triton"
            raise UserError(f"compile: true needs {missing} here; install it, or write compile: auto")
        return able and (self.compile is True or (self.compile == "auto" and run.steps >= WORTH_COMPILING))

    def held(self, run: Pretraining, encoder: nn.Module, image_shape: tuple[int, ...]) -> int | None:
        """Of how many images activations are kept for the backward pass; None: of the whole batch.

        Batch norm must not span more than a micro-batch, so that without groups of `norm_batch` the batch stays whole.

        Args:
            run: the recipe.
            encoder: on its device, in training mode.
            image_shape: (C, S, S).
        """
        group = run.norm_batch
        if group is None or self.micro_batch == "all":
            return None
        if self.micro_batch == "auto":
            views = next(encoder.parameters()).new_zeros(2 * group, *image_shape)
            needed = activation_bytes(encoder, views) * (run.batch_size // group)
            return group if needed > USABLE * _memory_of_a_trial(views.device) else None
        images = max(1, self.micro_batch // group) * group
        return images if images < run.batch_size else None


PLAIN = Execution()


def _cpp_compiler() -> str | None:
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))), None)


def _memory_of_a_trial(device: torch.device) -> float:
    """Bytes: on a CPU, other trials run beside this one."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_memory() / max(1, usable_cpus() // torch.get_num_threads())


def activation_bytes(encoder: nn.Module, views: Tensor) -> int:
    """What a forward pass of `views` (N, C, S, S) keeps for its backward pass, beside the weights."""
    weights = {tensor.untyped_storage().data_ptr() for tensor in (*encoder.parameters(), *encoder.buffers())}
    found: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with statistics_kept(encoder), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = encoder(views.contiguous(memory_format=torch.channels_last))
        # as long as it lives, so does all that was noted, and no address comes twice
    del output
    return sum(found.values())


@contextmanager
def statistics_kept(module: nn.Module) -> Iterator[None]:
    """Leaves the running statistics of batch norm as they were."""
    kept = [buffer.clone() for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, before in zip(module.buffers(), kept, strict=True):
            buffer.copy_(before)
