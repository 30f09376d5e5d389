"""Samples/s of the training step on images that stay in their file, as a ratio to the same images in memory.

    python -m tests.benchmarks.bench_store [IMAGES] [SIZE]        by default 100,000 of 32 x 32

Every batch is random over the whole file. Warm: the file lies in the system's memory; processor time, that of the
reading thread included. Cold: the system has dropped the file before each run, so that all of it comes from the disk;
seconds. Runs alternate; a ratio is of neighbouring runs. Shown: min/median/max of 5, one thread, resnet8.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from ablation.cell import Cell, Component, Projection, Views
from ablation.pretrain.data import Images
from ablation.pretrain.loop import Training
from ablation.pretrain.stored import Pixels, Stored
from tests.cells import pretraining

RUNS = 5
SAMPLES_A_RUN = 512


def training(pixels: "Pixels | Stored", batch_size: int) -> Training:
    """A run on these images that never ends."""
    labels = np.zeros(len(pixels), dtype=np.int64)
    images = Images(pixels, labels, pixels, labels, pixels, labels, ("0",), (0.5,) * 3, (0.25,) * 3, "")
    views = Views(crop_scale=(0.2, 1.0), flip=True, jitter=0.5, grayscale=0.2, blur=0.0)
    run = pretraining(batch_size=batch_size, steps=10**9, views=views, projection=Projection(hidden=128, out=128))
    encoder = Component(name="resnet8", parameters={"width": 16})
    cell = Cell(dataset=Component(name="cifar10"), encoder=encoder, seed=0, pretraining=run)
    return Training(cell, images, torch.device("cpu"), evaluate=lambda _: 0.0)


def seconds(work: Training, count: int, clock: Callable[[], float]) -> float:
    """Of `count` steps."""
    start = clock()
    for _ in range(count):
        work.advance()
    return clock() - start


def drop(file: Path) -> None:
    """Out of the system's memory."""
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def main() -> None:
    """Prints a line for each batch size."""
    torch.set_num_threads(1)
    count, size = (int(text) for text in (*sys.argv[1:3], *("100000", "32")[len(sys.argv) - 1 :]))
    shape = (count, 3, size, size)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        file = Path(folder) / "pixels"
        memory = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        memory.tofile(file)
        for batch_size in (8, 64, 512):
            steps = SAMPLES_A_RUN // batch_size
            inside = training(memory, batch_size)
            stored = training(Stored(file, shape, np.arange(count)), batch_size)
            clocks = {"warm": time.process_time, "cold": time.perf_counter}
            ratios: dict[str, list[float]] = {name: [] for name in clocks}
            for work in (inside, stored):
                seconds(work, 3, time.perf_counter)
            for _ in range(RUNS):
                for name, clock in clocks.items():
                    reference = seconds(inside, steps, clock)
                    if name == "cold":
                        drop(file)
                    ratios[name].append(reference / seconds(stored, steps, clock))
            shown = "  ".join(f"{name} {min(r):.2f}/{median(r):.2f}/{max(r):.2f}" for name, r in ratios.items())
            sys.stdout.write(f"B {batch_size:4}  of the rate in memory: {shown}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
