"""The protocol "linear+knn", version 1: what a record's metrics mean. Any change to its numbers raises the version."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from ablation.cell import Probe
from ablation.evaluate.features import Labelled, extract, frozen
from ablation.evaluate.knn import knn_top1
from ablation.evaluate.linear import linear_evaluation
from ablation.evaluate.sgd import sgd_evaluation
from ablation.pretrain.data import Images
from ablation.pretrain.dataset_files import Labels
from ablation.pretrain.stored import Pixels, Stored

CURVE_BANK = 10_000  # training images that a point of the learning curve uses at most
CURVE_QUERIES = 2_000  # and validation images


@dataclass(frozen=True)
class Evaluation:
    """What the features of one encoder came to."""

    metrics: dict[str, float]  # linear_top1, linear_top5, knn_top1: accuracies on the test split, in [0, 1]
    selection: dict[str, float]  # of the linear classifier; see `ablation.record.Outcome`
    features: int  # their width


def evaluate(
    encoder: nn.Module, images: Images, device: torch.device, probe: Probe | None = None, seed: int = 0
) -> Evaluation:
    """Linear evaluation and kNN (bank: train + validation) on the test split. The encoder lies on `device`.

    `probe` says how the linear classifier is trained, None: by L-BFGS, its l2 chosen. `seed` is that of its draws.

    Raises:
        RuntimeError: the encoder changed while it was evaluated.
        FloatingPointError: a feature or a score of the linear classifier is not finite.
    """
    read = partial(_read, encoder, images, device)
    with frozen(encoder):
        train = read(images.train_images, images.train_labels)
        validation = read(images.validation_images, images.validation_labels)
        test = read(images.test_images, images.test_labels)
    classes = len(images.classes)
    if probe is None:
        linear = linear_evaluation(train, validation, test, classes)
    else:
        linear = sgd_evaluation(train, validation, test, classes, probe, seed)
    knn = knn_top1(train.joined(validation), test, classes)
    return Evaluation(
        metrics={"linear_top1": linear.top1, "linear_top5": linear.top5, "knn_top1": knn},
        selection=linear.selection,
        features=train.features.shape[1],
    )


def curve_knn(encoder: nn.Module, images: Images, device: torch.device) -> float:
    """Validation accuracy of kNN, cheap enough to follow training; leaves the encoder as it was to the bit.

    Bank and queries are the same evenly spaced images each time. Raises what `evaluate` raises.
    """
    read = partial(_read, encoder, images, device)
    chosen = _spaced(len(images.train_labels), CURVE_BANK)
    queried = _spaced(len(images.validation_labels), CURVE_QUERIES)
    with frozen(encoder):
        bank = read(images.train_images[chosen], images.train_labels[chosen])
        queries = read(images.validation_images[queried], images.validation_labels[queried])
    return knn_top1(bank, queries, len(images.classes))


def _spaced(length: int, limit: int) -> slice:
    """Evenly spaced rows: the smallest stride that takes at most `limit` of `length`."""
    return slice(None, None, -(-length // limit))


def _read(
    encoder: nn.Module, dataset: Images, device: torch.device, images: Pixels | Stored, labels: Labels
) -> Labelled:
    features = extract(encoder, images, dataset.mean, dataset.std, device)
    return Labelled(features, torch.tensor(labels, device=device))
