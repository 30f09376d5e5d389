"""The figures: which there are, what they show in words and in a table, and how each is drawn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from ablation.report import curves, figure_tables, tables
from ablation.report.aggregate import Panel
from ablation.report.build import Effect, Report
from ablation.report.curves import MOST_VARIANTS
from ablation.report.figures import batch_size, effects, others
from ablation.report.formats import Table
from ablation.report.wording import DIAGNOSTICS, METRICS, count, decimals, interval, listing, points

MOST_PANELS = 16  # of a figure other than the first
MOST_DIAGNOSTICS = 12  # panels of diagnostics; the others are in the table
MOST_NAMED = 12  # effects whose numbers the alternative text tells one by one


@dataclass(frozen=True)
class Picture:
    """A figure of the page. Either `draw` makes it, or `missing` says why there is none and what would fill it."""

    name: str  # of its files, without suffix
    title: str
    caption: str = ""
    alt: str = ""
    data: Table | None = None
    draw: Callable[[], Figure] | None = None
    missing: str = ""


def pictures(report: Report) -> list[Picture]:
    """Every figure, in the order of the page; a tuning figure for each tuning axis."""
    return [
        _batch_size(report),
        _differences(report),
        _penalties(report),
        *_responses(report),
        _costs(report),
        _learning_curves(report),
        _diagnostics(report),
    ]


def _batch_size(report: Report) -> Picture:
    name, title = "batch_size", "Accuracy against batch size"
    rows = curves.views(report)
    if not rows:
        return Picture(name, title, data=tables.curve_data(report), missing=_too_many(report))
    metric = METRICS[report.metric]
    caption = (
        "Each dot is a seed; a marker is their mean (hollow where seeds are missing), the bar and the band its 95 % "
        "t-interval. \u00d7 at the edge: runs that ended without a result. Grey: chance, and the random encoder with "
        "the range of its seeds."
    )
    if len(report.grid.batch_sizes()) > 1:
        caption += " A line joins neighbouring batch sizes; losses are shifted sideways, not to hide each other."
        if report.published:
            caption += " Faint \u00d7: published accuracies of other encoders and budgets, with sources under Table 1."
    draw = partial(batch_size.draw, rows, metric)
    return Picture(name, title, caption, curves.describe(rows, metric), tables.curve_data(report), draw)


def _differences(report: Report) -> Picture:
    name, title = "differences", "Paired differences between losses"
    if not report.comparisons:
        return Picture(name, title, missing="There are no two losses to compare: add a second one to the grid.")
    panels, missing = _drawable(report, [effect.panel for effect in report.differences if effect.estimate])
    if missing:
        return Picture(name, title, missing=missing)
    margin = report.plan.report.equivalence_margin
    band = (
        f"The grey band is the equivalence margin of {points(margin, 1, sign=False)} points."
        if margin
        else "There is no equivalence band: report.equivalence_margin in the sweep declares one."
    )
    caption = (
        "Accuracy of the first loss minus that of the second, paired by seed, with the 95 % t-interval; filled where "
        f"the test resolves a difference after Holm's correction. {band}"
    )
    alt = _effects_text("Paired differences of accuracies in points", report, report.differences)
    return Picture(name, title, caption, alt, draw=partial(effects.forest, report, panels))


def _penalties(report: Report) -> Picture:
    name, title = "penalties", "Small-batch penalty"
    if not report.penalties:
        missing = "There is no second batch size to compare the reference with: add one to the grid."
        return Picture(name, title, missing=missing)
    panels, missing = _drawable(report, [effect.panel for effect in report.penalties if effect.estimate])
    if missing:
        return Picture(name, title, missing=missing)
    caption = (
        "Left: accuracy at the reference batch minus accuracy at the batch size, paired by seed; above zero the loss "
        "is worse at this batch size. Right: the interaction, the first loss's penalty minus the second's; below "
        "zero the first depends less on its batch size. Bars: 95 % t-intervals; filled: resolved after Holm's "
        "correction."
    )
    alt = _effects_text("Accuracy lost from the reference batch, in points", report, report.penalties)
    return Picture(name, title, caption, alt, draw=partial(effects.penalties, report, panels))


def _responses(report: Report) -> Iterator[Picture]:
    axes = list(dict.fromkeys(response.axis for response in report.responses))
    title = "Response to learning rate and temperature"
    if not axes:
        hint = "No learning rate or temperature is an axis: a list such as learning_rate.base: [0.1, 0.3, 1.0] in grid."
        yield Picture("response", title, missing=hint)
    for axis in axes:
        found = [response for response in report.responses if response.axis == axis]
        name, heading = f"response_{axis.replace('.', '_')}", f"Response to {axis}"
        data = figure_tables.responses(report, found)
        panels = {(response.panel, response.loss) for response in found}
        if not any(response.winner for response in found):
            yield Picture(name, heading, data=data, missing="No finished run has a validation accuracy yet.")
        elif len(panels) > MOST_PANELS:
            yield Picture(name, heading, data=data, missing=_too_many(report, "losses"))
        else:
            edges = sum(response.at_edge for response in found)
            caption = (
                f"Linear accuracy on the validation split over {axis}, which alone may choose; bars are 95 % "
                "t-intervals, a star the best mean. "
            )
            caption += (
                f"At {edges} of {len(found)} it stands at the edge of the grid: a better value may lie beyond."
                if edges
                else "None stands at the edge of the grid."
            )
            won = [
                f"{report.grid.loss_titles[r.loss]} at batch {r.batch_size}: {r.winner.value:g}{' (edge)' * r.at_edge}"
                for r in found
                if r.winner
            ]
            alt = f"Validation accuracy over {axis}. Best: {'; '.join(won)}."
            yield Picture(name, heading, caption, alt, data, partial(others.responses, report, found))


def _costs(report: Report) -> Picture:
    name, title = "costs", "Accuracy against cost"
    panels, missing = _drawable(report, [cost.panel for cost in report.costs])
    if missing:
        return Picture(name, title, missing=missing)
    best = [
        f"{report.grid.loss_titles[cost.loss]} at batch {cost.batch_size} ({cost.seconds.mean:.3g} s, "
        f"{100 * cost.accuracy.mean:.{decimals(cost.panel.test_images)}f} %)"
        for cost in report.costs
        if cost.on_frontier
    ]
    caption = (
        "Mean accuracy against mean seconds of pretraining; numbers are batch sizes. Filled and on the dashed "
        "frontier: nothing else is both as accurate and as fast. Runs that shared a machine slowed each other."
    )
    alt = f"Accuracy against seconds of pretraining. On the frontier: {listing(best)}."
    return Picture(name, title, caption, alt, figure_tables.costs(report), partial(others.costs, report, panels))


def _learning_curves(report: Report) -> Picture:
    name, title = "learning_curves", "Learning curves"
    found = report.paths.curves
    if not found:
        return Picture(name, title, missing="No finished run has a history yet; ablation run writes one for each.")
    data = figure_tables.learning_curves(report, found)
    caption = "Nearest-neighbour accuracy on the validation split along the training, the mean over seeds"
    if len(report.grid.batch_sizes()) == 1:
        panels, missing = _drawable(report, [curve.panel for curve in found])
        draw = partial(others.learning_curves_of_one_size, report, panels)
        caption += ". "
    else:
        keys = list(dict.fromkeys((curve.panel, curve.loss) for curve in found))
        missing = _too_many(report, "losses") if len(keys) > MOST_PANELS // 2 else ""
        draw = partial(others.learning_curves, report, keys)
        caption += " and, faintly, each seed: left at equal samples, right at equal steps. "
    if missing:
        return Picture(name, title, data=data, missing=missing)
    caption += "An encoder that is still rising was stopped, not finished."
    shown = [
        f"{report.grid.loss_titles[curve.loss]} at batch {curve.batch_size} "
        f"{100 * curve.stops[0].estimate.mean:.1f} to {100 * curve.stops[-1].estimate.mean:.1f}"
        for curve in found
    ]
    alt = f"kNN accuracy on the validation split in percent, from the first evaluation to the last: {'; '.join(shown)}."
    return Picture(name, title, caption, alt, data, draw)


def _diagnostics(report: Report) -> Picture:
    name, title = "diagnostics", "Diagnostics by batch size"
    found = report.paths.diagnostics
    panels, missing = _drawable(report, [diagnostic.panel for diagnostic in found])
    if missing:
        return Picture(name, title, missing=missing)
    names = list(dict.fromkeys(diagnostic.name for diagnostic in found))
    shown = [known for known in DIAGNOSTICS if known in names][: max(1, MOST_DIAGNOSTICS // len(panels))]
    drawn = [diagnostic for diagnostic in found if diagnostic.name in shown]
    caption = (
        "Each seed's mean over the last tenth of the logged steps, on training batches; then the mean and 95 % "
        "t-interval over seeds. p_pos is the probability of the positive among all 2B \u2212 1 candidates."
    )
    ends = [
        f"{DIAGNOSTICS[d.name]} of {report.grid.loss_titles[d.loss]} at batch {d.batch_size}: {d.estimate.mean:.3g}"
        for d in drawn[:MOST_NAMED]
    ]
    alt = f"Diagnostics at the end of training by batch size. {'; '.join(ends)}."
    data = figure_tables.diagnostics(report, found)
    return Picture(name, title, caption, alt, data, partial(others.diagnostics, report, drawn, panels))


def _drawable(report: Report, panels: Sequence[Panel]) -> tuple[list[Panel], str]:
    """The distinct panels, and why they can't be drawn."""
    distinct = list(dict.fromkeys(panels))
    if not distinct:
        return [], "No finished run has what this figure shows yet; ablation resume DIR goes on."
    variants = len({panel.variant for panel in distinct})
    return distinct, _too_many(report) if variants > MOST_VARIANTS or len(distinct) > MOST_PANELS else ""


def _too_many(report: Report, *further: str) -> str:
    axes = listing(["datasets", *report.grid.axes, *further])
    return (
        f"No figure: the combinations of {axes} are more than one can show, and averaging over them would hide what "
        "they do. Fix one of them, for example with --set, or read the tables: they have rows for each."
    )


def _effects_text(what: str, report: Report, found: Sequence[Effect]) -> str:
    known = [effect for effect in found if effect.estimate]
    parts = []
    for effect in known[:MOST_NAMED]:
        assert effect.estimate
        places = decimals(effect.panel.test_images)
        names = " minus ".join(report.grid.loss_titles[loss] for loss in effect.losses)
        mean = points(effect.estimate.mean, places)
        parts.append(f"{names} at batch {effect.batch_size} {mean} ({interval(effect.estimate, places)})")
    more = len(known) - len(parts)
    resolved = sum(effect.resolved for effect in known)
    tail = f", and {more} more in the table" if more > 0 else ""
    return f"{what}, with 95 % intervals: {'; '.join(parts)}{tail}. {resolved} of {count(len(known), 'test')} resolved."
