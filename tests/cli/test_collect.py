"""`ablation gc`: what goes, what stays, and that nobody else is using it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ablation import cleanup
from ablation.cell import Cell
from ablation.pretrain.checkpoint import Checkpoints
from ablation.record import Status
from tests.cli.conftest import Command, Folder


@pytest.fixture(autouse=True)
def ray_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    parent = tmp_path / "tmp"
    parent.mkdir()
    monkeypatch.setattr(cleanup, "RAY_PARENT", parent)
    return parent


def attempt(folder: Folder, cell: Cell, *steps: int) -> list[Path]:
    """The checkpoints that one more attempt leaves."""
    before = set(folder.path.glob("work/*/*"))
    checkpoints = Checkpoints(folder.ledger.work(cell.pretraining_key), cell.pretraining_key)
    for step in steps:
        checkpoints.save({"step": step})
    (own,) = set(folder.path.glob("work/*/*")) - before
    return sorted(own.iterdir())


def files(folder: Folder) -> set[Path]:
    return {path for path in folder.path.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_sweep_without_leftovers(ablation: Command, folder: Folder) -> None:
    folder.record(*folder.plan.runs())
    before = files(folder)
    ended = ablation("gc", folder.path)
    assert (ended.code, ended.out) == (0, "freed 0 bytes\n")
    assert files(folder) == before


def test_checkpoints_of_a_done_cell_go(ablation: Command, folder: Folder) -> None:
    one, two, *_ = (planned.cell for planned in folder.plan.cells)
    folder.record(one)
    folder.record(two, status=Status.TIMEOUT)
    kept = attempt(folder, two, 3)
    size = sum(path.stat().st_size for path in attempt(folder, one, 5))
    out = ablation("gc", folder.path).out
    assert f"work/{one.pretraining_key}: its cell is done" in out
    assert f"freed {size / 1000:.1f} kB" in out
    assert not folder.ledger.work(one.pretraining_key).exists()
    assert all(path.exists() for path in kept)  # --retry goes on from here


def test_of_an_unfinished_cell_the_furthest_attempt_stays_with_its_predecessor(
    ablation: Command, folder: Folder
) -> None:
    cell = folder.plan.cells[0].cell
    first, furthest, last = attempt(folder, cell, 2, 4), attempt(folder, cell, 7, 9), attempt(folder, cell, 1)
    records = files(folder) - {*first, *last}
    out = ablation("gc", folder.path).out
    assert out.count("another attempt has a checkpoint of step 9") == 3
    assert files(folder) == records
    assert all(path.exists() for path in furthest)
    assert Checkpoints.attempts(folder.ledger.work(cell.pretraining_key)) == 3  # what a record will say


def test_a_damaged_checkpoint_supersedes_nothing_and_stays(ablation: Command, folder: Folder) -> None:
    cell = folder.plan.cells[0].cell
    (good,) = attempt(folder, cell, 2)
    (damaged,) = attempt(folder, cell, 9)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    foreign = attempt(folder, folder.plan.cells[1].cell, 50)[0]
    foreign.replace(damaged.parent / "checkpoint.previous.pt")
    assert ablation("gc", folder.path).out == "freed 0 bytes\n"
    assert good.exists()
    assert damaged.exists()


def test_a_dry_run_removes_nothing(ablation: Command, folder: Folder) -> None:
    cell = folder.plan.cells[0].cell
    folder.record(cell)
    attempt(folder, cell, 5)
    before = files(folder)
    dry = ablation("gc", folder.path, "--dry-run").out
    assert files(folder) == before
    assert dry.replace("would free", "freed") == ablation("gc", folder.path).out


def test_what_killed_runs_leave(ablation: Command, folder: Folder, ray_parent: Path) -> None:
    folder.record(folder.plan.cells[0].cell)
    record = next((folder.path / "records").iterdir())
    before = files(folder)
    ended = subprocess.Popen(["true"])
    ended.wait()
    gone = [
        folder.path / ".stop-0a1b2c3d",
        record.with_name(f".{record.name}.0a1b2c3d.tmp"),
        folder.path / ".writable-123",
    ]
    kept = [folder.path / "records" / ".mine.tmp", record.with_name(f".{record.name}.ffffffff.tmp")]
    for path in (*gone, *kept):
        path.write_text("x")
    for path in gone:
        os.utime(path, (0, 0))
    dead, alive = ray_parent / f"abl-{ended.pid}-x", ray_parent / f"abl-{os.getpid()}-x"
    for path in (dead, alive):
        (path / "session").mkdir(parents=True)
    out = ablation("gc", folder.path).out
    assert files(folder) == before | set(kept)
    assert (dead.exists(), alive.exists()) == (False, True)
    assert f"of the Ray cluster of process {ended.pid}, which has ended" in out


def test_nothing_is_followed_out_of_the_folder(ablation: Command, folder: Folder, tmp_path: Path) -> None:
    cell = folder.plan.cells[0].cell
    folder.record(cell)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (folder.path / "work").mkdir(exist_ok=True)
    folder.ledger.work(cell.pretraining_key).symlink_to(outside)
    ablation("gc", folder.path)
    assert (outside / "precious").exists()


def test_a_running_sweep_is_refused(ablation: Command, folder: Folder) -> None:
    code = (
        "import sys; from pathlib import Path; from ablation.ledger import Ledger\n"
        "with Ledger(Path(sys.argv[1])).locked(): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(folder.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        ended = ablation("gc", folder.path)
        owner.communicate("")
    assert ended.code == 2
    assert f"process {owner.pid} on " in ended.err
