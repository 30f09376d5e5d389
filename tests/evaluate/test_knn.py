import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from ablation.evaluate.features import Labelled
from ablation.evaluate.knn import BLOCK, knn_predict, knn_top1, neighbours
from ablation.pretrain.random import stream


def draw(rows: int, classes: int, width: int, name: str, spread: float = 1.5) -> Labelled:
    centres = stream(0, "centres").normal(size=(classes, width))
    labels = np.arange(rows) % classes
    features = centres[labels] + stream(0, name).normal(scale=spread, size=(rows, width))
    return Labelled(torch.from_numpy(features).float(), torch.from_numpy(labels))


def naive(bank: Labelled, queries: torch.Tensor, classes: int) -> list[int]:
    """Query by query and neighbour by neighbour, in float64."""
    rows = bank.features.double().numpy()
    k = max(1, min(200, len(rows) // classes))
    found = []
    for query in queries.double().numpy():
        cosine = [row @ query / np.linalg.norm(row) / np.linalg.norm(query) for row in rows]
        votes = dict.fromkeys(range(classes), 0.0)
        for index in sorted(range(len(rows)), key=lambda i: -cosine[i])[:k]:
            votes[int(bank.labels[index])] += np.exp(cosine[index] / 0.07)
        found.append(max(votes, key=lambda label: votes[label]))
    return found


@settings(deadline=None, max_examples=25)
@given(rows=st.integers(1, 60), classes=st.integers(1, 6), width=st.integers(2, 8), seed=st.integers(0, 999))
def test_predictions_match_a_naive_loop(rows: int, classes: int, width: int, seed: int) -> None:
    bank, queries = draw(rows, classes, width, f"bank {seed}"), draw(8, classes, width, f"queries {seed}")
    assert knn_predict(bank, queries.features, classes).tolist() == naive(bank, queries.features, classes)


@pytest.mark.parametrize(("rows", "classes"), [(400, 5), (3000, 10)])  # k = 80 and k = 200, its cap
def test_predictions_match_scikit_learn(rows: int, classes: int) -> None:
    bank, queries = draw(rows, classes, 16, "bank"), draw(2 * BLOCK + 3, classes, 16, "queries")
    model = KNeighborsClassifier(
        neighbours(rows, classes), weights=lambda distance: np.exp((1 - distance) / 0.07), metric="cosine"
    )
    expected = model.fit(bank.features.double().numpy(), bank.labels.numpy()).predict(queries.features.double().numpy())
    found = knn_predict(bank, queries.features, classes).numpy()
    assert np.mean(found == expected) > 0.998  # float32 may break a near tie the other way
    assert knn_top1(bank, queries, classes) == np.mean(found == queries.labels.numpy())


@pytest.mark.parametrize(
    ("bank", "classes", "k"), [(1437, 10, 143), (60_000, 10, 200), (50_000, 100, 200), (999, 5, 199), (3, 10, 1)]
)
def test_k_is_the_mean_class_count_up_to_200(bank: int, classes: int, k: int) -> None:
    assert neighbours(bank, classes) == k


@pytest.mark.parametrize("labels", [[2, 1, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0]])
def test_the_lowest_class_wins_a_tie(labels: list[int]) -> None:
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0], [-2.0, -1.0]])
    bank = Labelled(features, torch.tensor(labels))  # k = 2: both nearest rows have the same similarity
    assert knn_predict(bank, torch.tensor([[3.0, 3.0]]), 3).tolist() == [1]


def test_near_neighbours_outvote_many_far_ones() -> None:
    near, far = [[1.0, 0.0]], [[0.6, 0.8]] * 3  # exp(1/.07) against 3 exp(.6/.07)
    bank = Labelled(torch.tensor(near + far + [[-1.0, 0.0]] * 4), torch.tensor([1] + [0] * 3 + [0] * 4))
    assert neighbours(8, 2) == 4
    assert knn_predict(bank, torch.tensor([[2.0, 0.0]]), 2).tolist() == [1]


def test_only_directions_matter() -> None:
    bank, queries = draw(200, 4, 8, "bank"), draw(300, 4, 8, "queries")
    stretched = Labelled(bank.features * torch.linspace(0.01, 100, 200)[:, None], bank.labels)
    expected = knn_predict(bank, queries.features, 4)
    assert torch.equal(knn_predict(stretched, queries.features * 50, 4), expected)


def test_queries_are_judged_alone_and_repeat_to_the_bit() -> None:
    bank, queries = draw(500, 5, 8, "bank"), draw(BLOCK + 40, 5, 8, "queries")
    together = knn_predict(bank, queries.features, 5)
    assert torch.equal(together, knn_predict(bank, queries.features, 5))
    assert torch.equal(together[BLOCK - 20 :], knn_predict(bank, queries.features[BLOCK - 20 :], 5))


def test_known_accuracies() -> None:
    bank, queries = draw(400, 4, 8, "bank", spread=0.01), draw(400, 4, 8, "queries", spread=0.01)
    assert knn_top1(bank, queries, 4) == 1
    shuffled = queries.labels[torch.from_numpy(stream(0, "shuffle").permutation(400))]
    assert knn_top1(bank, Labelled(queries.features, shuffled), 4) == pytest.approx(0.25, abs=0.1)
    assert knn_top1(bank, Labelled(queries.features, (queries.labels + 1) % 4), 4) == 0
