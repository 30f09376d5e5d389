"""What the driver sees of its trials while they run."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from ray.tune.progress_reporter import TrialProgressCallback

from ablation.cell import Cell
from ablation.ledger import Ledger
from ablation.record import Record, Status
from ablation.schedule.breaker import Breaker
from ablation.schedule.stop import Stop, Unsaved
from ablation.trial import Progress, commit_crash

_OOM_KILL = "OutOfMemoryError"  # how Ray names what its own memory monitor did to a worker


class Display(Protocol):
    """What the schedule tells the user while it runs. Calls must not raise."""

    def began(self, cell_id: str) -> None:
        """A worker took the cell up."""

    def progress(self, cell_id: str, progress: Progress) -> None:
        """A running cell is at this step."""

    def ended(self, cell_id: str, record: Record | None) -> None:
        """The cell has a record, or was interrupted."""

    def stopping(self, reason: str) -> None:
        """The sweep comes to an early end; running cells are saving."""


class Watcher(Unsaved, TrialProgressCallback):
    """Passes on what Tune knows of its trials, in place of Tune's own printing.

    Nothing here may raise: that would end the whole sweep.
    """

    def __init__(self, display: Display, ledger: Ledger, stop: Stop, cells: Mapping[str, Cell], retries: int) -> None:
        """`retries`: of a cell whose worker crashed."""
        self._display, self._ledger, self._stop, self._cells, self._retries = display, ledger, stop, cells, retries
        self._breaker = Breaker()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """A worker takes up a cell."""
        self._stop.running.add(trial.config["id"])
        self._display.began(trial.config["id"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: Mapping[str, Any], **_: Any
    ) -> None:
        """A cell says where it is, or that it can't write."""
        if "step" in result:
            known = {field.name: result[field.name] for field in dataclasses.fields(Progress)}
            self._display.progress(trial.config["id"], Progress(**known))
        if "storage" in result:
            self._stop.request(result["storage"])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """A cell has ended or was interrupted."""
        self._ended(trial.config["id"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """The workers of a cell crashed until no retry was left: the cell itself could not say so.

        A worker that dies between two cells makes Tune give up the second at once; that one stays without a record.
        """
        cell = self._cells[trial.config["id"]]
        with contextlib.suppress(OSError):  # then the cell stays without a record, and a later run takes it up
            used_up = trial.num_failures > self._retries
            if used_up and self._stop.reason is None and self._ledger.get(cell.id) is None:
                error = str(trial.get_error() or "its worker process died")
                commit_crash(cell, self._ledger, error, Status.OOM if _OOM_KILL in error else Status.FAILED)
        self._ended(cell.id)

    def _ended(self, cell_id: str) -> None:
        self._stop.running.discard(cell_id)
        record = self._ledger.get(cell_id)
        self._display.ended(cell_id, record)
        if record is not None and (reason := self._breaker.hears(record)):
            self._stop.request(f"paused, since {reason}")
