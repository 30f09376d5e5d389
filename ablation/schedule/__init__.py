"""Ray Tune runs the cells that have no record yet: the only part that imports ray.

Tune is a good scheduler and a poor ledger: each launch is a new Tuner over what the ledger lacks, Ray's own state is
thrown away at its end, and what happened is read from the ledger alone.
"""

import os
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_AIR_NEW_OUTPUT="0",  # no banner beside our own display
    RAY_CHDIR_TO_TRIAL_DIR="0",
    TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",
    TUNE_DISABLE_SIGINT_HANDLER="1",
    TUNE_MAX_PENDING_TRIALS_PG="1000000",  # our queue hands out no more than fit
)


import torch
from ray import tune

from ablation.cell import Cell
from ablation.cost.estimate import Costs
from ablation.cost.measured import Measurements
from ablation.cost.queue import Queue
from ablation.cost.room import Request
from ablation.environment import default_device
from ablation.ledger import Ledger
from ablation.plan import Plan, Resources
from ablation.pretrain.data import Images, load
from ablation.pretrain.execution import Execution
from ablation.schedule.cluster import check, connect, lifelines, room
from ablation.schedule.search import Search, resources
from ablation.schedule.stop import Stop
from ablation.schedule.watch import Display, Watcher
from ablation.schedule.worker import work

__all__ = ["Display", "run", "todo", "waves"]


def todo(plan: Plan, ledger: Ledger) -> list[Cell]:
    """The plan's cells and baselines without a record."""
    return [cell for cell in plan.runs() if ledger.get(cell.id) is None]


def run(
    plan: Plan, ledger: Ledger, display: Display, *, address: str | None = None, max_concurrent: int | None = None
) -> str | None:
    """Runs what is left of the plan. Returns why it came to an early end, resumable; None where it did not.

    Raises:
        UserError: a dataset or the requested resources can't be had; nothing was started.
    """
    cells = todo(plan, ledger)
    if not cells:
        return None
    if address is None:
        on_gpu = plan.resources.gpus_per_trial != 0
        Execution.of(plan.resources).check(default_device() if on_gpu else torch.device("cpu"))
    images = _load_images(cells, plan.resources)
    retries = plan.resources.max_retries
    with connect(address) as storage, Stop(ledger, display.stopping, lifelines()) as stop:
        watcher = Watcher(display, ledger, stop, {cell.id: cell for cell in cells}, retries)
        function = tune.with_parameters(
            work,
            cells={cell.id: cell.model_dump(mode="json") for cell in cells},
            images=images,
            folder=str(ledger.folder),
            stop_file=str(stop.file),
            resources=plan.resources,
        )
        for wave in waves(cells):
            for _ in range(1 + retries):  # a second time where a worker died before its cell began
                left = [cell for cell in wave if ledger.get(cell.id) is None]
                if left and stop.reason is None:
                    requests, queue = _queued(left, plan.resources, max_concurrent)
                    _tuner(function, requests, queue, stop, watcher, storage, retries).fit()
    return stop.reason


def waves(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells in the order given, in one wave or two: where several judge one encoder, all but the first wait."""
    first = {cell.pretraining_key: cell for cell in reversed(cells)}
    later = [cell for cell in cells if first[cell.pretraining_key] is not cell]
    return [[cell for cell in cells if first[cell.pretraining_key] is cell], *([later] if later else [])]


def _tuner(
    function: Callable[..., None],
    requests: Mapping[str, Request],
    queue: Queue,
    stop: Stop,
    watcher: Watcher,
    storage: Path,
    retries: int,
) -> tune.Tuner:
    """Tune, to be thrown away after use."""
    return tune.Tuner(
        tune.with_resources(function, resources(requests)),
        tune_config=tune.TuneConfig(
            search_alg=Search(queue),
            num_samples=len(requests),
            reuse_actors=True,
            trial_name_creator=lambda t: t.config["id"],
            trial_dirname_creator=lambda t: t.config["id"],
        ),
        run_config=tune.RunConfig(
            name=secrets.token_hex(4),
            storage_path=str(storage),
            verbose=0,
            stop=stop,
            failure_config=tune.FailureConfig(max_failures=retries),
            callbacks=[watcher],
        ),
    )


def _queued(cells: Sequence[Cell], asked: Resources, most: int | None) -> tuple[dict[str, Request], Queue]:
    """What each cell takes of the cluster, and the queue that hands them out: `most` at once.

    Raises:
        UserError: a cell has no place on any node.
    """
    free, gpu_hosts = room()
    costs = Costs.load(asked) if gpu_hosts <= {platform.node()} else Costs(asked, Measurements())
    requests = {cell.id: costs.request(cell, gpus=bool(gpu_hosts)) for cell in cells}
    for request in set(requests.values()):
        check(free, request)
    return requests, Queue(requests, costs.relative(cells), free, most)


def _load_images(cells: Sequence[Cell], resources: Resources) -> dict[str, Images]:
    datasets = {cell.dataset.model_dump_json(): cell.dataset for cell in cells}
    return {key: load(dataset, resources.root(), download=resources.download) for key, dataset in datasets.items()}
