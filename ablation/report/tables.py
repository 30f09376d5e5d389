"""The report's tables: for the page as formatted entries, for files as tidy rows of plain numbers."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ablation.record import Record, Status
from ablation.report.aggregate import TODO, Grid, Panel, Run
from ablation.report.build import Effect, Report, Summary
from ablation.report.provenance import Fact
from ablation.report.stats import sampling_sd
from ablation.report.wording import DASH, MINUS, PLUS_MINUS, decimals, interval, p_value, percent, points

RANDOM_ENCODER = "random encoder"
CHANCE = "chance"

Row = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A table's field: plain text, escaped by whoever writes it."""

    text: str
    bold: bool = False
    link: str | None = None  # a path relative to the page


@dataclass(frozen=True)
class Table:
    """A table as the page shows it."""

    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    numeric_from: int  # the first column whose entries stand right-aligned


def coverage(report: Report) -> Table:
    """Loss x batch size: how many runs are done, and what became of the others."""
    return _by_batch_size(report.grid, report.accuracy, lambda summary: Entry(_progress(summary)))


def accuracy(grid: Grid, summaries: Sequence[Summary]) -> Table:
    """Loss x batch size: mean +- half-width (n) in percent, with the random encoder and chance beneath."""
    return _by_batch_size(grid, summaries, _accuracy_entry, chance=True)


def effects(report: Report, found: Sequence[Effect], *, names: tuple[str, str], correlation: bool = False) -> Table:
    """Paired effects, one a row; `names` says what the two sides of the pair are."""
    axes = _panel_header(report.grid)
    extra = ["correlation"] if correlation else []
    header = [*axes, "loss", "batch size", *names, "difference", "95 % interval", "pairs", *extra, "p", "p (Holm)"]
    rows = [
        [*_panel_entries(effect.panel), *_effect_entries(report, effect, correlation=correlation)] for effect in found
    ]
    return Table(header, rows, numeric_from=len(axes) + 1)


def curve_data(report: Report) -> Table:
    """What Figure 1 shows, one mean a row, with the two errors that a mean has."""
    axes = _panel_header(report.grid)
    header = [*axes, "loss", "batch size", "n", "mean", "95 % interval", "sd of seeds", "sd of test sampling"]
    rows = []
    for summary in report.accuracy:
        places, found = decimals(summary.panel.test_images), summary.estimate
        numbers = [DASH] * 4
        if found:
            ends = (
                DASH
                if found.low is None or found.high is None
                else f"{percent(found.low, places)} to {percent(found.high, places)}"
            )
            spread = DASH if found.sd is None else percent(found.sd, places)
            sampling = percent(sampling_sd(found.mean, summary.panel.test_images), places)
            numbers = [percent(found.mean, places), ends, spread, sampling]
        batch = DASH if summary.batch_size is None else str(summary.batch_size)
        texts = [_loss_title(report, summary), batch, f"{len(summary.scores)}/{summary.planned}", *numbers]
        rows.append([*_panel_entries(summary.panel), *map(Entry, texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def failures(report: Report) -> Table:
    """Every run that ended without a result, linked to its record."""
    header = [*_panel_header(report.grid), "loss", "batch size", "seed", "status", "last step", "error", "record"]
    rows = []
    for run in report.grid.failures():
        if run.record is None or run.record.failure is None:
            continue
        failure = run.record.failure
        planned = run.cell.pretraining is not None
        loss = report.grid.loss_titles[str(run.settings["loss"])] if planned else RANDOM_ENCODER
        where = [loss, str(run.settings["batch_size"]) if planned else DASH, str(run.cell.seed), run.status]
        step = "none" if failure.step is None else f"{failure.step:,}"
        error = Entry(_shortened(f"{failure.kind}: {failure.message}", 200))
        link = Entry(run.record.id, link=f"../records/{run.record.id}.json")
        rows.append([*_panel_entries(run.panel), *map(Entry, [*where, step]), error, link])
    return Table(header, rows, numeric_from=len(header))


def provenance(facts: Sequence[Fact]) -> Table:
    """Fact, value, number of records."""
    rows = [
        [Entry(fact.name if first else ""), Entry(value), Entry(str(number), bold=fact.mixed)]
        for fact in facts
        for first, (value, number) in zip(
            [True, *[False] * len(fact.values)], sorted(fact.values.items()), strict=False
        )
    ]
    return Table(["", "value", "records"], rows, numeric_from=2)


def to_markdown(table: Table) -> str:
    """The table in GitHub's Markdown."""
    rule = [":---" if column < table.numeric_from else "---:" for column in range(len(table.header))]
    lines = [
        [escape(name) for name in table.header],
        rule,
        *([_markdown_entry(entry) for entry in row] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape(text: str) -> str:
    """Text that Markdown shows as it is: on one line, with no markup, no HTML, no mathematics and no link."""
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", line)


def to_csv(rows: Sequence[Row]) -> str:
    """Tidy rows as CSV; the header is the union of their keys, in order."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


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
            **_estimate_row(summary),
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
            **_estimate_row(effect),
            "correlation": effect.paired.correlation,
            "p": effect.paired.p,
            "p_holm": effect.p_holm,
            "family": effect.family,
            "resolvable": effect.resolvable,
            "pairs_needed": effect.pairs_needed,
        }
        for effect in found
    ]


def _by_batch_size(
    grid: Grid, summaries: Sequence[Summary], entry: Callable[[Summary], Entry], *, chance: bool = False
) -> Table:
    sizes = grid.batch_sizes()
    found = {(summary.panel, summary.loss, summary.batch_size): summary for summary in summaries}
    rows = []
    for panel in grid.panels:
        for loss in grid.losses:
            cells = [found.get((panel, loss, size)) for size in sizes]
            if any(cells):
                entries = [entry(cell) if cell else Entry("") for cell in cells]
                rows.append([*_panel_entries(panel), Entry(grid.loss_titles[loss]), *entries])
        beneath = [(RANDOM_ENCODER, entry(found[panel, None, None]))]
        if chance:
            beneath.append((CHANCE, Entry(percent(panel.chance, decimals(panel.test_images)))))
        rows += [[*_panel_entries(panel), Entry(name), *[value] * len(sizes)] for name, value in beneath]
    header = [*_panel_header(grid), "loss", *(f"batch {size}" for size in sizes)]
    return Table(header, rows, numeric_from=len(header) - len(sizes))


def _progress(summary: Summary) -> str:
    """Such as ``● 5/5``, ``◐ 3/5, diverged 1, todo 1``, ``✕ 0/5, oom 5`` or ``○ todo``."""
    done = summary.statuses[Status.DONE]
    others = [f"{status} {summary.statuses[status]}" for status in [*Status, TODO] if summary.statuses[status]]
    others = [text for text in others if not text.startswith(Status.DONE)]
    if summary.statuses[TODO] == summary.planned:
        return "\u25cb todo"
    glyph = "\u25cf" if done == summary.planned else "\u25d0" if done else "\u2715"
    return ", ".join([f"{glyph} {done}/{summary.planned}", *others])


def _accuracy_entry(summary: Summary) -> Entry:
    found, places = summary.estimate, decimals(summary.panel.test_images)
    n = str(summary.planned) if summary.complete else f"{len(summary.scores)}/{summary.planned}"
    if found is None:
        return Entry(f"{DASH} ({n})")
    half_width = "" if found.half_width is None else f" {PLUS_MINUS} {percent(found.half_width, places)}"
    return Entry(f"{percent(found.mean, places)}{half_width} ({n})", bold=summary.near_best)


def _effect_entries(report: Report, effect: Effect, *, correlation: bool) -> list[Entry]:
    places, found, means = decimals(effect.panel.test_images), effect.estimate, effect.paired.means
    titles = [report.grid.loss_titles[loss] for loss in effect.losses]
    numbers = [DASH] * 4
    if found and means:
        sides = [points(mean, places, sign=False) for mean in means]
        numbers = [*sides, points(found.mean, places), interval(found, places)]
    pairs = effect.planned if found and found.n == effect.planned else f"{found.n if found else 0}/{effect.planned}"
    r = effect.paired.correlation
    extra = [DASH if r is None else f"{r:.2f}".replace("-", MINUS)] if correlation else []
    texts = [" minus ".join(titles), str(effect.batch_size), *numbers, str(pairs), *extra, p_value(effect.paired.p)]
    return [*map(Entry, texts), Entry(p_value(effect.p_holm), bold=effect.resolved)]


def _loss_title(report: Report, summary: Summary) -> str:
    return RANDOM_ENCODER if summary.loss is None else report.grid.loss_titles[summary.loss]


def _panel_header(grid: Grid) -> list[str]:
    return ["dataset", *grid.axes]


def _panel_entries(panel: Panel) -> list[Entry]:
    return [Entry(panel.dataset_title), *(Entry(str(value)) for _, value in panel.variant)]


def _panel_row(panel: Panel) -> Row:
    return {"dataset": panel.dataset, **dict(panel.variant)}


def _estimate_row(owner: Summary | Effect) -> Row:
    found = owner.estimate
    return {
        "n": found.n if found else 0,
        "mean": found and found.mean,
        "sd": found and found.sd,
        "half_width": found and found.half_width,
        "low": found and found.low,
        "high": found and found.high,
    }


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


def _markdown_entry(entry: Entry) -> str:
    text = escape(entry.text)
    text = f"[{text}]({entry.link})" if entry.link else text
    return f"**{text}**" if entry.bold and text else text


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}\u2026"
