"""The conformance suite: every loss of the catalog passes it, and each broken one fails with its reason."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from ablation import catalog
from ablation.cell import Component
from ablation.losses import ClosedForm, Loss, build
from ablation.losses.base import FunctionLoss
from ablation.losses.conformance import Finding, check, passed
from ablation.losses.kernel import Temperature

IDENTICAL = [[1.0, 0.0]] * 6


def failures(of: str | Callable[[], Loss]) -> dict[str, str]:
    return {finding.check: finding.reason for finding in check(of) if finding.passed is False}


def function(given: Callable[..., Tensor]) -> Callable[[], Loss]:
    return lambda: FunctionLoss(given, {})


@pytest.mark.parametrize("name", catalog.LOSSES)
def test_every_loss_of_the_catalog_conforms(name: str) -> None:
    parameters = {key: parameter.default for key, parameter in catalog.LOSSES[name].parameters.items()}
    assert failures(lambda: build(Component(name=name, parameters=parameters))) == {}


def test_findings_say_what_does_not_apply() -> None:
    by_check = {finding.check: finding for finding in check("barlow")}
    assert by_check["brings the views of an image together"].passed is None
    assert str(by_check["has the values it declares"]) == "n/a   has the values it declares: it declares none"
    assert str(Finding("holds", passed=True)) == "ok    holds"
    assert not passed([Finding("a", passed=True), Finding("b", passed=False, reason="c")])
    assert passed([Finding("a", passed=True), Finding("b", None)])


# Losses with one thing wrong.


def logits_of(z: Tensor, temperature: Temperature) -> Tensor:
    return z @ z.T / temperature


def infonce(z: Tensor, temperature: Temperature) -> Tensor:
    value: Tensor = build(Component(name="infonce"))(z, temperature)
    return value


def self_in_the_mask(z: Tensor, temperature: Temperature) -> Tensor:
    """The row itself is left among the negatives."""
    positives = torch.arange(len(z)).roll(len(z) // 2)
    return F.cross_entropy(logits_of(z, temperature), positives)


def neighbour_as_positive(z: Tensor, temperature: Temperature) -> Tensor:
    """The mask of a batch whose views are interleaved: 0, 0, 1, 1, ..."""
    logits = logits_of(z, temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)) ^ 1)


def overflowing(z: Tensor, temperature: Temperature) -> Tensor:
    """Sums of exponentials without logsumexp."""
    similar = logits_of(z, temperature).exp()
    positive = similar.diagonal(len(z) // 2).repeat(2)
    own = similar.diagonal()
    return -(positive / (similar.sum(1) - own)).log().mean()


def leaking(z: Tensor, temperature: Temperature, labels: Tensor | None = None) -> Tensor:
    """Labels come in by a back door."""
    value: Tensor = build(Component(name="supcon"))(z, temperature, labels=labels)
    return value


def a_large_number_as_mask(z: Tensor, temperature: Temperature) -> Tensor:
    """-1e9 is more than float16 holds."""
    logits = logits_of(z, temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(z) // 2))


def without_gradient(z: Tensor, temperature: Temperature) -> Tensor:
    return infonce(z.detach(), temperature)


def a_value_for_each_anchor(z: Tensor, temperature: Temperature) -> Tensor:
    return logits_of(z, temperature).sum(1)


def imprecise(z: Tensor, temperature: Temperature) -> Tensor:
    rows = z.bfloat16().to(z.dtype) if z.dtype == torch.float32 else z
    return infonce(rows, temperature)


def random(z: Tensor, temperature: Temperature) -> Tensor:
    return infonce(z, temperature) * (1 + torch.rand(()).item())


class Forgetful(Loss):
    """Its running state is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = 0.0
        self.inner = build(Component(name="infonce"))

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        value: Tensor = self.inner(z, temperature)
        self.mean = 0.9 * self.mean + 0.1 * value.item()
        return value / self.mean


class Misdeclared(Loss):
    closed_forms = (ClosedForm(IDENTICAL, 0.5, 1.0),)

    def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
        return infonce(z, temperature)


BROKEN = [
    (function(self_in_the_mask), "leaves an image's similarity with itself out", "the diagonal of the similarities"),
    (function(neighbour_as_positive), "brings the views of an image together", "rows i and i \\+ B are the views"),
    (function(neighbour_as_positive), "follows a permutation of the images", "depends on the order of the images"),
    (function(overflowing), "is finite at low temperature", "value is not finite in float32 at temperature 0.01"),
    (function(leaking), "sees no labels", "takes labels but does not declare it"),
    (function(a_large_number_as_mask), "is finite at low temperature and in half", "Half without overflow"),
    (function(without_gradient), "gives a scalar with a gradient", "no gradient reaches the rows"),
    (function(a_value_for_each_anchor), "gives a scalar", "should be a scalar, not of shape \\(12,\\)"),
    (function(imprecise), "its gradient is that of float64", "away from that in float64"),
    (function(random), "goes on after a checkpoint", "draw no random numbers"),
    (Forgetful, "goes on after a checkpoint", "keep what it remembers in buffers"),
    (Misdeclared, "has the values it declares", "declared 1 at temperature 0.5, but it is 1.609"),
]


@pytest.mark.parametrize(("make", "broken", "reason"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_a_broken_loss_is_caught_with_its_reason(make: Callable[[], Loss], broken: str, reason: str) -> None:
    found = failures(make)
    said = [text for name, text in found.items() if name.startswith(broken)]
    assert said, found
    assert re.search(reason, said[0]), said


def test_each_breakage_but_the_positive_mask_fails_one_check_only() -> None:
    for make in (function(self_in_the_mask), function(leaking), function(imprecise), Forgetful, Misdeclared):
        assert len(failures(make)) == 1, failures(make)
