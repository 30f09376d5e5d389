"""The page in headless Chromium: clicked, sorted, tabbed through; dark, printed, narrow; checked by axe-core.

Skipped aloud without Chromium; the accessibility check also without axe-core, whose axe.min.js $AXE_CORE names.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from ablation import report
from ablation.record import Status
from tests.report.browser import CHROMIUM, Page, browser
from tests.report.synthetic import by_id, history_of, plan_of, record_of, records_of

AXE = Path(os.environ.get("AXE_CORE", "/nowhere"))

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of 3 losses, 5 batch sizes, 2 datasets and 5 seeds, with a failed run and a hole."""
    plan = plan_of(
        losses=("infonce", "flatnce", "dcl"), batch_sizes=(8, 16, 32, 64, 128), datasets=("digits", "cifar10"),
        report={"equivalence_margin": 0.01},
    )  # fmt: skip
    records = records_of(plan, lambda loss, b, s: 0.8 + b / 1000 + s * b % 7 / 400 + (0.01 if loss == "dcl" else 0))
    records |= by_id([record_of(plan.cells[0].cell, status=Status.DIVERGED)])
    del records[plan.cells[7].cell.id]
    return report.write(plan, records, tmp_path_factory.mktemp("site"), history_of)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


TABLE = "document.querySelector('#differences table')"
COLUMN = f"[...{TABLE}.tBodies[0].rows].map(row => row.cells[5].textContent)"  # difference
HEAD = "#differences thead th:nth-child(6)"


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace("\u2212", "-")) for text in texts]


def test_tables_sort_by_click_and_by_key(site: Path, page: Page) -> None:
    page.open(site)
    before = page.run(COLUMN)
    page.click(f"{HEAD} button")
    assert page.run(f"document.querySelector('{HEAD}').getAttribute('aria-sort')") == "ascending"
    assert numbers(page.run(COLUMN)) == sorted(numbers(before))
    page.run(f"document.querySelector('{HEAD} button').focus()")
    page.press("Enter")
    assert page.run(f"document.querySelector('{HEAD}').getAttribute('aria-sort')") == "descending"
    assert numbers(page.run(COLUMN)) == sorted(numbers(before), reverse=True)
    page.click("#differences thead th:nth-child(3) button")
    assert page.run(f"{TABLE}.querySelectorAll('[aria-sort]').length") == 1


def test_tab_goes_through_everything_and_shows_where_it_is(site: Path, page: Page) -> None:
    page.open(site)
    seen, outlined = [], True
    for _ in range(40):
        page.press("Tab")
        tag, text, style = page.run(
            "(e => [e.tagName, (e.getAttribute('aria-label') || e.textContent).trim().slice(0, 40), "
            "getComputedStyle(e).outlineStyle])(document.activeElement)"
        )
        seen.append((tag, text))
        outlined = outlined and style != "none"
    assert seen[0] == ("A", "Skip to the answer")
    assert seen[1] == ("A", "Answer")
    assert {"A", "BUTTON", "DIV", "SUMMARY"} <= {tag for tag, _ in seen}
    assert outlined


def test_a_fold_opens_by_click(site: Path, page: Page) -> None:
    page.open(site)
    page.click("#batch-size summary")
    assert page.run("document.querySelector('#batch-size details').open") is True


def test_nothing_else_is_asked_for_and_no_script_fails(site: Path, page: Page) -> None:
    page.open(site)
    assert page.requests == [site.resolve().as_uri()]
    assert page.errors == []


def test_the_page_is_whole_without_script(site: Path, page: Page) -> None:
    page.open(site)
    text = "document.querySelector('main').innerText.length"
    whole = page.run(text)
    page.open(site, script=False)
    assert page.run(text) == whole
    assert page.run("document.querySelectorAll('th button').length") == 0
    page.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize(
    ("width", "dark"), [(1200, False), (1200, True), (390, False)], ids=["light", "dark", "narrow"]
)
def test_the_page_fits_its_window_and_its_colours(
    site: Path, page: Page, tmp_path: Path, width: int, *, dark: bool
) -> None:
    page.open(site, width=width, dark=dark)
    assert page.run("document.documentElement.scrollWidth") <= width
    page.picture(tmp_path / "page.png")
    picture = imread(tmp_path / "page.png")[..., :3]
    assert picture.shape[1] == width
    assert (np.median(picture) < 0.2) == dark  # the paper


def test_the_page_prints_with_its_folds_open(site: Path, page: Page, tmp_path: Path) -> None:
    page.open(site, dark=True)
    page.paper(tmp_path / "page.pdf")
    page.run("document.querySelectorAll('details').forEach(fold => fold.remove())")
    page.paper(tmp_path / "without.pdf")
    whole, without = ((tmp_path / name).read_bytes().count(b"/Type /Page\n") for name in ("page.pdf", "without.pdf"))
    assert whole > without > 3


@pytest.mark.skipif(not AXE.is_file(), reason="$AXE_CORE names no axe.min.js")
@pytest.mark.parametrize(
    ("width", "dark"), [(1200, False), (1200, True), (390, False)], ids=["light", "dark", "narrow"]
)
def test_axe_finds_nothing_serious(site: Path, page: Page, width: int, *, dark: bool) -> None:
    page.open(site, width=width, dark=dark)
    page.run("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    page.run(AXE.read_text(encoding="utf-8") + "; 0")
    found = page.run("axe.run().then(r => [r.passes.length, r.violations.map(v => [v.impact, v.id, v.nodes[0].html])])")
    assert found[0] > 20
    assert found[1] == []
