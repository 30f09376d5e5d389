"""How a run is carried out: what changes its seconds and bytes, and its numbers by no more than rounding."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from ablation.cell import Frozen, Pretraining
from ablation.errors import UserError
from ablation.host import free_memory, usable_cpus

WORTH_COMPILING = 20_000  # updates: compiling takes up to 25 seconds, and saves about a millisecond of each
USABLE = 0.7  # of the free memory, for activations: the backward pass needs some beside them


class Execution(Frozen):
    """How a run is to be carried out."""

    compile: bool | Literal["auto"] = False
    micro_batch: Annotated[int, Field(ge=1)] | Literal["auto", "all"] = "all"

    @classmethod
    def of(cls, resources: object) -> Self:
        """What a sweep file's `resources` ask for, among other things."""
        return cls.model_validate(resources, from_attributes=True)

    def check(self, device: torch.device) -> None:
        """Whether what is asked for can be had on `device`.

        Raises:
            UserError: `compile: true`, and there is no compiler.
        """
        if self.compile is True and not _has_compiler(device):
            missing = "a C++ compiler, g++ or what CXX names" if device.type == "cpu" else "Triton"
            raise UserError(f"resources.compile: true needs {missing}; install it, or write compile: auto")

    def compiles(self, run: Pretraining, device: torch.device) -> bool:
        """Whether the network of `run` is compiled for `device`.

        Raises:
            UserError: see `check`.
        """
        self.check(device)
        wanted = self.compile is True or (self.compile == "auto" and run.steps >= WORTH_COMPILING)
        return wanted and _has_compiler(device)

    def held(self, run: Pretraining, encoder: nn.Module, image_shape: tuple[int, ...]) -> int | None:
        """The images whose activations are kept at a time for the backward pass; None: the whole batch's are.

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
            with torch.autocast(views.device.type, torch.bfloat16, enabled=run.precision == "bfloat16"):
                needed = activation_bytes(encoder, views) * (run.batch_size // group)
            return group if needed > USABLE * _memory_of_a_trial(views.device) else None
        images = max(1, self.micro_batch // group) * group
        return images if images < run.batch_size else None


PLAIN = Execution()


def _has_compiler(device: torch.device) -> bool:
    """Whether Inductor finds what it needs to write kernels for the device."""
    if device.type != "cpu":
        return find_spec("triton") is not None
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        return False
    return True


def _memory_of_a_trial(device: torch.device) -> float:
    """Bytes that are free now: on a CPU, other trials run beside this one."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what earlier cells left counts as free
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
        # As long as the output lives, so does all that was noted, and no address comes twice.
        output = encoder(views.contiguous(memory_format=torch.channels_last))
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
