"""A user's loss from a file of its own: described without being imported, swept, trained, and renamed by an edit."""

import sys
from pathlib import Path

import pytest
import torch

from ablation import losses, plan, recipe, user_loss
from ablation.cell import Cell, Component
from ablation.errors import UserError
from ablation.losses.conformance import check, passed
from ablation.pretrain.data import load
from ablation.pretrain.loop import Training
from ablation.sweep import SweepErrors
from tests.cells import cell

MARGIN = '''"""A margin on InfoNCE's positive: a loss of a user's own, in twenty lines."""

import math

import torch
from torch import Tensor

from ablation.losses import ClosedForm, ContrastiveLoss


class Margin(ContrastiveLoss):
    """log(1 + e^(v + margin)): pairs have to be better than their negatives by a margin."""

    closed_forms = [ClosedForm([[1.0, 0.0]] * 4, 0.5, math.log(1 + 2 * math.exp(0.5)))]

    def __init__(self, margin: float = 0.5) -> None:
        super().__init__()
        self.margin = margin

    def of_statistics(self, lse_neg: Tensor, s_pos: Tensor, temperature: float | Tensor) -> Tensor:
        return torch.nn.functional.softplus(lse_neg - s_pos + self.margin).mean()


def plain(z: Tensor, temperature: float | Tensor, *, power: int = 2) -> Tensor:
    """Squared distance of the two views."""
    first, second = z.chunk(2)
    return ((first - second).norm(dim=1) ** power).mean()
'''
SWEEP = """name: own
grid:
  loss: [infonce, {name: "NAME:Margin", margin: 0.25, label: margin .25}, "NAME:plain"]
  batch_size: [16]
  dataset: [digits]
  seed: 1
base:
  encoder: {name: resnet8, width: 4}
  budget: {steps: 4}
  learning_rate: {base: 0.1}
"""
_COUNT = iter(range(10**6))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with the two losses, importable, and never imported before."""
    name = f"own_losses_{next(_COUNT)}"
    (tmp_path / f"{name}.py").write_text(MARGIN)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def component(name: str) -> Component:
    described = user_loss.find(name).described
    return Component(name=name, parameters={key: p.default for key, p in described.parameters.items()})


def as_in_a_new_process() -> None:
    """A process reads a source once, so that one plan never mixes two versions of it."""
    recipe._user_loss.cache_clear()
    recipe._component.cache_clear()


def planned(tmp_path: Path, module: str, text: str = SWEEP) -> list[Cell]:
    path = tmp_path / "own.yaml"
    path.write_text(text.replace("NAME", module))
    return [one.cell for one in plan.read(path).cells]


def test_a_loss_is_described_without_being_imported(module: str) -> None:
    found = user_loss.find(f"{module}:Margin")
    assert found.described.contrastive
    assert found.described.summary.startswith("log(1 + e^(v + margin))")
    assert {key: p.default for key, p in found.described.parameters.items() if key != "version"} == {"margin": 0.5}
    assert not user_loss.find(f"{module}:plain").described.contrastive
    assert module not in sys.modules


def test_it_is_planned_without_being_imported_and_its_source_is_in_the_id(tmp_path: Path, module: str) -> None:
    cells = planned(tmp_path, module)
    assert module not in sys.modules
    losses_of = [one.pretraining.loss for one in cells if one.pretraining]
    assert [loss.name for loss in losses_of] == ["infonce", f"{module}:Margin", f"{module}:plain"]
    assert losses_of[1].parameters["margin"] == 0.25
    assert str(losses_of[1].parameters["version"]).startswith("sha256:")
    source = tmp_path / f"{module}.py"
    source.write_text(source.read_text() + "\n# edited\n")
    as_in_a_new_process()
    again = planned(tmp_path, module)
    assert [a.id == b.id for a, b in zip(cells, again, strict=True)] == [True, False, False]


def test_a_declared_version_stands_for_the_source(tmp_path: Path, module: str) -> None:
    source = tmp_path / f"{module}.py"
    source.write_text(MARGIN + '\nVERSION = "2"\n')
    first = component(f"{module}:Margin")
    source.write_text(MARGIN + '\n# only a remark\nVERSION = "2"\n')
    assert component(f"{module}:Margin") == first
    assert first.parameters["version"] == "2"


def test_it_conforms_trains_and_keeps_its_id(module: str) -> None:
    assert passed(check(f"{module}:Margin"))
    assert passed(check(f"{module}:plain"))
    images = load(Component(name="digits"), Path(), download=False)
    for name in ("Margin", "plain"):
        of = cell(loss=component(f"{module}:{name}"), steps=3)
        work = Training(of, images, torch.device("cpu"), evaluate=lambda _: 0.5)
        while not work.done:
            work.advance()
        assert work.finish().history.trace[-1].step == 3
        assert Cell.model_validate_json(of.model_dump_json()).id == of.id


def test_an_edit_after_the_plan_is_refused_rather_than_run_under_the_old_id(tmp_path: Path, module: str) -> None:
    old = component(f"{module}:plain")
    source = tmp_path / f"{module}.py"
    source.write_text(source.read_text() + "\n# edited\n")
    with pytest.raises(UserError, match="source has changed since the sweep was planned"):
        losses.build(old)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("nowhere_at_all:loss", "there is no module nowhere_at_all"),
        ("NAME:missing", "defines no function or class missing at its top level"),
        ("NAME:", "should be my_module:my_loss"),
        ("{name: 'NAME:Margin', margn: 1}", "margn: unknown key; did you mean margin?"),
        ("{name: 'NAME:Margin', margin: big}", "margin: should be a number, not 'big'"),
        ("{name: 'NAME:Margin', version: '1'}", "version: unknown key"),
    ],
)
def test_mistakes_are_reported_with_their_line(tmp_path: Path, module: str, loss: str, message: str) -> None:
    text = SWEEP.replace('"NAME:plain"', loss if loss.startswith("{") else f'"{loss}"')
    with pytest.raises(SweepErrors) as caught:
        planned(tmp_path, module, text)
    assert ":3: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def loss(z, temperature, scale):\n    return z", "parameter scale should have a default"),
        ("def loss(z, temperature, version=1):\n    return z", "a parameter can't be called version"),
        ("def loss(z, temperature:\n", "can't be read"),
    ],
)
def test_a_source_that_can_not_be_described_says_why(tmp_path: Path, module: str, source: str, message: str) -> None:
    (tmp_path / f"{module}.py").write_text(source)
    with pytest.raises(UserError, match=message):
        user_loss.find(f"{module}:loss")


def test_what_is_no_loss_is_refused_when_it_is_built(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("class Thing:\n    pass\n")
    with pytest.raises(UserError, match=r"should be a function or a subclass of ablation\.losses\.Loss"):
        losses.build(component(f"{module}:Thing"))
