"""The learning curve, measured at once or beside the training."""

import threading
from functools import partial
from pathlib import Path

import pytest
import torch

from ablation.cell import Component
from ablation.evaluate.protocol import curve_knn
from ablation.pretrain.curve import Curve
from ablation.pretrain.data import Images, load
from ablation.pretrain.encoder import Encoder, build_encoder, weights_hash
from ablation.pretrain.loop import Training
from tests.cells import cell

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images() -> Images:
    return load(Component(name="digits"), Path(), download=False)


@pytest.fixture
def encoder() -> Encoder:
    return build_encoder(cell().encoder, image_size=8, channels=1, seed=0)


def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings measure as they do on an accelerator."""
    monkeypatch.setattr(
        "ablation.pretrain.loop.Curve", lambda evaluate, *, beside: Curve(evaluate, beside=beside or True)
    )


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_beside_the_training_or_not_the_history_is_the_same(
    images: Images, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    evaluate = partial(curve_knn, images=images, device=CPU)
    works = []
    for patch in (lambda _: None, beside):
        patch(monkeypatch)
        work = Training(cell(precision=precision), images, CPU, evaluate)
        while not work.done:
            work.advance()
        works.append((work.finish().history.deterministic(), weights_hash(work.encoder)))
    assert works[0] == works[1]
    assert len(works[0][0]["curve"]) == 10


def test_a_checkpoint_has_every_point_that_was_due(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(monkeypatch)
    goes_on = threading.Event()

    def slow(_: Encoder) -> float:
        assert goes_on.wait(30)
        return 0.5

    work = Training(cell(), images, CPU, slow)
    for _ in range(6):
        work.advance()
    assert not work.history.curve
    goes_on.set()
    later = Training(cell(), images, CPU, slow)
    later.restore(work.state())
    assert [point.step for point in later.history.curve] == [2, 3, 4, 5, 6]


def test_the_encoder_is_measured_as_it_was(encoder: Encoder) -> None:
    goes_on, before = threading.Event(), weights_hash(encoder)
    seen: list[str] = []

    def slow(copy: Encoder) -> float:
        assert goes_on.wait(30)
        seen.append(weights_hash(copy))
        return 0.5

    curve = Curve(slow, beside=True)
    curve.measure(encoder, 1, 16)
    with torch.no_grad():
        next(encoder.parameters()).add_(1)
    assert curve.collect(wait=False) == []
    goes_on.set()
    assert [(point.step, point.samples) for point in curve.collect(wait=True)] == [(1, 16)]
    assert seen == [before] != [weights_hash(encoder)]
    assert curve.collect(wait=True) == []


@pytest.mark.parametrize("aside", [True, False])
def test_an_error_of_the_evaluation_is_the_runs(encoder: Encoder, aside: bool) -> None:  # noqa: FBT001
    def fails(_: Encoder) -> float:
        raise FloatingPointError("features")

    curve = Curve(fails, beside=aside)

    def both() -> None:
        curve.measure(encoder, 1, 16)
        curve.collect(wait=True)

    with pytest.raises(FloatingPointError, match="features"):
        both()
