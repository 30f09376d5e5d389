"""Linear evaluation by SGD: its arithmetic, and what reaches it."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ablation.cell import Probe
from ablation.evaluate.features import Labelled
from ablation.evaluate.sgd import fit, schedule, sgd_evaluation
from ablation.pretrain.order import SampleOrder
from ablation.pretrain.random import stream
from tests.evaluate.test_linear import blobs, splits


def probe(**changes: Any) -> Probe:
    given: dict[str, Any] = {"epochs": 100, "batch_size": 4096, "learning_rate": 1.6, "momentum": 0.9}
    return Probe(**{"solver": "sgd", "weight_decay": 0.0, **given, **changes})


def naive(data: Labelled, classes: int, of: Probe, seed: int) -> np.ndarray:
    """Weights (K, D + 1) in float64 by the textbook: v <- m v + g, w <- w - rate v; the bias last, without decay."""
    x = np.column_stack([data.features.double().numpy(), np.ones(len(data.labels))])
    y = np.eye(classes)[data.labels.numpy()]
    size = min(of.batch_size, len(x))
    order = SampleOrder(seed, len(x), size, "probe order")
    weights, velocity = np.zeros((classes, x.shape[1])), np.zeros((classes, x.shape[1]))
    steps = math.ceil(of.epochs * len(x) / size)
    for step in range(steps):
        chosen = order.batch(step)
        powers = np.exp(x[chosen] @ weights.T)
        gradient = (powers / powers.sum(1, keepdims=True) - y[chosen]).T @ x[chosen] / size
        gradient[:, :-1] += of.weight_decay * weights[:, :-1]
        velocity = of.momentum * velocity + gradient
        weights = weights - of.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps)) * velocity
    return weights


@pytest.mark.parametrize(
    "changes",
    [{}, {"batch_size": 7}, {"batch_size": 20, "momentum": 0.0}, {"batch_size": 16, "weight_decay": 0.1}],
    ids=str,
)
def test_parity_with_a_naive_loop_in_float64(changes: dict[str, Any]) -> None:
    data, of = blobs(60), probe(**{"epochs": 5, "learning_rate": 0.2, **changes})
    expected = naive(data, 3, of, seed=3)
    weights, biases = fit(Labelled(data.features.double(), data.labels), 3, of, seed=3)
    np.testing.assert_allclose(weights, expected[:, :-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(biases, expected[:, -1], rtol=1e-12, atol=1e-14)
    single, _ = fit(data, 3, of, seed=3)
    np.testing.assert_allclose(single, expected[:, :-1], rtol=1e-4, atol=1e-5)


def test_separable_classes_are_learned() -> None:
    result = sgd_evaluation(*splits(spread=0.1), classes=3, probe=probe(batch_size=64), seed=0)
    assert (result.top1, result.selection["validation_top1"]) == (1.0, 1.0)


def test_accuracy_is_that_of_the_weights_on_train_and_validation() -> None:
    train, validation, test = splits(spread=3.0)
    of = probe(epochs=10, batch_size=50, learning_rate=0.1)
    result = sgd_evaluation(train, validation, test, 3, of, seed=1)

    def accuracy(fitted: Labelled, judged: Labelled) -> float:
        weights = naive(fitted, 3, of, seed=1)
        guesses = (judged.features.double().numpy() @ weights[:, :-1].T + weights[:, -1]).argmax(1)
        return float(np.mean(guesses == judged.labels.numpy()))

    assert result.top1 == pytest.approx(accuracy(train.joined(validation), test), abs=1 / 600)
    assert result.selection["validation_top1"] == pytest.approx(accuracy(train, validation), abs=1 / 90)
    assert result.selection["probe_steps"] == math.ceil(10 * 390 / 50)


def test_a_batch_above_the_data_is_all_of_it_at_the_rate_given() -> None:
    assert schedule(probe(), rows=300) == (300, 100)
    assert schedule(probe(epochs=3, batch_size=7), rows=10) == (7, 5)  # 30 rows in batches of 7, rounded up
    one, same = (fit(blobs(40), 3, probe(epochs=9, batch_size=size), 0)[0] for size in (40, 4096))
    assert torch.equal(one, same)
    assert sgd_evaluation(*splits(), 3, probe(epochs=1), 0).selection["probe_batch"] == 390


def test_numbers_repeat_to_the_bit_and_depend_on_the_seed_alone() -> None:
    data, of, state = blobs(200, spread=2.0), probe(epochs=3, batch_size=32), torch.get_rng_state()
    first, again, other = (fit(data, 3, of, seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_test_labels_and_rows_reach_nothing_but_the_accuracy() -> None:
    train, validation, test = splits()
    of = probe(epochs=5, batch_size=64)
    order = torch.from_numpy(stream(0, "shuffle").permutation(len(test.labels)))
    informed = sgd_evaluation(train, validation, test, 3, of, 0)
    blind = sgd_evaluation(train, validation, Labelled(test.features, test.labels[order]), 3, of, 0)
    assert blind.top1 == pytest.approx(1 / 3, abs=0.08) != informed.top1
    assert blind.selection == informed.selection


def test_a_rate_beyond_all_measure_is_an_error() -> None:
    huge = Labelled(blobs(60).features * 1e30, blobs(60).labels)
    with pytest.raises(FloatingPointError, match="not finite"):
        sgd_evaluation(huge, huge, huge, 3, probe(learning_rate=1e6), 0)
