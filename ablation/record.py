"""Record: what one cell came to, and History: how it went there. Plain, validated data; read with `ablation.ledger`."""

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from ablation.cell import Cell, Frozen

SCHEMA_VERSION: Final = 1

Accuracy = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]  # fits wherever a table or a file may take it


class Status(StrEnum):
    """The outcomes of a cell. All are final until the user asks for a retry; only `DONE` has metrics."""

    DONE = "done"
    FAILED = "failed"  # an error of the code, the data or the machine
    DIVERGED = "diverged"  # a loss or gradient that is not finite
    OOM = "oom"  # the device or the host ran out of memory
    TIMEOUT = "timeout"  # the cell's time limit passed


class Failure(Frozen):
    """Why a cell has no metrics."""

    kind: str  # the exception's class, such as FloatingPointError
    message: str
    step: Count | None  # the first update that diverged, else the last completed one; None before the first
    traceback: str = ""


class Diagnostics(Frozen):
    """What one update's batch says of the contrast, the rows z and the arithmetic; see `ablation.losses.diagnostics`.

    xi is an anchor's sum of e^s over its negatives, over that of its positive; s the cosines over the temperature.
    """

    temperature: float
    log10_xi_mean: float
    log10_xi: tuple[float, ...]  # quantiles over the anchors: .05, .25, .5, .75, .95
    xi_below_1e3: float  # share of anchors with xi < 1e-3
    xi_below_1e7: float  # share of anchors with xi < 1e-7
    ess: float  # effective sample size of the negatives, over their number
    mi_bound: float  # nats: log(2B - 1) - InfoNCE
    mi_closeness: float  # the bound over log(2B - 1)
    alignment: float
    uniformity: float
    effective_rank: float
    gradient_norm: float | None  # of the loss at z; None where it is not finite
    rounding_error: float | None  # |g - g64| / |g64| of that gradient; None where either says nothing


class TracePoint(Frozen):
    """One logged update. `loss` and `p_pos` are means over the batch's 2B anchors, before the update."""

    step: Count  # updates done, this one included
    samples: Count  # images seen, this batch included
    loss: float
    learning_rate: float
    p_pos: float  # probability of the positive among all 2B - 1 candidates
    seconds: float  # of training since the cell began, over all its attempts; not deterministic
    diagnostics: Diagnostics | None = None  # where they were due


class CurvePoint(Frozen):
    """Accuracy along the training, on the validation split."""

    step: Count
    samples: Count
    knn_top1: Accuracy


class History(Frozen):
    """A cell's way to its result."""

    trace: list[TracePoint] = Field(default_factory=list)
    curve: list[CurvePoint] = Field(default_factory=list)

    def deterministic(self) -> dict[str, Any]:
        """The part that is equal to the bit in an interrupted and an uninterrupted run: all but times."""
        return {
            "trace": [point.model_dump(exclude={"seconds"}) for point in self.trace],
            "curve": [point.model_dump() for point in self.curve],
        }

    def fingerprint(self) -> str:
        """SHA-256 of the deterministic part in the fields of the first release, so that it stays comparable."""
        fields = {"step", "samples", "loss", "learning_rate", "p_pos"}
        trace = [point.model_dump(include=fields) for point in self.trace]
        curve = [point.model_dump() for point in self.curve]
        return sha256(json.dumps({"trace": trace, "curve": curve}, sort_keys=True).encode()).hexdigest()

    def summary(self) -> dict[str, float]:
        """Means of the diagnostics: ``run.X`` over all updates that have them, ``end.X`` over their last fifth."""
        found = [point.diagnostics for point in self.trace if point.diagnostics]
        parts = {"run": found, "end": found[-math.ceil(len(found) / 5) :]}
        means = {}
        for part, diagnostics in parts.items():
            for name in Diagnostics.model_fields:
                values = [getattr(d, name) for d in diagnostics if isinstance(getattr(d, name), float)]
                if values:
                    means[f"{part}.{name}"] = math.fsum(values) / len(values)
        return means


class Outcome(Frozen):
    """What a finished cell computed, all of it deterministic given CPU type, build and thread count."""

    metrics: dict[str, Accuracy]  # linear_top1, linear_top5, knn_top1 on the test split, in [0, 1]
    selection: dict[str, float]
    """How the linear classifier came about: its accuracy on the validation split (validation_top1); by L-BFGS the l2
    chosen, whether that is at an edge of its grid (l2_at_edge), the last fit's iterations, and whether all that the
    accuracies rest on converged (1 or 0, missing in early records); by SGD probe_batch, rows a step, and probe_steps.
    """
    samples: Count  # images seen in pretraining
    steps: Count  # updates done
    features: Count  # width of the evaluated features h
    weights_hash: str  # SHA-256 of the encoder's parameters and buffers
    first_batch_hash: str | None  # SHA-256 of the first batch's views; None for the random-init baseline
    history_hash: str  # see `History.fingerprint`
    diagnostics: dict[str, float] = Field(default_factory=dict)  # see `History.summary`


class Environment(Frozen):
    """Where a cell ran and with what code."""

    package: str
    commit: str | None  # of the code; None outside a checkout
    dirty: bool | None  # uncommitted changes to the code
    python: str
    torch: str
    numpy: str
    host: str
    platform: str
    processor: str
    threads: Count  # of torch, in the trial
    device: str  # cpu, cuda, ...
    device_name: str
    compiled: bool | None = False  # the network, by torch.compile, at any time of the run; None: nothing was trained
    micro_batch: Annotated[int, Field(ge=1)] | Literal["all"] | None = "all"
    """Images whose activations were kept at a time; None: nothing was trained."""


class Record(Frozen):
    """One cell's outcome, as it lies in the ledger."""

    schema_version: Literal[1] = SCHEMA_VERSION
    id: str
    pretraining_key: str
    status: Status
    cell: Cell
    outcome: Outcome | None
    failure: Failure | None
    data_checksum: str | None  # SHA-256 of images and labels; None where the data could not be loaded
    timings: Mapping[str, float]  # seconds: pretraining, evaluation, total; over all attempts
    peak_memory_bytes: Count | None  # of the device, or of the process on a CPU
    attempts: Count = Field(ge=1)
    finished: str  # UTC, ISO 8601
    environment: Environment

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.id, self.pretraining_key) != (self.cell.id, self.cell.pretraining_key):
            raise ValueError(f"the record's id {self.id} is not that of its cell, {self.cell.id}")
        if (self.status is Status.DONE) != (self.outcome is not None) or (self.outcome is None) == (
            self.failure is None
        ):
            raise ValueError(f"a record is done with an outcome or has a failure; this one is {self.status}")
        return self

    def deterministic(self) -> dict[str, Any]:
        """The part that is equal to the bit however often the cell was interrupted, on one CPU type and build."""
        kept = {"id", "status", "cell", "outcome", "data_checksum"}
        return self.model_dump(mode="json", include=kept)
