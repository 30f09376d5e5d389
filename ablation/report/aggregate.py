"""Plan and records joined: one run per planned cell, done or not, and the random-init runs beside them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ablation import catalog
from ablation.catalog import Scalar
from ablation.cell import Cell
from ablation.plan import Plan, PlannedCell
from ablation.record import Record, Status

STANDARD_AXES = ("dataset", "loss", "batch_size", "seed")
TODO = "todo"  # the status of a planned cell without a record


@dataclass(frozen=True)
class Panel:
    """One dataset under one combination of the further axes: accuracies are averaged and compared only within it."""

    dataset: str  # as the sweep names it
    dataset_title: str
    classes: int
    test_images: int
    variant: tuple[tuple[str, Scalar], ...]  # (axis, value) of the axes beyond dataset, loss, batch_size and seed

    @property
    def title(self) -> str:
        """Names the panel, such as ``Digits (8 x 8), temperature 0.1``."""
        return ", ".join([self.dataset_title, *(f"{axis} {value}" for axis, value in self.variant)])

    @property
    def chance(self) -> float:
        """Accuracy of a guess among equally frequent classes."""
        return 1 / self.classes


@dataclass(frozen=True)
class Run:
    """A planned or random-init cell with its record, where there is one."""

    cell: Cell
    record: Record | None
    panel: Panel
    settings: Mapping[str, Scalar]  # of the grid; for a random-init run those it depends on

    @property
    def status(self) -> str:
        """The record's status, or `TODO`."""
        return self.record.status.value if self.record else TODO

    def score(self, metric: str) -> float | None:
        """The metric in [0, 1]; None where the run has no such result."""
        return self.record.outcome.metrics.get(metric) if self.record and self.record.outcome else None


@dataclass(frozen=True)
class Grid:
    """A sweep's runs in the order of the plan, holes included."""

    axes: tuple[str, ...]  # the further axes: those with several values, beyond the standard ones
    runs: Sequence[Run]
    baselines: Mapping[Panel, Sequence[Run]]  # random-init; a run may serve several panels
    unplanned: int  # records that the plan no longer asks for
    followers: Mapping[str, str] = field(default_factory=dict)  # axis that others decide -> its values, in words

    @cached_property
    def panels(self) -> list[Panel]:
        """Every panel, in order of appearance."""
        return list(self.baselines)

    @cached_property
    def losses(self) -> list[str]:
        """Every loss label, in order of appearance."""
        return list(dict.fromkeys(str(run.settings["loss"]) for run in self.runs))

    @cached_property
    def groups(self) -> Mapping[tuple[Panel, str, int], Sequence[Run]]:
        """(panel, loss, batch size) -> its runs, one a seed."""
        groups: defaultdict[tuple[Panel, str, int], list[Run]] = defaultdict(list)
        for run in self.runs:
            groups[run.panel, str(run.settings["loss"]), int(run.settings["batch_size"])].append(run)
        return dict(groups)

    @cached_property
    def loss_titles(self) -> Mapping[str, str]:
        """Loss label -> the catalog's title, or the label where the sweep chose one or a title would not be unique."""
        components = {str(run.settings["loss"]): run.cell.pretraining for run in self.runs}
        titles = {}
        for label, pretraining in components.items():
            named = pretraining is not None and pretraining.loss.name == label and label in catalog.LOSSES
            title = catalog.LOSSES[label].title if named else label
            titles[label] = label if title in components else title
        return titles

    def subject(self, losses: Sequence[str]) -> str:
        """One loss by its title; two as a difference of their labels, which are short."""
        return self.loss_titles[losses[0]] if len(losses) == 1 else " \u2212 ".join(losses)

    def batch_sizes(self, panel: Panel | None = None) -> list[int]:
        """The planned batch sizes of a panel, or of all, ascending."""
        return sorted({batch for where, _, batch in self.groups if panel in (None, where)})

    def scores(self, panel: Panel, loss: str, batch_size: int, metric: str) -> dict[int, float]:
        """Seed -> metric over the runs that have it."""
        return by_seed(self.groups.get((panel, loss, batch_size), ()), metric)

    def used_records(self) -> list[Record]:
        """The distinct records that stand behind the report's numbers and failures."""
        everything = [*self.runs, *(run for runs in self.baselines.values() for run in runs)]
        return list({run.record.id: run.record for run in everything if run.record}.values())

    def failures(self) -> list[Run]:
        """The runs that ended without a result, random-init ones last and each once."""
        shared = {run.cell.id: run for runs in self.baselines.values() for run in runs}
        return [run for run in [*self.runs, *shared.values()] if run.status not in (TODO, Status.DONE)]


def by_seed(runs: Iterable[Run], metric: str) -> dict[int, float]:
    """Seed -> metric over the runs that have it."""
    scores = {run.cell.seed: run.score(metric) for run in runs}
    return {seed: score for seed, score in scores.items() if score is not None}


def count_statuses(runs: Iterable[Run]) -> Counter[str]:
    """Status -> number of runs."""
    return Counter(run.status for run in runs)


def aggregate(plan: Plan, records: Mapping[str, Record]) -> Grid:
    """Join a plan with the records there are, by cell id."""
    axes = _further_axes(plan)
    followers = {axis: _followed(axis, plan) for axis in axes if _follows(axis, plan)}
    axes = tuple(axis for axis in axes if axis not in followers)
    runs = []
    baselines: dict[Panel, dict[str, Run]] = {}
    for planned in plan.cells:
        cell, settings = planned.cell, planned.settings
        panel = _panel(cell, settings, axes)
        runs.append(Run(cell, records.get(cell.id), panel, settings))
        bare = cell.baseline()
        known = {"dataset": settings["dataset"], "seed": cell.seed}
        baselines.setdefault(panel, {}).setdefault(bare.id, Run(bare, records.get(bare.id), panel, known))
    wanted = {run.cell.id for run in runs}.union(*baselines.values())
    return Grid(
        axes=axes,
        runs=runs,
        baselines={panel: list(found.values()) for panel, found in baselines.items()},
        unplanned=len(records.keys() - wanted),
        followers=followers,
    )


def _further_axes(plan: Plan) -> tuple[str, ...]:
    # From the settings themselves, so that an axis that the plan's own list lacked could not be averaged over.
    values: defaultdict[str, set[Scalar | None]] = defaultdict(set)
    for axis in dict.fromkeys(axis for planned in plan.cells for axis in planned.settings):
        values[axis] = {planned.settings.get(axis) for planned in plan.cells}
    varied = [axis for axis, seen in values.items() if axis not in STANDARD_AXES and len(seen) > 1]
    return tuple(axis for axis in varied if not _named_by_the_loss(axis, plan))


def _named_by_the_loss(axis: str, plan: Plan) -> bool:
    """Whether labels of losses say the axis: each has one value of it, and those without a label the usual one.

    So ``{name: infonce, label: InfoNCE in fp16}`` with a dtype of its own is compared like another loss. One with a
    probe of its own is not: numbers of two protocols never share a panel.
    """
    if axis.partition(".")[0] == "probe":
        return False
    seen: defaultdict[Scalar, set[Scalar | None]] = defaultdict(set)
    for planned in plan.cells:
        seen[planned.settings["loss"]].add(planned.settings.get(axis))
    usual = Counter(planned.settings.get(axis) for planned in plan.cells).most_common(1)[0][0]
    names = {p.settings["loss"] for p in plan.cells if p.cell.pretraining and p.settings["loss"] == _unlabelled(p)}
    return all(len(found) == 1 and (loss not in names or found == {usual}) for loss, found in seen.items())


def _follows(axis: str, plan: Plan) -> bool:
    """Whether it is a learning rate that all other settings together decide: nothing is averaged over it."""
    return axis.startswith("learning_rate") and _decides(plan, [key for key in _varied(plan) if key != axis], axis)


def _followed(axis: str, plan: Plan) -> str:
    """The values of an axis that others decide, beside those of the one that decides it alone, if there is one."""
    values = {planned.settings.get(axis) for planned in plan.cells}
    alone = next((key for key in _varied(plan) if key != axis and _decides(plan, [key], axis)), None)
    if alone is None:
        return f"has {len(values)} values, one for each combination of other settings; records.csv has them"
    pairs = {planned.settings.get(alone): planned.settings.get(axis) for planned in plan.cells}
    return f"follows {alone}: {', '.join(f'{value} with {key}' for key, value in pairs.items())}"


def _varied(plan: Plan) -> list[str]:
    """The settings with several values, seeds left out."""
    names = dict.fromkeys(name for planned in plan.cells for name in planned.settings if name != "seed")
    return [name for name in names if len({planned.settings.get(name) for planned in plan.cells}) > 1]


def _decides(plan: Plan, names: Sequence[str], axis: str) -> bool:
    """Whether runs that are equal in all of `names` are equal in the axis."""
    seen: dict[tuple[Scalar | None, ...], Scalar | None] = {}
    return all(
        seen.setdefault(tuple(p.settings.get(name) for name in names), p.settings.get(axis)) == p.settings.get(axis)
        for p in plan.cells
    )


def _unlabelled(planned: PlannedCell) -> str:
    """What the cell's loss is shown as without a label, if that is recognisable: a label has no equals sign."""
    shown = str(planned.settings["loss"])
    assert planned.cell.pretraining is not None
    return shown if "=" in shown else planned.cell.pretraining.loss.name


def _panel(cell: Cell, settings: Mapping[str, Scalar], axes: Iterable[str]) -> Panel:
    dataset = catalog.dataset(cell.dataset)
    label = str(settings["dataset"])
    return Panel(
        dataset=label,
        dataset_title=dataset.title if label == cell.dataset.name else label,
        classes=dataset.classes,
        test_images=dataset.test_images,
        variant=tuple((axis, settings.get(axis, "not set")) for axis in axes),
    )
