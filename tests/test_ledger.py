"""The ledger: what is committed can be read, what is damaged is put away, and one process at a time runs a sweep."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ablation.errors import UserError
from ablation.ledger import Ledger
from ablation.record import CurvePoint, History, Status
from tests.cells import cell, record


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "sweep")
    made.create()
    return made


def test_put_and_get(ledger: Ledger) -> None:
    one, two = record(cell(0)), record(cell(1), Status.DIVERGED)
    history = History(curve=[CurvePoint(step=1, samples=16, knn_top1=0.5)])
    ledger.put(one, history)
    ledger.put(two, History())
    assert ledger.records() == {one.id: one, two.id: two}
    assert ledger.history(one.id) == history
    assert ledger.get(cell(2).id) is None


def test_a_done_cell_loses_its_checkpoints_and_a_failed_one_keeps_them(ledger: Ledger) -> None:
    one, two = record(cell(0)), record(cell(1), Status.TIMEOUT)
    for each in (one, two):
        (ledger.work(each.pretraining_key) / "attempt").mkdir(parents=True)
        ledger.put(each, History())
    assert not ledger.work(one.pretraining_key).exists()
    assert ledger.work(two.pretraining_key).exists()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"null", b"[]", b'{"id": "x"}', b'{"schema_version": 1}']
)
def test_a_damaged_record_goes_to_quarantine_and_the_cell_counts_as_not_run(ledger: Ledger, content: bytes) -> None:
    good = record(cell())
    ledger.put(good, History())
    path = ledger.folder / "records" / f"{good.id}.json"
    path.write_bytes(content)
    assert ledger.get(good.id) is None
    assert not path.exists()
    kept = [p for p in (ledger.folder / "quarantine").iterdir() if p.name.endswith(".json")]
    assert [p.read_bytes() for p in kept] == [content]
    assert str(path) in ledger.quarantined[0]


def test_any_truncation_of_a_record_is_noticed(ledger: Ledger) -> None:
    good = record(cell())
    ledger.put(good, History())
    path = ledger.folder / "records" / f"{good.id}.json"
    content = path.read_bytes()
    for length in range(0, len(content) - 2, 97):
        path.write_bytes(content[:length])
        assert ledger.get(good.id) is None


def test_the_record_of_another_cell_is_not_taken(ledger: Ledger) -> None:
    ledger.put(record(cell(0)), History())
    (ledger.folder / "records" / f"{cell(0).id}.json").rename(ledger.folder / "records" / f"{cell(1).id}.json")
    assert ledger.records() == {}


def test_an_edited_cell_no_longer_fits_its_id(ledger: Ledger) -> None:
    good = record(cell(0))
    ledger.put(good, History())
    path = ledger.folder / "records" / f"{good.id}.json"
    path.write_text(path.read_text().replace('"temperature": 0.1', '"temperature": 0.2'))
    assert ledger.get(good.id) is None


@pytest.mark.parametrize(("version", "word"), [(0, "older"), (99, "newer")])
def test_a_record_of_another_schema_version_stays_and_is_named(ledger: Ledger, version: int, word: str) -> None:
    good = record(cell())
    ledger.put(good, History())
    path = ledger.folder / "records" / f"{good.id}.json"
    path.write_text(path.read_text().replace('"schema_version": 1', f'"schema_version": {version}, "unknown": 0'))
    with pytest.raises(UserError, match=f"{word} version of ablation"):
        ledger.get(good.id)
    assert path.exists()


def test_a_second_process_is_refused_and_told_who_holds_the_lock(ledger: Ledger) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from ablation.ledger import Ledger; from ablation.errors import UserError\n"
        "try:\n  with Ledger(Path(sys.argv[1])).locked(): print('got it')\n"
        "except UserError as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(ledger.folder)]
    with ledger.locked():
        refused = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"process {os.getpid()} on " in refused
    assert "is running this sweep" in refused
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "got it\n"


def test_a_folder_that_can_not_be_made_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't write results here"):
        Ledger(tmp_path / "file" / "sweep").create()
