"""The page: a report's numbers and words put into index.md by its template."""

import re
from collections.abc import Sequence

import jinja2

from ablation.record import Status
from ablation.report import answer, curves, tables
from ablation.report.aggregate import TODO, count_statuses
from ablation.report.build import Effect, Report
from ablation.report.curves import PanelView
from ablation.report.provenance import Fact, provenance
from ablation.report.stats import sampling_sd
from ablation.report.wording import count, decimals, listing, percent

FIGURE = "figures/batch_size"  # without suffix, relative to the page


def markdown(report: Report, views: Sequence[Sequence[PanelView]]) -> str:
    """The whole page; links are relative to the folder it lies in. Without `views` it says why there is no figure."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ablation.report"),
        autoescape=False,  # noqa: S701 - Markdown, not HTML: what is text goes through `text`
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(text=tables.escape, table=tables.to_markdown)
    families = {"differences": report.differences, "penalties": report.penalties, "interactions": report.interactions}
    facts = provenance(report.grid.used_records())
    return environment.get_template("index.md.j2").render(
        title=report.plan.report.title or report.plan.name,
        question=report.plan.question,
        progress=_progress(report),
        statements=answer.statements(report),
        notes=report.notes,
        coverage=tables.coverage(report),
        accuracy=tables.accuracy(report.grid, report.accuracy),
        accuracy_knn=_knn(report),
        figure=FIGURE if views else None,
        alt=curves.describe(views),
        no_figure=_no_figure(report),
        curve_data=tables.curve_data(report),
        counts={name: count(len(effects), "test") for name, effects in families.items()},
        references=_references(report),
        failures=tables.failures(report),
        provenance=tables.provenance(facts),
        mixed=listing(fact.name for fact in facts if fact.mixed),
        dirty=any(fact.name == "Uncommitted changes" and "yes" in fact.values for fact in facts),
        cost=_cost(report),
        commit=_commit(facts),
        sampling=_sampling(report),
        **_effect_tables(report),
    )


def _progress(report: Report) -> str:
    statuses = count_statuses(report.grid.runs)
    planned, done, todo = len(report.grid.runs), statuses[Status.DONE], statuses[TODO]
    lost = planned - done - todo
    text = f"{done:,} of {count(planned, 'planned run')} done"
    text += f", {lost:,} ended without a result" if lost else ""
    return f"{text}, {todo:,} still to do: the answer may change." if todo else f"{text}."


def _effect_tables(report: Report) -> dict[str, tables.Table]:
    def table(effects: Sequence[Effect], names: tuple[str, str], *, correlation: bool = False) -> tables.Table:
        return tables.effects(report, effects, names=names, correlation=correlation)

    return {
        "differences": table(report.differences, ("first", "second"), correlation=True),
        "penalties": table(report.penalties, ("at reference", "at batch size")),
        "interactions": table(report.interactions, ("penalty of first", "penalty of second")),
    }


def _knn(report: Report) -> tables.Table | None:
    known = any(summary.scores for summary in report.accuracy_knn)
    return tables.accuracy(report.grid, report.accuracy_knn) if known else None


def _no_figure(report: Report) -> str:
    return (
        f"No figure: the values of {listing(report.grid.axes)} make more than {curves.MOST_VARIANTS} combinations, and "
        "averaging over them would hide what they do. Fix one of them, for example with --set, or read the tables: "
        "they have rows for each."
    )


def _references(report: Report) -> str:
    return listing(dict.fromkeys(report.references.values()))


def _cost(report: Report) -> str:
    records = report.grid.used_records()
    hours = sum(record.timings.get("total", 0.0) for record in records) / 3600
    return f"{count(len(records), 'record')}, {hours:.2f} hours of computing in all."


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
