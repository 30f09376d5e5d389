"""`ablation status`: what there is, what would run and why, and who runs the sweep now."""

import os
import subprocess
import sys

import pytest

from ablation.cli.common import find_cell
from ablation.errors import UserError
from ablation.record import Status
from tests.cli.conftest import Command, Folder


def test_a_new_sweep_has_never_run(ablation: Command, folder: Folder) -> None:
    ended = ablation("status", folder.path)
    assert ended.code == 0
    assert f"{folder.path}: 10 todo\n10 to run: 10 never run\n" in ended.out
    assert "infonce batch_size=8 seed=0: todo" in ended.out
    assert "random-init resnet8 digits seed=1: todo" in ended.out


def test_failures_are_listed_before_what_is_to_run(ablation: Command, folder: Folder) -> None:
    one, two, three, *_ = (planned.cell for planned in folder.plan.cells)
    folder.record(one, two)
    folder.record(three, status=Status.DIVERGED)
    lines = ablation("status", folder.path).out.splitlines()
    assert lines[0] == f"{folder.path}: 1 diverged, 2 done, 7 todo"
    assert lines[2].startswith(f"  {three.id}  infonce batch_size=16 seed=0: diverged after step 3: ValueError")
    assert all(line.endswith(": todo") for line in lines[3:])
    assert one.id not in ablation("status", folder.path).out


def test_a_finished_sweep_is_one_line(ablation: Command, folder: Folder) -> None:
    folder.record(*folder.plan.runs())
    assert ablation("status", folder.path).out == f"{folder.path}: 10 done\n"


def test_an_edited_file_tells_what_it_would_run_and_why(ablation: Command, folder: Folder) -> None:
    folder.record(*folder.plan.runs())
    edited = folder.edit("seed: 2", "seed: 4")
    out = ablation("status", folder.path, "--sweep", edited).out
    assert "10 to run: 10 with new seed 2, 3\n" in out
    assert "10 done, 10 todo" in out
    edited = folder.edit("[8, 16]", "[8, 32]")
    out = ablation("status", folder.path, "--sweep", edited).out
    assert "4 to run: 4 with new batch_size 32\n" in out
    assert "4 more records are of cells that the sweep no longer has" in out
    edited = folder.edit("seed: 2", "# reordered\n  seed: [1, 0]\nresources: {time_limit: 3h}")
    assert ablation("status", folder.path, "--sweep", edited).out == f"{folder.path}: 10 done\n"


def test_an_edit_of_the_folders_own_file_counts_at_once(ablation: Command, folder: Folder) -> None:
    folder.record(*folder.plan.runs())
    folder.edit("temperature: 0.1", "temperature: 0.2").replace(folder.ledger.sweep_file)
    later = folder.ledger.plan_file.stat().st_mtime_ns + 10**9
    os.utime(folder.ledger.sweep_file, ns=(later, later))
    assert "8 to run: 8 with new temperature 0.2\n" in ablation("status", folder.path).out


def test_a_folder_without_a_plan_is_planned_anew(ablation: Command, folder: Folder) -> None:
    folder.ledger.plan_file.unlink()
    assert "10 to run: 10 never run" in ablation("status", folder.path).out


def test_explain_names_the_fields_that_make_a_cell_new(ablation: Command, folder: Folder) -> None:
    folder.record(*folder.plan.runs())
    edited = folder.edit("base: 0.3", "base: 0.6")
    out = ablation("status", folder.path, "--sweep", edited, "--explain", 1).out.splitlines()
    assert out[0].endswith("(infonce batch_size=8 seed=0): would run; it has no record")
    assert f"the nearest cell with a record is {folder.plan.cells[0].cell.id}" in out[1]
    assert out[2:] == ["    learning_rate.peak: 0.053033 -> 0.106066"]
    edited = folder.edit("[8, 16]", "[8, 32]")
    out = ablation("status", folder.path, "--sweep", edited, "--explain", 4).out.splitlines()
    changes = [line.split(":")[0].strip() for line in out[2:]]
    assert changes == [
        "batch_size",
        "steps",
        "learning_rate.peak",
        "learning_rate.warmup_steps",
    ]  # what was edited before what follows


def test_explain_an_ended_and_a_begun_cell(ablation: Command, folder: Folder) -> None:
    one, two = folder.plan.cells[0].cell, folder.plan.cells[1].cell
    folder.record(one, status=Status.OOM)
    (folder.ledger.work(two.pretraining_key) / "attempt").mkdir(parents=True)
    (folder.ledger.work(two.pretraining_key) / "attempt" / "checkpoint.pt").touch()
    out = ablation("status", folder.path, "--explain", one.id[:6]).out
    assert "would not run; it has a record" in out
    assert "oom after step 3" in out
    assert "begun once; ended 2026-01-01T00:00:00+00:00 on host" in out
    assert "it goes on from its newest checkpoint" in ablation("status", folder.path, "--explain", 2).out


def test_explain_a_baseline(ablation: Command, folder: Folder) -> None:
    first, second = folder.plan.baselines()
    folder.record(folder.plan.cells[0].cell)
    assert "no random-init baseline has a record yet" in ablation("status", folder.path, "--explain", first.id).out
    folder.record(first)
    out = ablation("status", folder.path, "--explain", second.id).out
    assert "    seed: 0 -> 1" in out


def test_a_cell_that_no_one_means_or_several(ablation: Command, folder: Folder) -> None:
    for wanted in ("99", "", "../x", "\u0663", "\n"):
        ended = ablation("status", folder.path, "--explain", wanted)
        assert ended.code == 2
        assert "this sweep has cells 1 to 8" in ended.err
    with pytest.raises(UserError, match="2 ids begin so: abc1, abc2; give more of it"):
        find_cell("ABC", folder.plan, ["abc1", "abc2"])
    assert find_cell("abc1", folder.plan, ["abc1", "abc2"]) == "abc1"


def test_it_says_who_runs_the_sweep_and_takes_no_lock(ablation: Command, folder: Folder) -> None:
    code = (
        "import sys; from pathlib import Path; from ablation.ledger import Ledger\n"
        "with Ledger(Path(sys.argv[1])).locked(): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(folder.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "locked\n"
        assert f"running now: process {owner.pid} on " in ablation("status", folder.path).out
        assert f"running now: process {owner.pid} on " in ablation("status", folder.path).out  # it lost nothing by it
        owner.communicate("")
    assert "running now" not in ablation("status", folder.path).out


def test_damaged_records_are_noticed(ablation: Command, folder: Folder) -> None:
    one = folder.plan.cells[0].cell
    folder.record(one)
    (folder.path / "records" / f"{one.id}.json").write_text("{")
    ended = ablation("status", folder.path)
    assert "10 todo" in ended.out
    assert "moved to" in ended.err


def test_a_folder_that_holds_no_sweep(ablation: Command, folder: Folder) -> None:
    ended = ablation("status", folder.path.parent)
    assert (ended.code, ended.out) == (2, "")
    assert "no sweep.yaml here" in ended.err
