"""Linear evaluation: L2-regularised multinomial logistic regression on standardised, frozen features.

Over N standardised features x_n with labels y_n, K classes, weights W (K, D) and biases b (K,), the fit minimises

    mean_n cross_entropy(W x_n + b, y_n) + l2/2 ||W||^2

which is scikit-learn's LogisticRegression with C = 1 / (N l2); the bias is not penalised.

Legend of shapes: N rows, D features, K classes. Features lie as x (D, N) and weights as (K, D + 1), the bias last:
a softmax over the first dimension is three times as fast at few classes as one over the last.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.evaluate.features import Labelled

# From strong to weak; each fit starts at the one before. Below 1e-6, float32 shows no difference any more.
L2_GRID = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
GRADIENT_TOLERANCE = 3e-5  # a fit has converged when no entry of its gradient is larger; float32 can reach it
MAX_ITERATIONS = 1000  # and is taken as it is after so many
HISTORY = 100  # L-BFGS's memory; features of a barely trained encoder are so collinear that 10 take 4 times as long
CONSTANT = 1e-6  # a feature whose deviation is below this share of its mean is constant up to float32's rounding


@dataclass(frozen=True)
class LinearEvaluation:
    """Accuracies in [0, 1]. `top1` and `top5` are on the test split; top-5 is top-K where there are K < 5 classes."""

    top1: float
    top5: float
    selection: dict[
        str, float
    ]  # validation_top1, fitted on the training split alone, and how the classifier came about


@dataclass(frozen=True)
class Fit:
    """Where L-BFGS came to rest."""

    weights: Tensor  # (K, D + 1)
    iterations: int
    converged: bool  # no entry of the gradient is above the tolerance


def linear_evaluation(train: Labelled, validation: Labelled, test: Labelled, classes: int) -> LinearEvaluation:
    """Chooses l2 by validation accuracy (of equals the strongest), refits on train + validation, reads test once."""
    l2, validation_top1, chosen = _select(train, validation, classes)
    both = train.joined(validation)
    standardise = Standardisation.of(both.features)
    final = fit(standardise(both.features), both.labels, l2, start=chosen.weights)
    scores = _scores(final.weights, standardise(test.features))
    return LinearEvaluation(
        top1=top_k_accuracy(scores, test.labels, 1),
        top5=top_k_accuracy(scores, test.labels, 5),
        selection={
            "l2": l2,
            "validation_top1": validation_top1,
            "l2_at_edge": float(l2 in (L2_GRID[0], L2_GRID[-1])),
            "converged": float(chosen.converged and final.converged),
            "iterations": float(final.iterations),
        },
    )


def _select(train: Labelled, validation: Labelled, classes: int) -> tuple[float, float, Fit]:
    """The l2 with the best validation accuracy, that accuracy and its fit."""
    standardise = Standardisation.of(train.features)
    x, x_validation = standardise(train.features), standardise(validation.features)
    weights = x.new_zeros(classes, len(x) + 1)
    candidates = []
    for l2 in L2_GRID:
        found = fit(x, train.labels, l2, start=weights)
        weights = found.weights
        accuracy = top_k_accuracy(_scores(weights, x_validation), validation.labels, 1)
        candidates.append((l2, accuracy, found))
    return max(candidates, key=lambda candidate: candidate[1])  # the first of equals


@dataclass(frozen=True)
class Standardisation:
    """Shifts and scales each feature to mean 0 and deviation 1 over the rows it was made of."""

    mean: Tensor  # (D,)
    deviation: Tensor  # (D,); 1 where a feature is constant

    @classmethod
    def of(cls, features: Tensor) -> "Standardisation":
        """That of features (N, D)."""
        deviation, mean = torch.std_mean(features, dim=0, correction=0)
        constant = deviation <= CONSTANT * mean.abs()
        return cls(mean, deviation.masked_fill(constant, 1.0))

    def __call__(self, features: Tensor) -> Tensor:
        """Features (N, D) -> x (D, N), a copy."""
        return ((features - self.mean) / self.deviation).T.contiguous()


def fit(x: Tensor, labels: Tensor, l2: float, *, start: Tensor, tolerance: float = GRADIENT_TOLERANCE) -> Fit:
    """Minimises the objective above for x (D, N) and labels (N,) from weights `start` (K, D + 1), by L-BFGS."""
    weights = start.clone().requires_grad_()
    solver = torch.optim.LBFGS(
        [weights],
        max_iter=MAX_ITERATIONS,
        tolerance_grad=tolerance,
        tolerance_change=0,
        history_size=HISTORY,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        weights.grad = None
        cross_entropy = F.cross_entropy(_scores(weights, x)[None], labels[None], reduction="none")
        # Summed in float64: the line search compares losses that differ by less than float32's rounding.
        loss = cross_entropy.double().mean() + l2 / 2 * weights[:, :-1].double().square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(objective)  # type: ignore[no-untyped-call]
    objective()  # the line search left the gradient of the last place that it tried
    assert weights.grad is not None
    converged = bool(weights.grad.abs().max() <= tolerance)
    return Fit(weights.detach(), solver.state[weights]["n_iter"], converged)


def _scores(weights: Tensor, x: Tensor) -> Tensor:
    """W x + b: (K, N)."""
    return torch.addmm(weights[:, -1:], weights[:, :-1], x)


def top_k_accuracy(scores: Tensor, labels: Tensor, k: int) -> float:
    """Share of columns of scores (K, N) whose label is among the k highest; of equal scores the lower class leads.

    Raises:
        FloatingPointError: a score is not finite.
    """
    if not scores.isfinite().all():
        raise FloatingPointError("the linear classifier's scores are not finite")
    own = scores.gather(0, labels[None])
    classes = torch.arange(len(scores), device=scores.device)[:, None]
    ahead = (scores > own) | ((scores == own) & (classes < labels))
    return float((ahead.sum(0) < k).double().mean())
