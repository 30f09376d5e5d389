"""Embeddings with a given spread and alignment, to put a loss into any regime without training."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.numerics.rounding import Case
from ablation.pretrain.random import stream


def embeddings(images: int, *, spread: float, alignment: float, seed: int) -> Tensor:
    """(2 images, d) rows of unit length, float32 values in float64: what a float32 network could have given.

    Args:
        images: B.
        spread: standard deviation of the cosine of two images, above 0 and at most 1; d is 1 / spread^2, rounded.
        alignment: cosine of the two views of an image, in [-1, 1].
        seed: of the draw.
    """
    d = max(2, round(1 / spread**2))  # the cosine of two random directions has variance 1 / d
    drawn = stream(seed, "numerics").standard_normal((2, images, d))
    first, noise = F.normalize(torch.from_numpy(drawn), dim=2)
    across = F.normalize(noise - (noise * first).sum(1, keepdim=True) * first, dim=1)
    second = alignment * first + np.sqrt(1 - alignment**2) * across
    return torch.cat((first, second)).float().double()


def cases(
    batch_sizes: Sequence[int],
    temperatures: Sequence[float],
    alignments: Sequence[float],
    spread: float,
    batches: int,
) -> Iterator[Case]:
    """A case for every combination, each of `batches` draws."""
    for temperature in temperatures:
        for alignment in alignments:
            for size in batch_sizes:
                drawn = [embeddings(size, spread=spread, alignment=alignment, seed=seed) for seed in range(batches)]
                yield Case(f"alignment {alignment:g}", temperature, drawn)
