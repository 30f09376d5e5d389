"""The report as a document: which sections there are, in which order, and what each says around its numbers."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ablation.record import Status
from ablation.report import answer, figure_tables, method, predictions, tables
from ablation.report.aggregate import TODO, count_statuses
from ablation.report.build import Effect, Report
from ablation.report.costs import machines
from ablation.report.document import Block, Document, Fold, Image, Items, Links, Plot, Section, Sheet, Text
from ablation.report.figures import Picture
from ablation.report.wording import METRICS, count, listing, points

VIEWS = "views.png"  # the gallery of augmented pairs, beside the page
MOST_STATEMENTS = 10  # that the answer makes without an overview
MOST_RUNS = 2000  # that the page lists one by one
MOST_TRACES = 20  # tracebacks that the page shows


@dataclass(frozen=True)
class Beside:
    """What lies in the sweep's folder beside its records, for the page to show or to lead to."""

    sweep: str | None = None  # the sweep file's text
    gallery: bool = False  # whether there is a picture of augmented pairs
    logs: frozenset[str] = frozenset()  # ids of the cells that have a log

    @classmethod
    def of(cls, folder: Path) -> Self:
        """What lies in `folder`."""
        sweep = folder / "sweep.yaml"
        return cls(
            sweep.read_text(encoding="utf-8", errors="replace") if sweep.is_file() else None,
            (folder / VIEWS).is_file(),
            frozenset(path.stem for path in (folder / "logs").glob("*.log")),
        )


def document(report: Report, pictures: Sequence[Picture], beside: Beside) -> Document:
    """The whole page."""
    plots = {picture.name: list(_figure(number, picture)) for number, picture in enumerate(pictures, 1)}
    between = [name for name in plots if name.startswith("response")]
    arms = predictions.groups(report)
    sections = [
        Section("answer", "Answer", list(_answer(report, arms))),
        *([Section("predictions", "Prediction matrix", list(_predictions(report, arms)))] if arms else []),
        *([Section("notes", "Notes", [Items([Text(note) for note in report.notes])])] if report.notes else []),
        Section("coverage", "Coverage", list(_coverage(report))),
        Section("batch-size", _title(pictures, "batch_size"), plots["batch_size"]),
        Section("differences", _title(pictures, "differences"), [*plots["differences"], *_differences(report)]),
        Section("penalty", _title(pictures, "penalties"), [*plots["penalties"], *_penalties(report)]),
        *(Section(name.replace("_", "-"), _title(pictures, name), plots[name]) for name in between),
        Section("cost", _title(pictures, "costs"), [*_machines(report), *plots["costs"]]),
        Section("curves", _title(pictures, "learning_curves"), [*plots["learning_curves"], *_equal_budgets(report)]),
        Section("diagnostics", _title(pictures, "diagnostics"), [*_premise(report, arms), *plots["diagnostics"]]),
        Section("table", "Table 1: accuracy by batch size", list(_table(report))),
        Section("views", "Augmented pairs", [_gallery(there=beside.gallery)]),
        Section("failures", "Failures", list(_failures(report, beside.logs))),
        Section("provenance", "Method and provenance", list(method.provenance_blocks(report, beside.sweep))),
        Section("reproduce", "Reproduce", list(method.reproduce(report))),
        Section("definitions", "Definitions", list(method.definitions(report))),
    ]
    return Document(report.plan.report.title or report.plan.name, report.plan.question, _progress(report), sections)


def _answer(report: Report, arms: Sequence[predictions.Group]) -> Iterator[Block]:
    """Every statement; where they are many, an overview, and the statements for who opens them."""
    gates = [Text(predictions.gate(group), f"What holds InfoNCE back, {predictions.title(group)}:") for group in arms]
    every = [_item(statement) for statement in answer.statements(report)]
    if len(every) <= MOST_STATEMENTS:
        yield Items([*gates, *every])
        return
    yield Items([*gates, *map(_item, answer.overview(report))])
    yield Fold("Every comparison in sentences", [Items(every)])


def _item(statement: answer.Statement) -> Text:
    """One finding stands behind its lead, several below it."""
    if len(statement.findings) == 1:
        return Text(statement.findings[0], statement.lead)
    return Text("", statement.lead, below=statement.findings)


def _title(pictures: Sequence[Picture], name: str) -> str:
    number, picture = next((n, p) for n, p in enumerate(pictures, 1) if p.name == name)
    return f"Figure {number}: {picture.title[0].lower()}{picture.title[1:]}"


def _figure(number: int, picture: Picture) -> Iterator[Block]:
    if picture.draw:
        yield Plot(picture.name, picture.alt, picture.caption)
    else:
        yield Text(picture.missing)
    if picture.data:
        yield Fold("The figure's data", [Sheet(picture.data, f"Data of figure {number}", picture.name)])


def _progress(report: Report) -> str:
    statuses = count_statuses(report.grid.runs)
    planned, done, todo = len(report.grid.runs), statuses[Status.DONE], statuses[TODO]
    lost = planned - done - todo
    text = f"{done:,} of {count(planned, 'planned run')} done"
    text += f", {lost:,} ended without a result" if lost else ""
    return f"{text}, {todo:,} still to do: the answer may change." if todo else f"{text}."


def _coverage(report: Report) -> Iterator[Block]:
    yield Text(
        "Runs with a result of the runs planned, one a seed; then what became of the others. \u25cf all done, \u25d0 "
        "some done, \u2715 none done and some ended without a result, \u25cb none started."
    )
    yield Sheet(tables.coverage(report), "Runs with a result of those planned", "coverage")
    if len(report.grid.runs) <= MOST_RUNS:
        yield Fold("Every run, with its record", [Sheet(tables.runs(report), "Every planned run")])
    else:
        yield Links(f"Every one of the {len(report.grid.runs):,} runs:", ["records.csv"])


def _differences(report: Report) -> Iterator[Block]:
    if not report.differences:
        return
    yield Text(
        "Accuracy of the first loss minus that of the second, paired by seed, in accuracy points; Holm's correction "
        f"over {count(len(report.differences), 'test')}. Bold: resolved, or equivalent. At one batch size equal "
        "samples are equal steps, so that these comparisons hold for both."
    )
    table = tables.effects(report, report.differences, names=("first", "second"), correlation=True)
    yield Sheet(table, "Differences between losses at each batch size", "differences")
    yield from _margin(report, report.differences)
    if any(crossover.shared > 1 for crossover in report.crossovers):
        yield Text("Where the losses change places, with their mean curves joined linearly in log2 of the batch size:")
        yield Sheet(figure_tables.crossovers(report), "Crossover batch sizes", "crossovers")


def _margin(report: Report, effects: Sequence[Effect]) -> Iterator[Block]:
    """How many seeds would resolve the margin, or what would declare one."""
    margin = report.plan.report.equivalence_margin
    if margin is None:
        yield Text(
            "No equivalence is tested: report.equivalence_margin in the sweep, such as 0.01 for one point, declares "
            "which differences don't matter."
        )
        return
    open_ones = [effect for effect in effects if effect.estimate and not effect.equivalent and not effect.resolved]
    needed = [effect.pairs_for_margin for effect in open_ones if effect.estimate and effect.estimate.sd]
    size = f"{points(margin, 2, sign=False)} points"
    if needed:
        known = [pairs for pairs in needed if pairs]
        most = f"about {max(known):,}" if len(known) == len(needed) else "more than 1,000"
        yield Text(f"With the spread seen, {most} seeds would resolve {size}, the margin, wherever it is open.")


def _penalties(report: Report) -> Iterator[Block]:
    if report.penalties:
        references = listing(dict.fromkeys(report.references.values()))
        yield Text(
            f"Accuracy at the reference batch ({references}) minus accuracy at the batch size, paired by seed, in "
            f"accuracy points; Holm's correction over {count(len(report.penalties), 'test')}. Above zero: the loss is "
            "worse at this batch size than at the reference."
        )
        table = tables.effects(report, report.penalties, names=("at reference", "at batch size"))
        yield Sheet(table, "Small-batch penalty of each loss", "penalties")
    if report.interactions:
        yield Text(
            "The penalty of the first loss minus that of the second; Holm's correction over "
            f"{count(len(report.interactions), 'test')} (comparisons \u00d7 batch sizes other than the reference "
            "\u00d7 datasets). Below zero: the first loss depends less on its batch size.",
            lead="The interaction, the primary test.",
        )
        names = ("penalty of first", "penalty of second")
        yield Sheet(tables.effects(report, report.interactions, names=names), "Interaction", "interactions")
        yield from _margin(report, report.interactions)
    if any(trend.slope for trend in report.trends):
        yield Text(
            "What a doubling of the batch size brings, in accuracy points; and, where the sweep declares a margin, the "
            "smallest batch size from which up to the best the accuracy is within that margin of the best."
        )
        yield Sheet(figure_tables.trends(report), "Slope per doubling and plateau", "trends")


def _machines(report: Report) -> Iterator[Block]:
    kinds = machines(report.grid)
    if len(kinds) > 1:
        names = listing(f"{name} with {count(threads, 'thread')} ({runs})" for (name, threads), runs in kinds.items())
        yield Text(f"These runs come from {names}: their times don't compare.", "Mixed machines.", warning=True)


def _equal_budgets(report: Report) -> Iterator[Block]:
    if report.paths.equal_budgets:
        yield Text(
            "Equal samples are not equal steps. This is the small-batch penalty in validation kNN accuracy (its mean "
            "in points, its 95 % interval), paired by seed: once where all runs have seen the same samples, once where "
            "all have done the same steps. At equal steps the smaller batch has seen fewer images, and its learning "
            "rate is at an earlier point of the schedule. Between two evaluations the curve is taken as straight."
        )
        table = figure_tables.equal_budgets(report)
        yield Sheet(table, "Small-batch penalty at equal samples and at equal steps", "equal_budgets")
    if any(found.remark for found in report.paths.equal_budgets):
        yield Text(
            "With learning_curve: log in the sweep, runs are evaluated early enough for a comparison at equal steps."
        )


def _premise(report: Report, arms: Sequence[predictions.Group]) -> Iterator[Block]:
    """The regime; the answer has it already where arms are compared."""
    found = [] if arms else answer.premises(report)
    if found:
        yield Text(
            "The rounding claim says that small batches fail because rounding error swamps the gradient of anchors "
            "whose xi is near 0. It can be tested only where there are such anchors."
        )
        yield Items([_item(statement) for statement in found])


def _predictions(report: Report, arms: Sequence[predictions.Group]) -> Iterator[Block]:
    matrix = predictions.matrix(arms)
    if matrix:
        yield Text(
            "What each cause alone would have each arm do beside the base, InfoNCE's textbook form in float32: better "
            "(+), worse (\u2212) or no different (0). Then what was seen: the difference in accuracy points, paired by "
            "seed, \u00b1 the half-width of its 95 % t-interval; bold where a paired t-test resolves it, under Holm's "
            "correction over the column, else ?. For the base: its accuracy."
        )
        yield Sheet(matrix, "Prediction matrix", "prediction_matrix")
    yield Text(
        "An arm that moved otherwise than a cause foresees contradicts it as the only cause; one that is not resolved "
        "contradicts nothing. Every arm has the base's learning rate, so that step size is told from anchor weight by "
        "the rescaled arm alone."
    )
    table = predictions.table(report, arms)
    sheet = Sheet(table, "Every arm, with the share of anchors with xi < 1e-3 and its rounding error", "predictions")
    yield Fold("Every arm, with its share of small xi and its rounding error", [sheet])


def _table(report: Report) -> Iterator[Block]:
    metric, second = METRICS[report.metric], METRICS[report.second_metric]
    yield Text(
        f"{metric} on the test images in percent, mean \u00b1 half-width of the 95 % t-interval (number of seeds). "
        "Bold: not separable from the best loss at that batch size. Grey, n/N: only n of N planned runs have a result. "
        "\u2013: none has."
    )
    yield Sheet(tables.accuracy(report.grid, report.accuracy), metric, "cells")
    if any(summary.scores for summary in report.second_accuracy):
        table = tables.accuracy(report.grid, report.second_accuracy)
        yield Fold(f"The same for {second[0].lower()}{second[1:]}", [Sheet(table, second, "cells_second")])
    if report.published:
        table = figure_tables.published(report.published)
        yield Fold("Published accuracies", [Sheet(table, "Published accuracies in percent", "published")])


def _gallery(*, there: bool) -> Block:
    if there:
        alt = "Rows of training images, each beside two random views of it, as the sweep's augmentation makes them."
        return Image(VIEWS, alt, "An image and the two views that the loss sees of it, per augmentation of the sweep.")
    return Text(f"No picture yet. In the sweep's folder, ablation views sweep.yaml --out {VIEWS} makes one.")


def _failures(report: Report, logs: Collection[str]) -> Iterator[Block]:
    table = tables.failures(report, logs)
    if not table.rows:
        yield Text("None.")
        return
    yield Sheet(table, "Runs that ended without a result", "failures")
    traces = {
        run.record.id: run.record.failure.traceback
        for run in report.grid.failures()
        if run.record and run.record.failure and run.record.failure.traceback
    }
    shown = list(traces.items())[:MOST_TRACES]
    if shown:
        more = len(traces) - len(shown)
        yield Fold(
            f"Their tracebacks{f', the first {MOST_TRACES}' if more else ''}",
            [block for cell_id, trace in shown for block in (Text(cell_id), method.log(trace))],
        )
