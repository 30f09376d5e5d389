"""Figures 4 to 7 drawn: response to learning rate and temperature, cost, learning curves, diagnostics."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator, NullLocator

from ablation.report.aggregate import Panel
from ablation.report.build import Report
from ablation.report.costs import Cost, frontier
from ablation.report.figures import style
from ablation.report.figures.style import GREY, INK, PAPER
from ablation.report.paths import Diagnostic, LearningCurve
from ablation.report.responses import Response
from ablation.report.wording import DIAGNOSTICS, METRICS

_FEWEST_TICKS, _MOST_TICKS = 3, 7  # of a logarithmic axis
_CORNERS = ((5, 4), (5, -4), (-5, 4), (-5, -4))  # in points, from a marker to its label: one for each loss


def responses(report: Report, found: Sequence[Response]) -> Figure:
    """A panel per panel and loss, a line per batch size: validation accuracy over the axis, the winner marked."""
    keys = list(dict.fromkeys((response.panel, response.loss) for response in found))
    figure, axes = style.panels(len(keys), 2)
    sizes = sorted({response.batch_size for response in found})
    for place, (panel, loss) in zip(axes, keys, strict=True):
        style.plain(place, f"{report.grid.loss_titles[loss]}: {panel.title}")
        for response in found:
            if (response.panel, response.loss) == (panel, loss):
                _response(place, response, size_stroke(sizes, response.batch_size))
        values = sorted({tried.value for response in found for tried in response.tried})
        if values[0] > 0:
            place.set_xscale("log")
        place.set_xticks(values, [f"{value:g}" for value in values])
        place.xaxis.set_minor_locator(NullLocator())
        place.set_xlabel(style.one_line(found[0].axis, 40))
        place.set_ylabel("Validation accuracy (%)")
    star = Line2D([], [], color=INK, marker="*", markersize=11, linestyle="", label="best")
    style.legend(figure, [*_size_handles(sizes), star])
    return figure


def costs(report: Report, panels: Sequence[Panel]) -> Figure:
    """A panel per panel: accuracy against seconds of pretraining, with the frontier as a stepped line."""
    figure, axes = style.panels(len(panels), 2, height=3.6)
    shown = []
    labels: list[list[Annotation]] = []
    for place, panel in zip(axes, panels, strict=True):
        style.plain(place, panel.title)
        found = [cost for cost in report.costs if cost.panel == panel]
        best = frontier(found)
        place.step(
            [cost.seconds.mean for cost in best], [100 * cost.accuracy.mean for cost in best],
            where="post", color=GREY, linewidth=1, linestyle=(0, (2, 2)), zorder=1,
        )  # fmt: skip
        labels.append([])
        for loss in dict.fromkeys(cost.loss for cost in found):
            shown.append(loss)
            position = report.grid.losses.index(loss)
            own = [cost for cost in found if cost.loss == loss]
            labels[-1] += _costs(place, own, style.stroke(position), _CORNERS[position % len(_CORNERS)])
        _log_axis(place, [cost.seconds.mean for cost in found])
        place.margins(0.12, 0.15)
        place.set_xlabel("Seconds of pretraining (log scale)")
        place.set_ylabel(f"{METRICS[report.metric]} (%)")
    handles = [_loss_handle(report, loss) for loss in report.grid.losses if loss in shown]
    edge = Line2D([], [], color=GREY, linestyle=(0, (2, 2)), label="frontier")
    style.legend(figure, [*handles, edge])
    style.settle(figure)
    for texts in labels:
        style.thin_out(texts)
    return figure


def learning_curves(report: Report, keys: Sequence[tuple[Panel, str]]) -> Figure:
    """A row per panel and loss: validation kNN accuracy against samples on the left and steps on the right."""
    figure, axes = style.panels(2 * len(keys), 2, height=_row_height(len(keys)))
    curves = report.paths.curves
    sizes = sorted({curve.batch_size for curve in curves})
    for row, (panel, loss) in enumerate(keys):
        left, right = axes[2 * row : 2 * row + 2]
        right.sharey(left)
        for place, unit in ((left, "samples"), (right, "step")):
            title = f"{report.grid.loss_titles[loss]}: {panel.title}" if unit == "samples" else "at equal steps"
            style.plain(place, title)
            for curve in curves:
                if (curve.panel, curve.loss) == (panel, loss):
                    _learning_curve(place, curve, unit, size_stroke(sizes, curve.batch_size))
            place.set_xlabel("Samples seen" if unit == "samples" else "Steps (log scale)")
        steps = [stop.step for c in curves if (c.panel, c.loss) == (panel, loss) for stop in c.stops]
        _log_axis(right, steps)
        left.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        left.set_ylabel("kNN accuracy (%), validation")
    style.legend(figure, _size_handles(sizes))
    return figure


def learning_curves_of_one_size(report: Report, panels: Sequence[Panel]) -> Figure:
    """With one batch size samples and steps are the same: a panel per panel of the report, a line per loss."""
    figure, axes = style.panels(len(panels), 2, height=_row_height(-(-len(panels) // 2)))
    curves = report.paths.curves
    for place, panel in zip(axes, panels, strict=True):
        style.plain(place, panel.title)
        for curve in curves:
            if curve.panel == panel:
                _learning_curve(place, curve, "step", style.stroke(report.grid.losses.index(curve.loss)), seeds=False)
        place.set_xlabel("Steps")
        place.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        place.set_ylabel("kNN accuracy (%), validation")
    shown = {curve.loss for curve in curves}
    style.legend(figure, [_loss_handle(report, loss) for loss in report.grid.losses if loss in shown])
    return figure


def diagnostics(report: Report, found: Sequence[Diagnostic], panels: Sequence[Panel]) -> Figure:
    """A panel per diagnostic and panel of the report: the mean at the end of training, a line per loss.

    With one batch size there is no line, and losses stand beneath each other.
    """
    names = [name for name in DIAGNOSTICS if any(diagnostic.name == name for diagnostic in found)]
    columns = len(panels) if len(panels) == 3 else 2  # more would leave no room beside the labels
    count = len(names) * len(panels)
    height = _row_height(-(-count // columns))
    if len(report.grid.batch_sizes()) == 1:
        height = style.rows_height(len(report.grid.losses))
    figure, axes = style.panels(count, columns, height=height)
    labels: list[tuple[Axes, list[Annotation]]] = []
    keys = [(name, panel) for name in names for panel in panels]
    for place, (name, panel) in zip(axes, keys, strict=True):
        chosen = [d for d in found if (d.name, d.panel) == (name, panel)]
        if len(report.grid.batch_sizes()) == 1:
            _beneath(place, report, panel.title, chosen)
            continue
        style.plain(place, panel.title)
        style.batch_axis(place, report.grid.batch_sizes(panel))
        if _wide([d.estimate.mean for d in found if d.name == name]):
            place.set_yscale("log")
            place.yaxis.set_minor_locator(NullLocator())
        place.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # no mathematics, nothing set apart
        place.set_ylabel(style.one_line(DIAGNOSTICS[name], 36))
        ends = [_diagnostic(place, report, chosen, loss) for loss in dict.fromkeys(d.loss for d in chosen)]
        labels.append((place, style.labels(place, ends)))
    style.settle(figure)
    for place, texts in labels:
        style.spread_labels(place, texts)
    return figure


def _row_height(rows: int) -> float:
    """Inches of a row of panels: less where they are many, so that they fit a sheet of paper."""
    return 2.9 if rows <= 3 else 2.3


def size_stroke(sizes: Sequence[int], size: int) -> style.Stroke:
    """Batch sizes are ordered, so is their colour, from dark to light; marker and dash besides."""
    position = list(sizes).index(size)
    shade = style.SIZES[round((len(style.SIZES) - 1) * position / max(len(sizes) - 1, 1))]
    return style.Stroke(shade, style.MARKERS[position % len(style.MARKERS)], style.DASHES[position % len(style.DASHES)])


def _response(axes: Axes, response: Response, stroke: style.Stroke) -> None:
    known = [(tried.value, tried.validation) for tried in response.tried if tried.validation]
    if not known:
        return
    y = [100 * estimate.mean for _, estimate in known]
    half = [100 * (estimate.half_width or 0) for _, estimate in known]
    axes.errorbar(
        [value for value, _ in known], y, half, color=stroke.colour, linestyle=stroke.dash, marker=stroke.marker,
        markersize=5, linewidth=1.6, elinewidth=0.8,
    )  # fmt: skip
    winner = response.winner
    if winner and winner.validation:
        at = (winner.value, 100 * winner.validation.mean)
        axes.plot(*at, "*", color=stroke.colour, markersize=14, markeredgecolor=INK, zorder=4)
        if response.at_edge:
            axes.annotate("edge", at, (0, 9), textcoords="offset points", ha="center", fontsize=8, color=INK)


def _costs(axes: Axes, own: Sequence[Cost], stroke: style.Stroke, corner: tuple[int, int]) -> list[Annotation]:
    """One loss's batch sizes, joined in their order; returns their labels."""
    own = sorted(own, key=lambda cost: cost.batch_size)
    x, y = [cost.seconds.mean for cost in own], [100 * cost.accuracy.mean for cost in own]
    axes.errorbar(x, y, [100 * (cost.accuracy.half_width or 0) for cost in own], color=stroke.colour, fmt="none",
                  elinewidth=0.8, alpha=0.45)  # fmt: skip
    axes.plot(x, y, color=stroke.colour, linewidth=0.8, linestyle=stroke.dash, alpha=0.45)
    labels = []
    for cost, *at in zip(own, x, y, strict=True):
        face = stroke.colour if cost.on_frontier else PAPER
        axes.plot(*at, stroke.marker, color=stroke.colour, markerfacecolor=face, markersize=6, zorder=3)
        labels.append(
            axes.annotate(
                str(cost.batch_size), (at[0], at[1]), corner, textcoords="offset points", fontsize=8,
                color=stroke.text, ha="left" if corner[0] > 0 else "right", va="bottom" if corner[1] > 0 else "top",
            )
        )  # fmt: skip
    return labels


def _learning_curve(axes: Axes, curve: LearningCurve, unit: str, stroke: style.Stroke, *, seeds: bool = True) -> None:
    """The mean, and each seed faintly behind it."""
    for points in curve.seeds.values() if seeds else ():
        x, y = [getattr(point, unit) for point in points], [100 * point.knn_top1 for point in points]
        axes.plot(x, y, color=stroke.colour, linewidth=0.6, alpha=0.35)
    x, y = [getattr(stop, unit) for stop in curve.stops], [100 * stop.estimate.mean for stop in curve.stops]
    axes.plot(x, y, color=stroke.colour, linestyle=stroke.dash, marker=stroke.marker, markersize=3.5, linewidth=1.6)


def _diagnostic(axes: Axes, report: Report, found: Sequence[Diagnostic], loss: str) -> tuple[str, float, float, str]:
    stroke = style.stroke(report.grid.losses.index(loss))
    own = sorted((d for d in found if d.loss == loss), key=lambda d: d.batch_size)
    x = [math.log2(d.batch_size) for d in own]
    y = [d.estimate.mean for d in own]
    half = [d.estimate.half_width or 0 for d in own]
    axes.errorbar(
        x, y, half, color=stroke.colour, linestyle=stroke.dash, marker=stroke.marker, markersize=5, linewidth=1.6,
        elinewidth=0.8,
    )  # fmt: skip
    return report.grid.loss_titles[loss], x[-1], y[-1], stroke.text


def _beneath(axes: Axes, report: Report, title: str, found: Sequence[Diagnostic]) -> None:
    """A diagnostic at the only batch size: a loss a line."""
    style.plain(axes, title, grid="x")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    for row, diagnostic in enumerate(found):
        estimate = diagnostic.estimate
        stroke = style.stroke(report.grid.losses.index(diagnostic.loss))
        style.whisker(axes, row, estimate.mean, estimate.half_width, stroke)
    style.rows(axes, [report.grid.loss_titles[diagnostic.loss] for diagnostic in found])
    if _wide([diagnostic.estimate.mean for diagnostic in found]):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(DIAGNOSTICS[found[0].name])


def _loss_handle(report: Report, loss: str) -> Line2D:
    stroke = style.stroke(report.grid.losses.index(loss))
    title = style.one_line(report.grid.loss_titles[loss])
    return Line2D([], [], color=stroke.colour, marker=stroke.marker, linestyle="", label=title)


def _size_handles(sizes: Sequence[int]) -> list[Any]:
    strokes = [(size, size_stroke(sizes, size)) for size in sizes]
    return [
        Line2D([], [], color=s.colour, marker=s.marker, linestyle=s.dash, markersize=5, label=f"batch {size}")
        for size, s in strokes
    ]


def _log_axis(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic x axis with ticks at 1, 2 and 5 times powers of ten; at the powers where those are many.

    Where they are few, the values lie within a decade, and round ones are spread over it.
    """
    axes.set_xscale("log")
    low, high = min(values) / 1.3, max(values) * 1.3
    powers = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    fine = [m * power for power in powers for m in (1, 2, 5) if low <= m * power <= high]
    coarse = [power for power in powers if low <= power <= high]
    ticks = fine if len(fine) <= _MOST_TICKS else coarse
    if len(ticks) < _FEWEST_TICKS:
        even = MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        ticks = [float(tick) for tick in even if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > 100 * min(values)
