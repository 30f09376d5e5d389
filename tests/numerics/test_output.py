"""Tables, the figure, embeddings of trained cells, and the command."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from ablation import plan
from ablation.cli import app
from ablation.errors import UserError
from ablation.ledger import Ledger
from ablation.numerics import figure, table, trained
from ablation.numerics.rounding import Errors, Finding
from ablation.pretrain.data import load
from ablation.trial import Trial

FINDINGS = [
    Finding("a|b", 0.1, 8, -2.25, "infonce", "float16", Errors(1.2e-3, None, 0.0)),
    Finding("a|b", 0.1, 32, -1.0, "infonce", "float16", Errors(0.5, 1e-4, 1e-5)),
]
SWEEP = """name: numbers
grid: {loss: [infonce, barlow], batch_size: [8], dataset: [digits], seed: [3]}
base:
  encoder: {name: resnet8, width: 4}
  projection: {hidden: 8, out: 8}
  temperature: 0.2
  budget: {steps: 3}
  learning_rate: {base: 0.05}
"""


def test_tables_say_the_same_in_three_forms() -> None:
    text = table.text(FINDINGS).splitlines()
    assert text[0].split("  ")[0].strip() == "source"
    assert text[1].split()[-3:] == ["1e-03", "-", "0"]
    assert len({len(line) for line in text}) == 1
    markdown = table.markdown(FINDINGS).splitlines()
    assert markdown[1].startswith("| :--- |")
    assert markdown[2] == r"| a\|b | 0.1 | 8 | -2.2 | infonce | float16 | 1e-03 | - | 0 |"
    rows = list(csv.DictReader(io.StringIO(table.findings_csv(FINDINGS))))
    assert (rows[0]["value"], rows[0]["positive"], rows[0]["rows"]) == ("0.0012", "", "0.0")
    assert [row["batch_size"] for row in rows] == ["8", "32"]


def test_the_figure_has_a_line_for_each_loss_and_dtype(tmp_path: Path) -> None:
    drawn = figure.draw(FINDINGS)
    above, below = drawn.axes
    assert np.asarray(above.lines[0].get_xdata()).tolist() == [5.0]  # None is no point
    assert np.asarray(below.lines[0].get_ydata()).tolist() == [1e-5]  # 0 is none on a log scale
    figure.save(FINDINGS, tmp_path / "numerics")
    first = (tmp_path / "numerics.png").read_bytes()
    figure.save(FINDINGS, tmp_path / "numerics")
    assert (tmp_path / "numerics.png").read_bytes() == first
    assert (tmp_path / "numerics.svg").stat().st_size > 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two cells, trained."""
    root: Path = tmp_path_factory.mktemp("results") / "numbers"
    ledger = Ledger(root)
    ledger.create()
    ledger.sweep_file.write_text(SWEEP)
    planned = plan.read(ledger.sweep_file)
    planned.save(ledger.plan_file)
    images = load(planned.cells[0].cell.dataset, root, download=False)
    for one in planned.cells:
        Trial(one.cell, images, ledger, device=torch.device("cpu")).run()
    return root


def test_trained_cells_give_their_embeddings(folder: Path) -> None:
    own = list(trained.cases(folder, batches=2))
    assert [(case.source, case.temperature, len(case.batches)) for case in own] == [
        ("loss=infonce batch_size=8", 0.2, 2),
        ("loss=barlow batch_size=8", 0.2, 2),
    ]
    z = own[0].batches[0]
    assert z.shape == (16, 8)
    assert z.dtype == torch.float64
    assert torch.equal(z, next(trained.cases(folder, batches=1)).batches[0])
    assert not torch.equal(z, own[0].batches[1])
    given = list(trained.cases(folder, [4, 16], [0.1, 0.5], batches=1))
    assert [(len(case.batches[0]) // 2, case.temperature) for case in given[:4]] == [
        (4, 0.1), (4, 0.5), (16, 0.1), (16, 0.5)
    ]  # fmt: skip


def test_what_training_met_on_its_way_is_read_from_the_histories(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(table.along_csv(trained.along_training(folder)))))
    assert [(row["source"], row["step"]) for row in rows] == [
        (f"loss={loss} batch_size=8", step) for loss in ("infonce", "barlow") for step in ("1", "3")
    ]
    assert all(0 < float(row["rounding_error"]) < 1e-3 for row in rows)


def test_a_folder_without_trained_cells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no plan\.json here; --from takes a sweep's own folder"):
        list(trained.cases(tmp_path))
    ledger = Ledger(tmp_path)
    ledger.sweep_file.write_text(SWEEP)
    plan.read(ledger.sweep_file).save(ledger.plan_file)
    with pytest.raises(UserError, match="no cell has been trained yet"):
        list(trained.cases(tmp_path))


def test_the_command_prints_and_writes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["numerics", "--from", str(folder), "--dtype", "float32", "--batches", "1", "--out", str(out)]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    assert "loss=barlow batch_size=8" in result.output
    assert {path.name for path in out.iterdir()} == {
        "numerics.csv", "numerics.md", "numerics.png", "numerics.svg", "along-training.csv"
    }  # fmt: skip
    result = CliRunner().invoke(
        app, ["numerics", "--batch", "4", "--batches", "1", "--loss", "dclw", "--dtype", "float16"]
    )
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == 1 + 2 * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--loss", "infonse"], "--loss infonse: unknown; known: infonce"),
        (["--dtype", "float8"], "--dtype float8: unknown"),
        (["--temperature", "0"], "--temperature 0: should be above 0"),
    ],
)
def test_mistakes_in_the_command_are_named(options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["numerics", *options])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
