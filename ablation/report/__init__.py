"""The comparison report: plan and records become tables, a figure and a page that answers the sweep's question.

aggregate (one run per planned cell) -> stats and build (every number) -> answer, tables, curves (words and numbers to
show) -> figures and page (files). Valid at any moment of a sweep: a cell without a record is a hole that shows.
"""

from collections.abc import Mapping
from pathlib import Path

from ablation.errors import UserError
from ablation.plan import Plan
from ablation.record import Record
from ablation.report import curves, figures, page, tables
from ablation.report.build import METRIC, SECOND_METRIC, Report, build

__all__ = ["Report", "build", "write"]


def write(plan: Plan, records: Mapping[str, Record], folder: Path) -> Path:
    """Write `folder`/report, page, figure and tables as CSV, from records by id; returns the page's path.

    Raises:
        UserError: the folder can't be written to.
    """
    report = build(plan, records)
    views = curves.views(report)
    texts = {
        "records.csv": tables.to_csv(tables.run_rows(report.grid)),
        "tables/cells.csv": tables.to_csv(
            [*tables.summary_rows(METRIC, report.accuracy), *tables.summary_rows(SECOND_METRIC, report.accuracy_knn)]
        ),
        "tables/differences.csv": tables.to_csv(tables.effect_rows(report, report.differences)),
        "tables/penalties.csv": tables.to_csv(tables.effect_rows(report, report.penalties)),
        "tables/interactions.csv": tables.to_csv(tables.effect_rows(report, report.interactions)),
        "index.md": page.markdown(report, views),
    }
    root = folder / "report"
    try:
        for part in ("tables", "figures"):
            (root / part).mkdir(parents=True, exist_ok=True)
        figures.save(views, root / page.FIGURE)
        for name, text in texts.items():
            (root / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{root}: can't write the report here ({error.strerror})") from error
    return root / "index.md"
