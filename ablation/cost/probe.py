"""Measures one cell in normal form in a process of its own, so that its memory is its own and its death is an answer.

python -m ablation.cost.probe    reads an `Order` from standard input, writes a `Measurement` to standard output
"""

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from ablation import catalog, environment
from ablation.cell import Cell, Frozen, Probe
from ablation.cost.measured import Measurement
from ablation.evaluate.features import Labelled, extract, frozen
from ablation.evaluate.knn import knn_top1
from ablation.evaluate.linear import linear_evaluation
from ablation.evaluate.protocol import CURVE_BANK, CURVE_QUERIES
from ablation.evaluate.sgd import sgd_evaluation
from ablation.pretrain.data import Images
from ablation.pretrain.execution import PLAIN, Execution
from ablation.pretrain.loop import CURVE_POINTS, Training
from ablation.pretrain.random import stream
from ablation.record import Status
from ablation.trial import status_of

WARM_UP = 2  # steps: the first compile, allocate and find the fastest kernels
LONG_ENOUGH = 2.0  # seconds of steps
MOST_STEPS = 200
EXTRACTED = 256  # images
FITTED = 2_000  # rows that stand for the dataset in the linear evaluation


class Order(Frozen):
    """What to measure."""

    cell: Cell  # in normal form
    threads: int
    gpu: bool  # whether a GPU may be used
    execution: Execution = PLAIN


def measure(order: Order) -> Measurement:
    """A few steps and a small evaluation of random images; running out of memory, or any error, is a result too."""
    torch.set_num_threads(order.threads)
    device = environment.default_device() if order.gpu else torch.device("cpu")
    found = Measurement(cell=order.cell, device=environment.describe(device).device_name, **_gpus(device), failure=None)
    try:
        return found.model_copy(update=_measured(order, device))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the cell would meet
        failure = "out of memory" if status_of(error) is Status.OOM else f"{type(error).__name__}: {error}"
        return found.model_copy(update={"failure": failure})


def _measured(order: Order, device: torch.device) -> dict[str, float]:
    cell = order.cell
    assert cell.pretraining is not None
    images = _random_images(cell)
    environment.reset_peak_memory(device)
    training = Training(cell, images, device, lambda _: 0.0, order.execution)
    step = _seconds_each(training.advance, device)
    peak = _peak(device)
    encoder = training.encoder.float()

    def forward() -> None:
        extract(encoder, images.train_images[:EXTRACTED], images.mean, images.std, device)

    environment.reset_peak_memory(device)
    before = environment.peak_memory(device) or 0
    with frozen(encoder):
        pixels = len(images.train_images[:EXTRACTED])
        extraction = _seconds_each(forward, device) / pixels
    beside = (environment.peak_memory(device) or 0) - before  # of an evaluation, which a GPU does during the training
    peak = peak + beside if device.type != "cpu" else max(peak, _peak(device))
    data = catalog.dataset(cell.dataset)
    whole = data.images + data.test_images
    curve = min(data.pretraining_images, CURVE_BANK) + min(data.validation_images, CURVE_QUERIES)
    return {
        "step": step,
        "curve": CURVE_POINTS * curve * extraction,
        "evaluation": whole * (extraction + _fit(encoder.features, data.classes, cell.evaluation.probe, device)),
        "peak": peak,
        "evaluation_peak": 4 * 4 * whole * encoder.features,  # float32, split by split, joined, standardised
    }


def _random_images(cell: Cell) -> Images:
    """As many as a batch and an evaluation need, in the sizes of the cell's dataset."""
    assert cell.pretraining is not None
    data = catalog.dataset(cell.dataset)
    shape = (max(cell.pretraining.batch_size, EXTRACTED), data.channels, data.image_size, data.image_size)
    pixels = stream(0, "probe").integers(0, 256, shape, dtype=np.uint8)
    labels = np.arange(len(pixels)) % data.classes
    classes = tuple(map(str, range(data.classes)))
    mean, std = (0.5,) * data.channels, (0.25,) * data.channels
    return Images(pixels, labels, pixels, labels, pixels, labels, classes, mean, std, checksum="")


def _seconds_each(work: Callable[[], object], device: torch.device) -> float:
    """The median, so that a busy moment of the machine does not count."""
    for _ in range(WARM_UP):
        work()
    _wait(device)
    times: list[float] = []
    while len(times) < MOST_STEPS and sum(times) < LONG_ENOUGH:
        start = time.perf_counter()
        work()
        _wait(device)
        times.append(time.perf_counter() - start)
    return median(times)


def _fit(features: int, classes: int, solver: Probe | None, device: torch.device) -> float:
    """Seconds for an image of linear evaluation and kNN, on classes that overlap."""
    draw = stream(0, "probe fit")
    labels = np.arange(FITTED) % classes
    centres = draw.normal(size=(classes, features))
    values = centres[labels] + 2 * draw.normal(size=(FITTED, features))
    rows = Labelled(torch.tensor(values, dtype=torch.float32, device=device), torch.tensor(labels, device=device))
    part = Labelled(rows.features[: FITTED // 5], rows.labels[: FITTED // 5])
    start = time.perf_counter()
    if solver is None:
        linear_evaluation(rows, part, part, classes)
    else:
        sgd_evaluation(rows, part, part, classes, solver, seed=0)
    knn_top1(rows, part, classes)
    _wait(device)
    return (time.perf_counter() - start) / (len(rows.labels) + 2 * len(part.labels))


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _peak(device: torch.device) -> int:
    """Bytes at the peak: of the process, or what torch holds of the GPU, what it keeps for later included."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    return environment.peak_memory(device) or 0


def _gpus(device: torch.device) -> dict[str, int]:
    if device.type != "cuda":
        return {}
    return {"gpus": torch.cuda.device_count(), "gpu_memory": torch.cuda.get_device_properties(device).total_memory}


if __name__ == "__main__":
    sys.stdout.write(measure(Order.model_validate_json(sys.stdin.read())).model_dump_json())
