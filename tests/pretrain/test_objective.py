"""From the head's output to the loss: rows, drawn negatives, dtypes, gradient scaling, and the temperature's ways."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from ablation.cell import Component
from ablation.errors import UserError
from ablation.losses.diagnostics import effective_sample_size
from ablation.pretrain.objective import Objective, draw_negatives
from ablation.pretrain.temperature import Learned, build_temperature
from tests.cells import pretraining

LABELS = torch.zeros(4, dtype=torch.long)


def objective(seed: int = 0, **changes: Any) -> Objective:
    return Objective(pretraining(**changes), seed)


def unit_rows(images: int, d: int, seed: int = 0) -> Tensor:
    return F.normalize(torch.randn(2 * images, d, generator=torch.Generator().manual_seed(seed)), dim=1)


def aligned_rows(images: int, d: int, noise: float) -> Tensor:
    z = unit_rows(images, d)
    return F.normalize(z[:images].repeat(2, 1) + noise * unit_rows(images, d, seed=1), dim=1)


@given(st.integers(2, 20), st.data(), st.integers(0, 2**32), st.integers(0, 10**6))
def test_negatives_are_distinct_rows_of_other_images(images: int, data: st.DataObject, seed: int, step: int) -> None:
    count = data.draw(st.integers(1, 2 * images - 2))
    rows = draw_negatives(seed, step, images, count)
    assert rows.shape == (2 * images, count)
    assert rows.min() >= 0
    assert rows.max() < 2 * images
    assert (np.diff(rows, axis=1) > 0).all()
    assert (rows % images != np.arange(2 * images)[:, None] % images).all()
    assert (draw_negatives(seed, step, images, count) == rows).all()


def test_every_negative_is_drawn_equally_often_and_each_step_draws_anew() -> None:
    counts = np.zeros((8, 8), dtype=int)
    for step in range(3000):
        rows = draw_negatives(0, step, 4, 2)
        np.add.at(counts, (np.arange(8)[:, None], rows), 1)
    allowed = counts[counts > 0]
    assert len(allowed) == 8 * 6
    assert abs(allowed - 1000).max() < 5 * math.sqrt(1000 * 2 / 3)
    assert (draw_negatives(0, 0, 40, 2) != draw_negatives(1, 0, 40, 2)).any()


@pytest.mark.parametrize("name", ["infonce", "infonce_textbook", "flatnce", "dclw"])
def test_drawing_all_negatives_changes_nothing_and_fewer_do(name: str) -> None:
    z = unit_rows(4, 8)
    whole = objective(loss=Component(name=name))(z, LABELS, 3)
    torch.testing.assert_close(objective(loss=Component(name=name), negatives=6)(z, LABELS, 3), whole)
    fewer = objective(loss=Component(name=name), negatives=2)
    assert fewer(z, LABELS, 3) < whole
    assert fewer(z, LABELS, 3) != fewer(z, LABELS, 4)


def test_a_loss_without_negatives_has_none_to_draw() -> None:
    with pytest.raises(UserError, match="loss vicreg: has no negatives"):
        objective(loss=Component(name="vicreg"), negatives=2)


def test_rows_are_normalised_where_the_loss_asks_for_it() -> None:
    output = 3 * unit_rows(4, 8).bfloat16()
    rows = objective().rows(output)
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(8))
    raw = objective(loss=Component(name="barlow"))
    assert torch.equal(raw.rows(output), output.float())
    torch.testing.assert_close(raw.unit(output.float()), rows)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_loss_computes_in_its_dtype(dtype: str) -> None:
    z = unit_rows(4, 8).double().requires_grad_()
    value = objective(loss_dtype=dtype, temperature=0.07)(z, LABELS, 0)
    exact = objective(loss_dtype=dtype, temperature=0.07).exact()(z, LABELS, 0)
    assert value.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    eps = torch.finfo(getattr(torch, dtype)).eps
    error = abs(value.item() - exact.item())
    assert error <= 50 * eps
    assert error > 0 or dtype == "float64"


def test_scaling_saves_what_underflows_in_float16() -> None:
    z = aligned_rows(4, 64, noise=0.05)
    work = objective(loss_dtype="float16", temperature=0.055)

    def error(scale: float) -> float:
        rows = z.clone().requires_grad_()
        (exact,) = torch.autograd.grad(work.exact()(wide := z.double().requires_grad_(), LABELS, 0), wide)
        (gradient,) = torch.autograd.grad(scale * work(rows, LABELS, 0), rows)
        return float((gradient.double() / scale - exact).norm() / exact.norm())

    assert error(1.0) > 0.2
    assert error(2.0**15) < 0.02


def test_a_learned_temperature_moves_and_stays_within_its_range() -> None:
    work = objective(
        loss=Component(name="flatnce_log"),
        temperature_control=Component(name="learned", parameters={"minimum": 0.08, "maximum": 0.5}),
    )
    z = aligned_rows(4, 16, noise=0.3)
    sgd = torch.optim.SGD(work.parameters(), lr=0.01)
    seen: list[float] = []
    for _ in range(200):
        sgd.zero_grad()
        work(z, LABELS, 0).backward()
        sgd.step()
        work.temperature.adapt(z)
        seen.append(torch.as_tensor(work.temperature()).item())
    assert seen[0] < 0.1
    assert seen[-1] == pytest.approx(0.08)  # v falls as 1/temperature grows: only the clamp holds it
    assert min(seen) >= 0.08 * (1 - 1e-6)


def test_a_learned_temperature_gets_the_gradient_of_its_logarithm() -> None:
    control = build_temperature(Component(name="learned", parameters={"minimum": 0.01, "maximum": 1.0}), 0.2)
    assert isinstance(control, Learned)
    value = control()
    assert isinstance(value, Tensor)
    assert value.item() == pytest.approx(0.2)
    value.backward()  # type: ignore[no-untyped-call]
    assert control.log_scale.grad is not None
    assert control.log_scale.grad.item() == pytest.approx(-0.2)


def test_the_effective_sample_size_steers_the_temperature_to_its_target() -> None:
    parameters = {"target": 0.4, "rate": 0.5, "minimum": 0.01, "maximum": 1.0}
    control = build_temperature(Component(name="ess", parameters=parameters), 0.1)
    z = unit_rows(16, 8)
    before = effective_sample_size(z, 0.1).item()
    control.adapt(z)
    assert float(control()) == pytest.approx(0.1 * math.exp(-0.5 * (before - 0.4)), rel=1e-5)
    for _ in range(300):
        control.adapt(z)
    assert effective_sample_size(z, control()).item() == pytest.approx(0.4, abs=1e-3)
    assert [*control.state_dict()] == ["log_scale"]
