"""The ways to the results: learning curves and diagnostics from the histories of finished runs."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablation.record import CurvePoint, History, Status, TracePoint
from ablation.report import stats
from ablation.report.aggregate import Grid, Panel
from ablation.report.stats import Estimate, Paired

Histories = Callable[[str], History | None]  # by cell id

LAST_SHARE = 0.1  # of a run's logged steps: its diagnostics are means over these
_NOT_DIAGNOSTICS = {"step", "samples", "loss", "learning_rate", "seconds"}  # of a TracePoint; losses share no unit


@dataclass(frozen=True)
class Stop:
    """One evaluation along the training, over the seeds that have it."""

    step: int
    samples: int
    estimate: Estimate  # kNN accuracy on the validation split, in [0, 1]


@dataclass(frozen=True)
class LearningCurve:
    """A loss at a batch size, from its first evaluation to its last."""

    panel: Panel
    loss: str
    batch_size: int
    seeds: Mapping[int, Sequence[CurvePoint]]
    stops: Sequence[Stop]

    def at(self, unit: str, value: int) -> dict[int, float]:
        """Seed -> accuracy at so many samples or steps, between two evaluations linearly; none outside them."""
        found = {}
        for seed, points in self.seeds.items():
            x = [getattr(point, unit) for point in points]
            if x[0] <= value <= x[-1]:
                found[seed] = float(np.interp(value, x, [point.knn_top1 for point in points]))
        return found

    def first(self, unit: str) -> int:
        """The samples or steps of the first evaluation."""
        return max(int(getattr(points[0], unit)) for points in self.seeds.values())

    def last(self, unit: str) -> int:
        """The samples or steps up to which every seed was evaluated."""
        return min(int(getattr(points[-1], unit)) for points in self.seeds.values())


@dataclass(frozen=True)
class Diagnostic:
    """A logged quantity of a loss at a batch size: each seed's mean over the last tenth of its logged steps."""

    panel: Panel
    loss: str
    batch_size: int
    name: str
    estimate: Estimate


@dataclass(frozen=True)
class EqualBudget:
    """A small-batch penalty, or the difference of two losses' penalties, in kNN accuracy along the training."""

    panel: Panel
    losses: tuple[str, ...]  # one, or (a, b) read as a - b
    batch_size: int
    samples: int | None  # at which all are compared; None where their curves have none in common
    at_samples: Paired
    steps: int | None
    at_steps: Paired
    remark: str  # why there is no comparison at equal steps


@dataclass(frozen=True)
class Paths:
    """What the histories of finished runs hold, in the order of the plan."""

    curves: Sequence[LearningCurve]
    diagnostics: Sequence[Diagnostic]
    equal_budgets: Sequence[EqualBudget]


def gather(
    grid: Grid, histories: Histories, references: Mapping[Panel, int], comparisons: Sequence[tuple[str, str]]
) -> Paths:
    """Read the history of every finished run, once."""
    curves: dict[tuple[Panel, str, int], LearningCurve] = {}
    diagnostics = []
    for (panel, loss, batch_size), runs in grid.groups.items():
        finished = [run for run in runs if run.status == Status.DONE]
        found = {run.cell.seed: history for run in finished if (history := histories(run.cell.id))}
        seeds = {seed: history.curve for seed, history in found.items() if history.curve}
        if seeds:
            curves[panel, loss, batch_size] = LearningCurve(panel, loss, batch_size, seeds, _stops(seeds))
        for name, values in _last_values(history.trace for history in found.values()).items():
            estimate = stats.estimate(values)
            if estimate:
                diagnostics.append(Diagnostic(panel, loss, batch_size, name, estimate))
    return Paths(list(curves.values()), diagnostics, list(_equal_budgets(curves, references, comparisons)))


def _stops(seeds: Mapping[int, Sequence[CurvePoint]]) -> list[Stop]:
    """The evaluations that the seeds share; a seed that was evaluated elsewhere is left out there."""
    scores: dict[tuple[int, int], list[float]] = {}
    for points in seeds.values():
        for point in points:
            scores.setdefault((point.step, point.samples), []).append(point.knn_top1)
    found = [(where, stats.estimate(values)) for where, values in sorted(scores.items())]
    return [Stop(step, samples, estimate) for (step, samples), estimate in found if estimate]


def _last_values(traces: Iterator[list[TracePoint]]) -> dict[str, list[float]]:
    """Diagnostic -> each seed's mean over the last tenth of the steps that have it."""
    found: dict[str, list[float]] = {}
    for trace in traces:
        series: dict[str, list[float]] = {}
        for point in trace:
            for name, value in _scalars(point.model_dump(exclude=_NOT_DIAGNOSTICS)):
                series.setdefault(name, []).append(value)
        for name, values in series.items():
            end = values[-max(1, round(LAST_SHARE * len(values))) :]
            found.setdefault(name, []).append(math.fsum(end) / len(end))
    return found


def _scalars(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a trace point, those of blocks within it included; quantiles and what is not finite left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _scalars(value)
        elif isinstance(value, int | float) and math.isfinite(value):
            yield name, float(value)


def _equal_budgets(
    curves: Mapping[tuple[Panel, str, int], LearningCurve],
    references: Mapping[Panel, int],
    comparisons: Sequence[tuple[str, str]],
) -> Iterator[EqualBudget]:
    for panel, reference in references.items():
        losses = list(dict.fromkeys(loss for where, loss, _ in curves if where == panel))
        sizes = sorted({size for where, _, size in curves if where == panel} - {reference})
        for subject in [*((loss,) for loss in losses), *comparisons]:
            for size in sizes:
                pairs = [(curves.get((panel, loss, reference)), curves.get((panel, loss, size))) for loss in subject]
                whole = [(large, small) for large, small in pairs if large and small]
                if len(whole) == len(subject):
                    yield _equal_budget(panel, subject, size, whole)


def _equal_budget(
    panel: Panel, losses: tuple[str, ...], batch_size: int, pairs: Sequence[tuple[LearningCurve, LearningCurve]]
) -> EqualBudget:
    samples, at_samples = _compared(pairs, "samples")
    steps, at_steps = _compared(pairs, "step")
    remark = ""
    if steps is None:
        late = max((curve for pair in pairs for curve in pair), key=lambda curve: curve.first("step"))
        end = min(curve.last("step") for pair in pairs for curve in pair)
        remark = f"batch {late.batch_size} is first evaluated at step {late.first('step'):,}, later than {end:,}"
    return EqualBudget(panel, losses, batch_size, samples, at_samples, steps, at_steps, remark)


def _compared(pairs: Sequence[tuple[LearningCurve, LearningCurve]], unit: str) -> tuple[int | None, Paired]:
    """Penalties at the latest moment that all curves reach, and that moment; None where one begins after it."""
    curves = [curve for pair in pairs for curve in pair]
    moment = min(curve.last(unit) for curve in curves)
    penalties = []
    for large, small in pairs:
        left, right = large.at(unit, moment), small.at(unit, moment)
        penalties.append({seed: left[seed] - right[seed] for seed in left.keys() & right.keys()})
    nothing = dict.fromkeys(penalties[0], 0.0)
    paired = stats.paired(penalties[0], penalties[1] if len(penalties) > 1 else nothing)
    return (moment if paired.estimate else None), paired
