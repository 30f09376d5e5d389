"""Embeddings of cells that a sweep has trained, and the rounding errors that their training met on its way."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ablation.errors import UserError
from ablation.ledger import Ledger
from ablation.numerics.rounding import Case
from ablation.plan import Plan, PlannedCell, settings_text
from ablation.pretrain.data import Images, load
from ablation.pretrain.order import SampleOrder
from ablation.pretrain.trained import Trained
from ablation.pretrain.views import ViewMaker
from ablation.record import TracePoint


def read(folder: Path) -> tuple[Ledger, Plan]:
    """The ledger and the plan of a sweep's folder.

    Raises:
        UserError: the folder is no sweep's, or its plan can't be read.
    """
    ledger = Ledger(folder)
    if not ledger.plan_file.is_file():
        raise UserError(f"{folder}: no plan.json here; --from takes a sweep's own folder, such as results/NAME")
    return ledger, Plan.load(ledger.plan_file)


def cases(
    folder: Path, batch_sizes: Sequence[int] = (), temperatures: Sequence[float] = (), *, batches: int = 4
) -> Iterator[Case]:
    """For every trained cell of the sweep in `folder`, batches as its training saw them, at its last weights.

    Batch sizes and temperatures are the cell's own unless given. Networks are evaluated in float64, with the batch
    norm of training, so that rounding is the loss's alone.

    Raises:
        UserError: no cell of the sweep has been trained, or the dataset can't be had.
    """
    ledger, plan = read(folder)
    trained = [planned for planned in plan.cells if ledger.encoder(planned.cell.pretraining_key).is_file()]
    if not trained:
        raise UserError(f"{folder}: no cell has been trained yet; run the sweep first")
    images: dict[str, Images] = {}
    for planned in trained:
        key = planned.cell.dataset.model_dump_json()
        if key not in images:
            images[key] = load(planned.cell.dataset, plan.resources.root(), download=plan.resources.download)
        run = planned.cell.pretraining
        assert run is not None
        for size in batch_sizes or (run.batch_size,):
            found = list(_batches(ledger, planned, images[key], size, batches))
            for temperature in temperatures or (run.temperature,):
                yield Case(_name(plan, planned), temperature, found)


def _batches(ledger: Ledger, planned: PlannedCell, images: Images, size: int, count: int) -> Iterator[Tensor]:
    """`count` batches (2 size, d) of what the head gives for views after the last that training saw."""
    cell = planned.cell
    assert cell.pretraining is not None
    channels, image_size = images.train_images.shape[1:3]
    path = ledger.encoder(cell.pretraining_key)
    trained = Trained.load(path, cell, image_size=image_size, channels=channels)
    assert trained.head is not None
    encoder, head = trained.encoder.double().train(), trained.head.double()
    order = SampleOrder(cell.seed, len(images.train_images), size)
    views = ViewMaker(cell.pretraining.views, image_size, channels, images.mean, images.std, cell.seed)
    with torch.no_grad():
        for step in range(cell.pretraining.steps, cell.pretraining.steps + count):
            chosen = torch.from_numpy(images.train_images[order.batch(step)])
            z: Tensor = head(encoder(views(chosen, step).double()))
            yield z.float().double()


def along_training(folder: Path) -> Iterator[tuple[str, TracePoint]]:
    """Every cell's name with every logged update that has diagnostics, as far as the sweep has come."""
    ledger, plan = read(folder)
    for planned in plan.cells:
        history = ledger.history(planned.cell.id)
        for point in history.trace if history else ():
            if point.diagnostics:
                yield _name(plan, planned), point


def _name(plan: Plan, planned: PlannedCell) -> str:
    shown = {axis: value for axis, value in planned.settings.items() if axis in {"loss", "batch_size", *plan.axes}}
    return settings_text(shown)
