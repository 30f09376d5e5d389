"""`ablation trial`: one cell in this process, its record on standard output."""

import json
from pathlib import Path

import pytest

from ablation.record import Record, Status
from tests.faults.harness import SWEEP, Sweep


def small(folder: Path) -> Sweep:
    sweep = Sweep(folder, json.loads(json.dumps(SWEEP)))
    sweep.sweep["base"]["budget"] = {"steps": 5}
    sweep.write()
    return sweep


def test_a_cell_by_number_prints_its_record_and_leaves_no_files(tmp_path: Path) -> None:
    sweep = small(tmp_path)
    code, output = sweep.run("trial", str(sweep.file), "--cell", "3")
    assert code == 0, output
    record = Record.model_validate_json(output[output.index("{\n") :])
    assert record.status is Status.DONE
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


def test_a_cell_that_is_not_there(tmp_path: Path) -> None:
    sweep = small(tmp_path)
    code, output = sweep.run("trial", str(sweep.file), "--cell", "99")
    assert code == 2
    assert "cell 99: this sweep has cells 1 to 4" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("command", ["run", "trial"])
def test_a_compiler_that_is_missing_is_said_before_anything_runs(tmp_path: Path, command: str) -> None:
    sweep = small(tmp_path)
    where = ("--results", str(tmp_path / "results")) if command == "run" else ("--cell", "1")
    code, output = sweep.run(command, str(sweep.file), *where, "--set", "resources.compile=true", PATH="/nowhere")
    assert code == 2, output
    assert "resources.compile: true needs a C++ compiler" in output
    assert "or write compile: auto" in output
    assert "Traceback" not in output
    assert not list(tmp_path.rglob("*.json.gz")) + list(tmp_path.rglob("records/*"))


def test_without_a_compiler_auto_does_without(tmp_path: Path) -> None:
    sweep = small(tmp_path)
    sweep.sweep["resources"] = {"compile": "auto"}
    sweep.write()
    code, output = sweep.run("trial", str(sweep.file), "--cell", "1", PATH="/nowhere")
    assert code == 0, output
    assert '"compiled": false' in output
