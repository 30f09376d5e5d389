"""Faults that a sweep must survive, one test each: what happens, the exit code, and nothing lost."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from ablation.record import Record, Status
from tests.faults.harness import Sweep, descendants, fault, kill, workers

pytestmark = pytest.mark.timeout(600)


def statuses(records: dict[str, Record]) -> list[str]:
    return sorted(record.status.value for record in records.values())


def named(process: "subprocess.Popen[str]", name: str) -> psutil.Process:
    """The child process of Ray whose command line names it."""
    return next(child for child in descendants(process) if name in " ".join(child.cmdline()))


def same_after_resume(sweep: Sweep, undisturbed: Sweep) -> None:
    code, output = sweep.resume()
    assert code == 0, output
    assert sweep.deterministic() == undisturbed.deterministic()


@pytest.mark.soak
def test_driver_killed_before_the_first_checkpoint(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("logs/*")))
    kill(process)
    assert not sweep.records()
    same_after_resume(sweep, undisturbed)


@pytest.mark.soak
def test_immediate_restart_while_orphans_still_run(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("logs/*")))
    process.kill()
    same_after_resume(sweep, undisturbed)
    process.communicate()


@pytest.mark.slow
def test_worker_killed_within_its_retries(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    code, output = sweep.run(**fault(f"kill@100:{tmp_path}/once"))
    assert code == 0, output
    assert (tmp_path / "once").exists()
    assert sweep.deterministic() == undisturbed.deterministic()


@pytest.mark.slow
def test_worker_killed_beyond_its_retries(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.sweep["resources"] = {"max_retries": 1}
    sweep.sweep["grid"] |= {"loss": ["infonce"], "seed": 1}
    code, output = sweep.run(**fault("kill@100"))
    assert code == 1, output
    assert statuses(sweep.records()) == ["done", "failed"]
    assert "WorkerDied" in output
    code, output = sweep.run("resume", str(sweep.ledger.folder), "--retry", "failed")
    assert code == 0, output
    assert statuses(sweep.records()) == ["done", "done"]
    assert len(list((sweep.ledger.folder / "retried").iterdir())) == 1


@pytest.mark.soak
def test_worker_killed_after_its_commit(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("records/*.json")))
    for worker in workers(process):
        worker.kill()
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    assert sweep.deterministic() == undisturbed.deterministic()


@pytest.mark.soak
def test_two_signals_stop_at_once(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start(**fault(f"sleep@100:{tmp_path}/once"))  # one cell does not answer
    sweep.wait_for((tmp_path / "once").exists)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    same_after_resume(sweep, undisturbed)


@pytest.mark.slow
def test_one_signal_and_a_cell_that_does_not_answer(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start(**fault(f"sleep@100:{tmp_path}/once"))
    sweep.wait_for((tmp_path / "once").exists)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    same_after_resume(sweep, undisturbed)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["raylet/raylet", "gcs/gcs_server", "ray::RuntimeEnvAgent", "ray::DashboardAgent"])
def test_raylet_or_head_killed(undisturbed: Sweep, tmp_path: Path, name: str) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("records/*.json")))
    named(process, name).kill()
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 3, output
    assert f"ablation resume {sweep.ledger.folder}" in output
    same_after_resume(sweep, undisturbed)


@pytest.mark.soak
def test_rays_own_folder_deleted(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("records/*.json")))
    for folder in Path("/tmp").glob(f"abl-{process.pid}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    process.communicate(timeout=400)
    same_after_resume(sweep, undisturbed)


@pytest.mark.slow
def test_a_cell_out_of_memory_is_one_record_and_the_rest_finish(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    code, output = sweep.run(**fault(f"oom@50:{tmp_path}/once"))
    assert code == 1, output
    assert statuses(sweep.records()) == ["done"] * 5 + ["oom"]


@pytest.mark.slow
def test_deterministic_errors_are_not_retried_and_pause_the_sweep(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.sweep["grid"]["seed"] = 4
    code, output = sweep.run(**fault("error@5"))
    assert code == 3, output
    assert "paused, since 4 of the 4 cells that ended failed with the same error: ValueError: broken by order" in output
    assert all(record.attempts == 1 for record in sweep.records().values())
    assert "--retry failed" in output
    code, output = sweep.run("resume", str(sweep.ledger.folder), "--retry", "failed")
    assert code == 0, output


@pytest.mark.soak
def test_the_folder_moved(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("records/*.json")))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    sweep.ledger.folder.rename(moved)
    code, output = sweep.run("resume", str(moved))
    assert code == 0, output
    moved.rename(sweep.ledger.folder)
    assert sweep.deterministic() == undisturbed.deterministic()


@pytest.mark.slow
def test_an_edited_sweep_runs_only_what_is_new(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    shutil.copytree(undisturbed.ledger.folder, sweep.ledger.folder)
    given = sweep.sweep
    reordered: dict[str, Any] = {key: given[key] for key in reversed(given)}
    reordered["base"] = {key: given["base"][key] for key in reversed(given["base"])}
    reordered |= {
        "resources": {"cpus_per_trial": 2, "time_limit": "1h"},
        "question": "another",
        "report": {"title": "x"},
    }
    reordered["grid"] = {**given["grid"], "loss": ["infonce"]}
    sweep.sweep = reordered
    code, output = sweep.run()
    assert code == 0, output
    assert "4 cells, 0 to run" in output
    assert len(sweep.records()) == 6  # those of the removed loss are kept


@pytest.mark.soak
def test_a_report_at_any_moment(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    for condition in (sweep.ledger.plan_file.exists, sweep.records):
        sweep.wait_for(condition)
        code, output = sweep.run("report", str(sweep.ledger.folder))
        assert code == 0, output
        assert "todo" in (sweep.ledger.folder / "report" / "index.md").read_text()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("a small file system can't be mounted here (that needs root)")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_pauses_the_sweep(undisturbed: Sweep, tmp_path: Path, small_disk: Path) -> None:
    sweep = Sweep(tmp_path)
    (tmp_path / "results").symlink_to(small_disk)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(800_000))
    code, output = sweep.run()
    assert code == 3, output
    assert "No space left on device" in output
    assert "Traceback" not in output
    done = sweep.records()
    assert len(done) < 6
    filler.unlink()
    same_after_resume(sweep, undisturbed)
    assert {cell_id: sweep.records()[cell_id] for cell_id in done} == done


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder is read-only meanwhile, also for root and for who holds files in it open for writing."""
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], check=False).returncode:
        pytest.skip("nothing can be mounted here (that needs root)")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.soak
def test_a_disk_that_becomes_read_only(undisturbed: Sweep, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start()
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("records/*.json")))
    with read_only(sweep.ledger.folder):
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 3, output
    assert "Read-only file system" in output
    assert "Traceback" not in output
    assert len(sweep.records()) < 6
    same_after_resume(sweep, undisturbed)


@pytest.mark.slow
def test_a_read_only_results_folder(tmp_path: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    sweep = Sweep(tmp_path)
    (tmp_path / "results").symlink_to(small_disk)
    code, output = sweep.run()
    assert code == 2
    assert "can't write results here (Read-only file system)" in output
    assert not list(small_disk.iterdir())


@pytest.mark.soak
def test_nan_is_one_record_with_its_step(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.sweep["grid"] |= {"loss": ["infonce"], "seed": 1, "learning_rate.base": [1e6]}
    del sweep.sweep["base"]["learning_rate"]["base"]
    sweep.sweep["base"]["optimizer"]["weight_decay"] = 1.0
    code, output = sweep.run()
    assert code == 1, output
    failed = [record for record in sweep.records().values() if record.status is Status.DIVERGED]
    assert len(failed) == 1
    assert failed[0].failure is not None
    assert failed[0].failure.step is not None
