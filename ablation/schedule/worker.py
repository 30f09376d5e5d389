"""One trial in a worker process of Ray, which runs many, one after another."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune

from ablation.cell import Cell
from ablation.environment import default_device
from ablation.ledger import Ledger
from ablation.plan import Resources
from ablation.pretrain.data import Images
from ablation.pretrain.execution import Execution
from ablation.trial import StorageError, Trial


def work(
    config: Mapping[str, str],
    *,
    cells: Mapping[str, Mapping[str, Any]],
    images: Mapping[str, Images],
    folder: str,
    stop_file: str,
    resources: Resources,
) -> None:
    """One trial, in a worker process that has run others before: whatever goes wrong in it ends in a record."""
    cell = Cell.model_validate(cells[config["id"]])
    ledger = Ledger(Path(folder))
    record = ledger.get(cell.id)  # a retried worker may have died after its commit
    if record is None and not Path(stop_file).exists():
        torch.set_num_threads(resources.cpus_per_trial)
        trial = Trial(
            cell,
            images[cell.dataset.model_dump_json()],
            ledger,
            device=default_device() if ray.get_gpu_ids() else torch.device("cpu"),
            execution=Execution.of(resources),
            time_limit=resources.time_limit,
            stop=Path(stop_file).exists,
            progress=lambda progress: tune.report(dataclasses.asdict(progress)),
        )
        try:
            record = trial.run()
        except StorageError as error:
            tune.report({"storage": str(error)})
            return
    tune.report({"status": record.status.value if record else None})
