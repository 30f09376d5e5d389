"""Plan: the cells of a sweep in resolved form, with what the schedule and the report need to know of each."""

from typing import Literal

from pydantic import Field

from ablation.catalog import Scalar
from ablation.cell import Cell, Frozen


class Resources(Frozen):
    """What a trial may use. Nothing here changes a result, so nothing here enters an id."""

    cpus_per_trial: int = Field(default=1, ge=1)
    gpus_per_trial: float | Literal["auto"] = "auto"  # auto: one where there are GPUs, else none
    time_limit: float | None = (
        None  # seconds of one cell, over all its attempts; the sweep file writes 90s, 30m, 2h, 1d
    )
    max_retries: int = Field(default=3, ge=0)  # of a crashed trial
    data_root: str | None = None  # where dataset files lie; else $ABLATION_DATA, else ~/.cache/ablation
    download: bool = True  # fetch missing dataset files into data_root


class ReportOptions(Frozen):
    """The `report` block of a sweep file."""

    title: str | None = None
    reference_batch: int | None = None  # the batch size that the others are compared with; None: the largest
    comparisons: list[tuple[str, str]] = Field(default_factory=list)  # pairs of loss labels (a, b), read as a - b


class PlannedCell(Frozen):
    """A cell and where it stands in the grid."""

    cell: Cell
    settings: dict[str, Scalar]
    """Axis -> value as shown. Always has dataset, loss, batch_size and seed; other axes of the grid follow. A value
    with a label or a name is shown by it. Two cells of a plan never have equal settings."""
    samples: int  # images that pretraining sees: steps x batch size
    epochs: float  # samples over the pretraining images


class Plan(Frozen):
    """A whole sweep, ready to run. Saved as plan.json beside its records."""

    schema_version: int = 1
    name: str
    question: str | None
    axes: list[str]  # the axes with more than one value, in the order of the file; seed included
    cells: list[PlannedCell]
    resources: Resources
    report: ReportOptions
    warnings: list[str]

    def baselines(self) -> list[Cell]:
        """The distinct random-init cells that belong to the planned ones, in order."""
        return list({cell.id: cell for cell in (planned.cell.baseline() for planned in self.cells)}.values())
