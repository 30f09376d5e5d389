import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from ablation.evaluate import linear
from ablation.evaluate.features import Labelled
from ablation.evaluate.linear import L2_GRID, Standardisation, fit, linear_evaluation, top_k_accuracy
from ablation.pretrain.random import stream


def blobs(rows: int, *, classes: int = 3, width: int = 6, spread: float = 1.0, name: str = "train") -> Labelled:
    """Balanced Gaussian classes whose centres depend on the class alone."""
    centres = stream(0, "centres").normal(size=(classes, width))
    labels = np.arange(rows) % classes
    noise = stream(0, name).normal(scale=spread, size=(rows, width))
    return Labelled(torch.from_numpy(centres[labels] + noise).float(), torch.from_numpy(labels))


def splits(**how: float) -> tuple[Labelled, Labelled, Labelled]:
    return (
        blobs(300, **how),  # type: ignore[arg-type]
        blobs(90, name="validation", **how),  # type: ignore[arg-type]
        blobs(600, name="test", **how),  # type: ignore[arg-type]
    )


def fitted(data: Labelled, l2: float) -> np.ndarray:
    """Weights (K, D + 1) on standardised features, in float64."""
    x = Standardisation.of(data.features)(data.features)
    classes = int(data.labels.max()) + 1
    return fit(x, data.labels, l2, start=torch.zeros(classes, len(x) + 1)).weights.double().numpy()


def standardised(data: Labelled, by: Labelled) -> np.ndarray:
    rows = by.features.double()
    return ((data.features.double() - rows.mean(0)) / rows.std(0, correction=0)).numpy()


def reference(data: Labelled, l2: float) -> LogisticRegression:
    model = LogisticRegression(C=1 / (len(data.labels) * l2), tol=1e-9, max_iter=10_000)
    return model.fit(standardised(data, data), data.labels.numpy())


@pytest.mark.parametrize("l2", [1.0, 1e-2, 1e-3])
@pytest.mark.parametrize("classes", [3, 7])
def test_fit_agrees_with_scikit_learn(l2: float, classes: int) -> None:
    data = blobs(350, classes=classes)
    weights, model = fitted(data, l2), reference(data, l2)
    np.testing.assert_allclose(weights[:, :-1], model.coef_, atol=5e-3)
    bias = weights[:, -1] - weights[:, -1].mean()  # only differences of biases matter
    np.testing.assert_allclose(bias, model.intercept_ - model.intercept_.mean(), atol=5e-3)
    scores = standardised(data, data) @ weights[:, :-1].T + weights[:, -1]
    np.testing.assert_allclose(softmax(scores, axis=1), model.predict_proba(standardised(data, data)), atol=1e-3)


@settings(deadline=None, max_examples=20)
@given(rows=st.integers(20, 80), classes=st.integers(2, 5), width=st.integers(1, 8), l2=st.sampled_from(L2_GRID[:5]))
def test_the_objectives_gradient_vanishes_in_float64(rows: int, classes: int, width: int, l2: float) -> None:
    data = blobs(rows, classes=classes, width=width)
    weights, x = fitted(data, l2), standardised(data, data)
    residual = softmax(x @ weights[:, :-1].T + weights[:, -1], axis=1) - np.eye(classes)[data.labels.numpy()]
    gradient = np.column_stack([residual.T @ x / rows + l2 * weights[:, :-1], residual.mean(0)])
    assert np.abs(gradient).max() < 1e-4


def test_featureless_rows_are_scored_by_their_class_frequencies() -> None:
    labels = torch.tensor([0] * 10 + [1] * 30 + [2] * 60)
    weights = fitted(Labelled(torch.full((100, 4), 0.1), labels), 1e-6)
    np.testing.assert_allclose(weights[:, :-1], 0, atol=1e-6)
    np.testing.assert_allclose(softmax(weights[:, -1]), [0.1, 0.3, 0.6], atol=1e-3)


def test_accuracy_on_two_gaussians_is_the_bayes_rate() -> None:
    def draw(rows: int, name: str) -> Labelled:
        labels = np.arange(rows) % 2
        features = stream(0, name).normal(size=(rows, 5))
        features[:, 2] += 2.0 * labels  # centres two deviations apart: the best accuracy is Phi(1)
        return Labelled(torch.from_numpy(features).float(), torch.from_numpy(labels))

    result = linear_evaluation(draw(4000, "a"), draw(1000, "b"), draw(20_000, "c"), classes=2)
    assert result.top1 == pytest.approx(norm.cdf(1), abs=0.01)  # 4 standard errors of the test split
    assert result.top5 == 1  # capped at the class count


def test_the_chosen_l2_is_the_best_on_the_validation_split() -> None:
    train = blobs(60, classes=4, width=40, spread=4.0)
    validation = blobs(400, classes=4, width=40, spread=4.0, name="validation")
    result = linear_evaluation(train, validation, validation, classes=4)
    accuracies = {
        l2: np.mean(reference(train, l2).predict(standardised(validation, train)) == validation.labels.numpy())
        for l2 in L2_GRID
    }
    assert max(accuracies.values()) - min(accuracies.values()) > 0.03  # there is something to choose
    l2 = result.selection["l2"]
    assert accuracies[l2] >= max(accuracies.values()) - 1 / 400
    assert result.selection["validation_top1"] == pytest.approx(accuracies[l2], abs=1 / 400)
    assert result.selection["l2_at_edge"] == (l2 in (L2_GRID[0], L2_GRID[-1]))


def test_of_equally_good_l2_the_strongest_is_taken_and_flagged() -> None:
    result = linear_evaluation(*splits(spread=0.01), classes=3)
    expected = {"validation_top1": 1.0, "l2": max(L2_GRID), "l2_at_edge": 1.0}
    assert {key: result.selection[key] for key in expected} == expected
    assert result.top1 == 1


def test_the_final_fit_includes_the_validation_split() -> None:
    train, validation, test = splits(spread=0.01)
    known = train.labels < 2
    result = linear_evaluation(Labelled(train.features[known], train.labels[known]), validation, test, classes=3)
    assert result.selection["validation_top1"] == pytest.approx(2 / 3)  # class 2 is only in the validation split
    assert result.top1 == 1


def test_each_test_row_is_judged_alone() -> None:
    train, validation, test = splits()
    odd = Labelled(test.features[:50] * 100 + 7, test.labels[:50])
    alone = linear_evaluation(train, validation, test, classes=3)
    only_odd = linear_evaluation(train, validation, odd, classes=3)
    together = linear_evaluation(train, validation, test.joined(odd), classes=3)
    assert together.top1 * 650 == pytest.approx(alone.top1 * 600 + only_odd.top1 * 50)
    assert together.selection == alone.selection


def test_permuted_labels_give_chance() -> None:
    def shuffled(data: Labelled) -> Labelled:
        order = torch.from_numpy(stream(0, "shuffle").permutation(len(data.labels)))
        return Labelled(data.features, data.labels[order])

    train, validation, test = splits(spread=0.3)
    informed = linear_evaluation(train, validation, test, classes=3)
    assert informed.top1 > 0.99
    leak = linear_evaluation(train, validation, shuffled(test), classes=3)
    assert leak.top1 == pytest.approx(1 / 3, abs=0.08)
    assert leak.selection == informed.selection
    assert linear_evaluation(shuffled(train), shuffled(validation), test, classes=3).top1 < 0.5


def test_neither_scale_nor_constant_features_change_the_result() -> None:
    def rescaled(data: Labelled, constant: float) -> Labelled:
        powers = torch.tensor([2.0**-20, 2.0**12, 1.0, 8.0, 0.5, 2.0])
        column = torch.full((len(data.labels), 1), constant)
        return Labelled(torch.cat([data.features * powers, column], 1), data.labels)

    train, validation, test = splits()
    plain = linear_evaluation(train, validation, test, classes=3)
    changed = linear_evaluation(rescaled(train, 0.1), rescaled(validation, 0.1), rescaled(test, 0.3), classes=3)
    assert changed.top1 == pytest.approx(plain.top1, abs=1 / 600)
    assert changed.selection["validation_top1"] == pytest.approx(plain.selection["validation_top1"], abs=1 / 90)


def test_standardised_rows_have_mean_0_and_deviation_1() -> None:
    data = blobs(500)
    shifted = Labelled(data.features * torch.logspace(-6, 6, 6) + torch.logspace(-5, 5, 6), data.labels)
    x = Standardisation.of(shifted.features)(shifted.features)
    torch.testing.assert_close(x.mean(1), torch.zeros(6), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std(1, correction=0), torch.ones(6), atol=1e-3, rtol=0)


def test_a_feature_that_is_constant_up_to_rounding_is_not_blown_up() -> None:
    low = torch.tensor(0.1)
    features = torch.stack([low, torch.nextafter(low, torch.tensor(1.0))]).repeat(50)[:, None]
    assert Standardisation.of(features)(features).abs().max() < 1e-6


def test_repetition_is_equal_to_the_bit() -> None:
    data = blobs(2000, spread=2.0)
    np.testing.assert_array_equal(fitted(data, 1e-4), fitted(data, 1e-4))


@pytest.mark.parametrize(("most", "converged"), [(3, 0.0), (1000, 1.0)])
def test_a_fit_that_ran_out_of_iterations_says_so(monkeypatch: pytest.MonkeyPatch, most: int, converged: float) -> None:
    monkeypatch.setattr(linear, "MAX_ITERATIONS", most)
    selection = linear_evaluation(*splits(), classes=3).selection
    assert selection["converged"] == converged
    assert 1 <= selection["iterations"] <= most


def test_convergence_is_that_of_the_weights_that_are_used() -> None:
    data = blobs(300)
    x = Standardisation.of(data.features)(data.features)
    for tolerance in (1e-1, 1e-2, 1e-3, 1e-4):
        found = fit(x, data.labels, 1e-3, start=torch.zeros(3, len(x) + 1), tolerance=tolerance)
        weights = found.weights.double().requires_grad_()
        scores = weights[:, :-1] @ x.double() + weights[:, -1:]
        loss = F.cross_entropy(scores.T, data.labels) + 1e-3 / 2 * weights[:, :-1].square().sum()
        (gradient,) = torch.autograd.grad(loss, weights)
        assert found.converged
        assert gradient.abs().max() <= tolerance + 1e-6


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_no_accuracy(bad: float) -> None:
    scores = torch.tensor([[1.0, 2.0], [bad, 0.0]])
    with pytest.raises(FloatingPointError, match="not finite"):
        top_k_accuracy(scores, torch.tensor([1, 1]), 1)


@given(
    scores=hnp.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 10)), elements=st.integers(0, 3)),
    k=st.integers(1, 6),
    data=st.data(),
)
def test_top_k_accuracy_matches_sorting(scores: np.ndarray, k: int, data: st.DataObject) -> None:
    classes, rows = scores.shape
    labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
    leading = [sorted(range(classes), key=lambda c: (-column[c], c))[:k] for column in scores.T.tolist()]
    hits = [label in leaders for label, leaders in zip(labels, leading, strict=True)]
    assert top_k_accuracy(torch.from_numpy(scores), torch.tensor(labels), k) == pytest.approx(np.mean(hits))
