"""`ablation logs`: a cell's log, and the error that ended it."""

import pytest

from ablation.record import Status
from tests.cells import cell
from tests.cli.conftest import Command, Folder

LOG = "2026-01-01T00:00:00 attempt 1 on host\n2026-01-01T00:01:00 checkpoint at step 100\n"


@pytest.mark.parametrize("by", ["number", "id", "prefix"])
def test_the_log_of_a_cell(ablation: Command, folder: Folder, by: str) -> None:
    second = folder.plan.cells[1].cell
    folder.ledger.log_file(second.id).write_text(LOG)
    wanted = {"number": "2", "id": second.id, "prefix": second.id[:8]}[by]
    assert ablation("logs", folder.path, wanted).out == LOG


def test_a_failure_is_shown_once(ablation: Command, folder: Folder) -> None:
    one = folder.plan.cells[0].cell
    folder.record(one, status=Status.FAILED)
    folder.ledger.log_file(one.id).write_text(LOG)
    out = ablation("logs", folder.path, 1).out
    assert out == LOG + "failed after step 3: ValueError: went wrong\nTraceback ...\n"
    folder.ledger.log_file(one.id).write_text(LOG + "Traceback ...\n")
    assert ablation("logs", folder.path, 1).out.count("Traceback ...") == 1


def test_cells_without_a_log(ablation: Command, folder: Folder) -> None:
    one, two = folder.plan.cells[0].cell, folder.plan.cells[1].cell
    folder.record(one)
    assert ablation("logs", folder.path, 1).out == f"{one.id}: no log; it has a record\n"
    assert ablation("logs", folder.path, 2).out == f"{two.id}: no log; it has not begun\n"


def test_a_cell_that_the_sweep_no_longer_has(ablation: Command, folder: Folder) -> None:
    gone = cell(seed=77)
    folder.record(gone)
    folder.ledger.log_file(gone.id).write_text(LOG)
    assert ablation("logs", folder.path, gone.id).out == LOG


def test_any_bytes_are_printed(ablation: Command, folder: Folder) -> None:
    folder.ledger.log_file(folder.plan.cells[0].cell.id).write_bytes(b"caf\xe9\n")
    assert ablation("logs", folder.path, 1).out == "caf\\xe9\n"


def test_no_path_leads_out_of_the_folder(ablation: Command, folder: Folder) -> None:
    (folder.path / "secret.log").write_text("secret")
    ended = ablation("logs", folder.path, "../secret")
    assert ended.code == 2
    assert "secret" not in ended.out
