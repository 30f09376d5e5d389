"""Figure 1 drawn: accuracy against batch size. Deterministic: the same numbers give the same bytes of SVG."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from ablation.report.curves import Curve, Level, PanelView

# Okabe and Ito's palette for colour-blind readers without its yellow, which white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)))
INK, GREY = "#222222", "#767676"

_STYLE: Any = {  # matplotlib types the keys as literals
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a label is text, whatever signs it has
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "ablation",
    "savefig.dpi": 200,
}
_NO_DATE = {  # format -> metadata to leave out
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_LABEL_GAP = 13.0  # points between the baselines of two direct labels
_LONGEST_LABEL = 32  # characters
_MOST_TICKS = 7  # batch sizes of a panel that is half as wide as the figure
_MOST_BANDS = 4  # losses whose interval bands can still be told apart; beyond, intervals are bars only


def save(rows: Sequence[Sequence[PanelView]], stem: Path) -> None:
    """Draw the panels as PNG, SVG and PDF beside each other; without any, delete those of an earlier report."""
    paths = [stem.with_suffix(f".{suffix}") for suffix in _NO_DATE]
    if not rows:
        for path in paths:
            path.unlink(missing_ok=True)
        return
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a label in a script that the font lacks
        figure = draw(rows)
        for path in paths:
            figure.savefig(path, metadata=_NO_DATE[path.suffix[1:]])


def draw(rows: Sequence[Sequence[PanelView]]) -> Figure:
    """Lay the panels out, two in a line where there is room for their ticks, each row of views on lines of its own."""
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
                axes.set_ylabel("Linear top-1 accuracy (%)" if position == 0 else "")
            else:
                axes.set_axis_off()
    figure.draw_without_rendering()  # settles the layout, so that labels can be spread in points
    figure.set_layout_engine("none")
    for axes, texts in labels:
        _spread_labels(axes, texts)
    return figure


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions apart to at least `gap`, in their order and as little as possible in the sum of squares.

    Pools neighbours that are too close and centres each pool on its members: isotonic regression of position - rank x
    gap.
    """
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    pools: list[tuple[float, int]] = []  # (mean of position - rank x gap, members)
    for rank, index in enumerate(order):
        mean, members = positions[index] - rank * gap, 1
        while pools and pools[-1][0] > mean:
            below, count = pools.pop()
            mean, members = (mean * members + below * count) / (members + count), members + count
        pools.append((mean, members))
    settled = [mean for mean, members in pools for _ in range(members)]
    moved = [0.0] * len(positions)
    for rank, index in enumerate(order):
        moved[index] = settled[rank] + rank * gap
    return moved


def _panel(axes: Axes, view: PanelView) -> list[Annotation]:
    """Draw one panel; returns its direct labels, not yet spread."""
    xs = [math.log2(size) for size in view.batch_sizes]
    margin = max(0.05 * (xs[-1] - xs[0]), 0.25)
    axes.set_xlim(xs[0] - margin, xs[-1] + margin)
    axes.set_ylim(*view.limits)
    axes.xaxis.set_major_locator(FixedLocator(xs))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(xs, [str(size) for size in view.batch_sizes])
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(*view.limits)
    axes.set_yticks([tick for tick in ticks if 0 <= tick <= 100 and view.limits[0] <= tick <= view.limits[1]])
    axes.set_xlabel("Batch size (log scale)")
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    title = f"{view.title}\n" if view.remark else view.title
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    if view.remark:
        axes.annotate(
            view.remark, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=8, color=GREY
        )
    if view.empty:
        axes.text(0.5, 0.5, "no finished runs yet", transform=axes.transAxes, ha="center", va="center", color=GREY)
    levels = [_draw_level(axes, level) for level in view.levels]
    curves = [_draw_curve(axes, curve, bands=len(view.curves) <= _MOST_BANDS) for curve in view.curves]
    return [label for label in [*levels, *curves] if label]


def _draw_level(axes: Axes, level: Level) -> Annotation:
    axes.axhspan(level.low, level.high, color=GREY, alpha=0.15, linewidth=0)
    axes.axhline(level.value, color=GREY, linewidth=1, linestyle=(0, (2, 2)))
    return _label(axes, level.label, axes.get_xlim()[1], level.value, GREY)


def _draw_curve(axes: Axes, curve: Curve, *, bands: bool) -> Annotation | None:
    """Seed dots, intervals, means joined between neighbouring batch sizes that both have one."""
    colour = COLOURS[curve.style % len(COLOURS)]
    marker = MARKERS[curve.style % len(MARKERS)]
    dash = DASHES[curve.style % len(DASHES)]
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
            face = colour if point.complete else "white"
            axes.plot(point.x, point.mean, marker, color=colour, markersize=6, markerfacecolor=face, zorder=3)
        if point.lost:
            foot = axes.get_xaxis_transform()
            axes.plot(point.x, 0.025, "x", color=colour, markersize=6, markeredgewidth=1.8, transform=foot)
    known = [point for point in points if point.mean is not None]
    if not known or known[-1].mean is None:
        return None
    return _label(axes, curve.label, known[-1].x, known[-1].mean, _darker(colour))


def _label(axes: Axes, text: str, x: float, y: float, colour: str) -> Annotation:
    """A label right of the axes, led by a thin line to where its curve ends."""
    line = " ".join(text.split())
    shown = line if len(line) <= _LONGEST_LABEL else f"{line[: _LONGEST_LABEL - 1]}\u2026"
    height = axes.transLimits.transform((x, y))[1]
    return axes.annotate(
        shown, (x, y), (1.03, height), xycoords="data", textcoords="axes fraction", color=colour, fontsize=9,
        va="center", annotation_clip=False,
        arrowprops={
            "arrowstyle": "-", "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 2, "color": colour, "linewidth": 0.7,
            "alpha": 0.6,
        },
    )  # fmt: skip


def _spread_labels(axes: Axes, labels: Sequence[Annotation]) -> None:
    tall = axes.bbox.height * 72 / axes.figure.dpi
    heights = spread([label.get_position()[1] * tall for label in labels], _LABEL_GAP)
    for label, height in zip(labels, heights, strict=True):
        label.set_position((label.get_position()[0], height / tall))


def _darker(colour: str) -> str:
    """The colour at 70 % of its brightness: text needs more contrast than lines."""
    red, green, blue = (round(0.7 * int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return f"#{red:02x}{green:02x}{blue:02x}"
