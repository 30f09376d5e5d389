"""What `ablation plan` prints: what a plan would compute, what it costs and what its seeds can resolve."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ablation import catalog
from ablation.cell import Cell
from ablation.cost.estimate import Costs, Estimate
from ablation.cost.measured import Measurements
from ablation.plan import Plan, PlannedCell, settings_text

WIDTH = 100
MOST_ROWS = 40  # of a table; the rest is counted
RECORD_BYTES = 30_000  # one record with its history, as measured
CHECKPOINTS = 2  # kept for a running cell: the last and the one before


@dataclass(frozen=True)
class Row:
    """Cells that train alike."""

    dataset: str
    batch_size: int
    steps: int
    samples: int
    epochs: float
    warmup_steps: int
    rate: str
    peak: float
    cells: int


@dataclass(frozen=True)
class Summary:
    """The plan in numbers."""

    rows: list[Row]
    axes: dict[str, int]  # axis -> number of values
    baselines: int
    seeds: list[int]
    smallest_effect: float | None  # see `smallest_effect`; for the setting with the fewest seeds
    kept_bytes: int  # records and exported encoders
    checkpoint_bytes: int  # of one running cell, at most


def smallest_effect(seeds: int) -> float | None:
    """The effect that a paired t-test at 5 % (two-sided) finds with 80 % power, in sd of the paired difference.

    Exact, from the noncentral t distribution, up to 9 seeds; beyond, Guenther's approximation (The American
    Statistician 35, 1981, pages 243-244), which is within 1.5 %. None for one seed, which has no t-test.
    """
    exact = {2: 11.55, 3: 3.264, 4: 2.128, 5: 1.682, 6: 1.435, 7: 1.273, 8: 1.156, 9: 1.067}
    if seeds < 2:
        return None
    z_size, z_power = 1.959964, 0.841621  # normal quantiles of 97.5 % and 80 %
    return exact.get(seeds) or (z_size + z_power) / math.sqrt(seeds - z_size**2 / 2)


def summarise(plan: Plan) -> Summary:
    """Counts what the plan would do and what it needs."""
    cells = [planned.cell for planned in plan.cells]
    seeds: dict[str, int] = {}
    for planned in plan.cells:
        setting = settings_text({axis: value for axis, value in planned.settings.items() if axis != "seed"})
        seeds[setting] = seeds.get(setting, 0) + 1
    baselines = plan.baselines()
    encoders = {cell.pretraining_key: cell for cell in (*cells, *baselines)}
    return Summary(
        rows=_rows(plan.cells),
        axes={
            axis: len({p.settings[axis] for p in plan.cells})
            for axis in dict.fromkeys(["loss", "batch_size", *plan.axes])
        },
        baselines=len(baselines),
        seeds=sorted({cell.seed for cell in cells}),
        smallest_effect=smallest_effect(min(seeds.values())),
        kept_bytes=RECORD_BYTES * (len(cells) + len(baselines)) + 4 * sum(map(_encoder_weights, encoders.values())),
        checkpoint_bytes=max(map(_checkpoint_bytes, cells)),
    )


def _rows(cells: Iterable[PlannedCell]) -> list[Row]:
    counts: dict[tuple[str, int, int, int, float, int, str, float], int] = {}
    for planned in cells:
        run = planned.cell.pretraining
        assert run is not None
        key = (
            str(planned.settings["dataset"]), run.batch_size, run.steps, planned.samples, planned.epochs,
            run.learning_rate.warmup_steps, planned.rate, run.learning_rate.peak,
        )  # fmt: skip
        counts[key] = counts.get(key, 0) + 1
    return [Row(*key, count) for key, count in counts.items()]


def _encoder_weights(cell: Cell) -> int:
    encoder = catalog.ENCODERS[cell.encoder.name]
    width = encoder.parameters.get("width")
    scale = float(cell.encoder.parameters["width"]) / float(width.default) if width else 1.0
    return round(encoder.weights * scale**2)


def _checkpoint_bytes(cell: Cell) -> int:
    assert cell.pretraining is not None
    head = cell.pretraining.projection
    features = catalog.ENCODERS[cell.encoder.name].features
    weights = _encoder_weights(cell) + (features + 1) * head.hidden + (head.hidden + 1) * head.out
    size = 8 if cell.pretraining.precision == "float64" else 4
    return CHECKPOINTS * size * weights * (1 + catalog.OPTIMIZERS[cell.pretraining.optimizer.name].state)


def describe(plan: Plan, measurements: Measurements = Measurements()) -> str:  # noqa: B008 - frozen
    """The plan as plain text, at most `WIDTH` columns wide, with what it costs on this machine as far as measured."""
    summary, estimate = summarise(plan), Estimate(plan, Costs(plan.resources, measurements))
    lines = [plan.name, *textwrap.wrap(plan.question or "", WIDTH), ""]
    product = " x ".join(f"{count} {axis}" for axis, count in summary.axes.items())
    lines += _wrapped(f"{len(plan.cells):,} cells ({product}) and {_plural(summary.baselines, 'random-init baseline')}")
    lines += _wrapped(f"seeds: {_seeds_text(summary.seeds)}")
    lines += _wrapped(_power_text(summary.smallest_effect))
    lines += [line for text in _datasets(plan) for line in _wrapped(f"data: {text}")]
    lines += [line for text in _encoders(plan) for line in _wrapped(f"encoder: {text}")]
    lines += [line for text in _probes(plan) for line in _wrapped(f"probe: {text}")]
    lines += _wrapped(
        f"disk: {_size(summary.kept_bytes)} for records and encoders, "
        f"and up to {_size(summary.checkpoint_bytes)} of checkpoints for each running cell"
    )
    lines += _wrapped(f"time: {_time_text(estimate)}")
    lines += ["", *_table(_training_rows(summary.rows))]
    if estimate.groups:
        lines += ["", *_table(_cost_rows(estimate))]
    lines += ["", *_table(_cell_rows(plan))]
    if plan.warnings:
        lines += ["", "warnings", *(line for warning in plan.warnings for line in _wrapped(f"- {warning}"))]
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _seeds_text(seeds: Sequence[int]) -> str:
    listed = ", ".join(map(str, seeds[:20]))
    return listed if len(seeds) <= 20 else f"{listed}, ... ({len(seeds)} in all)"


def _power_text(effect: float | None) -> str:
    if effect is None:
        return "resolves: nothing; one seed shows no spread"
    return f"resolves: effects of {effect:.1f} sd of the paired difference (paired t-test, 5 % two-sided, 80 % power)"


def _datasets(plan: Plan) -> Iterator[str]:
    for name, component in {p.settings["dataset"]: p.cell.dataset for p in plan.cells}.items():
        found = catalog.dataset(component)
        parts = f"{found.pretraining_images:,} + {found.validation_images:,} + {found.test_images:,}"
        size = f"{found.image_size} x {found.image_size} x {found.channels}"
        yield f"{name}: {found.classes} classes, {parts} images (pretraining, validation, test) of {size}"


def _encoders(plan: Plan) -> Iterator[str]:
    pairs = {(p.cell.encoder.name, p.settings["dataset"]): p.cell.dataset for p in plan.cells}
    for (encoder, name), dataset in pairs.items():
        yield f"{encoder} on {name} begins with a {catalog.stem(encoder, catalog.dataset(dataset).image_size)}"


def _probes(plan: Plan) -> Iterator[str]:
    """The linear classifiers, where they are not all the usual one."""
    evaluations = dict.fromkeys(planned.cell.evaluation for planned in plan.cells)
    if any(evaluation.probe for evaluation in evaluations):
        yield from (evaluation.classifier for evaluation in evaluations)


def _time_text(estimate: Estimate) -> str:
    if estimate.failures:
        return "not known; " + "; ".join(f"{kind_text(one.cell)}: {one.failure}" for one in estimate.failures)
    if not estimate.at_once:
        return "not known; this machine has not what a cell asks for in resources"
    if estimate.total is None or estimate.seconds is None:
        return "not measured on this machine; `ablation plan --measure FILE` does it"
    running = "one after another" if estimate.at_once == 1 else f"{estimate.at_once} at once"
    longest = duration(max(estimate.seconds.values()))
    return f"about {duration(estimate.total)} on this machine, {running}, by measured steps; the longest cell {longest}"


def kind_text(cell: Cell) -> str:
    """What tells a measured kind of cell from others, such as ``resnet8, 28 x 28, batch size 64``."""
    run, data = cell.pretraining, catalog.dataset(cell.dataset)
    assert run is not None
    parts = [cell.encoder.name, f"{data.image_size} x {data.image_size}", f"batch size {run.batch_size:,}"]
    unusual = {"network": run.precision, "loss": run.loss_dtype}
    parts += [f"{what} in {kind}" for what, kind in unusual.items() if kind != "float32"]
    return ", ".join([*parts, "probe by SGD"] if cell.evaluation.probe else parts)


def _cost_rows(estimate: Estimate) -> Iterator[list[str]]:
    yield ["measured", "cells", "a step", "samples/s", "memory", "a cell", "GPUs"]
    for one, cells in estimate.groups:
        run = one.cell.pretraining
        longest = max(seconds for cell in cells if (seconds := estimate.costs.seconds(cell)) is not None)
        yield [
            kind_text(one.cell), f"{len(cells):,}", f"{1000 * one.step:.3g} ms",
            f"{run.batch_size / one.step:,.0f}" if run and one.step else "", _size(one.peak),
            duration(longest), share_text(estimate.costs.gpus(cells[0])) if one.gpus else "0",
        ]  # fmt: skip


def share_text(gpus: float) -> str:
    """GPUs of one trial, such as ``2`` or ``1/3``."""
    return f"{gpus:g}" if gpus >= 1 or not gpus else f"1/{round(1 / gpus)}"


def duration(seconds: float) -> str:
    """Such as ``45 s``, ``12 min``, ``3.4 h``, ``5.0 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"


def _training_rows(rows: Sequence[Row]) -> Iterator[list[str]]:
    yield ["dataset", "batch size", "cells", "steps", "samples", "epochs", "warm-up", "peak rate"]
    for row in rows:
        yield [
            row.dataset, f"{row.batch_size:,}", f"{row.cells:,}", f"{row.steps:,}", f"{row.samples:,}",
            f"{row.epochs:.4g}", f"{row.warmup_steps:,}",
            f"{row.rate} = {row.peak:.3g}" if " " in row.rate else row.rate,
        ]  # fmt: skip


def _cell_rows(plan: Plan) -> Iterator[list[str]]:
    yield ["cell", "id", "settings"]
    shown = {"loss", "batch_size", *plan.axes}
    for number, planned in enumerate(plan.cells, 1):
        settings = {axis: value for axis, value in planned.settings.items() if axis in shown}
        yield [str(number), planned.cell.id, settings_text(settings)]


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Aligned columns under a header: numbers to the right, texts to the left."""
    listed = list(rows)
    cut = listed[: MOST_ROWS + 1]
    widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    right = [column[-1].replace(",", "").replace(".", "").isdecimal() for column in zip(*cut, strict=True)]
    lines = [
        "  ".join(
            f"{text:>{w}}" if r else f"{text:<{w}}" for text, w, r in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cut
    ]
    lines = [line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..." for line in lines]
    return lines if cut == listed else [*lines, f"... and {len(listed) - len(cut):,} more"]


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
