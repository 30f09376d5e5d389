"""How a report's numbers came about: provenance, the way to reproduce them, and what its words mean."""

import re
from collections.abc import Iterator, Sequence

import jinja2

from ablation.report import tables
from ablation.report.build import Report
from ablation.report.document import Block, Code, Fold, Items, Links, Sheet, Text
from ablation.report.provenance import Fact, provenance
from ablation.report.stats import sampling_sd
from ablation.report.wording import count, decimals, listing, percent

LONGEST_LOG = 4000  # characters of a traceback's end


def provenance_blocks(report: Report, sweep: str | None) -> Iterator[Block]:
    """Where the records come from, and the sweep as it was asked."""
    facts = provenance(report.grid.used_records())
    if not facts:
        yield Text("There are no records yet: ablation run FILE makes them.")
    else:
        mixed = listing(fact.name for fact in facts if fact.mixed)
        if mixed:
            text = f"the records differ in {mixed}. Differences between their results may come from that."
            yield Text(text, "Mixed provenance:", warning=True)
        if any(fact.name == "Uncommitted changes" and "yes" in fact.values for fact in facts):
            yield Text("some records come from code that no commit holds.", "Uncommitted changes:", warning=True)
        yield Sheet(tables.provenance(facts), "Code, machine and data of the records", "provenance")
        yield from _unconverged(report)
        yield Text(_cost(report))
    seeds = sorted({run.cell.seed for run in report.grid.runs})
    yield Text(f"Seeds: {listing(seeds)}. Cells that the plan no longer asks for: {report.grid.unplanned:,} left out.")
    if sweep is not None:
        yield Fold("The sweep, word for word", [Code(sweep)])


def reproduce(report: Report) -> Iterator[Block]:
    """The commands that give these numbers again."""
    commit = _commit(provenance(report.grid.used_records()))
    checkout = f"git checkout {commit}   # in the checkout that `ablation` is installed from\n" if commit else ""
    yield Text("In the folder above this report, which holds the sweep:")
    yield Code(
        f"{checkout}ablation run sweep.yaml     # trains every cell anew, into results/ beneath this folder\n"
        "ablation report .           # writes this report again, from the records that are here"
    )


def log(traceback: str) -> Code:
    """The end of a traceback."""
    text = traceback.strip()
    return Code(text if len(text) <= LONGEST_LOG else f"\u2026\n{text[-LONGEST_LOG:]}")


def definitions(report: Report) -> Iterator[Block]:
    """What the words and numbers of the page mean."""
    margin = report.plan.report.equivalence_margin
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ablation.report"),
        autoescape=False,  # noqa: S701 - plain text, which the page escapes
        trim_blocks=True,
    )
    text = environment.get_template("definitions.txt.j2").render(
        classifiers=_classifiers(report),
        sampling=_sampling(report),
        margin="" if margin is None else f" of {100 * margin:g} points",
    )
    terms = [" ".join(paragraph.split()).partition(": ") for paragraph in text.split("\n\n")]
    yield Items([Text(meaning, f"{term}:") for term, _, meaning in terms if meaning])
    yield Links(
        "Files: records.csv has a row for every run; the others hold the tables in full precision.",
        ["records.csv", *(f"tables/{name}.csv" for name in _FILES)],
    )


def _classifiers(report: Report) -> str:
    """How the linear classifiers of the sweep come about."""
    evaluations = dict.fromkeys(planned.cell.evaluation for planned in report.plan.cells)
    return "; or ".join(
        f"by {evaluation.classifier}" if evaluation.probe else "its L2 penalty chosen on the validation split"
        for evaluation in evaluations
    )


_FILES = (
    "cells", "differences", "penalties", "interactions", "trends", "crossovers", "equal_budgets", "responses", "costs",
    "learning_curves", "diagnostics",
)  # fmt: skip


def _cost(report: Report) -> str:
    records = report.grid.used_records()
    pretraining = {record.pretraining_key: record.timings.get("pretraining", 0.0) for record in records}
    rest = sum(seconds for record in records for name, seconds in record.timings.items() if name != "pretraining")
    hours = (sum(pretraining.values()) + rest) / 3600
    return f"{count(len(records), 'record')}, {hours:.2f} hours of computing in all."


def _unconverged(report: Report) -> Iterator[Block]:
    outcomes = [record.outcome for record in report.grid.used_records() if record.outcome]
    said = [outcome.selection["converged"] for outcome in outcomes if "converged" in outcome.selection]
    if stopped := said.count(0.0):
        text = (
            f"the linear classifiers of {stopped:,} of {count(len(said), 'record')} stopped before they had converged. "
            "Their linear accuracies are those of where they stopped."
        )
        yield Text(text, "Fits that did not converge:", warning=True)


def _commit(facts: Sequence[Fact]) -> str | None:
    """The one commit behind every record, where there is one."""
    values = next((list(fact.values) for fact in facts if fact.name == "Commit"), [])
    return values[0] if len(values) == 1 and re.fullmatch(r"[0-9a-f]{7,64}", values[0]) else None


def _sampling(report: Report) -> list[str]:
    """A dataset's test-sampling error, at its best mean accuracy."""
    best: dict[str, tuple[float, int]] = {}
    for summary in report.accuracy:
        if summary.estimate:
            title, found = summary.panel.dataset_title, (summary.estimate.mean, summary.panel.test_images)
            best[title] = max(best.get(title, found), found)
    lines = []
    for title, (mean, images) in best.items():
        sd, at = (percent(value, decimals(images)) for value in (sampling_sd(mean, images), mean))
        lines.append(f"{title}: {sd} points at {at} % ({images:,} test images).")
    return lines
