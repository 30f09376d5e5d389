"""From measurements to what a sweep needs: seconds of each cell, its share of a GPU, and how long it all takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from ablation import catalog
from ablation.cell import Cell
from ablation.cost.measured import FREE, Measurement, Measurements
from ablation.cost.queue import Queue, makespan
from ablation.cost.room import Request, Room
from ablation.host import usable_cpus
from ablation.plan import Plan, Resources

STARTUP = 10.0  # seconds until the first cell trains: Ray, a worker, its libraries
CONTEXT = 0.8e9  # bytes that a process takes of a GPU before any tensor
USABLE = 0.9  # of a GPU's memory; the rest is head-room
MOST_ON_A_GPU = 8  # trials; more of them wait for each other


@dataclass(frozen=True)
class Costs:
    """What the cells of a plan cost, as far as it was measured."""

    resources: Resources
    measurements: Measurements
    _found: dict[str, Measurement | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def load(cls, resources: Resources) -> Self:
        """By what was measured on this machine."""
        return cls(resources, Measurements.load())

    def of(self, cell: Cell) -> Measurement | None:
        """The measurement that stands for the cell."""
        kind = cell.model_dump_json(exclude=FREE)
        if kind not in self._found:
            self._found[kind] = self.measurements.of(cell, self.resources)
        return self._found[kind]

    def seconds(self, cell: Cell, *, trains: bool = True) -> float | None:
        """How long the cell takes, by itself or with an encoder that another `trains`; None where that is not known."""
        found = self.of(cell)
        if found is None or found.failure is not None:
            return None
        steps = cell.pretraining.steps if cell.pretraining and trains else 0
        return found.evaluation + (steps * found.step + found.curve if steps else 0.0)

    def relative(self, cells: Iterable[Cell]) -> dict[str, float]:
        """Cell id -> its cost: seconds where all are known, else by the rule of thumb, in no unit."""
        listed = list(cells)
        seconds = {cell.id: self.seconds(cell) for cell in listed}
        known = {cell_id: found for cell_id, found in seconds.items() if found is not None}
        return known if len(known) == len(seconds) else {cell.id: cell.relative_cost for cell in listed}

    def gpus(self, cell: Cell) -> float:
        """GPUs that a trial gets where there are some: as the sweep file says; else a share by measured memory."""
        if self.resources.gpus_per_trial != "auto":
            return self.resources.gpus_per_trial
        found = self.of(cell)
        return share(found) if found and found.failure is None and found.gpu_memory else 1.0

    def request(self, cell: Cell, *, gpus: bool) -> Request:
        """What a trial of the cell takes; `gpus`: whether there are any."""
        asked = self.gpus(cell) if gpus or self.resources.gpus_per_trial != "auto" else 0.0
        return Request(float(self.resources.cpus_per_trial), asked)


def share(found: Measurement) -> float:
    """The share 1/k of a GPU that a trial gets: k of them fit, with their datasets and with head-room."""
    dataset = catalog.dataset(found.cell.dataset).bytes
    resident = 0 if found.cell.dataset.name == catalog.IMAGE_FOLDER and dataset > catalog.RESIDENT else dataset
    needed = max(found.peak, found.evaluation_peak) + resident + CONTEXT
    return 1 / max(1, min(MOST_ON_A_GPU, int(USABLE * found.gpu_memory / needed)))


@dataclass(frozen=True)
class Estimate:
    """A plan's cost on this machine. `None` where not all of its cells are measured."""

    plan: Plan
    costs: Costs

    @cached_property
    def _kinds(self) -> list[tuple[Measurement, list[Cell]]]:
        found: dict[str, tuple[Measurement, list[Cell]]] = {}
        for cell in (planned.cell for planned in self.plan.cells):
            if (one := self.costs.of(cell)) is not None:
                found.setdefault(one.cell.id, (one, []))[1].append(cell)
        return list(found.values())

    @property
    def groups(self) -> list[tuple[Measurement, list[Cell]]]:
        """What was measured for the plan, with the cells that it stands for, in the plan's order."""
        return [(one, cells) for one, cells in self._kinds if one.failure is None]

    @property
    def failures(self) -> list[Measurement]:
        """What of the plan could not be measured, such as a batch that exceeds the memory."""
        return [one for one, _ in self._kinds if one.failure is not None]

    @cached_property
    def seconds(self) -> Mapping[str, float] | None:
        """Cell id -> seconds, over all that the plan runs."""
        cells = self.plan.runs()
        first = {cell.pretraining_key: cell.id for cell in reversed(cells)}
        seconds = {cell.id: self.costs.seconds(cell, trains=first[cell.pretraining_key] == cell.id) for cell in cells}
        known = {cell_id: found for cell_id, found in seconds.items() if found is not None}
        return known if len(known) == len(cells) else None

    @cached_property
    def at_once(self) -> int:
        """How many of the cells run at the same time, at most."""
        room = self._room()
        return max(room.most(request) for request in {self._request(cell) for cell in self.plan.runs()})

    @property
    def total(self) -> float | None:
        """Seconds of the whole sweep, its start included."""
        if self.seconds is None or not self.at_once:
            return None
        requests = {cell.id: self._request(cell) for cell in self.plan.runs()}
        return STARTUP + makespan(Queue(requests, self.seconds, self._room()), self.seconds)

    def _gpus(self) -> int:
        return max((one.gpus for one, _ in self.groups), default=0)

    def _request(self, cell: Cell) -> Request:
        return self.costs.request(cell, gpus=self._gpus() > 0)

    def _room(self) -> Room:
        return Room([(usable_cpus(), self._gpus())])
