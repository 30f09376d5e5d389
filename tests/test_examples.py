"""The committed examples: a README names every field of their files, and the reports are those of their records."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from ablation.cell import Cell, Evaluation, LearningRate, Pretraining, Projection, Views
from ablation.ledger import Ledger
from ablation.plan import Plan, PlannedCell
from ablation.record import CurvePoint, Environment, Failure, History, Outcome, Record, TracePoint
from ablation.report import build, sections
from ablation.report.document import markdown
from ablation.report.figures import pictures

EXAMPLE = Path(__file__).parents[1] / "results/examples/quickstart"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
MODELS: list[type[BaseModel]] = [
    Plan, PlannedCell, Record, Outcome, Failure, Environment, Cell, Pretraining, Projection, LearningRate, Views,
    Evaluation, History, TracePoint, CurvePoint,
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_the_readme_names_every_field(model: type[BaseModel]) -> None:
    missing = [field for field in model.model_fields if f"{field}`" not in README and f"`{field}[]" not in README]
    assert [field for field in missing if f".{field}`" not in README and field != "cells"] == []


def test_the_readme_names_every_metric_and_time_of_the_records() -> None:
    for record in Ledger(EXAMPLE).records().values():
        assert record.outcome
        for name in (*record.outcome.metrics, *record.outcome.selection, *record.timings):
            assert f"`{name}`" in README


@pytest.mark.parametrize("example", sorted(EXAMPLE.parent.iterdir()), ids=lambda path: path.name)
def test_the_report_is_that_of_the_records(example: Path) -> None:
    ledger = Ledger(example)
    report = build(Plan.load(ledger.plan_file), ledger.records(), ledger.history)
    page = sections.document(report, pictures(report), sections.Beside.of(example))
    assert (example / "report/index.md").read_text(encoding="utf-8") == markdown(page)
