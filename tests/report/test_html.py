"""The HTML page and the file formats: one file, nothing from elsewhere, everything escaped, colours with contrast."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ablation import report
from ablation.record import Status
from ablation.report import formats
from ablation.report.formats import Entry, Table
from ablation.report.inline import PALETTE, inline_svg
from tests.report.synthetic import by_id, history_of, plan_of, record_of, records_of

EVIL = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of labels, messages, titles and sweeps that try to leave their place."""
    folder = tmp_path_factory.mktemp("evil")
    plan = plan_of(
        losses=("infonce", EVIL), batch_sizes=(8, 128), seeds=2, warnings=[EVIL], temperature=(0.1, 0.5),
        report={"title": EVIL, "notes": [f"--> {EVIL}"], "equivalence_margin": 0.01},
    )  # fmt: skip
    records = records_of(plan.model_copy(update={"question": EVIL}), lambda _loss, b, s: 0.9 + b / 4000 + s / 100)
    first = plan.cells[0].cell
    records |= by_id([record_of(first, status=Status.FAILED, message=f'"{EVIL}')])
    (folder / "sweep.yaml").write_text(f"name: x # </code></pre>{EVIL}\n")
    (folder / "views.png").write_bytes(b"\x89PNG")
    return report.write(plan, records, folder, history_of).read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_has_one_script(page: str) -> None:
    elements = Elements(page)
    assert elements.open == []
    assert list(elements.named("script")) == [{}]
    assert EVIL not in page
    assert page.count("&lt;script&gt;") > 10


def test_the_page_asks_for_nothing(page: str) -> None:
    for tag, attributes in Elements(page).found:
        for name in ("src", "href", "xlink:href", "action", "data", "poster"):
            value = attributes.get(name) or ""
            assert not re.match(r"(https?:)?//", value), (tag, value)
            assert name != "src" or not value or value.startswith("data:image/png;base64,")
    assert "@import" not in page
    assert set(re.findall(r"url\(([^)]{1,4})", page)) <= {
        f"#{start}" for start in ("bat", "dif", "pen", "res", "cos", "lea", "dia")
    }


def test_ids_are_unique_and_every_anchor_leads_to_one(page: str) -> None:
    found = Elements(page).found
    ids = [value for _, attributes in found if (value := attributes.get("id"))]
    assert len(ids) == len(set(ids))
    anchors = {
        href[1:] for _, a in found for name in ("href", "xlink:href") if (href := a.get(name) or "").startswith("#")
    }
    assert anchors <= set(ids)
    assert {attributes.get("aria-labelledby") for tag, attributes in found if tag == "section"} <= set(ids)


def test_figures_have_words_and_tables_headings(page: str) -> None:
    elements = Elements(page)
    drawings = [attributes for tag, attributes in elements.found if attributes.get("role") == "img"]
    assert len(drawings) == 7
    assert all(len(attributes["aria-label"] or "") > 40 for attributes in drawings)
    assert all(attributes["aria-hidden"] == "true" for attributes in elements.named("svg"))
    assert all(attributes["scope"] == "col" for attributes in elements.named("th"))
    assert all(attributes["alt"] for attributes in elements.named("img"))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """WCAG 2.1's contrast ratio."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_letters_have_contrast_and_marks_can_be_seen(scheme: int) -> None:
    paper = PALETTE["paper"][scheme]
    for name, colours in PALETTE.items():
        if name.startswith(("ink", "grey", "label")):
            assert contrast(colours[scheme], paper) >= 4.5, name
        elif name.startswith(("loss", "size")):
            assert contrast(colours[scheme], paper) >= (2.2 if scheme == 0 else 4.5), name


def test_black_and_white_have_the_greatest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_an_inlined_figure_takes_the_pages_colours_and_a_prefix() -> None:
    svg = (
        '<?xml version="1.0"?>\n<!-- a label --><svg height="9pt" width="8pt" viewBox="0 0 8 9"><metadata>x</metadata>'
        '<path id="p1" style="fill: #FFFFFF"/><use xlink:href="#p1" clip-path="url(#p1)"/></svg>'
    )
    assert inline_svg(svg, "costs") == (
        '<svg aria-hidden="true" focusable="false" viewBox="0 0 8 9">'
        '<path id="costs-p1" style="fill: var(--paper)"/><use xlink:href="#costs-p1" clip-path="url(#costs-p1)"/></svg>'
    )


def test_latex_by_hand() -> None:
    table = Table(
        ["loss", "95 % interval"],
        [[Entry("a_b & $c$"), Entry("\u22121.0 \u00b1 2 \u2013", bold=True)], [Entry(r"\input{x}"), Entry("<~^>")]],
        numeric_from=1,
    )
    assert (
        formats.to_latex(table, "100 % {sure}", "cells")
        == r"""\begin{table}
\centering
\caption{100 \% \{sure\}}
\label{tab:cells}
\begin{tabular}{lr}
\toprule
loss & 95 \% interval \\
\midrule
a\_b \& \$c\$ & \textbf{$-$1.0 $\pm$ 2 --} \\
\textbackslash{}input\{x\} & \textless{}\textasciitilde{}\textasciicircum{}\textgreater{} \\
\bottomrule
\end{tabular}
\end{table}
"""
    )


def test_code_can_not_end_its_fence() -> None:
    from ablation.report.document import Code, Document, Section, markdown

    text = markdown(Document("t", None, "p", [Section("s", "S", [Code("a\n```\n# no heading")])]))
    assert "````\na\n```\n# no heading\n````" in text


def test_an_incomplete_cell_is_grey(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=2)
    page = report.write(plan, by_id([record_of(plan.cells[0].cell, 0.9)]), tmp_path).read_text()
    assert '<td class="number muted">90.0 (1/2)</td>' in page
