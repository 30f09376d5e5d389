"""What the figures share: palette, letters, files, axes over batch sizes, and direct labels that don't overlap."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import FixedLocator, NullLocator

# Okabe and Ito's palette for colour-blind readers without its yellow, which white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SIZES = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28a97c", "#4fb955")  # viridis, for what is ordered
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)))
INK, GREY, LIGHT, PAPER = "#222222", "#6B6B6B", "#E5E5E5", "#FFFFFF"

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
    "savefig.dpi": 150,
}
NO_DATE = {  # format -> metadata to leave out
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_LABEL_GAP = 13.0  # points between the baselines of two direct labels
_ROW = 0.26  # inches of a line where lines stand beneath each other
_LONGEST_LABEL = 32  # characters

_LEGEND_LETTERS = 120  # that a line of the legend has room for
_MOST_TICK_LETTERS = 34  # of the batch sizes of an axis before they are turned


@dataclass(frozen=True)
class Stroke:
    """How a loss looks in every figure: colour, marker and dash tell it apart, each by itself."""

    colour: str
    marker: str
    dash: Any

    @property
    def text(self) -> str:
        """The colour for letters: they need more contrast than lines."""
        return darker(self.colour)


def stroke(position: int) -> Stroke:
    """The stroke of the loss at this position of the sweep."""
    return Stroke(COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)], DASHES[position % len(DASHES)])


@contextmanager
def drawing() -> Iterator[None]:
    """Within it figures are drawn and saved; without it they would look and be typed otherwise."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a label in a script that the font lacks
        yield


def save(figure: Figure, stem: Path) -> None:
    """Write a figure as PNG, SVG and PDF beside each other; the same numbers give the same bytes."""
    if figure.get_layout_engine():
        settle(figure)  # once, not for every format
    for suffix, metadata in NO_DATE.items():
        figure.savefig(stem.with_suffix(f".{suffix}"), metadata=metadata)


def panels(count: int, columns: int, *, width: float = 10.0, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels in rows of `columns`; inches, height per row."""
    columns = min(columns, max(count, 1))
    rows = -(-max(count, 1) // columns)
    figure = Figure(figsize=(width, 0.5 + height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, axes[:count]


def settle(figure: Figure) -> None:
    """Fix the layout, so that labels can be spread in points."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def batch_axis(axes: Axes, sizes: Sequence[int], *, label: bool = True) -> None:
    """The x axis: log2 of the batch size, a tick for each."""
    xs = [math.log2(size) for size in sizes]
    margin = max(0.05 * (xs[-1] - xs[0]), 0.25)
    axes.set_xlim(xs[0] - margin, xs[-1] + margin)
    axes.xaxis.set_major_locator(FixedLocator(xs))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(xs, [str(size) for size in sizes])
    if sum(len(str(size)) + 1 for size in sizes) > _MOST_TICK_LETTERS:
        axes.tick_params(axis="x", labelrotation=45)
    if label:
        axes.set_xlabel("Batch size (log scale)")


def plain(axes: Axes, title: str, *, grid: str = "y") -> None:
    """Title, light grid, two spines."""
    if grid:
        axes.grid(axis=grid, color=LIGHT, linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(one_line(title, 60), loc="left", fontsize=10.5, fontweight="bold")


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """One legend above all panels, on one line where it fits."""
    if handles:
        letters = sum(len(handle.get_label()) + 8 for handle in handles)  # 8: the handle and the gaps
        columns = len(handles) if letters <= _LEGEND_LETTERS else 4
        figure.legend(
            handles=handles, loc="outside upper left", ncols=columns, frameon=False, fontsize=9, handlelength=3
        )


def one_line(text: str, longest: int = _LONGEST_LABEL) -> str:
    """The text on one line and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\u2026"


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


def rows_height(count: int) -> float:
    """Inches of a panel with so many lines beneath each other."""
    return _ROW * max(count, 2) + 0.9


def rows(axes: Axes, names: Sequence[str]) -> None:
    """The y axis of lines beneath each other, the first on top."""
    axes.set_yticks(range(len(names)), [one_line(name, 48) for name in names], fontsize=8.5)
    axes.set_ylim(len(names) - 0.4, -0.6)


def whisker(axes: Axes, row: int, mean: float, half_width: float | None, look: Stroke, *, filled: bool = True) -> None:
    """A mean with its interval on a line of its own."""
    half = half_width or 0
    axes.hlines(row, mean - half, mean + half, color=look.colour, linewidth=1.6)
    face = look.colour if filled else PAPER
    axes.plot(mean, row, look.marker, color=look.colour, markerfacecolor=face, markersize=6, zorder=3)


def label(axes: Axes, text: str, x: float, y: float, colour: str) -> Annotation:
    """A label right of the axes, led by a thin line to where its curve ends."""
    height = (axes.transScale + axes.transLimits).transform((x, y))[1]  # of a logarithmic axis, too
    return axes.annotate(
        one_line(text), (x, y), (1.03, height), xycoords="data", textcoords="axes fraction", color=colour, fontsize=9,
        va="center", annotation_clip=False,
        arrowprops={
            "arrowstyle": "-", "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 2, "color": colour, "linewidth": 0.7,
            "alpha": 0.6,
        },
    )  # fmt: skip


def labels(axes: Axes, ends: Sequence[tuple[str, float, float, str]]) -> list[Annotation]:
    """Direct labels (text, x, y, colour) once all is drawn, so that the axes keep the limits that they have now."""
    axes.set_ylim(axes.get_ylim())
    return [label(axes, *end) for end in ends]


def spread_labels(axes: Axes, labels: Sequence[Annotation]) -> None:
    """Move direct labels apart, once the layout is settled."""
    tall = axes.bbox.height * 72 / axes.figure.dpi
    heights = spread([label.get_position()[1] * tall for label in labels], _LABEL_GAP)
    for label, height in zip(labels, heights, strict=True):
        label.set_position((label.get_position()[0], height / tall))


def thin_out(labels: Sequence[Annotation]) -> None:
    """Hide labels that would lie on earlier ones, once the layout is settled."""
    taken: list[Any] = []
    for text in labels:
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            text.set_visible(False)
        else:
            taken.append(box)


def darker(colour: str) -> str:
    """The colour at 65 % of its brightness: text needs more contrast than lines."""
    red, green, blue = (round(0.65 * int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return f"#{red:02x}{green:02x}{blue:02x}"
