"""Checks on a GPU what other checks see on a CPU only: equal views, losses and steps, memory, and speed. A line each.

    python -m tests.benchmarks.gpu_check              all of it, in minutes; exits with 1 where a check fails
    python -m tests.benchmarks.gpu_check --parity cpu all but memory and speed, on a device by name

Without a GPU it says so, and checks nothing.
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch.nn import functional as F

from ablation import losses
from ablation.catalog import LOSSES
from ablation.cell import Component
from ablation.environment import default_device
from ablation.pretrain.execution import PLAIN, Execution
from ablation.pretrain.views import ViewMaker
from tests.benchmarks import bench_step, bench_views

CPU = torch.device("cpu")
SPEEDS = (("resnet8", 28, 1, 8), ("resnet8", 28, 1, 512), ("resnet18", 32, 3, 512), ("resnet50", 224, 3, 64))
UPDATES = 6
IMAGES = 65_536  # of the loss whose memory is measured
LIMIT = 2**30  # bytes, of that memory
AIM = 0.9  # of the bare step's speed, at the least

Finding = tuple[str, bool, str]  # what was checked, whether all is well, what was found


def views(device: torch.device) -> Iterator[Finding]:
    """The views of a step, here and on the CPU."""
    for recipe in bench_views.RECIPES:
        shape = (recipe.batch_size, recipe.channels, recipe.size, recipe.size)
        images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        channels = recipe.channels
        make = ViewMaker(recipe.views, recipe.size, channels, (0.0,) * channels, (1.0,) * channels, 0)
        worst = (make(images.to(device), 0).cpu() - make(images, 0)).abs().max().item()
        yield f"views, {recipe.title}, B {recipe.batch_size}", worst < 1e-4, f"differ by up to {worst:.1e}"


def value_and_gradient(loss: losses.Loss, rows: torch.Tensor) -> torch.Tensor:
    """In one row, in float64 on the CPU."""
    loss, z = loss.to(rows.device), rows.clone().requires_grad_()
    labels = {"labels": torch.arange(len(z) // 2, device=z.device) % 10} if loss.sees_labels else {}
    value = loss(z, 0.2, **labels)
    (gradient,) = torch.autograd.grad(value, z)
    return torch.cat((value.detach().view(1), gradient.flatten())).cpu().double()


def values(device: torch.device) -> Iterator[Finding]:
    """Every loss and its gradient in float32, against float64 on the CPU."""
    rows = F.normalize(torch.randn(512, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), dim=1)
    for name, description in LOSSES.items():
        parameters = {key: parameter.default for key, parameter in description.parameters.items()}
        loss = losses.build(Component(name=name, parameters=parameters))
        exact, found = (value_and_gradient(loss, z) for z in (rows, rows.to(device, torch.float32)))
        error = ((found - exact).norm() / exact.norm()).item()
        yield f"loss {name}", error < 1e-4, f"off by {error:.1e} of its norm"


def steps(device: torch.device) -> Iterator[Finding]:
    """Weights after some updates in float64, here and on the CPU; updates under autocast stay finite."""
    encoder = Component(name="resnet8", parameters={"width": 8})
    there, here = (bench_step.training(encoder, 16, 3, 16, d, precision="float64") for d in (CPU, device))
    for work in (there, here):
        for _ in range(UPDATES):
            work.advance()
    pairs = zip(there.encoder.parameters(), here.encoder.parameters(), strict=True)
    worst = max((a - b.cpu()).abs().max().item() for a, b in pairs)
    yield f"{UPDATES} updates in float64", worst < 1e-4, f"weights differ by up to {worst:.1e}"
    work = bench_step.training(encoder, 16, 3, 16, device, precision="bfloat16")
    for _ in range(UPDATES):
        work.advance()
    finite = all(bool(weight.isfinite().all()) for weight in work.encoder.parameters())
    yield f"{UPDATES} updates in bfloat16", finite, "finite" if finite else "not finite"


def executions(device: torch.device) -> Iterator[Finding]:
    """Weights after some updates in float64 that are compiled, or in micro-batches, and after plain ones."""
    encoder = Component(name="resnet8", parameters={"width": 8})
    ways = (("compiled", Execution(compile=True), None), ("in micro-batches", Execution(micro_batch=4), 4))
    for what, execution, norm_batch in ways:
        plain, other = (
            bench_step.training(encoder, 16, 3, 16, device, precision="float64", norm_batch=norm_batch, execution=way)
            for way in (PLAIN, execution)
        )
        for work in (plain, other):
            for _ in range(UPDATES):
                work.advance()
        pairs = zip(plain.encoder.parameters(), other.encoder.parameters(), strict=True)
        worst = max((a - b).abs().max().item() for a, b in pairs)
        yield (
            f"{UPDATES} updates {what}",
            worst < 1e-6,
            f"weights differ from plain ones by up to {worst:.1e}",
        )


def memory(device: torch.device) -> Iterator[Finding]:
    """What the loss of many images takes beyond their embeddings."""
    z = F.normalize(torch.randn(2 * IMAGES, 128, device=device), dim=1).requires_grad_()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    losses.build(Component(name="infonce"))(z, 0.1).backward()
    taken = torch.cuda.max_memory_allocated(device) - before
    yield f"memory of the loss at B {IMAGES:,}", taken <= LIMIT, f"{taken / 2**20:,.0f} MiB"


def speeds(device: torch.device) -> Iterator[Finding]:
    """Images/s of the whole step, and of the bare one, by turns."""
    cases = itertools.product(SPEEDS, (PLAIN, Execution(compile=True)))
    for (name, size, channels, batch_size), execution in cases:
        encoder = Component(name=name, parameters={"width": 16} if name == "resnet8" else {})
        work = bench_step.training(encoder, size, channels, batch_size, device, execution=execution)
        plain, count = bench_step.bare(work), max(5, 4096 // batch_size)

        def rate(step: Callable[[], None], images: int = count * batch_size, count: int = count) -> float:
            torch.cuda.synchronize(device)
            start = time.perf_counter()
            for _ in range(count):
                step()
            torch.cuda.synchronize(device)
            return images / (time.perf_counter() - start)

        for step in (work.advance, plain):
            rate(step)
        pairs = [(rate(work.advance), rate(plain)) for _ in range(5)]
        ratio = median(ours / bare for ours, bare in pairs)
        speed = median(ours for ours, _ in pairs)
        what = f"speed, {name}, {size} px, B {batch_size}{', compiled' if execution.compile else ''}"
        yield what, ratio >= AIM, f"{speed:,.0f} images/s, {ratio:.0%} of the bare step's"


def main() -> int:
    """Runs the checks; the exit code."""
    parity_only = sys.argv[1:2] == ["--parity"]
    device = torch.device(sys.argv[2]) if parity_only else default_device()
    if not parity_only and device.type != "cuda":
        print("This machine has no GPU that this build of PyTorch can use: nothing was checked.")
        return 0
    print(f"On {device}, torch {torch.__version__}")
    failed = 0
    parity = (views, values, steps, executions)
    for check in parity if parity_only else (*parity, memory, speeds):
        for what, well, found in check(device):
            print(f"{'ok    ' if well else 'FAILED'}  {what}: {found}", flush=True)
            failed += not well
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
