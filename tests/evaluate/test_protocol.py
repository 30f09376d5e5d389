from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ablation.cell import Component
from ablation.evaluate.features import Labelled, extract
from ablation.evaluate.knn import knn_top1
from ablation.evaluate.linear import linear_evaluation
from ablation.evaluate.protocol import CURVE_BANK, CURVE_QUERIES, Evaluation, curve_knn, evaluate
from ablation.pretrain.data import Images
from ablation.pretrain.encoder import Encoder, build_encoder, weights_hash
from ablation.pretrain.random import stream
from ablation.pretrain.stored import Pixels, Stored

CPU = torch.device("cpu")
CLASSES = 3


def part(rows: int, name: str, size: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Noise on one pattern a class; images (rows, 1, size, size) and balanced labels."""
    patterns = stream(0, "patterns").uniform(60, 200, (CLASSES, 1, size, size))
    labels = np.arange(rows) % CLASSES
    grain = stream(0, name).normal(scale=noise, size=(rows, 1, size, size))
    return (patterns[labels] + grain).clip(0, 255).astype(np.uint8), labels


def make_images(train: int = 300, validation: int = 90, test: int = 150, *, size: int = 8, noise: float = 20) -> Images:
    parts: dict[str, Any] = {}
    for name, rows in {"train": train, "validation": validation, "test": test}.items():
        parts[f"{name}_images"], parts[f"{name}_labels"] = part(rows, name, size, noise)
    return Images(**parts, classes=("a", "b", "c"), mean=(0.5,), std=(0.2,), checksum="")


@pytest.fixture
def images() -> Images:
    return make_images()


@pytest.fixture
def encoder() -> Encoder:
    component = Component(name="resnet8", parameters={"width": 4})
    return build_encoder(component, image_size=8, channels=1, seed=0)


def shuffled(labels: np.ndarray) -> np.ndarray:
    return stream(0, "shuffle").permutation(labels)


def test_an_easy_dataset_is_read_from_random_features(encoder: Encoder, images: Images) -> None:
    result = evaluate(encoder, images, CPU)
    assert result.metrics["linear_top1"] > 0.95
    assert result.metrics["linear_top5"] == 1
    assert result.metrics["knn_top1"] > 0.9
    assert result.selection["validation_top1"] > 0.95
    assert result.features == 16


def features(encoder: Encoder, images: Images) -> tuple[Labelled, Labelled, Labelled]:
    """Of the training, validation and test part."""

    def read(pixels: Pixels | Stored, labels: np.ndarray) -> Labelled:
        return Labelled(extract(encoder.eval(), pixels, images.mean, images.std, CPU), torch.tensor(labels))

    return (
        read(images.train_images, images.train_labels),
        read(images.validation_images, images.validation_labels),
        read(images.test_images, images.test_labels),
    )


def test_the_protocol_is_linear_evaluation_and_knn_on_all_labelled_images(encoder: Encoder) -> None:
    images = make_images(validation=240, noise=60)
    train, validation, test = features(encoder, images)
    linear = linear_evaluation(train, validation, test, CLASSES)
    knn = knn_top1(train.joined(validation), test, CLASSES)
    assert knn != knn_top1(train, test, CLASSES)
    assert evaluate(encoder, images, CPU) == Evaluation(
        metrics={"linear_top1": linear.top1, "linear_top5": linear.top5, "knn_top1": knn},
        selection=linear.selection,
        features=16,
    )


def test_the_curve_is_knn_from_the_training_to_the_validation_part(encoder: Encoder) -> None:
    images = make_images(noise=80)
    train, validation, _ = features(encoder, images)
    assert curve_knn(encoder, images, CPU) == knn_top1(train, validation, CLASSES)


def test_evaluation_repeats_to_the_bit_and_draws_nothing(encoder: Encoder, images: Images) -> None:
    state, flags = weights_hash(encoder), [module.training for module in encoder.modules()]
    random_state = torch.get_rng_state()
    assert evaluate(encoder, images, CPU) == evaluate(encoder, images, CPU)
    assert curve_knn(encoder, images, CPU) == curve_knn(encoder, images, CPU)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert weights_hash(encoder) == state
    assert [module.training for module in encoder.modules()] == flags


def test_test_labels_reach_nothing_but_the_metrics(encoder: Encoder, images: Images) -> None:
    informed = evaluate(encoder, images, CPU)
    blind = evaluate(encoder, replace(images, test_labels=shuffled(images.test_labels)), CPU)
    assert blind.metrics["linear_top1"] == pytest.approx(1 / CLASSES, abs=0.15)
    assert blind.metrics["knn_top1"] == pytest.approx(1 / CLASSES, abs=0.15)
    assert blind.selection == informed.selection


def test_the_curve_sees_no_test_image(encoder: Encoder, images: Images) -> None:
    accuracy = curve_knn(encoder, images, CPU)
    assert accuracy > 0.9
    hidden = replace(images, test_images=images.test_images[:0], test_labels=images.test_labels[:0])
    assert curve_knn(encoder, hidden, CPU) == accuracy
    mislabelled = replace(images, validation_labels=(images.validation_labels + 1) % CLASSES)
    assert curve_knn(encoder, mislabelled, CPU) < 0.1


@pytest.mark.parametrize(
    ("train", "validation", "expected"),
    [(10_000, 2_000, 12_000), (10_001, 2_001, 5_001 + 1_001), (25_000, 5_000, 8_334 + 1_667)],
)
def test_the_curve_takes_evenly_spaced_images(train: int, validation: int, expected: int) -> None:
    seen = 0

    class Pixels(nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            nonlocal seen
            seen += len(pixels)
            return pixels.flatten(1)

    curve_knn(Pixels(), make_images(train, validation, test=3, size=2), CPU)
    assert seen == expected <= CURVE_BANK + CURVE_QUERIES


def test_training_goes_on_as_if_the_curve_had_not_been_taken(images: Images) -> None:
    def train(*, watched: bool) -> str:
        component = Component(name="resnet8", parameters={"width": 4})
        encoder = build_encoder(component, image_size=8, channels=1, seed=0).train()
        optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
        batch = torch.tensor(images.train_images[:32]).float() / 255
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(encoder(batch), torch.tensor(images.train_labels[:32])).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if watched:
                curve_knn(encoder, images, CPU)
        return weights_hash(encoder)

    assert train(watched=True) == train(watched=False)


def test_an_encoder_whose_batch_norm_keeps_training_is_detected(encoder: Encoder, images: Images) -> None:
    class Stubborn(nn.BatchNorm2d):
        def train(self, mode: bool = True) -> "Stubborn":  # noqa: FBT001, FBT002
            return super().train(True)

    drifting = nn.Sequential(Stubborn(1), encoder)
    for measure in (evaluate, curve_knn):
        with pytest.raises(RuntimeError, match="batch norm"):
            measure(drifting, images, CPU)
