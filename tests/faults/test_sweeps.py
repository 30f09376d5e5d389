"""Whole sweeps as a user runs them, disturbed in the ways that a long sweep is disturbed."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.faults.harness import Sweep, descendants, kill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_sweep_ends_with_all_records_and_a_report(undisturbed: Sweep) -> None:
    assert len(undisturbed.records()) == 4 + 2  # cells and random-init baselines
    assert (undisturbed.ledger.folder / "report" / "index.md").read_text().startswith("# ")
    assert not list(undisturbed.ledger.folder.glob("work/*"))
    assert not list(undisturbed.ledger.folder.glob(".stop-*"))


def test_the_same_command_again_runs_nothing(undisturbed: Sweep) -> None:
    before = {path: path.stat().st_mtime_ns for path in (undisturbed.ledger.folder / "records").iterdir()}
    code, output = undisturbed.run()
    assert code == 0
    assert "0 to run" in output
    assert {path: path.stat().st_mtime_ns for path in (undisturbed.ledger.folder / "records").iterdir()} == before


def test_a_killed_driver_loses_nothing(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: len(sweep.records()) >= 1)
    kill(process)
    assert len(sweep.records()) < 6
    code, output = sweep.resume()
    assert code == 0, output
    assert sweep.deterministic() == undisturbed.deterministic()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_saves_and_stops_and_the_rest_resumes(
    undisturbed: Sweep, tmp_path: Path, number: signal.Signals
) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: len(sweep.records()) >= 1)
    children = descendants(process)
    start = time.monotonic()
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert time.monotonic() - start < 15
    assert process.returncode == 3, output
    assert f"ablation resume {sweep.ledger.folder}" in output
    assert not [child for child in children if child.is_running()]
    code, output = sweep.resume()
    assert code == 0, output
    assert sweep.deterministic() == undisturbed.deterministic()


def test_more_seeds_run_only_the_new_cells(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.sweep["grid"]["seed"] = 1
    assert sweep.run()[0] == 0
    first = sweep.records()
    sweep.sweep["grid"]["seed"] = 2
    code, output = sweep.run()
    assert code == 0, output
    assert "6 cells, 3 to run" in output
    assert {cell_id: sweep.records()[cell_id] for cell_id in first} == first


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for((sweep.ledger.folder / "plan.json").exists)
    code, output = sweep.run()
    assert code == 2
    assert f"process {process.pid} on " in output
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_a_failing_cell_does_not_stop_the_others(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.sweep["grid"]["learning_rate.base"] = [0.3, 1e6]
    del sweep.sweep["base"]["learning_rate"]["base"]
    sweep.sweep["base"]["optimizer"]["weight_decay"] = 1.0  # at that rate it multiplies the weights by a million
    sweep.sweep["grid"]["seed"] = 1
    code, output = sweep.run()
    assert code == 1, output
    assert sorted(record.status.value for record in sweep.records().values()) == ["diverged"] * 2 + ["done"] * 3
    assert sweep.run()[0] == 1  # terminal statuses stay


def test_resources_that_no_node_has_are_refused_at_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.sweep["resources"] = {"cpus_per_trial": 4096}
    code, output = sweep.run()
    assert code == 2
    assert "4096 CPUs" in output
    assert "Traceback" not in output


def test_nothing_stays_behind(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.sweep["grid"] |= {"loss": ["infonce"], "seed": 1}
    process = sweep.start()
    sweep.wait_for(sweep.records)
    children = descendants(process)
    folders = list(Path("/tmp").glob(f"abl-{process.pid}-*"))
    assert len(children) > 3  # Ray's own and a worker
    assert len(folders) == 1
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    assert not psutil.wait_procs(children, timeout=10)[1]
    assert not folders[0].exists()
    assert not list(sweep.ledger.folder.rglob("*.tmp"))
