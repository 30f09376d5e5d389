"""A ledger of 10,000 records gives a report of bounded size."""

from pathlib import Path

from ablation import report
from tests.report.synthetic import history_of, plan_of, records_of


def test_ten_thousand_records(tmp_path: Path) -> None:
    plan = plan_of(
        losses=("infonce", "flatnce", "dcl", "flatnce_log", "infonce_textbook"), batch_sizes=(4, 8, 16, 32, 64),
        datasets=("digits", "cifar10"), seeds=50, temperature=(0.1, 0.2, 0.3, 0.5), report={"equivalence_margin": 0.01},
    )  # fmt: skip
    assert len(plan.cells) == 10_000
    records = records_of(plan, lambda _loss, b, s: 0.8 + b / 1000 + (s * 37 + b) % 100 / 2000)
    page = report.write(plan, records, tmp_path, history_of)
    assert page.stat().st_size < 30e6
