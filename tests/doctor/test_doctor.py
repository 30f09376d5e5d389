"""The doctor as a whole: no check stops another, and what it promises to find is found."""

import json
import os
from pathlib import Path

import pytest

from ablation import doctor
from ablation.doctor import CHECKS, Check, Finding, Place, Verdict, examine, findings, trials
from ablation.ledger import Ledger
from ablation.record import CurvePoint, History
from tests.cells import cell, record

PACKAGE = Path(doctor.__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "results", tmp_path / "data")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules come before the installed ones, in the doctor's processes."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{PACKAGE}")
    return folder


def only(monkeypatch: pytest.MonkeyPatch, *names: str, limit: float = 60.0) -> None:
    chosen = {name: Check(CHECKS[name].run, limit) for name in names}
    monkeypatch.setattr(doctor, "CHECKS", {**chosen, "python": CHECKS["python"]})


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("raise ImportError('libcudart.so: no such file')", "ImportError: libcudart.so: no such file"),
        ("import os; print('bad free'); os.abort()", "its process was killed by SIGABRT"),
        ("import os; print('sorry', flush=True); os._exit(3)", "its process ended with exit code 3: sorry"),
        ("import time; time.sleep(60)", "not done after"),
    ],
)
def test_a_library_that_breaks_stops_nothing(
    place: Place, fake: Path, monkeypatch: pytest.MonkeyPatch, code: str, text: str
) -> None:
    (fake / "torch.py").write_text(code)
    only(monkeypatch, "torch", limit=5.0 if "sleep" in code else 60.0)
    broken, python = examine(place)
    assert (broken.name, broken.verdict) == ("torch", Verdict.FIX)
    assert text in broken.text
    assert python.verdict is Verdict.OK


def test_torch_and_torchvision_here(place: Place) -> None:
    assert [finding.verdict for name in ("torch", "torchvision", "GPUs") for finding in findings(name, place)] == [
        Verdict.OK
    ] * 3


@pytest.mark.parametrize(("there", "verdict", "text"), [(True, Verdict.OK, "found"), (False, Verdict.NOTE, "C++")])
def test_a_compiler_or_none(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    there: bool,  # noqa: FBT001
    verdict: Verdict,
    text: str,
) -> None:
    monkeypatch.setattr("ablation.pretrain.execution._has_compiler", lambda _: there)
    (found,) = findings("compiler", place)
    assert (found.verdict, text in found.text) == (verdict, True), found


def test_torchvision_for_another_torch(place: Place, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake / "torchvision").mkdir()
    (fake / "torchvision" / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    only(monkeypatch, "torchvision")
    found = next(examine(place))
    assert found.verdict is Verdict.FIX
    assert "operator torchvision::nms does not exist: install the two versions that belong together" in found.text


def test_datasets(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.data_root))
    folder = place.data_root / "mnist"
    folder.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (folder / f"{name}-ubyte.gz").touch()
    found = {finding.name.removeprefix("dataset "): finding for finding in findings("datasets", place)}
    assert (found["digits"].verdict, found["mnist"].text) == (Verdict.OK, f"in {folder}")
    assert found["cifar10"].verdict is Verdict.NOTE
    assert f"offline, copy cifar-10-python.tar.gz into {place.data_root}" in found["cifar10"].text
    assert not (folder.parent / "MNIST").exists()  # looking unpacks nothing


def test_resume_is_checked_on_request_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Check(lambda _: [Finding("resume", Verdict.OK, "asked")])
    monkeypatch.setattr(doctor, "CHECKS", {"resume": check})
    assert not list(examine(place))
    assert list(examine(place, resume=True)) == [Finding("resume", Verdict.OK, "asked")]


def test_what_differs_between_two_records_is_named(tmp_path: Path) -> None:
    ledgers = [Ledger(tmp_path / name) for name in ("one", "other")]
    records = [record(cell(), accuracy=accuracy) for accuracy in (0.5, 0.25)]
    histories = [History(), History(curve=[CurvePoint(step=1, samples=8, knn_top1=0.5)])]
    for ledger, each, history in zip(ledgers, records, histories, strict=True):
        ledger.create()
        ledger.put(each, history)
    assert trials._differences(ledgers[0], records[0], ledgers[1], records[1]) == ["history", "metrics", "selection"]
    assert trials._differences(ledgers[0], records[0], ledgers[0], records[0]) == []


@pytest.mark.slow
def test_a_killed_cell_goes_on_to_the_same_record(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "RESUME_STEPS", 300)
    found = findings("resume", place)[0]
    assert found.verdict is Verdict.OK, found
    assert "to the bit" in found.text


@pytest.mark.slow
def test_a_smoke_sweep_and_one_that_fails(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = findings("smoke sweep", place)
    assert found.verdict is Verdict.OK, found
    monkeypatch.setitem(
        trials.SWEEP, "grid", json.loads(json.dumps(trials.SWEEP["grid"]).replace("infonce", "nonsense"))
    )
    (found,) = findings("smoke sweep", place)
    assert found.verdict is Verdict.FIX
    assert "exit code 2: " in found.text
    assert "unknown loss 'nonsense'" in found.text
