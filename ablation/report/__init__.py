"""The comparison report: plan, records and histories become one page that answers the sweep's question.

aggregate (one run per planned cell) -> stats, trends, paths, costs, responses and build (every number) -> answer,
tables, figures, sections (what to show and say) -> document (HTML and Markdown). Valid at any moment of a sweep: a
cell without a record is a hole that shows.
"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from ablation.errors import UserError
from ablation.plan import Plan
from ablation.record import Record
from ablation.report import document, figures, formats, rows, sections
from ablation.report.build import Report, build, no_history
from ablation.report.figures import Picture, style
from ablation.report.inline import PALETTE, inline_svg
from ablation.report.paths import Histories

__all__ = ["Histories", "Report", "build", "write"]


def write(plan: Plan, records: Mapping[str, Record], folder: Path, histories: Histories = no_history) -> Path:
    """Write `folder`/report, pages, figures and tables, from records and histories by cell id.

    `folder` may hold the sweep file and views.png, which the page then shows. Returns the page's path.

    Raises:
        UserError: the folder can't be written to.
    """
    report = build(plan, records, histories)
    root = folder / "report"
    try:
        for part in ("tables", "figures"):
            (root / part).mkdir(parents=True, exist_ok=True)
        pictures = figures.pictures(report)
        drawings = draw(pictures, root / "figures")
        images = _images(folder, root)
        page = sections.document(report, pictures, sections.Beside.of(folder))
        for name, text in texts(report, page).items():
            (root / name).write_text(text, encoding="utf-8", newline="\n")
        path = root / "index.html"
        path.write_text(document.html(page, drawings, images, PALETTE), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{root}: can't write the report here ({error.strerror})") from error
    return path


def draw(pictures: Sequence[Picture], folder: Path) -> dict[str, str]:
    """Write each figure as PNG, SVG and PDF; those of an earlier report go. Name -> SVG as a page holds it."""
    for old in folder.glob("*.*"):
        if old.suffix in {".png", ".svg", ".pdf"}:
            old.unlink()
    drawings = {}
    with style.drawing():
        for picture in pictures:
            if picture.draw:
                style.save(picture.draw(), folder / picture.name)
                svg = (folder / f"{picture.name}.svg").read_text(encoding="utf-8")
                drawings[picture.name] = inline_svg(svg, picture.name)
    return drawings


def texts(report: Report, page: document.Document) -> dict[str, str]:
    """File name, relative to the report -> its text: the page in Markdown, and every table in every format."""
    found = {"index.md": document.markdown(page)}
    found |= {name: formats.to_csv(table) for name, table in rows.files(report).items()}
    for sheet in page.sheets():
        found[f"tables/{sheet.name}.md"] = formats.to_markdown(sheet.table) + "\n"
        found[f"tables/{sheet.name}.tex"] = formats.to_latex(sheet.table, sheet.caption, sheet.name)
    return found


def _images(folder: Path, root: Path) -> dict[str, str]:
    """The gallery of augmented pairs, where the run left one, as a data URI and as a file beside the page."""
    source = folder / sections.VIEWS
    if not source.is_file():
        (root / sections.VIEWS).unlink(missing_ok=True)
        return {}
    png = source.read_bytes()
    (root / sections.VIEWS).write_bytes(png)
    return {sections.VIEWS: f"data:image/png;base64,{base64.b64encode(png).decode()}"}
