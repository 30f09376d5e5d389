"""The page: a report's numbers put into index.md by its template."""

import json

import jinja2

from ablation.record import Status
from ablation.report import answer, curves, tables
from ablation.report.aggregate import TODO
from ablation.report.build import Report, Summary
from ablation.report.provenance import provenance
from ablation.report.wording import count, decimals, percent
from ablation.report.stats import sampling_sd

FIGURE = "figures/batch_size"  # without suffix, relative to the page


def markdown(report: Report) -> str:
    """The whole page; links and the figure's paths are relative to the report folder."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ablation.report", "templates"),
        autoescape=False,  # noqa: S701 - Markdown, not HTML: the template escapes with `text`
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(text=tables.escape, table=tables.to_markdown)
    views = curves.views(report)
    facts = provenance(report.grid.used_records())
    return environment.get_template("index.md.j2").render(
        title=report.plan.report.title or report.plan.name,
        question=report.plan.question,
        progress=_progress(report),
        statements=answer.statements(report),
        notes=report.notes,
        coverage=tables.coverage(report),
    )
