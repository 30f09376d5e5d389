"""The page and the files: what is said in words, that nothing is lost, and that any ledger can be reported."""

import csv
import io
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablation import report
from ablation.errors import UserError
from ablation.plan import Plan
from ablation.record import History, Record, Status
from ablation.report import answer, build, sections, tables, texts
from ablation.report.aggregate import TODO
from ablation.report.build import no_history
from ablation.report.document import html
from ablation.report.figures import pictures
from ablation.report.inline import PALETTE
from ablation.report.stats import pairs_needed
from tests.report.synthetic import ENVIRONMENT, by_id, diagnostics_of, history_of, plan_of, record_of, records_of

COMPARISON = {"comparisons": [("flatnce", "infonce")]}


def said(plan: Plan, records: dict[str, Record]) -> str:
    statement, _budget = answer.statements(build(plan, records))
    return " ".join(statement.findings)


def budget_of(plan: Plan) -> str:
    *_statements, budget = answer.statements(build(plan, {}))
    return f"{budget.lead} {' '.join(budget.findings)}"


def markdown(page: Path) -> str:
    return page.with_suffix(".md").read_text()


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_resolved_answer_has_effect_interval_pairs_p_and_budget() -> None:
    plan = plan_of(batch_sizes=(8, 128), report=COMPARISON)

    def accuracy(loss: str, batch_size: int, seed: int) -> float:
        drop = {"flatnce": (0.01, 0.01, 0.01, 0.01, 0.01), "infonce": (0.06, 0.05, 0.07, 0.06, 0.06)}[loss][seed]
        return 0.95 - (drop if batch_size == 8 else 0)

    # interactions -.05 -.04 -.06 -.05 -.05: sd .007071, half-width 2.776445 x .007071 / sqrt 5 = .00878
    text = said(plan, records_of(plan, accuracy))
    assert text.startswith(
        "FlatCLR (FlatNCE) loses less accuracy than SimCLR (InfoNCE) from batch 128 to batch 8: 1.0 against 6.0 "
        "points, a difference of \u22125.0 points (95 % interval \u22125.9 to \u22124.1; 5 pairs; "
        "Holm-adjusted p < 0.001)."
    )
    assert "At batch 8 FlatCLR (FlatNCE) reaches 94.0 % and SimCLR (InfoNCE) 89.0 %" in text
    assert budget_of(plan) == "Budget: 64,000 samples a run."


def test_an_unresolved_answer_says_how_many_seeds_would_do() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=3, report=COMPARISON)
    drops = {"flatnce": (0.01, 0.02, 0.03), "infonce": (0.06, 0.03, 0.03)}  # as in test_build: 16 pairs
    text = said(plan, records_of(plan, lambda loss, batch, seed: 0.95 - (drops[loss][seed] if batch == 8 else 0)))
    assert text.startswith(
        "Not resolved with 3 seeds: from batch 128 to batch 8 FlatCLR (FlatNCE) loses 2.0 and SimCLR"
    )
    assert "Holm-adjusted p = 0.32)" in text
    assert "With this spread 3 seeds resolve 8.6 points; about 16 would resolve 2.0 points." in text


def test_one_seed_resolves_nothing() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=1, report=COMPARISON)
    text = said(plan, records_of(plan, lambda loss, batch, _: 0.9 + batch / 4000 + (loss == "flatnce") / 100))
    assert text.startswith("Not resolved with 1 seed:")
    assert "one pair has no interval" in text


def test_equal_results_are_called_equal() -> None:
    plan = plan_of(batch_sizes=(8, 128), report=COMPARISON)
    text = said(plan, records_of(plan, lambda _loss, batch, seed: 0.9 + batch / 4000 + seed / 1000))
    assert "(no difference in all 5 pairs: no variance, no test)" in text


def test_a_lost_reference_batch_leaves_the_difference_at_the_smallest() -> None:
    plan = plan_of(batch_sizes=(8, 32, 128), report=COMPARISON)
    records = records_of(
        plan, lambda loss, batch, seed: None if batch == 128 else 0.9 + 0.01 * (loss == "flatnce") * seed
    )
    text = said(plan, records)
    assert text.startswith("No seed has all the results that a drop from batch 128 is computed from.")
    assert "at batch 8 FlatCLR (FlatNCE) reaches" in text


def test_nothing_done_is_said() -> None:
    text = said(plan_of(report=COMPARISON), {})
    assert text == "no seed has the results that a statement needs on FlatCLR (FlatNCE) and SimCLR (InfoNCE)."


def premise_of(p_pos: float) -> str:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=1)
    point = history_of("").trace[0].model_copy(update={"p_pos": p_pos})
    built = build(plan, records_of(plan, lambda *_: 0.9), lambda _: History(trace=[point]))
    (premise,) = answer.premises(built)
    return " ".join(premise.findings)


def test_the_rounding_claim_stands_behind_its_premise() -> None:
    assert premise_of(0.05).startswith(
        "regime not reached. At the end of training at most 5 % of the anchors can have had"
    )
    assert premise_of(0.4).startswith("not decided by p_pos alone. At the end of training at most 40 % of the anchors")
    assert answer.premises(build(plan_of(), {})) == []


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        (0.02, "regime not reached. At the end of training at most 2 % of the anchors had xi below 0.001"),
        (0.3, "regime reached at batch 8. There at least 10 % of the anchors of a loss had xi below 0.001 at the end"),
    ],
)
def test_a_logged_share_decides_the_premise(share: float, verdict: str) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=1)
    point = history_of("").trace[0].model_copy(update={"diagnostics": diagnostics_of(share, 1e-6)})
    built = build(plan, records_of(plan, lambda *_: 0.9), lambda _: History(trace=[point]))
    (premise,) = answer.premises(built)
    assert premise.findings[0].startswith(verdict)


def test_equivalence_is_an_answer() -> None:
    plan = plan_of(batch_sizes=(8, 128), report=COMPARISON | {"equivalence_margin": 0.01})
    wobble = (0.0, 0.001, -0.001, 0.002, -0.001)
    text = said(
        plan, records_of(plan, lambda loss, b, s: 0.9 + b / 4000 + (wobble[s] if (loss, b) == ("flatnce", 8) else 0))
    )
    assert text.startswith(
        "Equivalent within 1.0 points: from batch 128 to batch 8 FlatCLR (FlatNCE) loses 3.0 and SimCLR"
    )
    assert "equivalence p < 0.001)" in text


def test_an_unresolved_answer_says_what_would_resolve_the_margin() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=3, report=COMPARISON | {"equivalence_margin": 0.01})
    drops = {"flatnce": (0.01, 0.02, 0.03), "infonce": (0.06, 0.03, 0.03)}  # sd .0264575: .01 is .378 sd
    text = said(plan, records_of(plan, lambda loss, batch, seed: 0.95 - (drops[loss][seed] if batch == 8 else 0)))
    assert f"about 16 would resolve 2.0 points, about {pairs_needed(0.01 / 0.0264575)} the margin of 1.0." in text


def test_one_loss_alone_is_told_by_its_penalty() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 128))
    drops = (0.03, 0.02, 0.04, 0.03, 0.03)
    text = said(plan, records_of(plan, lambda _loss, batch, seed: 0.95 - (drops[seed] if batch == 8 else 0)))
    assert text.startswith("SimCLR (InfoNCE) loses 3.0 points of accuracy from batch 128 to batch 8 (95 % interval")


def test_equal_steps_are_a_budget_in_steps() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=1)
    at_equal_steps = plan.model_copy(
        update={
            "cells": [
                planned.model_copy(
                    update={
                        "cell": planned.cell.model_copy(
                            update={"pretraining": pretraining.model_copy(update={"steps": 700})}
                        ),
                        "samples": 700 * pretraining.batch_size,
                    }
                )
                for planned in plan.cells
                if (pretraining := planned.cell.pretraining)
            ]
        }
    )
    assert budget_of(at_equal_steps) == "Budget: 700 steps a run."


def test_table_1_by_hand(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 32), seeds=3)
    values = (0.90, 0.92, 0.94)  # 92 +- 4.97
    records = records_of(
        plan, lambda _loss, batch, seed: values[seed] if batch == 8 or seed == 0 else None, baseline=0.7
    )
    text = markdown(report.write(plan, records, tmp_path))
    assert "| Digits (8 x 8) | SimCLR (InfoNCE) | 92.0 \u00b1 5.0 (3) | 90.0 (1/3) |" in text
    assert "| Digits (8 x 8) | random encoder | 70.4 \u00b1 1.0 (3) | 70.4 \u00b1 1.0 (3) |" in text
    assert "| Digits (8 x 8) | chance | 10.0 | 10.0 |" in text
    cell = read(tmp_path / "report/tables/cells.csv")[0]
    assert (cell["n"], cell["planned"], cell["done"]) == ("3", "3", "3")
    assert float(cell["half_width"]) == pytest.approx(0.0496828, abs=1e-6)
    assert float(cell["test_sampling_sd"]) == pytest.approx((0.92 * 0.08 / 360) ** 0.5)


def test_bold_in_table_1_and_holes_stay_holes() -> None:
    plan = plan_of(batch_sizes=(8, 32), seeds=3)

    def accuracy(loss: str, batch_size: int, seed: int) -> float | None:
        return None if batch_size == 32 else 0.9 + seed * 0.002 + (loss == "flatnce") * (0.03 + seed * 0.001)

    grid = build(plan, records_of(plan, accuracy))
    rows = {row[1].text: row[2:] for row in tables.accuracy(grid.grid, grid.accuracy).rows}
    assert [entry.bold for entry in rows["FlatCLR (FlatNCE)"]] == [True, False]
    assert [entry.bold for entry in rows["SimCLR (InfoNCE)"]] == [False, False]
    assert rows["SimCLR (InfoNCE)"][1].text == "\u2013 (0/3)"


def test_coverage_names_what_became_of_every_run() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 16, 32, 64), seeds=2)
    cells = {(planned.settings["batch_size"], planned.cell.seed): planned.cell for planned in plan.cells}
    records = by_id(
        [
            record_of(cells[8, 0]),
            record_of(cells[8, 1]),
            record_of(cells[16, 0]),
            record_of(cells[16, 1], status=Status.DIVERGED),
            record_of(cells[32, 0], status=Status.OOM),
        ]
    )
    row = tables.coverage(build(plan, records)).rows[0]
    assert [entry.text for entry in row[2:]] == [
        "\u25cf 2/2",
        "\u25d0 1/2, diverged 1",
        "\u2715 0/2, oom 1, todo 1",
        "\u25cb todo",
    ]


def test_a_failure_is_listed_with_step_error_and_record(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=1)
    record = record_of(plan.cells[0].cell, status=Status.DIVERGED, message="a | b\n<script> $x$ [l](u) `c` *d*")
    text = markdown(report.write(plan, by_id([record]), tmp_path))
    failure = "FloatingPointError: a"
    (line,) = (line for line in text.splitlines() if record.id in line and failure in line)
    assert "| diverged | 117 | FloatingPointError: a \\| b &lt;script&gt; \\$x\\$ \\[l\\](u) \\`c\\` \\*d\\* |" in line
    assert line.endswith(f"| [{record.id}](../records/{record.id}.json) | \u2013 |")
    (tmp_path / "logs").mkdir()
    (tmp_path / f"logs/{record.id}.log").touch()
    text = markdown(report.write(plan, by_id([record]), tmp_path))
    assert f"| [log](../logs/{record.id}.log) |" in text


def test_fits_that_did_not_converge_are_a_warning(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 32), seeds=2)

    def page(*converged: float | None) -> str:
        records = [record_of(planned.cell) for planned in plan.cells]
        for i, value in enumerate(converged):
            outcome = records[i].outcome
            if value is not None and outcome:
                selection = {**outcome.selection, "converged": value}
                records[i] = records[i].model_copy(
                    update={"outcome": outcome.model_copy(update={"selection": selection})}
                )
        return markdown(report.write(plan, by_id(records), tmp_path))

    assert "converge" not in page(None, None)  # records of the first release don't say
    assert "converge" not in page(1.0, None, 1.0)
    text = page(0.0, 1.0, 0.0, None)
    assert "**Fits that did not converge:** the linear classifiers of 2 of 3 records stopped before they had" in text


def test_mixed_provenance_is_said_aloud(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=2)
    other = ENVIRONMENT.model_copy(update={"commit": "f" * 40, "dirty": True})
    first, second = (planned.cell for planned in plan.cells)
    mixed = by_id([record_of(first), record_of(second, environment=other)])
    text = markdown(report.write(plan, mixed, tmp_path))
    assert "**Mixed provenance:** the records differ in Commit and Uncommitted changes." in text
    assert "**Uncommitted changes:**" in text
    assert "git checkout" not in text
    text = markdown(report.write(plan, by_id([record_of(first), record_of(second)]), tmp_path))
    assert "Mixed provenance" not in text
    assert f"git checkout {ENVIRONMENT.commit}" in text


def test_warnings_and_labels_are_escaped(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce", "<b>|x_y|"), seeds=1, warnings=["batch 128 gets *few* steps"])
    text = markdown(report.write(plan, records_of(plan, lambda *_: 0.9), tmp_path))
    assert "- batch 128 gets \\*few\\* steps" in text
    assert "&lt;b&gt;\\|x\\_y\\|" in text
    assert "<b>" not in text


def test_too_many_combinations_leave_tables_and_a_hint(tmp_path: Path) -> None:
    few, many = plan_of(seeds=1), plan_of(seeds=1, temperature=(0.1, 0.2, 0.3, 0.4, 0.5))
    report.write(few, {}, tmp_path)
    figure = tmp_path / "report/figures/batch_size.png"
    assert figure.exists()
    text = markdown(report.write(many, {}, tmp_path))
    assert "No figure: the combinations of datasets and temperature are more than one can show" in text
    assert not figure.exists()  # it would contradict the page
    assert text.count("| 0.3 | SimCLR (InfoNCE) |") >= 2


def test_a_folder_that_can_not_be_written_to_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("in the way")
    with pytest.raises(UserError, match="can't write the report here"):
        report.write(plan_of(seeds=1), {}, tmp_path)


def test_every_link_of_the_page_leads_somewhere(tmp_path: Path) -> None:
    plan = plan_of(seeds=2)
    records = records_of(plan, lambda *_: 0.9)
    path = report.write(plan, records, tmp_path, history_of)
    links = re.findall(r"\]\(([^)]+)\)", markdown(path)) + re.findall(r'href="([^#"][^"]*)"', path.read_text())
    (tmp_path / "records").mkdir()
    for cell_id in records:
        (tmp_path / "records" / f"{cell_id}.json").touch()
    assert {"figures/batch_size.png", "tables/cells.tex", "tables/cells.csv"} <= set(links)
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_page_of_one_ledger_is_always_the_same(tmp_path: Path) -> None:
    plan = plan_of(seeds=2)
    records = records_of(plan, lambda _loss, batch, seed: 0.9 + batch / 4000 + seed / 100)
    backwards = dict(reversed(records.items()))
    first = report.write(plan, records, tmp_path / "a").read_bytes()
    assert report.write(plan, backwards, tmp_path / "b").read_bytes() == first


GRIDS = st.fixed_dictionaries(
    {
        "losses": st.sampled_from([("infonce",), ("infonce", "flatnce"), ("flatnce", "dcl", "my | loss")]),
        "batch_sizes": st.sampled_from([(8,), (8, 128), (4, 8, 100)]),
        "seeds": st.integers(1, 3),
        "datasets": st.sampled_from([("digits",), ("digits", "cifar100")]),
        "report": st.sampled_from([{}, {"reference_batch": 8}]),
        "temperature": st.sampled_from([(0.1,), (0.1, 0.5)]),
    }
)


def some_records(plan: Plan, seed: int, kept: float) -> dict[str, Record]:
    """Any state of a ledger: each run done, ended without a result, or not there; few accuracies, so that many tie."""
    rng = random.Random(seed)  # noqa: S311 - not a secret
    records = [
        record_of(cell, rng.choice([0.0, 0.5, 0.9, 1.0]), rng.choice([*Status, *[Status.DONE] * 4]))
        for cell in [*(planned.cell for planned in plan.cells), *plan.baselines()]
        if rng.random() < kept
    ]
    return by_id(records)


@settings(max_examples=25, deadline=None)
@given(GRIDS, st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.7, 1.0]))
def test_any_ledger_can_be_reported_and_every_cell_is_accounted_for(
    grid: dict[str, Any], seed: int, kept: float
) -> None:
    plan = plan_of(**grid)
    records = some_records(plan, seed, kept)
    built = build(plan, records, history_of if seed % 2 else no_history)
    shown = pictures(built)
    page = sections.document(built, shown, sections.Beside())
    files = texts(built, page) | {"index.html": html(page, {picture.name: "" for picture in shown}, {}, PALETTE)}
    for name, text in files.items():
        assert not re.search(r"\bnan\b", text.replace("loss is nan", "")), name

    rows = list(csv.DictReader(io.StringIO(files["records.csv"])))
    cells = [row for row in rows if row["kind"] == "cell"]
    assert [row["id"] for row in cells] == [planned.cell.id for planned in plan.cells]
    assert {row["id"]: row["status"] for row in rows} == {
        cell.id: records[cell.id].status.value if cell.id in records else TODO
        for cell in [*(planned.cell for planned in plan.cells), *plan.baselines()]
    }

    coverage = tables.coverage(build(plan, records))
    first = len(coverage.header) - len({planned.settings["batch_size"] for planned in plan.cells})
    counted = sum(
        runs_in(entry.text, len({planned.cell.seed for planned in plan.cells}))
        for row in coverage.rows
        if row[first - 1].text != tables.RANDOM_ENCODER
        for entry in row[first:]
    )
    assert counted == len(plan.cells)


def runs_in(text: str, planned: int) -> int:
    """The runs that an entry of Coverage accounts for: those done and those named after them."""
    if text == "\u25cb todo":
        return planned
    done, *others = text[2:].split(", ")
    return int(done.split("/")[0]) + sum(int(other.split()[1]) for other in others)
