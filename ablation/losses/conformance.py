"""What a loss has to do to be compared with others: a suite for users' losses, and for those here.

    from ablation.losses.conformance import check
    for finding in check("my_module:my_loss"):
        print(finding)

`ablation check-loss my_module:my_loss` is the same on the command line.
"""

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.cell import Component
from ablation.losses import build
from ablation.losses.base import ContrastiveLoss, FunctionLoss, Loss
from ablation.losses.kernel import drawn_logits

IMAGES, FEATURES, TEMPERATURE = 6, 8, 0.2  # of the batches that are drawn
LOWEST_TEMPERATURE = 0.01
FLOAT32_ERROR = 1e-3  # of a gradient, relative; rounding itself is 1e-7 to 1e-5 on these batches


@dataclass(frozen=True)
class Finding:
    """One check; `reason` says what is wrong, or why the check does not apply."""

    check: str
    passed: bool | None  # None: does not apply
    reason: str = ""

    def __str__(self) -> str:
        verdict = {True: "ok", False: "FAIL", None: "n/a"}[self.passed]
        return f"{verdict:4}  {self.check}" + (f": {self.reason}" if self.reason else "")


class _DoesNotApplyError(Exception):
    """The check says nothing about this loss; the message says why."""


Make = Callable[[], Loss]


def check(loss: str | Make) -> list[Finding]:
    """All checks on a loss, by its name in a sweep or as a function that makes a fresh one.

    Raises:
        UserError: there is no loss of that name.
    """
    make = loss if callable(loss) else lambda: build(Component(name=loss))
    make()
    return [_finding(name, function, make) for name, function in _CHECKS.items()]


def _finding(name: str, function: Callable[[Make], str | None], make: Make) -> Finding:
    try:
        reason = function(make)
    except _DoesNotApplyError as error:
        return Finding(name, None, str(error))
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is what is wrong with it
        return Finding(name, passed=False, reason=f"raised {type(error).__name__}: {error}")
    return Finding(name, reason is None, reason or "")


# The checks: each returns what is wrong, None where nothing is.


def _labels(make: Make) -> str | None:
    loss = make()
    function = loss.function if isinstance(loss, FunctionLoss) else loss.forward
    if "labels" in inspect.signature(function).parameters and not loss.sees_labels:
        return "takes labels but does not declare it: a subclass of Loss says sees_labels = True"
    return None


def _scalar(make: Make) -> str | None:
    z = _rows(make)
    value, gradient = _value_and_gradient(make(), z, TEMPERATURE)
    if value.ndim:
        return f"the value should be a scalar, not of shape {tuple(value.shape)}"
    if gradient is None or not gradient.any():
        return "no gradient reaches the rows"
    return None


def _permutation(make: Make) -> str | None:
    z = _rows(make)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    rows = torch.cat((order, order + IMAGES))
    value, gradient = _value_and_gradient(make(), z, TEMPERATURE, labels=_classes())
    permuted, its_gradient = _value_and_gradient(make(), z[rows], TEMPERATURE, labels=_classes()[order])
    if not _equal(value, permuted):
        return f"the value depends on the order of the images: {value.item():.6g} and {permuted.item():.6g}"
    if gradient is None or its_gradient is None or not _equal(gradient[rows], its_gradient):
        return "the gradient of an image depends on its place in the batch"
    return None


def _pull(make: Make) -> str | None:
    _needs_unit_rows(make)
    z = _rows(make)
    partners = z.roll(IMAGES, 0)
    towards = partners - (z * partners).sum(1, keepdim=True) * z
    _, gradient = _value_and_gradient(make(), z, TEMPERATURE, labels=torch.arange(IMAGES))
    if gradient is None or (gradient * towards).sum() >= 0:
        return "bringing the two views of each image together does not lower it; rows i and i + B are the views of i"
    return None


def _own_row(make: Make) -> str | None:
    """A row's similarity with itself is the same for all unit rows, so that it is varied with others."""
    _needs_unit_rows(make)
    z = _rows(make)
    shorter = 0.8 * z
    if _equal(_value(make(), shorter), _value(make(), z)):
        raise _DoesNotApplyError("it normalises its rows itself")
    if _equal(_value(make(), shorter + 1), _value(make(), shorter)):
        raise _DoesNotApplyError("it is a function of distances")
    private = torch.cat((shorter, 0.6 * torch.eye(len(z), dtype=z.dtype)), dim=1)  # only z_i . z_i changes
    if not _equal(_value(make(), private), _value(make(), shorter)):
        return "an image is its own negative or positive: the diagonal of the similarities is not masked"
    return None


def _blocks(make: Make) -> str | None:
    loss = make()
    if not isinstance(loss, ContrastiveLoss):
        raise _DoesNotApplyError("it is no ContrastiveLoss, which is computed in tiles")
    z = _rows(make).requires_grad_()
    rows = torch.arange(2 * IMAGES)
    chosen = torch.stack([rows[(rows % IMAGES) != i % IMAGES] for i in range(2 * IMAGES)])
    dense = loss.of_logits(*drawn_logits(z, TEMPERATURE, chosen), TEMPERATURE)
    value, gradient = _value_and_gradient(make(), z, TEMPERATURE)
    if not _equal(value, dense.detach()):
        return f"tiles give {value.item():.6g}, dense logits {dense.item():.6g}"
    (expected,) = torch.autograd.grad(dense, z)
    return None if gradient is not None and _equal(gradient, expected) else "tiles and dense logits differ in d/dz"


def _finite(make: Make) -> str | None:
    z = _rows(make)
    same = F.normalize(torch.ones_like(z), dim=1)
    batches = {"random rows": z, "views that are opposite": _opposite(z), "rows that are all alike": same}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for what, rows in batches.items():
            value, gradient = _value_and_gradient(make(), rows.to(dtype), LOWEST_TEMPERATURE)
            part = "value" if not value.isfinite() else "gradient"
            if not value.isfinite() or gradient is None or not gradient.isfinite().all():
                name = str(dtype).removeprefix("torch.")
                return f"the {part} is not finite in {name} at temperature {LOWEST_TEMPERATURE}, on {what}"
    return None


def _precision(make: Make) -> str | None:
    z = _rows(make)
    _, exact = _value_and_gradient(make(), z, TEMPERATURE)
    _, gradient = _value_and_gradient(make(), z.float(), TEMPERATURE)
    if exact is None or gradient is None:
        return "no gradient reaches the rows"
    error = float((gradient.double() - exact).norm() / exact.norm())
    return None if error < FLOAT32_ERROR else f"the gradient in float32 is {error:.1g} away from that in float64"


def _state(make: Make) -> str | None:
    batches = [_rows(make, seed) for seed in range(3)]
    whole, first, later = (make().double() for _ in range(3))
    values = [_value(whole, z) for z in batches]
    for z in batches[:2]:
        _value(first, z)
    later.load_state_dict(first.state_dict())
    if not torch.equal(_value(later, batches[2]), values[2]):
        return "a resumed loss goes on differently: keep what it remembers in buffers, and draw no random numbers"
    return None


def _closed_forms(make: Make) -> str | None:
    forms = make().closed_forms
    if not forms:
        raise _DoesNotApplyError("it declares none")
    for form in forms:
        value = _value(make(), torch.tensor(form.rows, dtype=torch.float64), form.temperature).item()
        if not math.isclose(value, form.value, rel_tol=1e-6, abs_tol=1e-9):
            return f"declared {form.value:.9g} at temperature {form.temperature:g}, but it is {value:.9g}"
    return None


_CHECKS: dict[str, Callable[[Make], str | None]] = {
    "gives a scalar with a gradient": _scalar,
    "sees no labels unless it says so": _labels,
    "follows a permutation of the images": _permutation,
    "brings the views of an image together": _pull,
    "leaves an image's similarity with itself out": _own_row,
    "tiles equal dense logits": _blocks,
    "is finite at low temperature and in half precision": _finite,
    "its gradient is that of float64": _precision,
    "goes on after a checkpoint as if nothing had been": _state,
    "has the values it declares": _closed_forms,
}


# The batches, and what a loss makes of them.


def _rows(make: Make, seed: int = 0) -> Tensor:
    """(2 IMAGES, FEATURES) random float64 rows, views a little alike; of unit length where the loss wants that."""
    generator = torch.Generator().manual_seed(seed)
    images, noise = torch.randn(2, 2 * IMAGES, FEATURES, generator=generator, dtype=torch.float64)
    rows = images[:IMAGES].repeat(2, 1) + noise
    return F.normalize(rows, dim=1) if make().unit_rows else rows


def _opposite(z: Tensor) -> Tensor:
    return torch.cat((z[:IMAGES], -z[:IMAGES]))


def _classes() -> Tensor:
    return torch.tensor([0, 1, 0, 2, 1, 0])


def _value_and_gradient(
    loss: Loss, z: Tensor, temperature: float, labels: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    if z.dtype == torch.float64:
        loss = loss.double()
    rows = z.detach().clone().requires_grad_()
    given = {"labels": _classes() if labels is None else labels} if loss.sees_labels else {}
    value: Tensor = loss(rows, temperature, **given)
    if not value.requires_grad:
        return value, None
    (gradient,) = torch.autograd.grad(value.sum(), rows, allow_unused=True)
    return value.detach(), gradient


def _value(loss: Loss, z: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    return _value_and_gradient(loss, z, temperature)[0].detach()


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-6, atol=1e-9)


def _needs_unit_rows(make: Make) -> None:
    if not make().unit_rows:
        raise _DoesNotApplyError("it compares features, not rows of unit length")


def passed(findings: Iterable[Finding]) -> bool:
    """Whether no check failed."""
    return all(finding.passed is not False for finding in findings)
