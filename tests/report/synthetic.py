"""Plans and records made up for tests of the report: nothing is trained."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ablation.catalog import LOSSES, Scalar
from ablation.cell import Cell, Component, LearningRate, Pretraining, Projection, Views
from ablation.plan import Plan, PlannedCell, ReportOptions, Resources
from ablation.record import CurvePoint, Diagnostics, Environment, Failure, History, Outcome, Record, Status, TracePoint

ENVIRONMENT = Environment(
    package="0.1.0",
    commit="0123456789abcdef0123456789abcdef01234567",
    dirty=False,
    python="3.11.9",
    torch="2.9.0",
    numpy="2.3.0",
    host="a",
    platform="Linux",
    processor="x86",
    threads=1,
    device="cpu",
    device_name="x86",
)


def planned_cell(
    loss: str, batch_size: int, seed: int, dataset: str = "digits", samples: int = 64_000, **extra: Scalar
) -> PlannedCell:
    """A cell with these settings; `loss` is a catalog name, or a label for InfoNCE. Further settings enter the id."""
    name = loss if loss in LOSSES else "infonce"
    steps = -(-samples // batch_size)
    cell = Cell(
        dataset=Component(name=dataset),
        encoder=Component(name="resnet8"),
        seed=seed,
        pretraining=Pretraining(
            loss=Component(name=name),
            batch_size=batch_size,
            steps=steps,
            # labels and further axes must make distinct cells, as they do in a real plan
            temperature=float(extra.get("temperature", 0.1)) + (0 if name == loss else 0.001 * len(loss)),
            projection=Projection(hidden=64, out=64),
            optimizer=Component(name="sgd"),
            learning_rate=LearningRate(peak=float(extra.get("learning_rate", 0.3)), warmup_steps=0, schedule="cosine"),
            views=Views(crop_scale=(0.2, 1.0), flip=False, jitter=0.5, grayscale=0.0, blur=0.0),
            learning_curve="log" if extra.get("learning_curve") == "log" else "even",
        ),
    )
    settings: dict[str, Scalar] = {"dataset": dataset, "loss": loss, "batch_size": batch_size, "seed": seed, **extra}
    return PlannedCell(cell=cell, settings=settings, samples=steps * batch_size, epochs=samples / 1150)


def plan_of(
    *,
    losses: Sequence[str] = ("infonce", "flatnce"),
    batch_sizes: Sequence[int] = (8, 32, 128),
    seeds: int = 5,
    datasets: Sequence[str] = ("digits",),
    report: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    **extra: Sequence[Scalar],
) -> Plan:
    """The whole grid of these values; keyword arguments are further axes."""
    axes: dict[str, Sequence[Scalar]] = {
        "loss": losses,
        "batch_size": batch_sizes,
        "dataset": datasets,
        **extra,
        "seed": range(seeds),
    }
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return Plan(
        name="synthetic",
        question="Which loss depends less on its batch size?",
        axes=[axis for axis, values in axes.items() if len(values) > 1],
        cells=[planned_cell(**point) for point in points],  # type: ignore[arg-type]
        resources=Resources(),
        report=ReportOptions(**(report or {})),
        warnings=list(warnings),
    )


def record_of(
    cell: Cell,
    accuracy: float | None = 0.9,
    status: Status = Status.DONE,
    message: str = "loss is nan",
    environment: Environment = ENVIRONMENT,
) -> Record:
    """A record of the cell: done with this linear top-1 accuracy, or ended with `status`."""
    done = status is Status.DONE and accuracy is not None
    outcome = Outcome(
        metrics={"linear_top1": accuracy or 0.0, "linear_top5": 1.0, "knn_top1": 0.9 * (accuracy or 0.0)},
        selection={"l2": 0.1, "l2_at_edge": 0.0, "validation_top1": accuracy or 0.0},
        samples=64_000,
        steps=500,
        features=64,
        weights_hash="0" * 64,
        first_batch_hash=None,
        history_hash="0" * 64,
    )
    return Record(
        id=cell.id,
        pretraining_key=cell.pretraining_key,
        status=status,
        cell=cell,
        outcome=outcome if done else None,
        failure=None if done else Failure(kind="FloatingPointError", message=message, step=117),
        data_checksum="f" * 64,
        timings={"pretraining": 50.0, "evaluation": 10.0},
        peak_memory_bytes=10**9,
        attempts=1,
        finished="2025-01-01T00:00:00Z",
        environment=environment,
    )


def records_of(
    plan: Plan, accuracy: Callable[[str, int, int], float | None], baseline: float | None = 0.7
) -> dict[str, Record]:
    """Done records by id of accuracy(loss, batch size, seed), none where None; `baseline` for the random encoder."""
    found = [
        record_of(planned.cell, value)
        for planned in plan.cells
        if (value := accuracy(str(planned.settings["loss"]), int(planned.settings["batch_size"]), planned.cell.seed))
        is not None
    ]
    if baseline is not None:
        found += [record_of(cell, baseline + 0.004 * (cell.seed % 50)) for cell in plan.baselines()]
    return by_id(found)


def by_id(records: Iterable[Record]) -> dict[str, Record]:
    """Records as the ledger gives them."""
    return {record.id: record for record in records}


def diagnostics_of(xi_below_1e3: float, rounding_error: float | None) -> Diagnostics:
    """One step's diagnostics, of which two are given."""
    return Diagnostics(
        temperature=0.1, log10_xi_mean=0.0, log10_xi=(-1.0, -0.5, 0.0, 0.5, 1.0), xi_below_1e3=xi_below_1e3,
        xi_below_1e7=0.0, ess=0.5, mi_bound=1.0, mi_closeness=0.5, alignment=0.5, uniformity=-1.0, effective_rank=9.0,
        gradient_norm=0.1, rounding_error=rounding_error,
    )  # fmt: skip


def history_of(_: str) -> History:
    """A history of four logged steps and two evaluations, whatever the cell."""
    return History(
        trace=[
            TracePoint(step=s, samples=8 * s, loss=1.0, learning_rate=0.1, p_pos=s / 100, seconds=s / 10)
            for s in (1, 10, 20, 40)
        ],
        curve=[CurvePoint(step=s, samples=8 * s, knn_top1=0.5 + s / 100) for s in (20, 40)],
    )
