"""Relative error against batch size: one column a source and temperature, at the positive logit above, at z below."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ablation.numerics.rounding import DTYPES, Errors, Finding

MOST_COLUMNS = 6
COLOURS = {"float16": "#0072B2", "bfloat16": "#D55E00", "float32": "#009E73", "float64": "#CC79A7"}  # Okabe and Ito's
MARKERS = "os^DvP*X"
DASHES: Sequence[Any] = ("-", "--", ":", "-.")
GREY = "#767676"
_ROWS: Sequence[tuple[str, Callable[[Errors], float | None]]] = (
    ("Relative error at the positive logit", lambda errors: errors.positive),
    ("Relative error at z", lambda errors: errors.rows),
)


def save(findings: Sequence[Finding], stem: Path) -> None:
    """Draw as PNG and SVG beside each other."""
    figure = draw(findings)
    no_date: Any = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    for suffix, metadata in no_date.items():
        figure.savefig(stem.with_suffix(f".{suffix}"), metadata=metadata, dpi=150)


def draw(findings: Sequence[Finding]) -> Figure:
    """Colour says dtype, marker and dash say loss; of many sources the first `MOST_COLUMNS` are drawn."""
    panels = list(dict.fromkeys((f.source, f.temperature) for f in findings))[:MOST_COLUMNS]
    losses = list(dict.fromkeys(f.loss for f in findings))
    dtypes = [dtype for dtype in DTYPES if any(f.dtype == dtype for f in findings)]
    figure = Figure(figsize=(2.2 + 2.9 * len(panels), 7.2), layout="constrained")
    grid = figure.subplots(2, len(panels), squeeze=False, sharex=True, sharey=True)
    for row, (label, error) in zip(grid, _ROWS, strict=True):
        for axes, (source, temperature) in zip(row, panels, strict=True):
            shown = [f for f in findings if (f.source, f.temperature) == (source, temperature)]
            for i, loss in enumerate(losses):
                for dtype in dtypes:
                    _line(axes, [f for f in shown if (f.loss, f.dtype) == (loss, dtype)], error, i, dtype)
            axes.set_title(f"{source}\ntemperature {temperature:g}" if error is _ROWS[0][1] else "", fontsize=9)
        row[0].set_ylabel(label)
    sizes = sorted({f.batch_size for f in findings})
    for axes in grid.flat:
        axes.set_yscale("log")
        axes.set_ylim(1e-17, 10)
        axes.axhline(1, color=GREY, linewidth=0.8)
        axes.set_xticks([math.log2(size) for size in sizes], [str(size) for size in sizes])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
        axes.set_axisbelow(True)
    for axes in grid[-1]:
        axes.set_xlabel("Batch size (log scale)")
    handles = [Line2D([], [], color=COLOURS[dtype], linewidth=3, label=dtype) for dtype in dtypes]
    handles += [
        Line2D([], [], color=GREY, linestyle=DASHES[i % len(DASHES)], marker=MARKERS[i % len(MARKERS)], label=loss)
        for i, loss in enumerate(losses)
    ]
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9)
    figure.suptitle(
        "What rounding takes away. At 1 nothing is left of the gradient; errors of exactly 0 are not drawn."
    )
    return figure


def _line(
    axes: Axes, findings: Sequence[Finding], error: Callable[[Errors], float | None], loss: int, dtype: str
) -> None:
    points = sorted((f.batch_size, found) for f in findings if (found := error(f.errors)))
    axes.plot(
        [math.log2(size) for size, _ in points],
        [found for _, found in points],
        color=COLOURS[dtype],
        linestyle=DASHES[loss % len(DASHES)],
        marker=MARKERS[loss % len(MARKERS)],
        markersize=4,
        linewidth=1.2,
    )
