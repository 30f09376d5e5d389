"""Weighted k-nearest-neighbour accuracy of frozen features (arXiv:1805.01978, section 3.4)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.evaluate.features import Labelled

TEMPERATURE = 0.07  # of a neighbour's vote, exp(cosine / TEMPERATURE)
MAX_NEIGHBOURS = 200
BLOCK = 256  # queries at a time, so that memory is BLOCK x bank


def neighbours(bank: int, classes: int) -> int:
    """k: the mean class count of a bank of so many rows, at least 1 and at most `MAX_NEIGHBOURS`."""
    return max(1, min(MAX_NEIGHBOURS, bank // classes))


def knn_top1(bank: Labelled, queries: Labelled, classes: int) -> float:
    """Share of the queries, in [0, 1], whose class is the one with the most votes among their k nearest of the bank."""
    return float((knn_predict(bank, queries.features, classes) == queries.labels).double().mean())


def knn_predict(bank: Labelled, queries: Tensor, classes: int) -> Tensor:
    """Classes (M,) of queries (M, D). Nearness is cosine similarity; of classes with equal votes the lowest wins."""
    k = neighbours(len(bank.labels), classes)
    rows, queries = F.normalize(bank.features, dim=1), F.normalize(queries, dim=1)
    blocks = (queries[start : start + BLOCK] for start in range(0, len(queries), BLOCK))
    return torch.cat([_vote(rows, bank.labels, block, k, classes) for block in blocks])


def _vote(rows: Tensor, labels: Tensor, queries: Tensor, k: int, classes: int) -> Tensor:
    similarity, nearest = (queries @ rows.T).topk(k)  # (BLOCK, k)
    weights, voters = (similarity / TEMPERATURE).exp(), labels[nearest]
    # A sum for each class: a scatter would add in an order that GPUs do not fix.
    votes = torch.stack([(weights * (voters == label)).sum(1) for label in range(classes)], 1)
    return votes.argmax(1)
