"""Samples/s of the whole training step, as a ratio to the bare forward, backward and update on ready-made views.

    python -m tests.benchmarks.bench_step [B ...]            batch sizes, by default 8 64 512

The bare step has the same encoder, head, optimiser and batch, views made beforehand, and the dense cross entropy of
torch in place of our loss. Runs alternate; a ratio is of neighbouring runs. Shown: min/median/max of 5, of the
processor time of one thread, so that a busy machine changes little.
"""

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.cell import Cell, Component, LearningRate, Pretraining, Projection, Views
from ablation.environment import keep_freed_memory
from ablation.pretrain.data import Images
from ablation.pretrain.execution import PLAIN, Execution
from ablation.pretrain.loop import Training
from ablation.pretrain.random import stream

RUNS = 5
IMAGES_A_RUN = 1024
CPU = torch.device("cpu")
VIEWS = Views(crop_scale=(0.2, 1.0), flip=True, jitter=0.5, grayscale=0.2, blur=0.0)
PROJECTION = Projection(hidden=128, out=128)

Case = tuple[str, dict[str, int], int, int]  # encoder, its parameters, pixels a side, channels

CASES: tuple[Case, ...] = (("resnet8", {"width": 16}, 28, 1), ("resnet18", {}, 32, 3))


def images(size: int, channels: int) -> Images:
    """Random ones, all of one class."""
    pixels = stream(0, "benchmark").integers(0, 256, (2048, channels, size, size), dtype=np.uint8)
    labels = np.zeros(len(pixels), dtype=np.int64)
    mean, std = (0.5,) * channels, (0.25,) * channels
    return Images(pixels, labels, pixels, labels, pixels, labels, ("0",), mean, std, "")


def training(
    encoder: Component,
    size: int,
    channels: int,
    batch_size: int,
    device: torch.device = CPU,
    *,
    precision: Literal["float32", "float64", "bfloat16"] = "float32",
    norm_batch: int | None = None,
    execution: Execution = PLAIN,
) -> Training:
    """A run on random images that never ends."""
    pretraining = Pretraining(
        loss=Component(name="infonce"),
        batch_size=batch_size,
        steps=10**9,
        temperature=0.1,
        projection=PROJECTION,
        optimizer=Component(name="sgd", parameters={"momentum": 0.9, "nesterov": False, "weight_decay": 1e-4}),
        learning_rate=LearningRate(peak=0.01, warmup_steps=0, schedule="constant"),
        views=VIEWS,
        precision=precision,
        norm_batch=norm_batch,
    )
    cell = Cell(dataset=Component(name="cifar10"), encoder=encoder, seed=0, pretraining=pretraining)
    return Training(cell, images(size, channels), device, lambda _: 0.0, execution)


def bare(work: Training) -> Callable[[], None]:
    """The step without views, log and schedule."""
    batch = work.recipe.batch_size
    views = work.views(work.batches(range(1))[0][0], 0)
    positives = torch.arange(2 * batch, device=work.device).roll(batch)
    work.optimizer.param_groups[0]["lr"] = 0.01

    def step() -> None:
        z: Tensor = F.normalize(work.head(work.encoder(views)), dim=1)
        logits = (z @ z.T / 0.1).fill_diagonal_(float("-inf"))
        work.optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits, positives).backward()  # type: ignore[no-untyped-call]
        work.optimizer.step()

    return step


def seconds(step: Callable[[], None], count: int) -> float:
    """Of `count` steps."""
    start = time.thread_time()
    for _ in range(count):
        step()
    return time.thread_time() - start


def compare(case: Case, batch_size: int) -> list[tuple[float, float]]:
    """(samples/s of the whole step, samples/s of the bare one), run after run."""
    name, parameters, size, channels = case
    work = training(Component(name=name, parameters=dict(parameters)), size, channels, batch_size)
    plain, count = bare(work), max(1, IMAGES_A_RUN // batch_size // (8 if name == "resnet18" else 1))
    for step in (plain, work.advance):
        seconds(step, 2)
    samples = batch_size * count
    return [(samples / seconds(work.advance, count), samples / seconds(plain, count)) for _ in range(RUNS)]


def main() -> None:
    """Prints a line for each encoder and batch size."""
    torch.set_num_threads(1)
    keep_freed_memory()
    for case in CASES:
        name, _, size, _ = case
        for batch_size in map(int, sys.argv[1:] or ("8", "64", "512")):
            speeds = compare(case, batch_size)
            ratios = [ours / reference for ours, reference in speeds]
            speed = median(ours for ours, _ in speeds)
            print(
                f"{name:8} {size} px  B {batch_size:4}  {speed:8,.0f} samples/s  of the bare step's: "
                f"{min(ratios):.2f}/{median(ratios):.2f}/{max(ratios):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
