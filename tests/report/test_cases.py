"""Ledgers as they are in practice, incomplete, failed, of one seed or batch size, all equal: each report is sound."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ablation import report
from ablation.plan import Plan
from ablation.record import Record, Status
from ablation.report import build, sections
from ablation.report.document import markdown
from ablation.report.figures import pictures
from tests.report.realistic import records_and_histories
from tests.report.synthetic import by_id, plan_of, record_of, records_of

MARGIN = {"equivalence_margin": 0.01}


def told(plan: Plan, records: dict[str, Record] | None = None) -> dict[str, str]:
    """Section title -> its Markdown; realistic records where none are given."""
    made, histories = records_and_histories(plan)
    built = build(plan, made if records is None else records, histories)
    page = markdown(sections.document(built, pictures(built), sections.Beside()))
    return {part.split("\n")[0]: part for part in page.split("\n## ")}


def without(plan: Plan, lost: Callable[[str, int, int], Status | None]) -> dict[str, Record]:
    """Realistic records; where `lost` of loss, batch size and seed gives a status, a run that ended with it."""
    records, _ = records_and_histories(plan)
    for planned in plan.cells:
        at = (str(planned.settings["loss"]), int(planned.settings["batch_size"]), planned.cell.seed)
        if status := lost(*at):
            records |= by_id([record_of(planned.cell, status=status)])
    return records


def test_a_partial_ledger_has_its_holes_and_compares_complete_pairs() -> None:
    plan = plan_of(report=MARGIN)
    records, _ = records_and_histories(plan)
    gone = {planned.cell.id for planned in plan.cells[::3]}  # two of five seeds at batch 8 and 32, one at 128
    page = told(plan, {key: record for key, record in records.items() if key not in gone})
    assert "20 of 30 planned runs done, 10 still to do: the answer may change." in page["# synthetic"]
    assert page["Coverage"].count("\u25d0 3/5, todo 2 |") == 4
    assert "Not resolved with 2 seeds" in page["Answer"]
    assert page["Table 1: accuracy by batch size"].count("(3/5)") == 8  # two losses, two batch sizes, two metrics


def test_runs_without_a_result_are_named_where_they_are_left_out() -> None:
    plan = plan_of(report=MARGIN)
    ends = {0: Status.FAILED, 1: Status.DIVERGED, 2: Status.OOM, 3: Status.TIMEOUT}
    page = told(plan, without(plan, lambda loss, b, seed: ends.get(seed) if (loss, b) == ("infonce", 8) else None))
    assert (
        "Left out of the pairs, since these runs ended without a result: SimCLR (InfoNCE) at batch 8, 1 failed, 1 "
        "diverged, "
        "1 oom and 1 timeout of 5." in page["Answer"]
    )
    assert "\u25d0 1/5, failed 1, diverged 1, oom 1, timeout 1" in page["Coverage"]
    assert sum(line.startswith("| Digits") for line in page["Failures"].splitlines()) == 4


def test_where_every_seed_diverged_there_is_no_pair_and_the_next_batch_size_is_told() -> None:
    plan = plan_of()
    page = told(plan, without(plan, lambda loss, b, _: Status.DIVERGED if (loss, b) == ("infonce", 8) else None))
    assert "from batch 128 to batch 32" in page["Answer"]
    assert "There is no complete pair at batch 8." in page["Answer"]
    assert "SimCLR (InfoNCE) at batch 8, 5 diverged of 5" in page["Answer"]
    assert "\u2715 0/5, diverged 5" in page["Coverage"]
    assert "\u2013 (0/5)" in page["Table 1: accuracy by batch size"]


def test_one_seed_has_means_and_no_interval() -> None:
    page = told(plan_of(seeds=1, report=MARGIN))
    assert page["Answer"].count("Not resolved with 1 seed:") == 2
    assert "\u00b1" not in page["Table 1: accuracy by batch size"].split("\n\n", 2)[2].split("<details>")[0]


def test_one_batch_size_is_compared_without_a_penalty() -> None:
    page = told(plan_of(batch_sizes=(8,)))
    assert "at batch 8 FlatCLR (FlatNCE) reaches" in page["Answer"]
    assert "There is no second batch size" in page["Figure 3: small-batch penalty"]
    assert "A line joins" not in page["Figure 1: accuracy against batch size"]


def test_one_batch_size_is_drawn_with_losses_beneath_each_other(tmp_path: Path) -> None:
    plan = plan_of(batch_sizes=(8,), losses=("infonce", "flatnce", "a loss with a name of its own"))
    records, histories = records_and_histories(plan)
    folder = report.write(plan, records, tmp_path, histories).parent / "figures"
    assert {path.stem for path in folder.glob("*.svg")} == {
        "batch_size", "costs", "diagnostics", "differences", "learning_curves",
    }  # fmt: skip
    built = build(plan, records, histories)
    axes = next(p.draw() for p in pictures(built) if p.name == "batch_size" and p.draw).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == list(built.grid.loss_titles.values())


def test_equal_accuracies_are_equivalent_and_make_no_test_of_nothing_by_nothing() -> None:
    plan = plan_of(report=MARGIN)
    page = told(plan, records_of(plan, lambda *_: 0.9))
    assert "(no difference in any pair)" in page["Answer"]
    assert not re.search(r"\bnan\b", "".join(page.values()), re.IGNORECASE)
    shifted = told(plan, records_of(plan, lambda loss, *_: 0.9 + 0.05 * (loss == "flatnce")))
    assert "(the same difference in all 5 pairs: no variance, no test)" in shifted["Answer"]


def test_less_than_nothing_lost_is_a_gain() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 128))
    page = told(plan, records_of(plan, lambda _loss, b, s: 0.9 + 0.03 * (b == 8) + s * (b == 8) / 1000))
    assert "SimCLR (InfoNCE) gains 3.2 points of accuracy from batch 128 to batch 8" in page["Answer"]


@pytest.mark.parametrize("label", ["<script>alert(1)</script>", "| a | b |", "`x` $y$ [z](w)"])
def test_a_label_stays_text(label: str) -> None:
    page = "".join(told(plan_of(losses=("infonce", label), batch_sizes=(8, 128), seeds=2)).values())
    assert "<script" not in page
    rows = [line for line in page.splitlines() if line.startswith("| Digits")]
    assert all(row.replace("\\|", "").count("|") > 3 for row in rows)
