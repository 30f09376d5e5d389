"""The diagnostics' share of a run's processor time: under 3 % is the aim.

    python -m tests.benchmarks.bench_diagnostics        digits, resnet8 of width 8, one thread; a line per batch size

Both times are of the same run and of this thread, so that a busy machine changes neither much.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch

from ablation.cell import Cell, Component, LearningRate, Pretraining, Projection, Views
from ablation.pretrain import diagnosis, loop
from ablation.pretrain.data import load

SAMPLES = 64_000
SPENT = [0.0]  # seconds of diagnosing


def run_of(batch_size: int) -> Cell:
    """A cell as in sweeps/quickstart.yaml."""
    return Cell(
        dataset=Component(name="digits"),
        encoder=Component(name="resnet8", parameters={"width": 8}),
        seed=0,
        pretraining=Pretraining(
            loss=Component(name="infonce"),
            batch_size=batch_size,
            steps=SAMPLES // batch_size,
            temperature=0.1,
            projection=Projection(hidden=64, out=64),
            optimizer=Component(name="sgd", parameters={"momentum": 0.9, "nesterov": False, "weight_decay": 1e-5}),
            learning_rate=LearningRate(peak=0.1, warmup_steps=10, schedule="cosine"),
            views=Views(crop_scale=(0.2, 1.0), flip=False, jitter=0.5, grayscale=0.0, blur=0.0),
        ),
    )


def main() -> None:
    """Print the share for small and large batches."""
    torch.set_num_threads(1)
    diagnose = diagnosis.diagnose

    def timed(*arguments: Any) -> Any:
        start = time.thread_time()
        found = diagnose(*arguments)
        SPENT[0] += time.thread_time() - start
        return found

    vars(loop)["diagnose"] = timed
    images = load(Component(name="digits"), Path(), download=False)
    for batch_size in (8, 32, 128, 512):
        work = loop.Training(run_of(batch_size), images, torch.device("cpu"), evaluate=lambda _: 0.0)
        SPENT[0], start = 0.0, time.thread_time()
        while not work.done:
            work.advance()
        total = time.thread_time() - start
        calls = sum(point.diagnostics is not None for point in work.history.trace)
        sys.stdout.write(
            f"B {batch_size:4}  {work.step:5} updates, {calls:2} diagnosed: {SPENT[0] / total:6.2%} of the time, "
            f"one takes {SPENT[0] / calls / (total / work.step):.2f} of an update\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
