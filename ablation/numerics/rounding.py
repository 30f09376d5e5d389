"""Relative errors of a loss computed in one dtype, against the same function in float64."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation import catalog
from ablation.cell import Component
from ablation.losses import ContrastiveLoss, Loss, build
from ablation.losses.kernel import drawn_logits, log_xi

DTYPES = ("float16", "bfloat16", "float32", "float64")
SAME_FUNCTION = {"infonce_textbook": "infonce"}  # loss -> one with the same value that does not cancel


@dataclass(frozen=True)
class Errors:
    """Of one batch. None: the loss has no such thing, or there is nothing finite to compare."""

    value: float | None  # |L - L64| / |L64|
    positive: float | None  # median over anchors of |g - g64| / |g64|, g = dL/ds at the positive logit, anchor alone
    rows: float | None  # |g - g64| / |g64|, g = dL/dz, all rows together


@dataclass(frozen=True)
class Case:
    """Batches to measure on, alike in all that matters."""

    source: str  # where they come from, as tables name it
    temperature: float
    batches: Sequence[Tensor]  # each (2B, d) float64: as the projection head leaves it


@dataclass(frozen=True)
class Finding:
    """One row of the table: medians over the batches of a case."""

    source: str
    temperature: float
    batch_size: int
    log10_xi: float  # median over anchors and batches
    loss: str
    dtype: str
    errors: Errors


def measure(cases: Iterable[Case], losses: Sequence[str], dtypes: Sequence[str]) -> Iterator[Finding]:
    """Every loss (at its default parameters) in every dtype on every case."""
    for case in cases:
        units = [F.normalize(z, dim=1) for z in case.batches]
        log10_xi = median(float(log_xi(z, case.temperature).median()) / math.log(10) for z in units)
        for name in losses:
            for dtype in dtypes:
                found = [errors(name, z, case.temperature, getattr(torch, dtype)) for z in case.batches]
                columns = ([getattr(e, key) for e in found] for key in ("value", "positive", "rows"))
                size = len(case.batches[0]) // 2
                yield Finding(
                    case.source, case.temperature, size, log10_xi, name, dtype, Errors(*map(_median, columns))
                )


def errors(name: str, z: Tensor, temperature: float, dtype: torch.dtype) -> Errors:
    """The errors of the named loss, computed in `dtype`, on (2B, d) float64 rows as the head leaves them.

    The reference is float64 in a form that does not cancel; of a loss that is this reference itself, float64 has no
    error to show.
    """
    loss, reference = _built(name), _built(SAME_FUNCTION.get(name, name))
    z = F.normalize(z, dim=1) if loss.unit_rows else z
    value, rows = _value_and_gradient(loss, z.to(dtype), temperature)
    exact_value, exact_rows = _value_and_gradient(reference, z, temperature)
    positive = None
    if isinstance(loss, ContrastiveLoss) and isinstance(reference, ContrastiveLoss):
        exact = _at_the_positive(reference, z, temperature, torch.float64)
        ratios = ((_at_the_positive(loss, z, temperature, dtype) - exact) / exact).abs()
        positive = _finite(ratios.median())
    return Errors(
        _finite((value - exact_value).abs() / exact_value.abs()),
        positive,
        _finite((rows - exact_rows).norm() / exact_rows.norm()),
    )


def _built(name: str) -> Loss:
    parameters = {key: parameter.default for key, parameter in catalog.LOSSES[name].parameters.items()}
    return build(Component(name=name, parameters=parameters)).double()


def _value_and_gradient(loss: Loss, z: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    z = z.detach().requires_grad_()
    value = loss(z, temperature)
    (gradient,) = torch.autograd.grad(value, z)
    return value.detach().double(), gradient.double()


def _at_the_positive(loss: ContrastiveLoss, z: Tensor, temperature: float, dtype: torch.dtype) -> Tensor:
    """(2B,): dL/ds_pos of every anchor by itself, from float64 logits rounded to `dtype`."""
    positive, negatives = (logits.to(dtype) for logits in drawn_logits(z, temperature, _all_negatives(len(z) // 2)))
    positive.requires_grad_()
    mean = loss.of_logits(positive, negatives, temperature)
    (gradient,) = torch.autograd.grad(mean, positive, torch.full_like(mean, len(z)))  # a sum: each anchor alone
    return gradient.double()


def _all_negatives(images: int) -> Tensor:
    rows = torch.arange(2 * images)
    others = rows.expand(2 * images, -1)
    return others[(others % images) != (rows % images)[:, None]].view(2 * images, -1)


def _finite(error: Tensor) -> float | None:
    return error.item() if error.isfinite() else None


def _median(column: Sequence[float | None]) -> float | None:
    """None where a batch has no error to show: never a median of what is left."""
    known = [error for error in column if error is not None]
    return median(known) if len(known) == len(column) else None
