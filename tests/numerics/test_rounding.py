"""Rounding errors on synthetic embeddings: the sizes that are known, and which form has them."""

import math
from statistics import median

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from ablation import catalog
from ablation.numerics.rounding import DTYPES, Case, errors, measure
from ablation.numerics.synthetic import cases, embeddings


@pytest.mark.parametrize(("spread", "alignment"), [(0.15, 0.8), (0.3, -0.2), (0.1, 0.98)])
def test_embeddings_have_the_spread_and_alignment_asked_for(spread: float, alignment: float) -> None:
    z = embeddings(400, spread=spread, alignment=alignment, seed=0)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(800, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close((z[:400] * z[400:]).sum(1), torch.full((400,), alignment).double(), rtol=0, atol=1e-6)
    cosines = (z[:400] @ z[:400].T)[*torch.triu_indices(400, 400, 1)]
    assert cosines.mean().item() == pytest.approx(0, abs=0.01)
    assert cosines.std().item() == pytest.approx(spread, rel=0.05)
    assert torch.equal(z.float().double(), z)
    assert torch.equal(z, embeddings(400, spread=spread, alignment=alignment, seed=0))
    assert not torch.equal(z, embeddings(400, spread=spread, alignment=alignment, seed=1))


# Of the positive logit's gradient in the textbook form: one anchor, negatives' cosines N(0, .15). p_pos is rounded
# beside 1, so that the error is up to eps / 2 / xi, with xi about (2B - 2) e^(.15^2 / 2 tau^2 - cos / tau).
KNOWN = [
    ("float32", 0.1, 0.8, {2: 4e-5, 8: 5e-6, 32: 1e-6, 256: 1e-7}),
    ("float32", 0.07, 0.98, {2: 1e-2, 8: 1e-3, 32: 2e-4, 256: 3e-5}),
    ("float16", 0.1, 0.95, {2: 1.0, 8: 8e-2, 32: 2e-2, 256: 2e-3}),
    ("float16", 0.07, 0.98, {2: 1.0, 8: 1.0, 32: 1.0, 256: 6e-2}),
]


@pytest.mark.parametrize(("dtype", "temperature", "alignment", "known"), KNOWN)
def test_the_textbook_form_loses_its_gradient_at_small_batches(
    dtype: str, temperature: float, alignment: float, known: dict[int, float]
) -> None:
    batches = {2: 32, 8: 16, 32: 4, 256: 1}
    for size, expected in known.items():
        drawn = [embeddings(size, spread=0.15, alignment=alignment, seed=seed) for seed in range(batches[size])]
        found = [errors("infonce_textbook", z, temperature, getattr(torch, dtype)).positive for z in drawn]
        assert expected / 5 < median(error for error in found if error is not None) < expected * 5, size


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_exact_form_is_at_rounding_level_everywhere(dtype: str) -> None:
    level = torch.finfo(getattr(torch, dtype)).eps / 2 / 0.07  # the logits are up to 1 / temperature
    for finding in measure(cases([2, 8, 32], [0.07], [0.8, 0.98], 0.15, 8), ["infonce"], [dtype]):
        assert finding.errors.positive is not None
        assert finding.errors.positive < 2 * level
        assert finding.errors.value is not None
        assert finding.errors.value < 4 * level
        assert finding.errors.rows is not None
        assert finding.errors.rows < 8 * level  # float16 underflows a little besides


def test_float64_has_a_level_of_its_own() -> None:
    (finding,) = measure(cases([2], [0.07], [0.98], 0.15, 8), ["infonce_textbook"], ["float64"])
    assert finding.errors.positive is not None
    assert 1e-13 < finding.errors.positive < 1e-9
    (exact,) = measure(cases([2], [0.07], [0.98], 0.15, 8), ["infonce"], ["float64"])
    assert exact.errors.positive == exact.errors.rows == 0  # it is the reference


@pytest.mark.parametrize("name", catalog.LOSSES)
def test_every_loss_is_measured(name: str) -> None:
    z = embeddings(8, spread=0.3, alignment=0.5, seed=0)
    found = errors(name, z, 0.1, torch.float32)
    assert found.rows is not None
    assert 0 < found.rows < 1e-5
    assert (found.positive is not None) == catalog.LOSSES[name].contrastive
    if name in {"flatnce", "flatnce_log", "dcl"}:
        assert found.positive == 0  # a weight of 1 has nothing to round


def test_an_error_is_of_the_anchor_alone_and_of_all_rows_together() -> None:
    """By hand, in float64 against a float32 gradient."""
    z = embeddings(3, spread=0.3, alignment=0.9, seed=1)

    def gradients(rows: Tensor, positive: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
        rows, positive = rows.clone().requires_grad_(), positive.clone().requires_grad_()
        logits = (rows @ rows.T / 0.1).fill_diagonal_(-torch.inf)
        F.cross_entropy(logits, torch.arange(6).roll(3)).backward()  # type: ignore[no-untyped-call]
        each = F.cross_entropy(torch.cat((positive[:, None], negatives), 1), torch.zeros(6).long(), reduction="sum")
        each.backward()  # type: ignore[no-untyped-call]
        assert rows.grad is not None
        assert positive.grad is not None
        return rows.grad.double(), positive.grad.double()

    s = z @ z.T / 0.1
    positive = s.diagonal(3).repeat(2)
    negatives = torch.stack([s[i, [j for j in range(6) if j % 3 != i % 3]] for i in range(6)])
    rows64, positive64 = gradients(z, positive, negatives)
    rows32, positive32 = gradients(z.float(), positive.float(), negatives.float())
    found = errors("infonce_textbook", z, 0.1, torch.float32)
    assert found.rows == pytest.approx(float((rows32 - rows64).norm() / rows64.norm()), rel=1e-3)
    assert found.positive == pytest.approx(float(((positive32 - positive64) / positive64).abs().median()), rel=1e-3)


def test_findings_come_for_every_case_loss_and_dtype_with_how_hard_the_case_is() -> None:
    z = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    found = list(measure([Case("axes", 0.1, [z, z])], ["infonce", "dcl"], DTYPES))
    assert [(f.loss, f.dtype) for f in found] == [(loss, dtype) for loss in ("infonce", "dcl") for dtype in DTYPES]
    assert {(f.source, f.temperature, f.batch_size) for f in found} == {("axes", 0.1, 2)}
    assert found[0].log10_xi == pytest.approx((math.log(2) - 10) / math.log(10))


def test_what_is_not_finite_or_has_no_scale_is_no_error() -> None:
    z = F.normalize(torch.ones(8, 4, dtype=torch.float64), dim=1)
    assert errors("vicreg", z, 0.1, torch.float32).value is not None
    assert errors("flatnce_log", torch.eye(2).double().repeat(2, 1), 1e-5, torch.float16).value is None  # inf - inf
