"""Ray Tune runs the cells that have no record yet: the only module that imports ray.

Tune is a good scheduler and a poor ledger: each launch is a new Tuner over what the ledger lacks, Ray's own state is
thrown away at its end, and what happened is read from the ledger alone.
"""

import contextlib
import dataclasses
import logging
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, Self

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_AIR_NEW_OUTPUT="0",  # no banner beside our own display
    RAY_CHDIR_TO_TRIAL_DIR="0",
    TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",
    TUNE_DISABLE_SIGINT_HANDLER="1",
)

import psutil
import ray
import torch
from ray import tune

from ablation.cell import Cell
from ablation.errors import UserError
from ablation.ledger import Ledger
from ablation.plan import Plan, Resources
from ablation.pretrain.data import Images, load
from ablation.record import Record
from ablation.trial import Progress, Trial, commit_crash

STOP_GRACE = 12.0  # seconds that running cells get to write a checkpoint


class Display(Protocol):
    """What the schedule tells the user while it runs. Calls must not raise."""

    def began(self, cell_id: str) -> None:
        """A worker took the cell up."""

    def progress(self, cell_id: str, progress: Progress) -> None:
        """A running cell is at this step."""

    def ended(self, cell_id: str, record: Record | None) -> None:
        """The cell has a record, or was interrupted."""

    def stopping(self) -> None:
        """The user asked to stop; running cells are saving."""


def todo(plan: Plan, ledger: Ledger) -> list[Cell]:
    """The plan's cells and baselines without a record, longest first."""
    lacking = [cell for cell in plan.runs() if ledger.get(cell.id) is None]
    return sorted(lacking, key=lambda cell: cell.relative_cost, reverse=True)


def run(
    plan: Plan, ledger: Ledger, display: Display, *, address: str | None = None, max_concurrent: int | None = None
) -> bool:
    """Runs what is left of the plan. True: every cell has a record. False: stopped by a signal, and resumable.

    Raises:
        UserError: a dataset or the requested resources can't be had; nothing was started.
    """
    cells = todo(plan, ledger)
    if not cells:
        return True
    images = _load_images(cells, plan.resources)
    with _cluster(address) as storage, _Stop(ledger, display) as stop:
        request, slots = _placement(plan.resources)
        watcher = _Watcher(display, ledger, stop, {cell.id: cell for cell in cells})
        function = tune.with_parameters(
            _work,
            cells={cell.id: cell.model_dump(mode="json") for cell in cells},
            images=images,
            folder=str(ledger.folder),
            stop_file=str(stop.file),
            resources=plan.resources,
        )
        tune.Tuner(
            tune.with_resources(function, request),
            param_space={"id": tune.grid_search([cell.id for cell in cells])},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=min(max_concurrent or slots, slots),
                reuse_actors=True,
                trial_name_creator=lambda t: t.config["id"],
                trial_dirname_creator=lambda t: t.config["id"],
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(storage),
                verbose=0,
                stop=stop,
                failure_config=tune.FailureConfig(max_failures=plan.resources.max_retries),
                callbacks=[watcher],
            ),
        ).fit()
    return not todo(plan, ledger)


def _work(
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
        record = Trial(
            cell,
            images[cell.dataset.model_dump_json()],
            ledger,
            device=(torch.accelerator.current_accelerator() if ray.get_gpu_ids() else None) or torch.device("cpu"),
            time_limit=resources.time_limit,
            stop=Path(stop_file).exists,
            progress=lambda progress: tune.report(dataclasses.asdict(progress)),
        ).run()
    tune.report({"status": record.status.value if record else None})


def _load_images(cells: Sequence[Cell], resources: Resources) -> dict[str, Images]:
    datasets = {cell.dataset.model_dump_json(): cell.dataset for cell in cells}
    return {key: load(dataset, resources.root(), download=resources.download) for key, dataset in datasets.items()}


@contextmanager
def _cluster(address: str | None) -> Iterator[Path]:
    """A connection to the cluster at `address`, or to one of our own for the time of this sweep; a folder for Tune."""
    temporary = _temporary_folder()
    options: dict[str, Any] = {"address": address}
    if address is None:
        _set_token(temporary / "token")
        slots = len(os.sched_getaffinity(0))  # Ray itself ignores CPU affinity
        options = {"address": "local", "num_cpus": slots, "include_dashboard": False, "_temp_dir": str(temporary)}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
        yield temporary / "tune"
    except ConnectionError as error:
        raise UserError(f"can't reach a Ray cluster at {address}: {error}") from error
    finally:
        ray.shutdown()
        shutil.rmtree(temporary, ignore_errors=True)


def _set_token(path: Path) -> None:
    """A token of this sweep's own; Ray would write one under the user's home, which may be read-only."""
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)


def _temporary_folder() -> Path:
    """A folder with a short path, since Ray's sockets allow 107 characters; removes those of killed sweeps."""
    parent = Path("/tmp")  # noqa: S108 - the name is made by mkdtemp
    for old in parent.glob("abl-*-*"):
        pid = old.name.split("-")[1]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"abl-{os.getpid()}-", dir=parent))


def _placement(resources: Resources) -> tuple[dict[str, float], int]:
    """Ray's request for one trial, and how many fit at once.

    Raises:
        UserError: not even one fits on any node.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    gpus = resources.gpus_per_trial
    if gpus == "auto":
        gpus = 1.0 if any(node.get("GPU", 0) >= 1 for node in nodes) else 0.0
    request = {"cpu": float(resources.cpus_per_trial), "gpu": float(gpus)}
    slots = sum(
        int(min(node.get("CPU", 0) // request["cpu"], node.get("GPU", 0) / gpus if gpus else float("inf")))
        for node in nodes
    )
    if not slots:
        have = ", ".join(f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise UserError(
            f"resources: a trial asks for {request['cpu']:g} CPUs and {gpus:g} GPUs, but no node has that "
            f"(there {'is one' if len(nodes) == 1 else 'are'}: {have}); lower cpus_per_trial or gpus_per_trial"
        )
    return request, slots


class _Abort(BaseException):
    """Ends the sweep at once; no `except Exception` on the way may stop it."""


class _Unsaved:
    """Tune pickles what it is given, for a restore that never comes; of these objects it gets an empty shell."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return object, ()


class _Stop(_Unsaved, tune.Stopper):
    """SIGINT or SIGTERM: once, cells save and the sweep ends within the grace; twice, it ends at once."""

    def __init__(self, ledger: Ledger, display: Display) -> None:
        self.file = ledger.folder / f".stop-{secrets.token_hex(4)}"  # what the workers look at
        self.requested = False
        self.running: set[str] = set()
        self._awaited: set[str] = set()  # cells that were running when the stop was asked for
        self._display = display

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._abort)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self.file.unlink(missing_ok=True)
        return kind is _Abort

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._abort(number, frame)
        self.requested = True
        self._awaited = set(self.running)
        self.file.touch()
        signal.setitimer(signal.ITIMER_REAL, STOP_GRACE)
        self._display.stopping()

    def _abort(self, _number: int, _frame: FrameType | None) -> None:
        raise _Abort

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Tune's question whether to stop one trial: a trial stops itself."""
        return False

    def stop_all(self) -> bool:
        """Tune's question whether to start no more trials and end."""
        return self.requested and not self._awaited & self.running


class _Watcher(_Unsaved, tune.Callback):
    """Passes on what Tune knows of its trials. Nothing here may raise: that would end the whole sweep."""

    def __init__(self, display: Display, ledger: Ledger, stop: _Stop, cells: Mapping[str, Cell]) -> None:
        self._display, self._ledger, self._stop, self._cells = display, ledger, stop, cells

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._stop.running.add(trial.config["id"])
        self._display.began(trial.config["id"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: Mapping[str, Any], **_: Any
    ) -> None:
        if "step" in result:
            known = {field.name: result[field.name] for field in dataclasses.fields(Progress)}
            self._display.progress(trial.config["id"], Progress(**known))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._ended(trial.config["id"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """All retries of a crashed worker are used up: the cell itself could not say so."""
        cell = self._cells[trial.config["id"]]
        with contextlib.suppress(OSError):  # then the cell stays without a record, and a later run takes it up
            if not self._stop.requested and self._ledger.get(cell.id) is None:
                commit_crash(cell, self._ledger, str(trial.get_error()))
        self._ended(cell.id)

    def _ended(self, cell_id: str) -> None:
        self._stop.running.discard(cell_id)
        self._display.ended(cell_id, self._ledger.get(cell_id))
