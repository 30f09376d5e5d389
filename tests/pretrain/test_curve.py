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
from ablation.pretrain.loop import DivergedError, Training
from tests.cells import cell

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images() -> Images:
    return load(Component(name="digits"), Path(), download=False)


@pytest.fixture
def encoder() -> Encoder:
    return build_encoder(cell().encoder, image_size=8, channels=1, seed=0)


def to_the_end(work: Training) -> None:
    while not work.done:
        work.advance()


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
        to_the_end(work)
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
    for _ in range(3):
        work.advance()
    assert not work.history.curve
    goes_on.set()
    later = Training(cell(), images, CPU, slow)
    later.restore(work.state())
    assert [point.step for point in later.history.curve] == [2, 3]


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


def test_after_a_failure_the_points_before_it_are_kept_and_no_thread_is_left(encoder: Encoder) -> None:
    results = iter([0.1, 0.2])

    def evaluate(_: Encoder) -> float:
        found = next(results, None)
        if found is None:
            raise FloatingPointError
        return found

    before = set(threading.enumerate())
    curve = Curve(evaluate, beside=True)

    def many() -> None:
        for step in range(1, 9):
            curve.measure(encoder, step, step)

    with pytest.raises(FloatingPointError):
        many()
    assert [point.knn_top1 for point in curve.close()] == [0.1, 0.2]
    assert set(threading.enumerate()) <= before


def test_no_more_than_two_copies_of_the_encoder_wait(encoder: Encoder) -> None:
    goes_on, begun = threading.Event(), threading.Semaphore(0)

    def slow(_: Encoder) -> float:
        begun.release()
        assert goes_on.wait(30)
        return 0.5

    curve = Curve(slow, beside=True)
    for step in (1, 2):
        curve.measure(encoder, step, step)
    third = threading.Thread(target=curve.measure, args=(encoder, 3, 3))
    third.start()
    assert begun.acquire(timeout=30)
    third.join(0.2)
    assert third.is_alive()  # waits for the first
    goes_on.set()
    third.join(30)
    assert [point.step for point in curve.collect(wait=True)] == [1, 2, 3]


def test_a_run_that_diverges_keeps_its_curve(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(monkeypatch)
    work = Training(cell(), images, CPU, lambda _: 0.5)
    for _ in range(4):
        work.advance()
    with torch.no_grad():
        next(work.encoder.parameters()).fill_(torch.nan)
    with pytest.raises(DivergedError):
        to_the_end(work)
    work.close()
    assert [point.step for point in work.history.curve][:3] == [2, 3, 4]
