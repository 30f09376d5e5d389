"""`ablation trial`: one cell in this process, its record on standard output."""

import json
from pathlib import Path

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
