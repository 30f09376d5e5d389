"""Figures 2 and 3 drawn: paired differences over the equivalence band, and the small-batch penalty."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator

from ablation.report.aggregate import Panel
from ablation.report.build import Effect, Report
from ablation.report.figures import style
from ablation.report.figures.style import GREY, INK, PAPER


def forest(report: Report, panels: Sequence[Panel]) -> Figure:
    """Each difference with its interval on a line of its own; filled where the family-wise test resolves it."""
    groups = [[effect for effect in report.differences if effect.panel == panel] for panel in panels]
    heights = [style.rows_height(len(effects)) for effects in groups]
    figure = Figure(figsize=(8.0, 0.5 + sum(heights)), layout="constrained")
    axes_column = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights, sharex=True)[:, 0]
    titles = report.grid.loss_titles
    for axes, panel, effects in zip(axes_column, panels, groups, strict=True):
        style.plain(axes, panel.title, grid="x")
        _band(axes, report.plan.report.equivalence_margin)
        for line, effect in enumerate(effects):
            found, look = effect.estimate, style.stroke(report.grid.losses.index(effect.losses[0]))
            if found is None:
                axes.text(0, line, "  no pair yet", va="center", fontsize=8, color=GREY)
                continue
            half = None if found.half_width is None else 100 * found.half_width
            style.whisker(axes, line, 100 * found.mean, half, look, filled=effect.resolved)
        names = [f"{_versus(titles, effect.losses)}, batch {effect.batch_size}" for effect in effects]
        style.rows(axes, names)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
        axes.tick_params(labelbottom=True)
    axes_column[-1].set_xlabel("First minus second (points)")
    return figure


def penalties(report: Report, panels: Sequence[Panel]) -> Figure:
    """A row a panel: each loss's penalty on the left, the interaction of each comparison on the right."""
    figure, axes = style.panels(2 * len(panels), 2)
    labels: list[tuple[Axes, list[Annotation]]] = []
    for row, panel in enumerate(panels):
        left, right = axes[2 * row : 2 * row + 2]
        reference = report.references[panel]
        sizes = [size for size in report.grid.batch_sizes(panel) if size != reference]
        own = [effect for effect in report.penalties if effect.panel == panel]
        between = [effect for effect in report.interactions if effect.panel == panel]
        for place, title, effects in ((left, panel.title, own), (right, "Difference of the penalties", between)):
            style.batch_axis(place, sizes)
            style.plain(place, title)
            place.axhline(0, color=INK, linewidth=0.8)
            labels.append((place, _lines(place, report, effects)))
        left.set_ylabel(f"Points lost from batch {reference}")
        right.set_ylabel("First minus second (points)")
        if report.plan.report.equivalence_margin:
            edge = 100 * report.plan.report.equivalence_margin
            right.axhspan(-edge, edge, color=GREY, alpha=0.15, linewidth=0)
    style.settle(figure)
    for place, texts in labels:
        style.spread_labels(place, texts)
    return figure


def _versus(titles: Mapping[str, str], losses: Sequence[str]) -> str:
    return " \u2212 ".join(style.one_line(titles[loss], 24) for loss in losses)


def _band(axes: Axes, margin: float | None) -> None:
    axes.axvline(0, color=INK, linewidth=0.8)
    if margin:
        axes.axvspan(-100 * margin, 100 * margin, color=GREY, alpha=0.15, linewidth=0)


def _lines(axes: Axes, report: Report, effects: Sequence[Effect]) -> list[Annotation]:
    """Effects over batch sizes, a line for each loss or comparison, a little apart."""
    subjects = list(dict.fromkeys(effect.losses for effect in effects))
    ends = []
    for position, losses in enumerate(subjects):
        stroke = style.stroke(report.grid.losses.index(losses[0]))
        shift = 0.06 * (position - (len(subjects) - 1) / 2)
        found = [(e.batch_size, e.estimate, e.resolved) for e in effects if e.losses == losses and e.estimate]
        if not found:
            continue
        x = [math.log2(size) + shift for size, _, _ in found]
        y = [100 * estimate.mean for _, estimate, _ in found]
        half = [100 * (estimate.half_width or 0) for _, estimate, _ in found]
        axes.errorbar(x, y, half, color=stroke.colour, linestyle=stroke.dash, linewidth=1.6, elinewidth=1)
        for at, value, (_, _, resolved) in zip(x, y, found, strict=True):
            face = stroke.colour if resolved else PAPER
            axes.plot(at, value, stroke.marker, color=stroke.colour, markerfacecolor=face, markersize=6, zorder=3)
        ends.append((report.grid.subject(losses), x[-1], y[-1], stroke.text))
    return style.labels(axes, ends)
