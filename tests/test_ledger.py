"""The ledger: what is committed can be read, what is damaged is put away, and one process at a time runs a sweep."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ablation import durable
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


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "kind", ["pipe", "folder", "full folder", "link to a folder", "dangling", "loop", "device", "sparse"]
)
def test_what_only_looks_like_a_record_goes_to_quarantine(ledger: Ledger, tmp_path: Path, kind: str) -> None:
    ledger.put(record(cell(1)), History())
    path = ledger.folder / "records" / f"{cell().id}.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind.endswith("folder") and not kind.startswith("link"):
        path.mkdir()
        if kind == "full folder":
            (path / "x").touch()
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(10**9)
    else:
        path.symlink_to({"dangling": tmp_path / "no", "loop": path, "device": Path("/dev/zero")}.get(kind, tmp_path))
    assert list(ledger.records()) == [cell(1).id]
    assert not path.is_symlink()
    assert not path.exists()
    assert len(ledger.quarantined) == 1
    assert tmp_path.exists()


def test_a_link_to_a_record_is_as_good_as_the_record(ledger: Ledger, tmp_path: Path) -> None:
    ledger.put(record(cell()), History())
    path = ledger.folder / "records" / f"{cell().id}.json"
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    assert ledger.get(cell().id) == record(cell())


@pytest.mark.parametrize(
    "name", [b"\xff\xfe.json", b"a\nb\x1b[31m.json", b"x" * 250 + b".json", b"a\\..\\x.json", b"notes.json"]
)
def test_files_with_odd_names_are_put_away_and_printable(ledger: Ledger, name: bytes) -> None:
    ledger.put(record(cell()), History())
    path = os.path.join(os.fsencode(ledger.folder), b"records", name)  # noqa: PTH118 - bytes
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(b"{")
    assert list(ledger.records()) == [cell().id]
    assert not os.path.exists(path)  # noqa: PTH110
    (line,) = ledger.quarantined
    assert line.isprintable()
    line.encode()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"attempts": 1', '"attempts": "1"', "attempts: Input should be a valid integer"),
        ('"attempts": 1', '"attempts": 1.0', "attempts: Input should be a valid integer"),
        ('"attempts": 1', '"attempts": 9223372036854775808', "attempts: Input should be less than"),
        ('"attempts": 1', '"attempts": ' + "9" * 5000, "number out of range"),
        ('"knn_top1": 0.5', '"knn_top1": NaN', "outcome.metrics.knn_top1: Input should be a finite number"),
        ('"knn_top1": 0.5', '"knn_top1": 1e999', "outcome.metrics.knn_top1: "),
        ('"dirty": false', '"dirty": 0', "environment.dirty: Input should be a valid boolean"),
        ('"attempts": 1', '"attempts": 1, "attempts": 2', "has the key attempts twice"),
        ('"seed": 0', '"seed": 0, "seed": 0', "has the key seed twice"),
        ('"status": "done"', '"status": "failed"', "a record is done with an outcome"),
    ],
)
def test_wrong_types_and_repeated_keys_are_named(ledger: Ledger, old: str, new: str, reason: str) -> None:
    ledger.put(record(cell()), History())
    path = ledger.folder / "records" / f"{cell().id}.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert ledger.get(cell().id) is None
    assert reason in ledger.quarantined[0]


def test_another_formatting_of_a_record_is_no_damage(ledger: Ledger) -> None:
    ledger.put(record(cell()), History())
    path = ledger.folder / "records" / f"{cell().id}.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert ledger.get(cell().id) == record(cell())


def test_a_record_that_can_not_be_read_stays_and_is_named(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.put(record(cell()), History())

    def refused(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "read", refused)
        with pytest.raises(UserError, match=f"{cell().id}.json: can't be read .Permission denied.; make it readable"):
            ledger.records()
    assert ledger.get(cell().id) is not None


def test_damage_is_told_where_nothing_may_be_moved(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.put(record(cell()), History())
    path = ledger.folder / "records" / f"{cell().id}.json"
    path.write_bytes(b"{")

    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "replace", read_only)
    assert ledger.get(cell().id) is None
    assert "it can't be moved away (Read-only file system)" in ledger.quarantined[0]
    assert path.exists()


def test_a_file_in_place_of_the_records(ledger: Ledger) -> None:
    (ledger.folder / "records").write_text("")
    with pytest.raises(UserError, match="records: can't be read"):
        ledger.records()


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


def test_a_record_of_a_later_versions_loss_stays_and_is_named(ledger: Ledger) -> None:
    ledger.put(record(cell()), History())
    path = ledger.folder / "records" / f"{cell().id}.json"
    path.write_text(path.read_text().replace('"infonce"', '"later"'))
    with pytest.raises(UserError, match="this version knows no loss later; use the version that wrote it"):
        ledger.get(cell().id)
    assert path.exists()


@pytest.mark.parametrize("more", ["", ', "unknown": 0'])
@pytest.mark.parametrize(("version", "word"), [(0, "older"), (99, "newer")])
def test_a_record_of_another_schema_version_stays_and_is_named(
    ledger: Ledger, version: int, word: str, more: str
) -> None:
    good = record(cell())
    ledger.put(good, History())
    path = ledger.folder / "records" / f"{good.id}.json"
    path.write_text(path.read_text().replace('"schema_version": 1', f'"schema_version": {version}{more}'))
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


def test_a_folder_that_can_not_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(UserError, match=r"can't be locked \(No such file or directory"),
        Ledger(tmp_path / "no").locked(),
    ):
        pass
    assert Ledger(tmp_path / "no").owner() is None

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    with (
        pytest.raises(UserError, match=r"can't be locked \(No locks available\); use another disk"),
        Ledger(tmp_path).locked(),
    ):
        pass


def test_a_folder_that_can_not_be_made_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't write results here"):
        Ledger(tmp_path / "file" / "sweep").create()
