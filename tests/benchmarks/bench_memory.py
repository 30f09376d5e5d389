"""Memory of trials that share a dataset: a large one should cost each of them no more than a small one.

    python -m tests.benchmarks.bench_memory        two trials at once, on datasets of several sizes

PSS counts memory that processes share in parts, private memory is a process's own; MiB of the two workers at the end
of the watch. Folders of images stay in their file; Fashion-MNIST (where its files are found) and digits lie in Ray's
shared memory.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ablation.plan import Resources
from ablation.pretrain.dataset_files import find
from tests.faults.harness import Sweep, kill, workers

SECONDS = 15.0  # of training that are watched
SIDE = 32
MIB = 2**20


def images(count: int, folder: Path) -> Path:
    """A folder of so many random images."""
    header = f"P6 {SIDE} {SIDE} 255\n".encode()
    random = np.random.default_rng(0)
    for label in "ab":
        (folder / label).mkdir(parents=True)
        for number in range(count // 2):
            (folder / label / f"{number}.ppm").write_bytes(header + random.bytes(3 * SIDE * SIDE))
    return folder


def measure(name: str, dataset: Any, size: float, folder: Path) -> None:
    """Prints a line."""
    sweep = Sweep(folder)
    sweep.sweep["grid"] |= {"dataset": [dataset], "loss": ["infonce"]}
    sweep.sweep["base"]["budget"] = {"steps": 10**6}
    sweep.sweep["resources"] = {"data_root": str(folder / "root")} if isinstance(dataset, dict) else {}
    arguments = ("run", str(sweep.file), "--results", str(folder / "results"), "--max-concurrent", "2")
    process = sweep.start(*arguments, RAY_worker_niceness="0")
    try:
        sweep.wait_for(lambda: len(sweep.checkpoints()) == 2, timeout=600)
        time.sleep(SECONDS)
        found = [worker.memory_full_info() for worker in workers(process) if worker.memory_info().rss > 200 * MIB]
        whole = psutil.Process(process.pid).memory_full_info()
    finally:
        kill(process)
    shown = "  ".join(f"{info.pss / MIB:5.0f} and {info.uss / MIB:5.0f}" for info in found)
    print(f"{name:24} {size / MIB:6.1f} MiB   PSS and private of each worker: {shown}   driver {whole.uss / MIB:5.0f}")
    sys.stdout.flush()


def main() -> None:
    """Prints a line for each dataset."""
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as name:
        for count in (1_000, 60_000):
            folder = Path(name) / str(count)
            where = {"name": "image_folder", "path": str(images(count, folder / "images")), "image_size": SIDE}
            measure(f"folder of {count:,} images", where, 3 * SIDE * SIDE * count, folder)
        measure("digits", "digits", 1797 * 64, _made(Path(name) / "digits"))
        if find("fashion_mnist", Resources().root()):
            measure("fashion_mnist", "fashion_mnist", 70_000 * 28 * 28, _made(Path(name) / "fashion"))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
