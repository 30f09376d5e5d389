"""The picture of augmented pairs: one for each augmentation, the same every time, and the command that writes it."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from ablation import gallery, sweep
from ablation.cli import app
from ablation.errors import UserError
from ablation.plan import Plan, read


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    file = tmp_path_factory.mktemp("sweep") / "s.yaml"
    file.write_text(sweep.template())
    return read(file)


def test_the_picture_is_the_same_every_time_and_not_blank(plan: Plan, tmp_path: Path) -> None:
    gallery.write(plan, tmp_path / "a.png", count=4)
    gallery.write(plan, tmp_path / "b.png", count=4)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert np.ptp(imread(tmp_path / "a.png")) > 0.9


def test_every_augmentation_has_its_block(plan: Plan, tmp_path: Path) -> None:
    other = plan.cells[0].model_copy(deep=True)
    assert other.cell.pretraining
    milder = other.cell.pretraining.model_copy(
        update={"views": other.cell.pretraining.views.model_copy(update={"crop_scale": (0.9, 1.0)})}
    )
    both = [*plan.cells, other.model_copy(update={"cell": other.cell.model_copy(update={"pretraining": milder})})]
    gallery.write(plan, tmp_path / "one.png", count=4)
    gallery.write(plan.model_copy(update={"cells": both}), tmp_path / "two.png", count=4)
    one, two = imread(tmp_path / "one.png"), imread(tmp_path / "two.png")
    assert two.shape[0] == 2 * one.shape[0]


def test_a_place_that_can_not_be_written_to_is_said(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere/a\.png: can't be written"):
        gallery.write(plan, tmp_path / "nowhere" / "a.png", count=2)


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(sweep.template())
    result = CliRunner().invoke(app, ["views", str(file), "--out", str(tmp_path / "v.png")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "v.png").read_bytes().startswith(b"\x89PNG")
