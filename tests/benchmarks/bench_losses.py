"""Forward + backward of InfoNCE on the kernel against two dense forms, as ratios of times (> 1: the kernel is faster).

    python -m tests.benchmarks.bench_losses [B ...]          by default 8 64 512 2048; d is 128, float32, one thread

Runs alternate; a ratio is of neighbouring runs. Shown: min/median/max, of this thread's processor time, so that a busy
machine changes little. `--memory` shows instead what the loss of 65,536 images takes beyond their
embeddings: minutes.
"""

import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.cell import Component
from ablation.environment import peak_memory, reset_peak_memory
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
    """Self, then positives and negatives taken out of the dense matrix by boolean masks, as most SimCLR code does."""
    n = len(z)
    image = torch.arange(n // 2, device=z.device).repeat(2)
    other = ~torch.eye(n, dtype=torch.bool, device=z.device)
    same = (image[None] == image[:, None])[other].view(n, n - 1)
    similarity = (z @ z.T)[other].view(n, n - 1)
    logits = torch.cat((similarity[same].view(n, 1), similarity[~same].view(n, n - 2)), dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(n, dtype=torch.long, device=z.device))


def seconds(form: Form, z: Tensor, calls: int) -> float:
    """Of one forward + backward, the mean of `calls`."""
    start = time.thread_time()
    for _ in range(calls):
        z.grad = None
        form(z, TEMPERATURE).backward()  # type: ignore[no-untyped-call]
    return (time.thread_time() - start) / calls


def compare(images: int, other: Form) -> Iterator[tuple[float, float]]:
    """Seconds of the kernel and of the other form, run after run."""
    generator = torch.Generator().manual_seed(0)
    z = F.normalize(torch.randn(2 * images, DIMENSIONS, generator=generator), dim=1).requires_grad_()
    torch.testing.assert_close(kernel(z, TEMPERATURE), other(z, TEMPERATURE))
    calls = max(2, round(SECONDS / max(seconds(form, z, 2) for form in (kernel, other))))
    for _ in range(RUNS):
        yield seconds(kernel, z, calls), seconds(other, z, calls)


def memory(images: int) -> int:
    """Bytes at the peak of one forward + backward of the kernel, beyond the embeddings."""
    z = F.normalize(torch.randn(2 * images, DIMENSIONS), dim=1).requires_grad_()
    cpu = torch.device("cpu")
    reset_peak_memory(cpu)
    before = peak_memory(cpu)
    kernel(z, TEMPERATURE).backward()  # type: ignore[no-untyped-call]
    after = peak_memory(cpu)
    assert before is not None
    assert after is not None
    return after - before


def main() -> None:
    """Print a line per batch size and form."""
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--memory"]:
        for images in [int(argument) for argument in sys.argv[2:]] or [65_536]:
            print(f"B {images:6}  {memory(images) / 2**20:,.0f} MiB beyond the embeddings", flush=True)
        return
    for images in [int(argument) for argument in sys.argv[1:]] or [8, 64, 512, 2048]:
        for other in (dense_cross_entropy, mask_and_gather):
            runs = list(compare(images, other))
            ratios = [theirs / ours for ours, theirs in runs]
            print(
                f"B {images:5}  kernel {min(ours for ours, _ in runs) * 1e3:9.3f} ms   {other.__name__:20} / kernel  "
                f"{min(ratios):5.2f} / {median(ratios):5.2f} / {max(ratios):5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
