"""Samples/s of a trial's training against a plain script of lightly's parts, as a ratio: both with the same encoder.

    python -m tests.benchmarks.bench_trial [B ...]           batch sizes, by default 64 256

The script has lightly's SimCLR transform in a DataLoader with 2 workers, its NTXentLoss, and torch's SGD; ours is the
whole training, with log and diagnostics. Images are random, 32 x 32 x 3; the encoder is resnet8 of width 16. Runs
alternate; a ratio is of neighbouring runs. Shown: min/median/max of the processor time of all processes together, and
by the clock.
"""

import sys
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablation.cell import Component
from ablation.environment import keep_freed_memory
from ablation.pretrain.encoder import build_encoder, build_head
from tests.benchmarks import bench_step, bench_views
from tests.benchmarks.bench_views import Speed, speed

RUNS = 5
IMAGES = 1024  # a run
RESNET8 = Component(name="resnet8", parameters={"width": 16})


def ours(batch_size: int) -> Callable[[], None]:
    """So many updates of a training as make up a run."""
    work = bench_step.training(RESNET8, 32, 3, batch_size)

    def run() -> None:
        for _ in range(IMAGES // batch_size):
            work.advance()

    return run


def script(batch_size: int) -> Callable[[], None]:
    """The plain script's epoch over the same images."""
    from lightly.loss import NTXentLoss

    recipe = bench_views.Recipe("", batch_size, 3, 32, bench_step.VIEWS)
    encoder = build_encoder(RESNET8, image_size=32, channels=3, seed=0)
    network = torch.nn.Sequential(encoder, build_head(bench_step.PROJECTION, features=encoder.features, seed=0))
    pixels = np.asarray(bench_step.images(32, 3).train_images[:IMAGES])
    batches = bench_views.loader(pixels, recipe, bench_views.lightly_transform(recipe))
    criterion: Any = NTXentLoss(temperature=0.1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def run() -> None:
        for one, other in batches:
            loss: Tensor = criterion(network(one), network(other))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return run


def compare(batch_size: int) -> Iterator[tuple[Speed, Speed]]:
    """(samples/s of ours, samples/s of the script), run after run."""
    training, other = ours(batch_size), script(batch_size)
    for warm_up in (training, other):
        warm_up()
    for _ in range(RUNS):
        yield speed(training, IMAGES), speed(other, IMAGES)


def main() -> None:
    """Prints a line per batch size."""
    if not bench_views.installed("lightly"):
        return
    keep_freed_memory()
    torch.set_num_threads(1)
    for batch_size in map(int, sys.argv[1:] or ("64", "256")):
        pairs = list(compare(batch_size))
        by_processor = sorted(one.processor / other.processor for one, other in pairs)
        by_clock = sorted(one.wall / other.wall for one, other in pairs)
        print(
            f"resnet8 32 px  B {batch_size:4}  {median(one.processor for one, _ in pairs):8,.0f} samples per processor "
            f"second  {by_processor[0]:.2f}/{median(by_processor):.2f}/{by_processor[-1]:.2f} times the script's, "
            f"by the clock {by_clock[0]:.2f}/{median(by_clock):.2f}/{by_clock[-1]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
