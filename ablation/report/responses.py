"""How accuracy responds to the learning rate or the temperature, per loss and batch size, and what would be chosen."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ablation.report import stats
from ablation.report.aggregate import Grid, Panel, Run
from ablation.report.stats import Estimate

SELECTED_BY = "validation_top1"  # linear accuracy on the validation split: the test split chooses nothing


@dataclass(frozen=True)
class Tried:
    """One value of the axis, over its seeds."""

    value: float
    planned: int
    validation: Estimate | None
    test: Estimate | None  # of the report's metric


@dataclass(frozen=True)
class Response:
    """A loss at one batch size, over the values of an axis, ascending."""

    axis: str
    panel: Panel  # without the axis among its variants
    loss: str
    batch_size: int
    tried: Sequence[Tried]

    @property
    def winner(self) -> Tried | None:
        """The value with the best mean validation accuracy."""
        known = [(tried.validation.mean, tried) for tried in self.tried if tried.validation]
        return max(known, key=lambda pair: pair[0])[1] if known else None

    @property
    def at_edge(self) -> bool:
        """Whether the winner is the smallest or the largest value, so that a better one may lie beyond the grid."""
        return self.winner in (self.tried[0], self.tried[-1])


def tuning_axes(grid: Grid) -> list[str]:
    """The further axes that are a temperature or a number of the learning rate."""
    values = {axis: {dict(panel.variant).get(axis) for panel in grid.panels} for axis in grid.axes}
    return [
        axis
        for axis, seen in values.items()
        if (axis == "temperature" or axis.startswith("learning_rate"))
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in seen)
    ]


def responses(grid: Grid, metric: str) -> list[Response]:
    """Every response along every tuning axis, all other settings held; in order of appearance."""
    found: defaultdict[tuple[str, Panel, str, int], dict[float, list[Run]]] = defaultdict(dict)
    for axis in tuning_axes(grid):
        for (panel, loss, batch_size), runs in grid.groups.items():
            value = float(dict(panel.variant)[axis])
            rest = replace(panel, variant=tuple(pair for pair in panel.variant if pair[0] != axis))
            found[axis, rest, loss, batch_size].setdefault(value, []).extend(runs)
    return [
        Response(axis, panel, loss, size, [_tried(value, runs, metric) for value, runs in sorted(values.items())])
        for (axis, panel, loss, size), values in found.items()
    ]


def _tried(value: float, runs: Sequence[Run], metric: str) -> Tried:
    outcomes = [run.record.outcome for run in runs if run.record and run.record.outcome]
    validation = [outcome.selection[SELECTED_BY] for outcome in outcomes if SELECTED_BY in outcome.selection]
    test = [outcome.metrics[metric] for outcome in outcomes if metric in outcome.metrics]
    return Tried(value, len(runs), stats.estimate(validation), stats.estimate(test))
