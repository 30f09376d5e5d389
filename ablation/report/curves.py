"""What Figure 1 shows, as numbers: a panel's curves, levels and limits in percent, and its description in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ablation.record import Status
from ablation.report.aggregate import TODO, Panel
from ablation.report.build import Report, Summary
from ablation.report.wording import PLUS_MINUS, decimals, listing

MOST_VARIANTS = 4  # combinations of further axes that get a row of panels each


@dataclass(frozen=True)
class Point:
    """One loss at one batch size; accuracies in percent."""

    batch_size: int
    x: float  # log2 of the batch size, shifted a little per loss so that losses don't hide each other
    seeds: tuple[float, ...]
    mean: float | None
    half_width: float | None  # of the t-interval
    complete: bool
    lost: int  # runs that ended without a result


@dataclass(frozen=True)
class Curve:
    """One loss, over every batch size that is planned for it, ascending."""

    label: str
    style: int  # the loss's position in the sweep: the same in every panel
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Level:
    """A horizontal line: chance, or the random encoder with the range of its seeds. In percent."""

    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Overlay:
    """Published accuracies of one source and recipe, in percent."""

    label: str
    style: int  # of the loss that it stands for
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PanelView:
    """A panel ready to draw."""

    title: str
    batch_sizes: tuple[int, ...]
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...]  # those within the limits
    overlays: tuple[Overlay, ...]
    limits: tuple[float, float]  # of the accuracy axis, in percent
    remark: str  # what lies beyond the limits
    places: int  # decimals

    @property
    def empty(self) -> bool:
        """Whether no run of the panel has an accuracy yet."""
        return not any(point.seeds for curve in self.curves for point in curve.points)


def views(report: Report) -> list[list[PanelView]]:
    """Rows of panels: a row per combination of the further axes, a panel per dataset.

    Empty where there are too many combinations to look at, see `MOST_VARIANTS`.
    """
    variants = list(dict.fromkeys(panel.variant for panel in report.grid.panels))
    if len(variants) > MOST_VARIANTS:
        return []
    return [[_view(report, panel) for panel in report.grid.panels if panel.variant == variant] for variant in variants]


def describe(rows: Sequence[Sequence[PanelView]], metric: str) -> str:
    """Alternative text: each curve from its smallest to its largest batch, and the levels, in numbers."""
    sentences = [f"{metric} in percent against batch size on a logarithmic axis."]
    for view in (view for row in rows for view in row):
        known = [text for text in (_curve_text(curve, view.places) for curve in view.curves) if text]
        levels = [f"{level.label} {level.value:.{view.places}f}" for level in view.levels]
        text = "; ".join([*(known or ["no finished runs yet"]), *levels])
        sentences.append(f"{view.title}: {text}{f'; {view.remark}' if view.remark else ''}.")
    return " ".join(sentences)


def limits(
    dots: Sequence[float], intervals: Sequence[tuple[float, float]], levels: Sequence[float]
) -> tuple[float, float]:
    """An accuracy axis, in percent, on which differences between the dots can be seen.

    Intervals may widen the dots' range by half on either side, and a level is taken in where it at most doubles the
    range: with two seeds an interval, and almost always chance, would squash the data.
    """
    if not dots:
        return 0.0, 100.0
    low, high = min(dots), max(dots)
    slack = max(high - low, 1.0) / 2
    low, high = (
        max(min([low, *(end for end, _ in intervals)]), low - slack),
        min(max([high, *(end for _, end in intervals)]), high + slack),
    )
    span = max(high - low, 1.0)
    taken = [level for level in levels if low - span <= level <= high + span]
    low, high = min([low, *taken]), max([high, *taken])
    margin = 0.06 * max(high - low, 1.0)
    return max(low - margin, -2.0), min(high + margin, 102.0)


def _view(report: Report, panel: Panel) -> PanelView:
    grid = report.grid
    sizes = grid.batch_sizes(panel)
    summaries = [summary for summary in report.accuracy if summary.panel == panel]
    planned = [loss for loss in grid.losses if any(summary.loss == loss for summary in summaries)]
    shifts = _shifts(sizes, len(planned))
    curves = [
        Curve(
            grid.loss_titles[loss],
            grid.losses.index(loss),
            tuple(_point(summary, shift) for summary in summaries if summary.loss == loss),
        )
        for loss, shift in zip(planned, shifts, strict=True)
    ]
    low, high = _shared_limits(report, panel.dataset)
    levels = _levels(summaries)
    ends = _interval_ends(summaries)
    return PanelView(
        title=panel.title,
        batch_sizes=tuple(sizes),
        curves=tuple(curves),
        levels=tuple(level for level in levels if low <= level.value <= high),
        overlays=tuple(_overlays(report, panel)),
        limits=(low, high),
        remark=_remark(levels, ends, (low, high)),
        places=decimals(panel.test_images),
    )


def _overlays(report: Report, panel: Panel) -> list[Overlay]:
    """Published series of the panel's dataset, within its batch sizes, in the style of the first loss of that name."""
    cells = [run.cell for run in report.grid.runs if run.panel == panel]
    names = {str(run.settings["loss"]): run.cell.pretraining for run in report.grid.runs}
    styles = {cell.loss.name: position for position, cell in reversed(list(enumerate(names.values()))) if cell}
    sizes = report.grid.batch_sizes(panel)
    within = {
        series: tuple((size, value) for size, value in series.points if sizes[0] <= size <= sizes[-1])
        for series in report.published
        if series.dataset == cells[0].dataset.name
    }
    return [
        Overlay(f"{series.source}: {series.recipe}", styles[series.loss], points)
        for series, points in within.items()
        if points
    ]


def _shared_limits(report: Report, dataset: str) -> tuple[float, float]:
    """One accuracy axis for all panels of a dataset, so that they can be compared; with all of what is laid over it."""
    summaries = [summary for summary in report.accuracy if summary.panel.dataset == dataset]
    dots = [100 * score for summary in summaries if summary.loss for score in summary.scores.values()]
    known = {summary.panel for summary in summaries}
    low, high = limits(dots, _interval_ends(summaries), [level.value for level in _levels(summaries)])
    published = [value for panel in known for overlay in _overlays(report, panel) for _, value in overlay.points]
    margin = 0.04 * (max([high, *published]) - min([low, *published]))
    return min([low, *(value - margin for value in published)]), max([high, *(value + margin for value in published)])


def _levels(summaries: Sequence[Summary]) -> list[Level]:
    """The random encoder, where it has results, and chance."""
    levels = []
    for summary in summaries:
        found, chance = summary.estimate, 100 * summary.panel.chance
        if summary.loss is None and found:
            scores = [100 * score for score in summary.scores.values()]
            levels.append(Level("random encoder", 100 * found.mean, min(scores), max(scores)))
        if summary.loss is None:
            levels.append(Level("chance", chance, chance, chance))
    return levels


def _interval_ends(summaries: Sequence[Summary]) -> list[tuple[float, float]]:
    """The t-intervals of the losses' means."""
    found = [summary.estimate for summary in summaries if summary.loss and summary.estimate]
    return [(100 * e.low, 100 * e.high) for e in found if e.low is not None and e.high is not None]


def _shifts(sizes: Sequence[int], losses: int) -> list[float]:
    """A sideways shift per loss, in log2 of the batch size: about a marker's width, away from its neighbours."""
    closest = min((math.log2(b / a) for a, b in pairwise(sizes)), default=1.0)
    step = min(0.014 * math.log2(sizes[-1] / sizes[0]) or 0.014, 0.4 * closest / losses)
    return [step * (position - (losses - 1) / 2) for position in range(losses)]


def _point(summary: Summary, shift: float) -> Point:
    found = summary.estimate
    lost = sum(count for status, count in summary.statuses.items() if status not in (Status.DONE, TODO))
    batch_size = summary.batch_size or 1
    return Point(
        batch_size=batch_size,
        x=math.log2(batch_size) + shift,
        seeds=tuple(100 * score for score in summary.scores.values()),
        mean=100 * found.mean if found else None,
        half_width=100 * found.half_width if found and found.half_width is not None else None,
        complete=summary.complete,
        lost=lost,
    )


def _remark(levels: Sequence[Level], ends: Sequence[tuple[float, float]], limits: tuple[float, float]) -> str:
    """What the axis leaves out, in words."""
    sides = {
        "below": [level for level in levels if level.value < limits[0]],
        "above": [level for level in levels if level.value > limits[1]],
    }
    parts = [
        f"{side} the axis: {listing(f'{level.label} {level.value:.3g} %' for level in outside)}"
        for side, outside in sides.items()
        if outside
    ]
    if any(low < limits[0] or high > limits[1] for low, high in ends):
        parts.append("some intervals reach beyond the axis")
    return "; ".join(parts)


def _curve_text(curve: Curve, places: int) -> str | None:
    known = [point for point in curve.points if point.mean is not None]
    if not known:
        return None

    def value(point: Point) -> str:
        spread = "" if point.half_width is None else f" {PLUS_MINUS} {point.half_width:.{places}f}"
        return f"{point.mean:.{places}f}{spread} at batch {point.batch_size}"

    ends = dict.fromkeys([value(known[0]), value(known[-1])])
    return f"{curve.label} {' and '.join(ends)}"
