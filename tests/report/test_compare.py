"""Two sweeps side by side: what is matched, what is refused, and each word of the vocabulary."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ablation.cell import Evaluation
from ablation.cli import app
from ablation.errors import UserError
from ablation.ledger import Ledger
from ablation.plan import Plan
from ablation.record import History, Status
from ablation.report.compare import Comparison, Side, Verdict, compare, lead
from tests.cells import SGD
from tests.report.synthetic import by_id, plan_of, record_of, records_of

WOBBLE = (0.0, 0.001, -0.001, 0.002, -0.002)


def side(name: str, plan: Plan, accuracy: Callable[[str, int, int], float | None]) -> Side:
    return Side(name, plan, records_of(plan, accuracy))


def verdicts(comparison: Comparison) -> dict[int, Verdict]:
    return {int(dict(match.key)["batch_size"]): match.verdict for match in comparison.matches}


def test_every_word_of_the_vocabulary() -> None:
    sizes = (4, 8, 16, 32, 64, 128)
    plan = plan_of(losses=("infonce",), batch_sizes=sizes)
    first = side("a", plan, lambda _loss, batch, seed: None if batch == 128 else 0.9 + WOBBLE[seed])

    def second(_loss: str, batch: int, seed: int) -> float | None:
        noise = WOBBLE[(seed + 1) % 5]
        changes = {4: 0.05 + noise, 8: -0.05 + noise, 16: noise / 10, 32: 20 * noise}
        return 0.9 + WOBBLE[seed] + changes[batch] if batch in changes else None

    records = records_of(plan, second)
    records |= by_id(
        record_of(p.cell, status=Status.OOM) for p in plan.cells if p.settings["batch_size"] == 64 and p.cell.seed == 3
    )
    found = compare(first, Side("b", plan, records), margin=0.01)
    assert verdicts(found) == {
        4: Verdict.BETTER,
        8: Verdict.WORSE,
        16: Verdict.EQUIVALENT,
        32: Verdict.UNRESOLVED,
        64: Verdict.NEWLY_FAILED,
        128: Verdict.INCOMPARABLE,
    }
    reasons = {dict(match.key)["batch_size"]: match.reason for match in found.matches}
    assert reasons[64] == "oom (seed 3)"
    assert reasons[128] == "no result in the first and the second"
    assert found.matches[0].paired.estimate is not None
    assert found.matches[0].paired.estimate.mean == pytest.approx(0.05)


def test_the_same_records_are_equivalent_without_a_margin() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 32))
    one = side("a", plan, lambda _loss, batch, seed: 0.9 + batch / 1000 + WOBBLE[seed])
    found = compare(one, one)
    assert set(verdicts(found).values()) == {Verdict.EQUIVALENT}
    assert lead(found)[1] == "Their matched cells are the same, field by field."


def test_what_differs_is_named_and_only_the_rest_is_matched() -> None:
    a = plan_of(losses=("infonce",), batch_sizes=(8, 32), seeds=2, temperature=(0.1,))
    b = plan_of(losses=("flatnce",), batch_sizes=(8, 64), seeds=2, temperature=(0.5,))
    found = compare(side("a", a, lambda *_: 0.9), side("b", b, lambda *_: 0.9))
    assert found.differences["loss.name"] == ("infonce", "flatnce")
    assert found.differences["temperature"] == ("0.1", "0.5")
    assert [dict(match.key) for match in found.matches] == [
        {"dataset": "digits", "batch_size": size} for size in (8, 32, 64)
    ]
    assert [match.reason for match in found.matches] == ["", "only in the first", "only in the second"]


def test_disjoint_seeds_are_not_comparable() -> None:
    a = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=4)
    late = a.model_copy(update={"cells": a.cells[2:]})
    early = a.model_copy(update={"cells": a.cells[:2]})
    (match,) = compare(side("a", early, lambda *_: 0.9), side("b", late, lambda *_: 0.9)).matches
    assert (match.verdict, match.reason) == (Verdict.INCOMPARABLE, "no seed in common")


def judged_by(plan: Plan, *evaluations: Evaluation) -> Plan:
    """The plan's cells under each of these protocols, which are an axis where they are several."""
    cells = [
        planned.model_copy(
            update={
                "cell": planned.cell.model_copy(update={"evaluation": evaluation}),
                "settings": planned.settings | ({"probe": evaluation.text} if len(evaluations) > 1 else {}),
            }
        )
        for planned in plan.cells
        for evaluation in evaluations
    ]
    return plan.model_copy(update={"cells": cells})


def test_mixed_protocols_and_data_are_refused_with_the_reason() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=2)
    one = side("runs/a", plan, lambda *_: 0.9)
    protocols = r"evaluation protocols: linear\+knn, version 1 in runs/a; linear\+knn, version "
    with pytest.raises(UserError, match=protocols + "2 in runs/b"):
        compare(one, side("runs/b", judged_by(plan, Evaluation(version=2)), lambda *_: 0.9))
    with pytest.raises(UserError, match=protocols + r"1, by SGD on the features as they are, 100 epochs .* in runs/b"):
        compare(one, side("runs/b", judged_by(plan, Evaluation(probe=SGD)), lambda *_: 0.9))
    changed = {key: record.model_copy(update={"data_checksum": "0" * 64}) for key, record in one.records.items()}
    with pytest.raises(UserError, match="different data of digits"):
        compare(one, Side("runs/b", plan, changed))
    knn = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=2, report={"metric": "knn_top1"})
    with pytest.raises(UserError, match="different metrics"):
        compare(one, Side("runs/b", knn, one.records))


def test_protocols_that_are_an_axis_of_both_sweeps_meet_their_own_kind() -> None:
    plan = judged_by(plan_of(losses=("infonce",), batch_sizes=(8,), seeds=2), Evaluation(), Evaluation(probe=SGD))
    found = compare(side("runs/a", plan, lambda *_: 0.9), side("runs/b", plan, lambda *_: 0.9))
    assert len(found.matches) == 2
    assert found.differences == {}


def test_the_command_prints_text_markdown_and_json(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 32), seeds=3)
    for name, shift in (("a", 0.0), ("b", 0.05)):
        ledger = Ledger(tmp_path / name)
        ledger.create()
        ledger.sweep_file.write_text("name: synthetic\n")
        plan.save(ledger.plan_file)  # after the sweep file: it is then the current one
        for planned in plan.cells:
            accuracy = 0.9 + shift + (1 + shift) * WOBBLE[planned.cell.seed]
            ledger.put(record_of(planned.cell, accuracy), History())

    def said(*options: str) -> str:
        result = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b"), *options])
        assert result.exit_code == 0, result.output
        return result.output

    text = said()
    assert "2 better (better, worse, ~ equivalent, ? not resolved, ! newly failed, x not comparable)." in text
    assert re.search(r"^better +digits +infonce +8 +90\.00 +95\.00 +\+5\.00 \(", text, re.MULTILINE)
    assert "| better | digits | infonce | 8 |" in said("--format", "markdown")
    parsed = json.loads(said("--format", "json", "--margin", "0.2"))
    assert [cell["verdict"] for cell in parsed["cells"]] == ["equivalent", "equivalent"]
    assert parsed["cells"][0]["difference"] == pytest.approx(0.05)
