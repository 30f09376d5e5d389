"""One cell, from its data to its record: pretrain (or resume, or reuse), freeze, evaluate, commit."""

import os
import platform
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from ablation import durable, environment
from ablation.cell import Cell
from ablation.errors import STORAGE_ERRNOS, UserError
from ablation.evaluate.protocol import Evaluation, curve_knn, evaluate
from ablation.ledger import Ledger
from ablation.pretrain.checkpoint import Checkpoints
from ablation.pretrain.data import Images
from ablation.pretrain.encoder import Encoder, build_encoder, weights_hash
from ablation.pretrain.execution import PLAIN, Execution
from ablation.pretrain.loop import DivergedError, Training
from ablation.pretrain.trained import Trained
from ablation.record import Environment, Failure, History, Outcome, Record, Status

PROGRESS_INTERVAL = 1.0  # seconds between two looks at the clock's consequences: progress, stop, time limit


@dataclass(frozen=True)
class Progress:
    """Where a running cell is; `loss` is that of the last logged update."""

    step: int
    steps: int
    loss: float
    samples_per_second: float


class StopRequestedError(Exception):
    """The sweep is stopping. The cell has saved a checkpoint and has no record yet."""


class StorageError(UserError):
    """The results folder can't be written: no fault of the cell, which stays without a record."""


class TimeLimitError(Exception):
    """The cell has trained for longer than its time limit."""


@dataclass
class Trial:
    """The work on one cell in this process. `stop` is asked and `progress` told about once a second."""

    cell: Cell
    images: Images
    ledger: Ledger
    device: torch.device
    time_limit: float | None = None  # seconds of pretraining, over all attempts
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[Progress], None] = lambda _: None
    execution: Execution = PLAIN
    checkpoint_interval: float = 30.0  # seconds
    training: Training | None = None  # None before it begins, and where there is none

    def run(self) -> Record | None:
        """The cell's committed record; None when the sweep asked to stop and the cell can go on later.

        Raises:
            StorageError: the results folder can't be written.
        """
        try:
            return self._run()
        except OSError as error:
            if error.errno not in STORAGE_ERRNOS:
                raise
            raise StorageError(f"{self.ledger.folder}: {error.strerror}; free space or mend it") from error

    def _run(self) -> Record | None:
        self._log(f"begins on {self.device.type}")
        environment.keep_freed_memory()
        environment.reset_peak_memory(self.device)
        key = self.cell.pretraining_key
        checkpoints = Checkpoints(self.ledger.work(key), key, self.checkpoint_interval)  # makes this an attempt
        try:
            finished = self._evaluated(self._trained(checkpoints))
            return self._commit(Status.DONE, finished=finished)
        except StopRequestedError:
            self._log("stopped on request; its state is saved")
            return None
        except Exception as error:
            if isinstance(error, OSError) and error.errno in STORAGE_ERRNOS:
                raise
            return self._commit(status_of(error), failure=self._failure(error))

    def _trained(self, checkpoints: Checkpoints) -> Trained:
        """The encoder to evaluate: as initialised, from an earlier finished pretraining, or pretrained now."""
        channels, image_size = self.images.train_images.shape[1:3]
        if self.cell.pretraining is None:
            encoder = build_encoder(self.cell.encoder, image_size=image_size, channels=channels, seed=self.cell.seed)
            return Trained(encoder.to(self.device))  # random init
        path = self.ledger.encoder(self.cell.pretraining_key)
        try:
            trained = Trained.load(path, self.cell, image_size=image_size, channels=channels)
        except FileNotFoundError:
            trained = self._pretrain(checkpoints)
            trained.save(path, self.cell)
        except durable.DamagedError as error:
            self.ledger.quarantine(path, str(error))
            return self._trained(checkpoints)
        trained.encoder.to(self.device)
        return trained

    def _pretrain(self, checkpoints: Checkpoints) -> Trained:
        """Pretrains from the newest checkpoint, or from the start, to the last update."""
        training = self.training = Training(self.cell, self.images, self.device, self._curve_knn, self.execution)
        if (state := checkpoints.latest(damaged=self.ledger.quarantine)) is not None:
            training.restore(state)
            self._log(f"goes on after step {training.step}")
        due = time.monotonic()
        while not training.done:
            training.advance()
            if time.monotonic() >= due:
                due = time.monotonic() + PROGRESS_INTERVAL
                self._look_around(training, checkpoints)
        return training.finish()

    def _look_around(self, training: Training, checkpoints: Checkpoints) -> None:
        stopping = self.stop()
        late = self.time_limit is not None and training.seconds > self.time_limit
        if stopping or late or checkpoints.due():
            checkpoints.save(training.state())
            self._log(f"saved its state after step {training.step}")
        if stopping:
            raise StopRequestedError
        if late:
            raise TimeLimitError(f"pretraining took {training.seconds:.0f} s; its limit is {self.time_limit:g} s")
        rate = training.samples / training.seconds
        self.progress(Progress(training.step, training.recipe.steps, training.history.trace[-1].loss, rate))

    def _evaluated(self, trained: Trained) -> "Finished":
        start = time.monotonic()
        evaluation = evaluate(trained.encoder, self.images, self.device, self.cell.evaluation.probe, self.cell.seed)
        return Finished(trained, evaluation, time.monotonic() - start)

    def _curve_knn(self, encoder: Encoder) -> float:
        return curve_knn(encoder, self.images, self.device)

    def _failure(self, error: Exception) -> Failure:
        done = self.training.step if self.training else None
        return Failure(
            kind=type(error).__name__,
            message=str(error),
            step=error.step if isinstance(error, DivergedError) else done,
            traceback="".join(traceback.format_exception(error)),
        )

    def _commit(self, status: Status, finished: "Finished | None" = None, failure: Failure | None = None) -> Record:
        """Writes the record of how the cell ended, with its history as far as it went."""
        progress = finished.trained if finished else self.training
        if failure and self.training:
            self.training.close()
        record = _record(
            self.cell,
            self.ledger,
            status=status,
            outcome=finished.outcome() if finished else None,
            failure=failure,
            data_checksum=self.images.checksum,
            timings={
                "pretraining": progress.seconds if progress else 0.0,
                "evaluation": finished.seconds if finished else 0.0,
            },
            peak_memory_bytes=environment.peak_memory(self.device),
            environment=self._environment(progress),
        )
        self.ledger.put(record, progress.history if progress else History())
        self._log(f"{status}\n{failure.traceback}" if failure else f"{status}")
        return record

    def _environment(self, progress: Trained | Training | None) -> Environment:
        """Where the cell ran, and how its encoder was trained, now or before."""
        used = {name: getattr(progress, name, None) for name in ("compiled", "micro_batch")}
        return environment.describe(self.device).model_copy(update=used)

    def _log(self, what: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self.ledger.log_file(self.cell.id).open("a") as file:
            file.write(f"{now} process {os.getpid()} on {platform.node()}: {what}\n")


def commit_crash(cell: Cell, ledger: Ledger, reason: str, status: Status = Status.FAILED) -> Record:
    """The record of a cell whose worker died, again and again, without a word; written by another process."""
    failure = Failure(kind="WorkerDied", message=reason, step=None)
    where = environment.describe(torch.device("cpu"))
    record = _record(cell, ledger, status=status, failure=failure, environment=where)
    ledger.put(record, History())
    return record


def _record(cell: Cell, ledger: Ledger, **found: Any) -> Record:
    defaults: dict[str, Any] = {"outcome": None, "data_checksum": None, "timings": {}, "peak_memory_bytes": None}
    return Record(
        id=cell.id,
        pretraining_key=cell.pretraining_key,
        cell=cell,
        attempts=Checkpoints.attempts(ledger.work(cell.pretraining_key)),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        **{**defaults, **found},
    )


@dataclass(frozen=True)
class Finished:
    """A cell that has come to its end well."""

    trained: Trained
    evaluation: Evaluation
    seconds: float  # of the evaluation

    def outcome(self) -> Outcome:
        """The deterministic part of its record."""
        trained, evaluation = self.trained, self.evaluation
        return Outcome(
            metrics=evaluation.metrics,
            selection=evaluation.selection,
            samples=trained.samples,
            steps=trained.steps,
            features=trained.encoder.features,
            weights_hash=weights_hash(trained.encoder),
            first_batch_hash=trained.first_batch_hash,
            history_hash=trained.history.fingerprint(),
            diagnostics=trained.history.summary(),
        )


def status_of(error: Exception) -> Status:
    """What a cell that ends with this error is."""
    if isinstance(error, DivergedError | FloatingPointError):
        return Status.DIVERGED
    if isinstance(error, TimeLimitError):
        return Status.TIMEOUT
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        return Status.OOM  # the last is what torch's CPU allocator says, in a plain RuntimeError
    return Status.FAILED
