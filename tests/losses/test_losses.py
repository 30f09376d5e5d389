import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from ablation import catalog
from ablation.cell import Component
from ablation.losses import Loss, build
from ablation.losses.diagnostics import p_positive

NAMES = ["infonce", "flatnce", "flatnce_log", "dcl", "infonce_textbook"]
WEIGHT_ONE = ["flatnce", "flatnce_log", "dcl"]


def loss(name: str) -> Loss:
    return build(Component(name=name))


def views(images: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """(2 images, d) random unit rows, ready to take a gradient."""
    generator = torch.Generator().manual_seed(seed)
    rows = F.normalize(torch.randn(2 * images, d, generator=generator, dtype=torch.float64), dim=1)
    return rows.to(dtype).requires_grad_()


def close_pairs(images: int, d: int, cosine: float, seed: int) -> Tensor:
    """(2 images, d) unit rows whose two views have the given cosine."""
    a, b = views(2 * images, d, seed).detach().chunk(2)
    b = F.normalize(b - (a * b).sum(1, keepdim=True) * a, dim=1)
    return torch.cat((a[:images], cosine * a[:images] + math.sqrt(1 - cosine**2) * b[:images]))


def gradient(name: str, z: Tensor, temperature: float) -> Tensor:
    z = z.detach().requires_grad_()
    loss(name)(z, temperature).backward()
    assert z.grad is not None
    return z.grad


def naive(name: str, z: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """The papers' formulas, anchor by anchor: the value, and what has the gradient."""
    n = len(z)
    values, sources = [], []
    for i in range(n):
        positive = (z[i].dot(z[(i + n // 2) % n]) / temperature).exp()
        negatives = sum(
            ((z[i].dot(z[j]) / temperature).exp() for j in range(n) if j % (n // 2) != i % (n // 2)),
            start=torch.zeros((), dtype=z.dtype),
        )
        infonce = -(positive / (positive + negatives)).log()
        xi = negatives / positive
        values.append({"flatnce_log": xi.log(), "dcl": -(positive / negatives).log()}.get(name, infonce))
        flat = {"flatnce": xi / xi.detach(), "flatnce_log": xi.log(), "dcl": -(positive / negatives).log()}
        sources.append(flat.get(name, infonce))
    return torch.stack(values).mean(), torch.stack(sources).mean()


def test_every_loss_of_the_catalog_is_built_and_no_other() -> None:
    assert set(catalog.LOSSES) == set(NAMES)
    for name in catalog.LOSSES:
        assert isinstance(loss(name), Loss)
    with pytest.raises(KeyError):
        loss("triplet")


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(images=st.integers(2, 5), d=st.integers(1, 5), temperature=st.floats(0.1, 2), seed=st.integers(0, 2**32))
def test_value_and_gradients_equal_the_naive_formula(
    name: str, images: int, d: int, temperature: float, seed: int
) -> None:
    z = views(images, d, seed)
    t = torch.tensor(temperature, dtype=torch.float64, requires_grad=True)
    got = loss(name)(z, t)
    value, source = naive(name, z, t)
    torch.testing.assert_close(got, value, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(loss(name)(z, temperature), got, rtol=1e-12, atol=1e-12)
    expected = torch.autograd.grad(source, (z, t))
    torch.testing.assert_close(torch.autograd.grad(got, (z, t)), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("temperature", [0.01, 0.07, 0.5])
@pytest.mark.parametrize("images", [2, 9])
@pytest.mark.parametrize("name", NAMES)
def test_identical_rows(name: str, images: int, temperature: float) -> None:
    z = F.normalize(torch.ones(2 * images, 7), dim=1)
    candidates = 2 * images - (2 if name in {"flatnce_log", "dcl"} else 1)
    assert loss(name)(z, temperature).item() == pytest.approx(math.log(candidates), rel=1e-6 / temperature)


# Two images on the axes e1 and e2, both views alike: s_pos = 1/tau, both negatives have s = 0, so xi = 2 exp(-1/tau).
# Two images alike, their views opposite: s_pos = -1/tau, the negatives have s = +-1/tau, so xi = e^(2/tau) + 1.
# Two images opposite, their views alike: s_pos = 1/tau, both negatives have s = -1/tau, so xi = 2 exp(-2/tau).
ORTHOGONAL_PAIRS = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
OPPOSITE_PAIRS = [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]
OPPOSITE_IMAGES = [[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
BY_HAND = [  # rows, tau, log(1 + xi), log xi
    (ORTHOGONAL_PAIRS, 0.5, 0.2395447662218845, -1.3068528194400547),
    (ORTHOGONAL_PAIRS, 0.01, 7.440151952041672e-44, -99.30685281944005),
    (OPPOSITE_PAIRS, 0.5, 4.035976299748163, 4.01814992791781),
    (OPPOSITE_PAIRS, 0.01, 200.0, 200.0),
    (OPPOSITE_IMAGES, 0.01, 2.7677930534734753e-87, -199.30685281944005),
    (OPPOSITE_PAIRS, 0.08, 25.000000000027776, 25.000000000013888),
]


@pytest.mark.parametrize(("rows", "temperature", "infonce", "log_xi"), BY_HAND)
@pytest.mark.parametrize("name", NAMES)
def test_values_computed_by_hand(
    name: str, rows: list[list[float]], temperature: float, infonce: float, log_xi: float
) -> None:
    z = torch.tensor(rows, dtype=torch.float64)
    expected = log_xi if name in {"flatnce_log", "dcl"} else infonce
    relative, absolute = 1e-13 if expected < 1e-9 else 1e-14, 1e-15 if name == "infonce_textbook" else 0
    assert loss(name)(z, temperature).item() == pytest.approx(expected, rel=relative, abs=absolute)


@pytest.mark.parametrize(
    ("images", "dtype"), [(2, torch.float32), (33, torch.float32), (600, torch.float32), (9, torch.float64)]
)
def test_losses_of_weight_one_have_bit_equal_gradients(images: int, dtype: torch.dtype) -> None:
    z = views(images, 8, dtype=dtype)
    flatnce, flatnce_log, dcl = (gradient(name, z, 0.1) for name in WEIGHT_ONE)
    assert torch.equal(flatnce, flatnce_log)
    assert torch.equal(flatnce, dcl)
    assert flatnce.norm() > 0.1


def test_flatnce_reports_the_value_of_infonce() -> None:
    z = views(20, 8, dtype=torch.float32)
    assert torch.equal(loss("flatnce")(z, 0.1), loss("infonce")(z, 0.1))


def test_flatnce_keeps_its_gradient_where_that_of_infonce_vanishes() -> None:
    z = close_pairs(4, 32, cosine=0.99, seed=0).float()
    assert gradient("infonce", z, 0.02).norm() < 1e-10
    assert gradient("flatnce", z, 0.02).norm() > 1


@pytest.mark.parametrize("seed", range(3))
def test_exact_infonce_keeps_the_gradient_that_the_textbook_form_loses(seed: int) -> None:
    """Relative error of float32 gradients, B 8, d 64: exact 4e-7 to 1.5e-6; textbook 3e-2 to 9e-2."""
    z = close_pairs(8, 64, cosine=0.999, seed=seed).float()
    truth = gradient("infonce", z.double(), 0.05)

    def relative_error(name: str) -> float:
        error = gradient(name, z, 0.05).double() - truth
        return float(error.norm() / truth.norm())

    assert relative_error("infonce") < 5e-6
    assert relative_error("infonce_textbook") > 1e-2
    # In float64 both forms agree, so that the difference is rounding and nothing else.
    textbook = gradient("infonce_textbook", z.double(), 0.05)
    torch.testing.assert_close(textbook, truth, rtol=1e-6, atol=1e-8 * truth.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_overflows_at_temperature_001(name: str, dtype: torch.dtype) -> None:
    z = torch.cat((views(4, 8, 0, dtype), views(4, 8, 1, dtype))).detach().requires_grad_()
    value = loss(name)(z, 0.01)
    value.backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    computed_in_dtype = name == "infonce_textbook"
    tolerance = 2 * torch.finfo(dtype if computed_in_dtype else torch.float32).eps
    assert value.item() == pytest.approx(loss(name)(z.double(), 0.01).item(), rel=tolerance, abs=100 * tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_images_and_views_does_not_matter(name: str) -> None:
    z = views(6, 5)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    for rows in (torch.cat((order, order + 6)), torch.arange(12).roll(6)):
        torch.testing.assert_close(loss(name)(z[rows], 0.1), loss(name)(z, 0.1))
        torch.testing.assert_close(gradient(name, z[rows], 0.1), gradient(name, z, 0.1)[rows])


@pytest.mark.parametrize("name", NAMES)
def test_one_module_takes_batches_of_any_size(name: str) -> None:
    module = loss(name)
    for images in (8, 3, 2):
        z = views(images, 4)
        t = torch.tensor(0.2, dtype=torch.float64)
        torch.testing.assert_close(module(z, 0.2), naive(name, z, t)[0])


@pytest.mark.parametrize("rows", [2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_one_image_or_an_odd_number_of_rows_is_refused(name: str, rows: int) -> None:
    with pytest.raises(ValueError, match="two views of B >= 2 images"):
        loss(name)(torch.ones(rows, 3), 0.1)


def test_p_positive_of_identical_rows_and_of_a_random_batch() -> None:
    assert p_positive(F.normalize(torch.ones(10, 3), dim=1), 0.1) == pytest.approx(1 / 9, rel=1e-5)
    z = views(5, 6)
    logits = (z @ z.T / 0.3).detach().fill_diagonal_(-torch.inf)
    expected = logits.softmax(1)[torch.arange(10), torch.arange(10).roll(5)].mean().item()
    assert p_positive(z, 0.3) == pytest.approx(expected, rel=1e-12)
