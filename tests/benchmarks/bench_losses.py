"""Forward + backward of InfoNCE on the kernel against two dense forms, as ratios of times (> 1: the kernel is faster).

    python tests/benchmarks/bench_losses.py [B ...]          by default 8 64 512 2048; d is 128, float32, one thread

Runs alternate, so that a busy machine slows all forms alike; a ratio is of neighbouring runs. Shown: min/median/max.
"""

import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.cell import Component
from ablation.losses import build

RUNS = 9
SECONDS = 0.1  # of one run, at least two calls
DIMENSIONS = 128
TEMPERATURE = 0.1

Form = Callable[[Tensor, float], Tensor]

kernel: Form = build(Component(name="infonce"))


def dense_cross_entropy(z: Tensor, temperature: float) -> Tensor:
    """Cross entropy of the dense logits with self masked."""
    n = len(z)
    logits = (z @ z.T / temperature).masked_fill(torch.eye(n, dtype=torch.bool, device=z.device), -torch.inf)
    return F.cross_entropy(logits, torch.arange(n, device=z.device).roll(n // 2))


def mask_and_gather(z: Tensor, temperature: float) -> Tensor:
    """Positives and negatives gathered from the dense matrix by boolean masks, then cross entropy with label 0."""
    n = len(z)
    same = torch.eye(n // 2, dtype=torch.bool, device=z.device).repeat(2, 2)
    positive = same & ~torch.eye(n, dtype=torch.bool, device=z.device)
    similarity = z @ z.T
    logits = torch.cat((similarity[positive].view(n, 1), similarity[~same].view(n, n - 2)), dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(n, dtype=torch.long, device=z.device))


def seconds(form: Form, z: Tensor, calls: int) -> float:
    """Of one forward + backward, the mean of `calls`."""
    start = time.perf_counter()
    for _ in range(calls):
        z.grad = None
        form(z, TEMPERATURE).backward()  # type: ignore[no-untyped-call]
    return (time.perf_counter() - start) / calls


def compare(images: int, other: Form) -> Iterator[tuple[float, float]]:
    """Seconds of the kernel and of the other form, run after run."""
    generator = torch.Generator().manual_seed(0)
    z = F.normalize(torch.randn(2 * images, DIMENSIONS, generator=generator), dim=1).requires_grad_()
    torch.testing.assert_close(kernel(z, TEMPERATURE), other(z, TEMPERATURE))
    calls = max(2, round(SECONDS / max(seconds(form, z, 2) for form in (kernel, other))))
    for _ in range(RUNS):
        yield seconds(kernel, z, calls), seconds(other, z, calls)


def main() -> None:
    """Print a line per batch size and form."""
    torch.set_num_threads(1)
    for images in [int(argument) for argument in sys.argv[1:]] or [8, 64, 512, 2048]:
        for other in (dense_cross_entropy, mask_and_gather):
            runs = list(compare(images, other))
            ratios = [theirs / ours for ours, theirs in runs]
            sys.stdout.write(
                f"B {images:5}  kernel {min(ours for ours, _ in runs) * 1e3:9.3f} ms   {other.__name__:20} / kernel  "
                f"{min(ratios):5.2f} / {median(ratios):5.2f} / {max(ratios):5.2f}\n"
            )


if __name__ == "__main__":
    main()
