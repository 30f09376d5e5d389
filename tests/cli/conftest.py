"""The commands in this process, on sweep folders made by hand."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ablation import plan as plans
from ablation.cell import Cell
from ablation.cli import main
from ablation.ledger import Ledger
from ablation.plan import Plan
from ablation.record import History, Status
from tests.cells import record

SWEEP = """\
name: hand-made
grid:
  loss: [infonce, flatnce]
  batch_size: [8, 16]
  dataset: [digits]
  seed: 2
base:
  encoder: {name: resnet8, width: 4}
  temperature: 0.1
  budget: {samples: 8_000}
  optimizer: {name: sgd, momentum: 0.9}
  learning_rate: {base: 0.3, rule: sqrt}
"""


@dataclass
class Folder:
    """A sweep's folder with a plan and no records yet."""

    ledger: Ledger
    plan: Plan

    @property
    def path(self) -> Path:
        return self.ledger.folder

    def edit(self, old: str, new: str) -> Path:
        """A sweep file outside the folder that differs in this; the folder's own stays."""
        text = self.ledger.sweep_file.read_text()
        assert old in text
        file = self.path.parent / "edited.yaml"
        file.write_text(text.replace(old, new))
        return file

    def record(self, *cells: Cell, status: Status = Status.DONE) -> None:
        for cell in cells:
            self.ledger.put(record(cell, status), History())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    ledger = Ledger(tmp_path / "hand-made")
    ledger.create()
    ledger.sweep_file.write_text(SWEEP)
    plan = plans.read(ledger.sweep_file)
    plan.save(ledger.plan_file)
    return Folder(ledger, plan)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def ablation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["ablation", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run
