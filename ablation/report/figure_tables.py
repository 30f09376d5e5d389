"""The tables under the figures: the numbers that a figure shows, and those of whole curves, as formatted entries."""

from collections.abc import Sequence

from ablation.report.build import Report
from ablation.report.formats import Entry, Table
from ablation.report.paths import Diagnostic, LearningCurve
from ablation.report.published import Series
from ablation.report.responses import Response
from ablation.report.stats import Estimate
from ablation.report.tables import panel_entries, panel_header
from ablation.report.trends import Crossing, Plateau
from ablation.report.wording import DASH, DIAGNOSTICS, MORE_DIAGNOSTICS, PLUS_MINUS, decimals, interval, percent, points


def trends(report: Report) -> Table:
    """Slope per doubling, and where the plateau begins, per loss."""
    margin = report.plan.report.equivalence_margin
    plateau = ["plateau from batch", "95 % limits", "best at batch"] if margin else []
    axes = panel_header(report.grid)
    header = [*axes, "loss", "points per doubling", "95 % interval", "seeds", *plateau]
    rows = []
    for trend in report.trends:
        places, slope = decimals(trend.panel.test_images) + 1, trend.slope
        texts = [DASH, DASH, "0"]
        if slope:
            texts = [points(slope.mean, places), interval(slope, places), str(slope.n)]
        texts += _plateau(trend.plateau) if margin else []
        rows.append([*panel_entries(trend.panel), *map(Entry, [report.grid.loss_titles[trend.loss], *texts])])
    return Table(header, rows, numeric_from=len(axes) + 1)


def crossovers(report: Report) -> Table:
    """The batch sizes at which two losses change places."""
    axes = panel_header(report.grid)
    header = [*axes, "losses", "shared batch sizes", "cross at batch", "95 % limits", "seeds"]
    rows = []
    for crossover in report.crossovers:
        names = " and ".join(report.grid.loss_titles[loss] for loss in crossover.losses)
        for crossing in crossover.crossings or (None,):
            texts = ["nowhere", DASH, DASH]
            if crossing:
                texts = [f"{crossing.batch:.3g}", _limits(crossing), str(crossing.n)]
            where = [*panel_entries(crossover.panel), Entry(names), Entry(str(crossover.shared))]
            rows.append([*where, *map(Entry, texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def equal_budgets(report: Report) -> Table:
    """Penalties in validation kNN accuracy at equal samples beside those at equal steps."""
    axes = panel_header(report.grid)
    remarks = ["remark"] if any(found.remark for found in report.paths.equal_budgets) else []
    moments = ["samples", "penalty at equal samples", "steps", "penalty at equal steps"]
    header = [*axes, "loss", "batch size", *moments, "pairs", *remarks]
    rows = []
    for found in report.paths.equal_budgets:
        places = decimals(found.panel.test_images)
        texts = [report.grid.subject(found.losses), str(found.batch_size)]
        pairs = []
        for moment, paired in ((found.samples, found.at_samples), (found.steps, found.at_steps)):
            known = paired.estimate
            texts += [DASH if moment is None else f"{moment:,}", _points(known, places) if known else DASH]
            pairs.append(str(known.n) if known else "0")
        texts += [" and ".join(dict.fromkeys(pairs)), *([found.remark] if remarks else [])]
        rows.append([*panel_entries(found.panel), *map(Entry, texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def responses(report: Report, found: Sequence[Response]) -> Table:
    """Every value that was tried, the winner in bold."""
    axes = [axis for axis in panel_header(report.grid) if axis != found[0].axis]
    header = [*axes, "loss", "batch size", found[0].axis, "runs", "validation accuracy", "test accuracy", ""]
    rows = []
    for response in found:
        places, winner = decimals(response.panel.test_images), response.winner
        for tried in response.tried:
            best = tried is winner
            mark = "" if not best else "best, at the edge of the grid" if response.at_edge else "best"
            runs = f"{tried.validation.n if tried.validation else 0}/{tried.planned}"
            texts = [report.grid.loss_titles[response.loss], str(response.batch_size), f"{tried.value:g}", runs]
            texts += [_accuracy(tried.validation, places), _accuracy(tried.test, places), mark]
            rows.append([*panel_entries(response.panel), *(Entry(text, bold=best) for text in texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def costs(report: Report) -> Table:
    """Seconds, throughput and memory of pretraining beside accuracy; bold: on the frontier."""
    axes = panel_header(report.grid)
    header = [*axes, "loss", "batch size", "runs", "accuracy", "seconds", "samples/s", "peak memory (MiB)", "frontier"]
    rows = []
    for cost in report.costs:
        memory = f"{cost.peak_memory.mean / 2**20:,.0f}" if cost.peak_memory else DASH
        texts = [
            report.grid.loss_titles[cost.loss], str(cost.batch_size), str(cost.accuracy.n),
            _accuracy(cost.accuracy, decimals(cost.panel.test_images)), f"{cost.seconds.mean:,.1f}",
            f"{cost.samples_per_second.mean:,.0f}", memory, "yes" if cost.on_frontier else "",
        ]  # fmt: skip
        rows.append([*panel_entries(cost.panel), *(Entry(text, bold=cost.on_frontier) for text in texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def learning_curves(report: Report, curves: Sequence[LearningCurve]) -> Table:
    """Every evaluation along the training."""
    axes = panel_header(report.grid)
    header = [*axes, "loss", "batch size", "step", "samples", "kNN accuracy", "seeds"]
    rows = []
    for curve in curves:
        places = decimals(curve.panel.test_images)
        for stop in curve.stops:
            texts = [
                report.grid.loss_titles[curve.loss], str(curve.batch_size), f"{stop.step:,}", f"{stop.samples:,}",
                _accuracy(stop.estimate, places), str(stop.estimate.n),
            ]  # fmt: skip
            rows.append([*panel_entries(curve.panel), *map(Entry, texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def diagnostics(report: Report, found: Sequence[Diagnostic]) -> Table:
    """Every diagnostic at the end of training."""
    axes = panel_header(report.grid)
    names = DIAGNOSTICS | MORE_DIAGNOSTICS
    header = [*axes, "loss", "batch size", "diagnostic", "mean", "95 % interval", "seeds"]
    rows = []
    for diagnostic in found:
        estimate = diagnostic.estimate
        known = estimate.low is not None and estimate.high is not None
        ends = f"{estimate.low:.3g} to {estimate.high:.3g}" if known else DASH
        texts = [
            report.grid.loss_titles[diagnostic.loss], str(diagnostic.batch_size),
            names.get(diagnostic.name, diagnostic.name), f"{estimate.mean:.4g}", ends, str(estimate.n),
        ]  # fmt: skip
        rows.append([*panel_entries(diagnostic.panel), *map(Entry, texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def published(found: Sequence[Series]) -> Table:
    """The published numbers of the overlay, with their sources."""
    header = ["source", "dataset", "loss", "recipe", "note", "batch size", "accuracy"]
    rows = [
        [*map(Entry, [s.source, s.dataset, s.loss, s.recipe, s.note, str(size), f"{accuracy:g}"])]
        for s in found
        for size, accuracy in s.points
    ]
    return Table(header, rows, numeric_from=5)


def _accuracy(found: Estimate | None, places: int) -> str:
    if found is None:
        return DASH
    half_width = "" if found.half_width is None else f" {PLUS_MINUS} {percent(found.half_width, places)}"
    return f"{percent(found.mean, places)}{half_width}"


def _points(found: Estimate, places: int) -> str:
    """Such as ``+1.2 (+0.8 to +1.6)``."""
    ends = "" if found.half_width is None else f" ({interval(found, places)})"
    return f"{points(found.mean, places)}{ends}"


def _plateau(found: Plateau | None) -> list[str]:
    if found is None:
        return [DASH] * 3
    limits = DASH if found.low is None or found.high is None else f"{found.low} to {found.high}"
    return [str(found.batch), limits, str(found.best)]


def _limits(found: Crossing) -> str:
    if found.n < 2:
        return DASH
    low = "below the smallest" if found.low is None else f"{found.low:.3g}"
    high = "above the largest" if found.high is None else f"{found.high:.3g}"
    return f"{low} to {high}"
