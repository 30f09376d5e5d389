"""The report's numbers as tidy rows of plain values, for CSV: accuracies in [0, 1], times in seconds."""

from collections.abc import Iterable, Mapping, Sequence

from ablation.record import Record, Status
from ablation.report.aggregate import TODO, Grid, Panel, Run
from ablation.report.build import Effect, Report, Summary
from ablation.report.formats import Row
from ablation.report.stats import Estimate, sampling_sd
from ablation.report.tables import RANDOM_ENCODER


def files(report: Report) -> Mapping[str, Sequence[Row]]:
    """File name, relative to the report -> its rows."""
    accuracies = [
        *summary_rows(report.metric, report.accuracy),
        *summary_rows(report.second_metric, report.second_accuracy),
    ]
    return {
        "records.csv": run_rows(report.grid),
        "tables/cells.csv": accuracies,
        "tables/differences.csv": effect_rows(report, report.differences),
        "tables/penalties.csv": effect_rows(report, report.penalties),
        "tables/interactions.csv": effect_rows(report, report.interactions),
        "tables/trends.csv": trend_rows(report),
        "tables/crossovers.csv": crossover_rows(report),
        "tables/equal_budgets.csv": equal_budget_rows(report),
        "tables/responses.csv": response_rows(report),
        "tables/costs.csv": cost_rows(report),
        "tables/learning_curves.csv": learning_curve_rows(report),
        "tables/diagnostics.csv": diagnostic_rows(report),
    }


def run_rows(grid: Grid) -> list[Row]:
    """One row a run, holes included, random-init runs last and each once; accuracies in [0, 1], times in seconds."""
    shared = {run.cell.id: run for runs in grid.baselines.values() for run in runs}
    return [_run_row(run) for run in [*grid.runs, *shared.values()]]


def summary_rows(metric: str, summaries: Iterable[Summary]) -> list[Row]:
    """One row a cell of Table 1; accuracies in [0, 1]."""
    return [
        {
            **_panel_row(summary.panel),
            "loss": summary.loss or RANDOM_ENCODER,
            "batch_size": summary.batch_size,
            "metric": metric,
            **estimate_row(summary.estimate),
            "test_sampling_sd": summary.estimate and sampling_sd(summary.estimate.mean, summary.panel.test_images),
            "chance": summary.panel.chance,
            "planned": summary.planned,
            **{status: summary.statuses[status] for status in [*Status, TODO]},
            "near_best": summary.near_best,
        }
        for summary in summaries
    ]


def effect_rows(report: Report, found: Iterable[Effect]) -> list[Row]:
    """One row a paired effect; differences of accuracies in [-1, 1]."""
    return [
        {
            **_panel_row(effect.panel),
            "loss": effect.losses[0],
            "minus_loss": effect.losses[1] if len(effect.losses) > 1 else None,
            "batch_size": effect.batch_size,
            "reference_batch": report.references.get(effect.panel),
            "planned_pairs": effect.planned,
            **estimate_row(effect.estimate),
            "correlation": effect.paired.correlation,
            "p": effect.paired.p,
            "p_holm": effect.p_holm,
            "p_sign_flip": effect.paired.sign_flip,
            "p_equivalence_holm": effect.p_equivalence,
            "margin": effect.margin,
            "family": effect.family,
            "resolvable": effect.resolvable,
            "pairs_needed": effect.pairs_needed,
            "pairs_for_margin": effect.pairs_for_margin,
            "verdict": effect.verdict.value,
        }
        for effect in found
    ]


def trend_rows(report: Report) -> list[Row]:
    """One row a loss of a panel; the slope is accuracy per doubling of the batch size."""
    return [
        {
            **_panel_row(trend.panel),
            "loss": trend.loss,
            **{f"slope_{name}": value for name, value in estimate_row(trend.slope).items()},
            "plateau_best": trend.plateau and trend.plateau.best,
            "plateau_batch": trend.plateau and trend.plateau.batch,
            "plateau_low": trend.plateau and trend.plateau.low,
            "plateau_high": trend.plateau and trend.plateau.high,
            "margin": report.plan.report.equivalence_margin,
        }
        for trend in report.trends
    ]


def crossover_rows(report: Report) -> list[Row]:
    """One row a crossing; a comparison without any has one without a batch size."""
    return [
        {
            **_panel_row(crossover.panel),
            "loss": crossover.losses[0],
            "other_loss": crossover.losses[1],
            "shared_batch_sizes": crossover.shared,
            "batch": crossing and crossing.batch,
            "low": crossing and crossing.low,
            "high": crossing and crossing.high,
            "n": crossing and crossing.n,
        }
        for crossover in report.crossovers
        for crossing in crossover.crossings or (None,)
    ]


def equal_budget_rows(report: Report) -> list[Row]:
    """One row a penalty or difference of penalties in validation kNN accuracy, at equal samples and at equal steps."""
    return [
        {
            **_panel_row(found.panel),
            "loss": found.losses[0],
            "minus_loss": found.losses[1] if len(found.losses) > 1 else None,
            "batch_size": found.batch_size,
            "reference_batch": report.references[found.panel],
            "samples": found.samples,
            **{f"samples_{name}": value for name, value in estimate_row(found.at_samples.estimate).items()},
            "steps": found.steps,
            **{f"steps_{name}": value for name, value in estimate_row(found.at_steps.estimate).items()},
            "remark": found.remark,
        }
        for found in report.paths.equal_budgets
    ]


def response_rows(report: Report) -> list[Row]:
    """One row a value of a tuning axis, per loss and batch size."""
    return [
        {
            **_panel_row(response.panel),
            "loss": response.loss,
            "batch_size": response.batch_size,
            "axis": response.axis,
            "value": tried.value,
            "planned": tried.planned,
            **{f"validation_{name}": value for name, value in estimate_row(tried.validation).items()},
            **{f"test_{name}": value for name, value in estimate_row(tried.test).items()},
            "winner": tried == response.winner,
            "winner_at_edge": tried == response.winner and response.at_edge,
        }
        for response in report.responses
        for tried in response.tried
    ]


def cost_rows(report: Report) -> list[Row]:
    """One row a loss at a batch size."""
    return [
        {
            **_panel_row(cost.panel),
            "loss": cost.loss,
            "batch_size": cost.batch_size,
            **{f"accuracy_{name}": value for name, value in estimate_row(cost.accuracy).items()},
            "seconds": cost.seconds.mean,
            "samples_per_second": cost.samples_per_second.mean,
            "peak_memory_bytes": cost.peak_memory and cost.peak_memory.mean,
            "on_frontier": cost.on_frontier,
        }
        for cost in report.costs
    ]


def learning_curve_rows(report: Report) -> list[Row]:
    """One row an evaluation along the training; kNN accuracy on the validation split."""
    return [
        {
            **_panel_row(curve.panel),
            "loss": curve.loss,
            "batch_size": curve.batch_size,
            "step": stop.step,
            "samples": stop.samples,
            **estimate_row(stop.estimate),
        }
        for curve in report.paths.curves
        for stop in curve.stops
    ]


def diagnostic_rows(report: Report) -> list[Row]:
    """One row a diagnostic of a loss at a batch size: the mean over seeds of means over the last logged steps."""
    return [
        {
            **_panel_row(found.panel),
            "loss": found.loss,
            "batch_size": found.batch_size,
            "diagnostic": found.name,
            **estimate_row(found.estimate),
        }
        for found in report.paths.diagnostics
    ]


def estimate_row(found: Estimate | None) -> Row:
    """The columns of an estimate."""
    return {
        "n": found.n if found else 0,
        "mean": found and found.mean,
        "sd": found and found.sd,
        "half_width": found and found.half_width,
        "low": found and found.low,
        "high": found and found.high,
    }


def _panel_row(panel: Panel) -> Row:
    return {"dataset": panel.dataset, **dict(panel.variant)}


def _run_row(run: Run) -> Row:
    record, pretraining = run.record, run.cell.pretraining
    kind: Row = {"kind": "cell" if pretraining else "random-init"}
    standard: Row = {"dataset": None, "loss": None, "batch_size": None, "seed": run.cell.seed}
    row = kind | standard | dict(run.settings) | {"id": run.cell.id, "status": run.status}
    row |= {
        "steps": pretraining and pretraining.steps,
        "samples": pretraining and pretraining.steps * pretraining.batch_size,
        "peak_learning_rate": pretraining and pretraining.learning_rate.peak,
    }
    return row | (_record_row(record) if record else {})


def _record_row(record: Record) -> Row:
    outcome, failure = record.outcome, record.failure
    return {
        **(outcome.metrics if outcome else {}),
        **{f"{name}_seconds": seconds for name, seconds in sorted(record.timings.items())},
        "peak_memory_bytes": record.peak_memory_bytes,
        "attempts": record.attempts,
        "finished": record.finished,
        "commit": record.environment.commit,
        "dirty": record.environment.dirty,
        "error": f"{failure.kind}: {failure.message}" if failure else None,
        "last_step": failure.step if failure else None,
    }
