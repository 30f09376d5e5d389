"""Which cell Tune starts next, and what it asks of Ray for it: the queue decides, as soon as a place is free."""

from collections.abc import Callable, Mapping
from typing import Any

from ray import tune
from ray.tune.search import Searcher

from ablation.cost.queue import Queue
from ablation.cost.room import Request
from ablation.schedule.stop import Unsaved


class Search(Unsaved, Searcher):
    """Tune's view of a queue: it asks for a trial until there is none that fits, and again when one has ended."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue
        self._cells: dict[str, str] = {}  # Tune's name of a running trial -> its cell

    def suggest(self, trial_id: str) -> dict[str, str] | None:
        """The configuration of the next trial; None while no cell fits."""
        cell = self._queue.take()
        if cell is None:
            return None
        self._cells[trial_id] = cell
        return {"id": cell}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:  # noqa: FBT001, FBT002 - Tune's
        """The trial has ended, and needs no retry."""
        self._queue.ended(self._cells.pop(trial_id))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing is saved: the ledger knows what is left."""


def resources(requests: Mapping[str, Request]) -> Callable[[Mapping[str, str]], tune.PlacementGroupFactory]:
    """What Ray is asked for, by a trial's configuration."""

    def of(config: Mapping[str, str]) -> tune.PlacementGroupFactory:
        request = requests[config["id"]]
        return tune.PlacementGroupFactory([{"CPU": request.cpus, "GPU": request.gpus}])

    return of
