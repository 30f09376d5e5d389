"""Figure 1 drawn: accuracy against batch size."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator

from ablation.report.curves import Curve, Level, Overlay, PanelView
from ablation.report.figures import style
from ablation.report.figures.style import GREY, PAPER

_MOST_TICKS = 7  # batch sizes of a panel that is half as wide as the figure
_MOST_BANDS = 4  # losses whose interval bands can still be told apart; beyond, intervals are bars only


def draw(rows: Sequence[Sequence[PanelView]], metric: str) -> Figure:
    """Lay the panels out, two in a line where there is room for their ticks, each row of views on lines of its own."""
    if max(len(view.batch_sizes) for row in rows for view in row) == 1:
        return _draw_one_size([view for row in rows for view in row], metric)
    crowded = max(len(view.batch_sizes) for row in rows for view in row) > _MOST_TICKS
    columns = 1 if crowded else min(2, max(len(row) for row in rows))
    lines = [row[start : start + columns] for row in rows for start in range(0, len(row), columns)]
    width, height = (8.0, 4.6) if columns == 1 else (10.0, 4.0)
    figure = Figure(figsize=(width, height if len(lines) == 1 else 3.7 * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), columns, squeeze=False)
    labels: list[tuple[Axes, list[Annotation]]] = []
    for line, axes_line in zip(lines, grid, strict=True):
        for position, axes in enumerate(axes_line):
            if position < len(line):
                labels.append((axes, _panel(axes, line[position])))
                axes.set_ylabel(f"{metric} (%)" if position == 0 else "")
            else:
                axes.set_axis_off()
    style.settle(figure)
    for axes, texts in labels:
        style.spread_labels(axes, texts)
    return figure


def _draw_one_size(views: Sequence[PanelView], metric: str) -> Figure:
    """With one batch size there is no curve: losses stand beneath each other, the levels below them."""
    lines = max(len(view.curves) + len(view.levels) for view in views)
    figure, axes = style.panels(len(views), min(2, len(views)), height=style.rows_height(lines))
    for place, view in zip(axes, views, strict=True):
        style.plain(place, view.title, grid="x")
        _remark(place, view)
        place.set_xlim(*view.limits)
        for row, curve in enumerate(view.curves):
            _draw_line(place, row, curve)
        for row, level in enumerate(view.levels, len(view.curves)):
            place.hlines(row, level.low, level.high, color=GREY, linewidth=1.6)
            place.plot(level.value, row, "|", color=GREY, markersize=9, markeredgewidth=1.6)
        style.rows(place, [*(curve.label for curve in view.curves), *(level.label for level in view.levels)])
        place.set_xlabel(f"{metric} (%), batch {view.batch_sizes[0]}")
    return figure


def _draw_line(axes: Axes, row: int, curve: Curve) -> None:
    """A loss's only point: seed dots, mean, interval."""
    (point,), look = curve.points, style.stroke(curve.style)
    below = [row + 0.28] * len(point.seeds)
    axes.plot(point.seeds, below, "o", color=look.colour, markersize=3, alpha=0.55, markeredgewidth=0)
    if point.mean is not None:
        style.whisker(axes, row, point.mean, point.half_width, look, filled=point.complete)
    below = [row + 0.28] * len(point.seeds)
    axes.plot(point.seeds, below, "o", color=look.colour, markersize=3, alpha=0.55, markeredgewidth=0)
    if point.lost:
        edge = axes.get_yaxis_transform()
        axes.plot(0.015, row, "x", color=look.colour, markersize=6, markeredgewidth=1.8, transform=edge)


def _remark(axes: Axes, view: PanelView) -> None:
    """What lies beyond the limits, under the title."""
    if view.remark:
        axes.set_title(f"{axes.get_title(loc='left')}\n", loc="left", fontsize=10.5, fontweight="bold")
        axes.annotate(
            view.remark, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=8, color=GREY
        )
    if view.empty:
        axes.text(0.5, 0.5, "no finished runs yet", transform=axes.transAxes, ha="center", va="center", color=GREY)


def _panel(axes: Axes, view: PanelView) -> list[Annotation]:
    """Draw one panel; returns its direct labels, not yet spread."""
    style.batch_axis(axes, view.batch_sizes)
    axes.set_ylim(*view.limits)
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(*view.limits)
    axes.set_yticks([tick for tick in ticks if 0 <= tick <= 100 and view.limits[0] <= tick <= view.limits[1]])
    style.plain(axes, view.title)
    _remark(axes, view)
    for overlay in view.overlays:
        _draw_overlay(axes, overlay)
    levels = [_draw_level(axes, level) for level in view.levels]
    curves = [_draw_curve(axes, curve, bands=len(view.curves) <= _MOST_BANDS) for curve in view.curves]
    return [label for label in [*levels, *curves] if label]


def _draw_level(axes: Axes, level: Level) -> Annotation:
    axes.axhspan(level.low, level.high, color=GREY, alpha=0.15, linewidth=0)
    axes.axhline(level.value, color=GREY, linewidth=1, linestyle=(0, (2, 2)))
    return style.label(axes, level.label, axes.get_xlim()[1], level.value, GREY)


def _draw_overlay(axes: Axes, overlay: Overlay) -> None:
    """Published numbers, faint and behind one's own."""
    colour = style.stroke(overlay.style).colour
    x = [math.log2(size) for size, _ in overlay.points]
    axes.plot(x, [value for _, value in overlay.points], "-x", color=colour, alpha=0.35, linewidth=0.8, markersize=4)


def _draw_curve(axes: Axes, curve: Curve, *, bands: bool) -> Annotation | None:
    """Seed dots, intervals, means joined between neighbouring batch sizes that both have one."""
    stroke = style.stroke(curve.style)
    colour, marker, dash = stroke.colour, stroke.marker, stroke.dash
    points = curve.points
    x = np.array([point.x for point in points])
    mean = np.array([math.nan if point.mean is None else point.mean for point in points])
    half = np.array([math.nan if point.half_width is None else point.half_width for point in points])
    if bands:
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.14, linewidth=0)
    axes.vlines(x, mean - half, mean + half, color=colour, alpha=0.35, linewidth=1)
    axes.plot(x, mean, color=colour, linestyle=dash, linewidth=1.8)
    dots = [(point.x, seed) for point in points for seed in point.seeds]
    axes.plot(
        *zip(*dots, strict=True) if dots else ([], []), "o", color=colour, markersize=3, alpha=0.55, markeredgewidth=0
    )
    for point in points:
        if point.mean is not None:  # hollow where seeds are missing
            face = colour if point.complete else PAPER
            axes.plot(point.x, point.mean, marker, color=colour, markersize=6, markerfacecolor=face, zorder=3)
        if point.lost:
            foot = axes.get_xaxis_transform()
            axes.plot(point.x, 0.025, "x", color=colour, markersize=6, markeredgewidth=1.8, transform=foot)
    known = [point for point in points if point.mean is not None]
    if not known or known[-1].mean is None:
        return None
    return style.label(axes, curve.label, known[-1].x, known[-1].mean, stroke.text)
