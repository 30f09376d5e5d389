"""Features h of a frozen encoder, and the guard that it is frozen indeed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ablation.pretrain.encoder import weights_hash
from ablation.pretrain.stored import Pixels, Stored

CHUNK = 256  # images a forward pass; fixed, since kernels may round differently at another size


class Labelled(NamedTuple):
    """Features (N, D) in float32 and their labels (N,) in int64, on one device."""

    features: Tensor
    labels: Tensor

    def joined(self, other: "Labelled") -> "Labelled":
        """These rows, then the other's."""
        return Labelled(torch.cat((self.features, other.features)), torch.cat((self.labels, other.labels)))


@contextmanager
def frozen(encoder: nn.Module) -> Iterator[None]:
    """Holds the encoder in eval mode without gradients, then puts every submodule's training flag back.

    Raises:
        RuntimeError: a parameter or buffer changed meanwhile, such as a running mean of batch norm.
    """
    flags = [(module, module.training) for module in encoder.modules()]
    before = weights_hash(encoder)
    try:
        with torch.no_grad():
            encoder.eval()
            yield
    finally:
        for module, training in flags:
            module.training = training
    if weights_hash(encoder) != before:
        raise RuntimeError("the frozen encoder's parameters or buffers changed; is a batch norm in training mode?")


def extract(
    encoder: nn.Module,
    images: Pixels | Stored | Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    device: torch.device,
) -> Tensor:
    """The features (N, D), float32 on `device`, of uint8 images (N, C, H, W): scaled to [0, 1], normalised, no crop.

    The encoder is used as it is: see `frozen`. Only `CHUNK` images at a time exist as floats.

    Raises:
        FloatingPointError: a feature is not finite.
    """
    shift, scale = (torch.tensor(values, device=device).view(1, -1, 1, 1) for values in (mean, std))
    chunks = []
    with torch.inference_mode():
        for start in range(0, len(images), CHUNK):
            pixels = _on(device, images[start : start + CHUNK]).contiguous(memory_format=torch.channels_last)
            chunks.append(encoder((pixels.float() / 255 - shift) / scale).float())
    features = torch.cat(chunks)  # out of inference mode, so that autograd may use it
    if not features.isfinite().all():
        raise FloatingPointError("the encoder's features are not finite")
    return features


def _on(device: torch.device, images: Pixels | Stored | Tensor) -> Tensor:
    # An array is copied: it may be read-only shared memory, which torch does not like to wrap.
    return images.to(device) if isinstance(images, Tensor) else torch.tensor(np.asarray(images), device=device)
