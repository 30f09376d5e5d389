"""Plan: the cells of a sweep in resolved form, with what the schedule and the report need to know of each."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from ablation import catalog, durable, recipe, sweep
from ablation.catalog import Scalar
from ablation.cell import Cell, Frozen
from ablation.errors import UserError
from ablation.recipe import Point
from ablation.sweep import STANDARD_AXES, ReportOptions, Resources, Sweep

__all__ = ["STARVED", "Plan", "PlannedCell", "ReportOptions", "Resources", "build", "read"]

SCHEMA_VERSION = 1
MAX_BYTES = 2**30  # of a saved plan; 100,000 cells take a ninth of it
STARVED = 500  # updates below which a batch size is judged by its number of updates


class PlannedCell(Frozen):
    """A cell and where it stands in the grid."""

    cell: Cell
    settings: dict[str, Scalar]
    """Axis -> value as shown. Always has dataset, loss, batch_size and seed; other axes of the grid follow. A value
    with a label or a name is shown by it. Two cells of a plan never have equal settings."""
    samples: int  # images that pretraining sees: steps x batch size
    epochs: float  # samples over the pretraining images
    rate: str = ""  # how the peak learning rate came about, such as 0.3 x sqrt(8/256)


class Plan(Frozen):
    """A whole sweep, ready to run. Saved as plan.json beside its records."""

    schema_version: int = SCHEMA_VERSION
    name: str
    question: str | None
    axes: list[str]  # the axes with more than one value, in the order of the file; seed included
    cells: list[PlannedCell]
    resources: Resources
    report: ReportOptions
    warnings: list[str]

    def runs(self) -> list[Cell]:
        """The distinct cells to run, baselines last: planned cells that resolve alike share one."""
        cells = [planned.cell for planned in self.cells] + self.baselines()
        return list({cell.id: cell for cell in cells}.values())

    def baselines(self) -> list[Cell]:
        """The distinct random-init cells that belong to the planned ones, in order."""
        alike: dict[str, Cell] = {}
        for planned in self.cells:
            alike.setdefault(planned.cell.model_dump_json(exclude={"pretraining"}), planned.cell)
        return [cell.baseline() for cell in alike.values()]

    def save(self, path: Path) -> None:
        """Writes the plan as JSON, durably."""
        durable.write(path, self.model_dump_json(indent=1).encode() + b"\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            UserError: there is no plan, or none that this version reads.
        """
        try:
            plan = cls.model_validate_json(durable.read(path, MAX_BYTES))
        except durable.DamagedError as error:
            raise UserError(f"{path}: {error}; plan the sweep again") from error
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        except ValidationError as error:
            wrong = error.errors()[0]
            place = ".".join(map(str, wrong["loc"])) or "the whole file"
            raise UserError(
                f"{path}: is no plan of this version ({place}: {wrong['msg']}); plan the sweep again"
            ) from error
        if plan.schema_version != SCHEMA_VERSION:
            raise UserError(
                f"{path}: has schema version {plan.schema_version}, not {SCHEMA_VERSION}; plan the sweep again"
            )
        return plan


def read(path: Path, overrides: Sequence[str] = ()) -> Plan:
    """The plan of a sweep file, with `overrides` of the form ``KEY=VALUE`` applied.

    Raises:
        SweepErrors: the file or an override has mistakes; all of them are in `problems`.
    """
    return build(sweep.load(path, overrides))


def build(sweep: Sweep) -> Plan:
    """Resolves every cell of a sweep. A cell that stands in it twice is planned once, with a warning."""
    axes = dict.fromkeys((*STANDARD_AXES, *sweep.axes))
    cells: dict[tuple[Scalar, ...], PlannedCell] = {}
    repeats: list[PlannedCell] = []
    for point in sweep.points:
        planned = _planned(point, axes)
        if cells.setdefault(tuple(planned.settings.values()), planned) is not planned:
            repeats.append(planned)
    found = list(cells.values())
    values = {axis: {planned.settings[axis] for planned in found} for axis in axes}
    return Plan(
        name=sweep.name,
        question=sweep.question,
        axes=[axis for axis in dict.fromkeys((*sweep.axes, *axes)) if len(values[axis]) > 1],
        cells=found,
        resources=sweep.resources,
        report=sweep.report,
        warnings=[*sweep.warnings, *_repeat_warnings(repeats, found), *_warnings(found)],
    )


def _planned(point: Point, axes: Mapping[str, None]) -> PlannedCell:
    cell = recipe.resolve(point)
    assert cell.pretraining is not None
    samples = cell.pretraining.steps * cell.pretraining.batch_size
    return PlannedCell(
        cell=cell,
        settings={axis: recipe.text(point, axis) for axis in axes},
        samples=samples,
        epochs=samples / catalog.dataset(cell.dataset).pretraining_images,
        rate=recipe.rate_text(point),
    )


def _repeat_warnings(repeats: Sequence[PlannedCell], found: Sequence[PlannedCell]) -> Iterator[str]:
    if repeats:
        example = settings_text(repeats[0].settings)
        yield f"include repeats {_count(len(repeats), 'cell')} that the sweep has already, such as {example}"
    first: dict[str, PlannedCell] = {}
    same = [(p, first[p.cell.id]) for p in found if first.setdefault(p.cell.id, p) is not p]
    if same:
        differing = [axis for axis, value in same[0][0].settings.items() if value != same[0][1].settings[axis]]
        one, other = (settings_text({axis: p.settings[axis] for axis in differing}) for p in same[0])
        at = settings_text({axis: value for axis, value in same[0][0].settings.items() if axis not in differing})
        yield f"{_count(len(same), 'cell')} share the run of another, such as {one} that of {other} at {at}"


def _warnings(cells: Sequence[PlannedCell]) -> Iterator[str]:
    """What makes the sweep's answer weaker than it looks, a line each."""
    starved: dict[int, int] = {}
    for planned in cells:
        run = planned.cell.pretraining
        assert run is not None
        if run.steps < STARVED:
            starved[run.batch_size] = min(run.steps, starved.get(run.batch_size, STARVED))
    if starved:
        listed = ", ".join(f"{steps} at batch size {batch}" for batch, steps in sorted(starved.items()))
        yield f"under {STARVED} steps ({listed}): this measures starvation, not batch size; raise the budget"
    seeds: dict[tuple[tuple[str, Scalar], ...], set[int]] = defaultdict(set)
    for planned in cells:
        seeds[tuple((k, v) for k, v in planned.settings.items() if k != "seed")].add(planned.cell.seed)
    counts = Counter(map(len, seeds.values()))
    if set(counts) == {1}:
        yield "one seed only: no intervals and no tests; 5 seeds resolve large effects"
    elif len(counts) > 1:
        yield f"between {min(counts)} and {max(counts)} seeds a setting: comparisons use the seeds that both sides have"
    for name in dict.fromkeys(planned.cell.dataset.name for planned in cells):
        yield from _dataset_warnings(name, [p.cell for p in cells if p.cell.dataset.name == name])
    for shown in dict.fromkeys(planned.settings["dataset"] for planned in cells):
        yield from _probe_warnings(str(shown), [p.cell for p in cells if p.settings["dataset"] == shown])
    if any(
        r.optimizer.name == "lars" and not r.learning_rate.warmup_steps
        for r in (p.cell.pretraining for p in cells)
        if r
    ):
        yield "lars without warm-up often diverges; learning_rate.warmup: 0.1 is usual"


def _probe_warnings(name: str, cells: Sequence[Cell]) -> Iterator[str]:
    images = catalog.dataset(cells[0].dataset).pretraining_images
    for probe in dict.fromkeys(cell.evaluation.probe for cell in cells):
        if probe and probe.batch_size > images:
            yield (
                f"{name}: probe.batch_size {probe.batch_size:,} is above its {images:,} images: every update of the "
                f"probe takes all of them, {probe.epochs:,} times in all, at the learning rate that is given"
            )


def _dataset_warnings(name: str, cells: Sequence[Cell]) -> Iterator[str]:
    views = [cell.pretraining.views for cell in cells if cell.pretraining]
    dataset = catalog.DATASETS[name]
    if dataset.flip_changes_class and any(view.flip for view in views):
        yield f"{name}: a mirrored image is of another class, or of none; views.flip: false is usual"
    if dataset.channels == 1:
        if any(view.jitter for view in views):
            yield f"{name}: images have one channel, so jitter changes brightness and contrast only"
        if any(view.grayscale for view in views):
            yield f"{name}: images have one channel, so grayscale does nothing"


def settings_text(settings: Mapping[str, Scalar]) -> str:
    """Settings on one line, such as ``loss=infonce batch_size=8``."""
    return " ".join(f"{axis}={recipe.number(value)}" for axis, value in settings.items())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
