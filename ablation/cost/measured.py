"""Measurements, and the file of the cache folder that keeps them: by machine, versions, and what was measured."""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError

import ablation
from ablation import catalog, durable
from ablation.cell import Cell, Component, Frozen, LearningRate
from ablation.host import usable_cpus
from ablation.places import cache_folder
from ablation.plan import Resources

MAX_BYTES = 2**26  # of a file of measurements; one takes a kilobyte
STEPS = 10**6  # of a cell in normal form


class Measurement(Frozen):
    """What a cell in normal form took. Either `failure` says why nothing was measured, or seconds and bytes do."""

    cell: Cell
    device: str  # its name
    gpus: int = 0  # of the machine, where it was measured on one
    gpu_memory: int = 0  # bytes of one GPU
    step: float = Field(default=0.0, ge=0)  # seconds of an update
    curve: float = Field(default=0.0, ge=0)  # seconds of the evaluations along a run
    evaluation: float = Field(default=0.0, ge=0)  # seconds of the evaluation at its end
    peak: int = 0  # bytes of the process, or of the GPU, at most; without the dataset
    evaluation_peak: int = 0  # bytes of the features in the evaluation, by their number
    failure: str | None = None


FREE: Mapping[str, bool | set[str]] = {
    "seed": True,
    "pretraining": {"loss", "steps", "temperature", "temperature_control", "learning_rate"},
}  # fields of a cell that a step's cost does not depend on by much


def normal_form(cell: Cell) -> Cell:
    """The cell that stands for all that cost the same: what changes no step's cost by much is set to one value.

    Losses share a kernel, so InfoNCE stands for them; seed, temperature, rate and optimiser's numbers cost nothing.
    """
    assert cell.pretraining is not None
    defaults = catalog.OPTIMIZERS[cell.pretraining.optimizer.name].parameters
    usual = {
        "loss": Component(name="infonce"),
        "steps": STEPS,
        "temperature": 0.1,
        "temperature_control": Component(name="fixed"),
        "learning_rate": LearningRate(peak=0.01, warmup_steps=STEPS, schedule="constant"),
        "optimizer": Component(
            name=cell.pretraining.optimizer.name, parameters={key: value.default for key, value in defaults.items()}
        ),
    }
    pretraining = cell.pretraining.model_copy(update=usual)
    return Cell(dataset=cell.dataset, encoder=cell.encoder, seed=0, pretraining=pretraining, evaluation=cell.evaluation)


class Measurements(Frozen):
    """All that was measured on one machine, with one version of this package and of torch."""

    found: Mapping[str, Measurement] = Field(default_factory=dict)

    @classmethod
    def load(cls) -> Self:
        """Those of this machine; none where there is no file, or a damaged one."""
        try:
            return cls.model_validate_json(durable.unseal(durable.read(_file(), MAX_BYTES)))
        except (OSError, ValidationError, durable.DamagedError):
            return cls()

    def save(self) -> None:
        """Keeps them for later plans and runs.

        Raises:
            OSError: the cache folder can't be written.
        """
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        durable.write(file, durable.seal(self.model_dump_json().encode()))

    def joined(self, measured: Iterable[Measurement], resources: Resources) -> Self:
        """These and others, which count where both have one."""
        return type(self)(found={**self.found, **{_key(one.cell, resources): one for one in measured}})

    def of(self, cell: Cell, resources: Resources) -> Measurement | None:
        """What the cell costs, if that is known; a random-init baseline costs what the evaluation of others does."""
        if cell.pretraining is not None:
            return self.found.get(_key(normal_form(cell), resources))
        like = (cell.dataset, cell.encoder, cell.evaluation)
        suffix = _suffix(resources)
        alike = (
            one
            for key, one in self.found.items()
            if (one.cell.dataset, one.cell.encoder, one.cell.evaluation) == like
            and key.endswith(suffix)
            and one.failure is None
        )
        return next(alike, None)


def _key(normal: Cell, resources: Resources) -> str:
    return normal.id + _suffix(resources)


def _suffix(resources: Resources) -> str:
    """What of the resources decides how fast a step is."""
    compiled = "-compiled" if resources.compile is True else ""
    held = "" if resources.micro_batch == "all" else f"-{resources.micro_batch}"
    return f"-{resources.cpus_per_trial}-{'cpu' if resources.gpus_per_trial == 0 else 'any'}{compiled}{held}"


def _file() -> Path:
    machine = (platform.node(), usable_cpus(), ablation.__version__, metadata.version("torch"))
    name = hashlib.sha256(repr(machine).encode()).hexdigest()[:16]
    return cache_folder() / "measurements" / f"{name}.json"
