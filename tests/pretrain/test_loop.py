"""The pretraining loop: exact resume at any step, paired seeds, logs where they are due, divergence with its step."""

import io
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ablation.catalog import LOSSES, OPTIMIZERS
from ablation.cell import Cell, Component, LearningRate
from ablation.losses import Loss
from ablation.losses.kernel import Temperature
from ablation.pretrain.data import Images, load
from ablation.pretrain.encoder import weights_hash
from ablation.pretrain.loop import DivergedError, Training, evaluations, spaced
from ablation.pretrain.views import Parameters, apply
from tests.cells import cell, pretraining

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images() -> Images:
    return load(Component(name="digits"), Path(), download=False)


def training(of: Cell, images: Images) -> Training:
    return Training(of, images, CPU, evaluate=lambda _encoder: 0.5)


def run(of: Cell, images: Images, *, stop_at: int | None = None) -> Training:
    """The whole run; interrupted once, its state sent through a file as a checkpoint would."""
    work = training(of, images)
    while not work.done:
        if work.step == stop_at:
            buffer = io.BytesIO()
            torch.save(work.state(), buffer)
            buffer.seek(0)
            work = training(of, images)
            work.restore(torch.load(buffer, weights_only=True))
        work.advance()
    return work


def to_the_end(work: Training) -> None:
    while not work.done:
        work.advance()
    work.finish()


def fingerprint(work: Training) -> tuple[Any, ...]:
    history = work.history.deterministic()
    return weights_hash(work.encoder), weights_hash(work.head), history, work.first_batch_hash, work.samples


def optimizer(name: str) -> Component:
    return Component(name=name, parameters={k: p.default for k, p in OPTIMIZERS[name].parameters.items()})


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("stop_at", [1, 6, 11])
def test_resume_is_exact_with_every_optimiser(images: Images, name: str, stop_at: int) -> None:
    one = cell(optimizer=optimizer(name), learning_rate=LearningRate(peak=0.01, warmup_steps=2, schedule="cosine"))
    assert fingerprint(run(one, images, stop_at=stop_at)) == fingerprint(run(one, images))


@pytest.mark.parametrize("name", LOSSES)
def test_resume_is_exact_with_every_loss(images: Images, name: str) -> None:
    parameters = {key: parameter.default for key, parameter in LOSSES[name].parameters.items()}
    one = cell(loss=Component(name=name, parameters=parameters))
    assert fingerprint(run(one, images, stop_at=7)) == fingerprint(run(one, images))


def test_going_back_discards_the_views_that_were_made_ahead(images: Images) -> None:
    one = cell()
    work = training(one, images)
    work.advance()
    start = deepcopy(work.state())
    to_the_end(work)
    first = fingerprint(work)
    work = training(one, images)
    for _ in range(4):
        work.advance()
    work.restore(start)
    to_the_end(work)
    assert fingerprint(work) == first


LEARNED = Component(name="learned", parameters={"minimum": 0.05, "maximum": 1.0})
ESS = Component(name="ess", parameters={"target": 0.3, "rate": 0.1, "minimum": 0.05, "maximum": 1.0})
AXES: list[dict[str, Any]] = [
    {"loss_dtype": "float16", "gradient_scaling": True},
    {"loss_dtype": "bfloat16"},
    {"loss_dtype": "float64", "precision": "float64"},
    {"precision": "bfloat16"},
    {"temperature_control": LEARNED},
    {"temperature_control": ESS},
    {"negatives": 3},
    {"norm_batch": 4},
    {"learning_curve": "log"},
    {"loss": Component(name="siglip"), "temperature_control": LEARNED, "optimizer": optimizer("lars")},
]


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_resume_is_exact_along_every_axis(images: Images, axis: dict[str, Any]) -> None:
    whole = run(cell(**axis), images)
    assert fingerprint(run(cell(**axis), images, stop_at=7)) == fingerprint(whole)
    assert fingerprint(whole) != fingerprint(run(cell(), images))
    whole.finish()
    assert {p.dtype for p in (*whole.encoder.parameters(), *whole.head.parameters())} == {torch.float32}


def test_a_checkpoint_of_the_first_release_is_read(images: Images) -> None:
    work = training(cell(), images)
    for _ in range(5):
        work.advance()
    state = work.state()
    del state["objective"], state["scaler"]
    later = training(cell(), images)
    later.restore({**state, "loss": {}})
    to_the_end(later)
    assert fingerprint(later) == fingerprint(run(cell(), images))


def test_images_that_share_no_statistics_do_not_see_each_other(images: Images) -> None:
    def rows(of: Cell, views: Tensor) -> Tensor:
        return training(of, images).forward(views, labels, None, 0)[0]

    work = training(cell(norm_batch=4), images)
    pixels, labels = (part[0] for part in work.batches(range(1)))
    views = work.views(pixels, 0)
    z = rows(cell(norm_batch=4), views)
    others = views.clone()
    others[[4, 20]] = others[[5, 21]]  # both views of the fifth image
    changed = (rows(cell(norm_batch=4), others) - z).abs().amax(1) > 0
    assert changed.nonzero().flatten().tolist() == [4, 5, 6, 7, 20, 21, 22, 23]
    part = rows(cell(), torch.cat((views[4:8], views[20:24])))
    torch.testing.assert_close(z[[4, 5, 6, 7, 20, 21, 22, 23]], part)


def test_diagnostics_stand_where_they_are_due_and_measure_the_arithmetic(images: Images) -> None:
    def errors(**axis: Any) -> list[float]:
        trace = run(cell(steps=80, **axis), images).history.trace
        assert [point.step for point in trace if point.diagnostics] == [1, 40, 80]
        found = [point.diagnostics.rounding_error for point in trace if point.diagnostics]
        return [error for error in found if error is not None]

    whole = {"loss_dtype": "float64", "precision": "float64"}
    for axis, low, high in (({}, 1e-8, 1e-4), ({"loss_dtype": "float16"}, 1e-4, 0.5), (whole, 0, 1e-12)):
        found = errors(**axis)
        assert len(found) == 3
        assert all(low <= error < high for error in found), (axis, found)


@pytest.mark.parametrize("steps", [1, 2, 12, 199, 500, 48_000])
def test_diagnostics_add_no_point_to_the_log(images: Images, steps: int) -> None:
    work = training(cell(steps=steps), images)
    assert work._logged == spaced(steps, 200) | {1}
    assert {1, steps} <= work._diagnosed <= work._logged
    assert len(work._diagnosed) <= min(50, math.ceil(steps / 40)) + 1


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_diagnosed(images: Images, name: str) -> None:
    parameters = {key: parameter.default for key, parameter in LOSSES[name].parameters.items()}
    trace = run(cell(steps=20, loss=Component(name=name, parameters=parameters)), images).history.trace
    for point in (trace[0], trace[-1]):
        assert point.diagnostics is not None
        assert point.diagnostics.rounding_error is not None
        assert point.diagnostics.rounding_error < 1e-3
        assert point.diagnostics.gradient_norm is not None
        assert point.diagnostics.gradient_norm > 0


def test_a_loss_gets_labels_and_raw_rows_where_it_asks_for_them(images: Images) -> None:
    asked: list[tuple[Tensor, Tensor]] = []

    class Curious(Loss):
        unit_rows = False
        sees_labels = True

        def forward(self, z: Tensor, temperature: Temperature, labels: Tensor | None = None) -> Tensor:
            assert labels is not None
            asked.append((z.detach(), labels))
            return z.square().mean()

    work = training(cell(), images)
    work.objective.loss = Curious()
    work.advance()
    z, labels = asked[0]
    assert torch.equal(labels, torch.from_numpy(images.train_labels[work.batches.order.batch(0)]))
    assert (z.norm(dim=1) - 1).abs().max() > 1e-3


def test_losses_see_the_same_weights_and_views_and_seeds_do_not(images: Images) -> None:
    def first(of: Cell) -> tuple[str, str]:
        work = training(of, images)
        weights = weights_hash(work.encoder)
        work.advance()
        return weights, work.first_batch_hash

    assert first(cell(loss=Component(name="flatnce"))) == first(cell())
    other_seed = first(cell(seed=1))
    assert other_seed[0] != first(cell())[0]
    assert other_seed[1] != first(cell())[1]


def test_the_loss_falls(images: Images) -> None:
    trace = run(cell(steps=150, batch_size=32, temperature=0.5), images).history.trace
    start, end = (sum(point.loss for point in part) / len(part) for part in (trace[:15], trace[-15:]))
    assert end < start - 0.1


def test_the_log_says_when_how_much_and_at_which_rate(images: Images) -> None:
    history = run(cell(steps=12), images).history
    assert [point.step for point in history.trace] == list(range(1, 13))
    assert [point.samples for point in history.trace] == [16 * step for step in range(1, 13)]
    assert history.trace[0].learning_rate == pytest.approx(0.05)  # half of the warm-up to .1
    assert history.trace[1].learning_rate == pytest.approx(0.1)
    assert all(0 < point.p_pos < 1 for point in history.trace)
    assert [point.step for point in history.curve] == sorted(spaced(12, 10))


def test_the_curve_leaves_no_trace_in_the_training(images: Images) -> None:
    def disturbing(_encoder: torch.nn.Module) -> float:
        torch.rand(100)
        return 0.1

    work = Training(cell(), images, CPU, evaluate=disturbing)
    while not work.done:
        work.advance()
    assert weights_hash(work.encoder) == weights_hash(run(cell(), images).encoder)


@pytest.mark.parametrize("samples", [64_000, 64_001, 63_997])
def test_a_logarithmic_curve_has_a_point_where_larger_batches_end(samples: int) -> None:
    ends = {batch: -(-samples // batch) for batch in (4, 8, 16, 128, 1024)}
    run = pretraining(batch_size=4, steps=ends[4], learning_curve="log")
    assert set(ends.values()) <= evaluations(run)
    assert evaluations(pretraining(steps=ends[4])) == spaced(ends[4], 10) < evaluations(run)
    assert len(evaluations(run)) == 17


def test_where_a_run_is_evaluated_changes_nothing_else(images: Images) -> None:
    even, log = run(cell(), images), run(cell(learning_curve="log"), images)
    assert [point.step for point in log.history.curve] == sorted(evaluations(log.recipe))
    assert set(even.history.curve) < set(log.history.curve)
    assert [point.loss for point in log.history.trace] == [point.loss for point in even.history.trace]


@given(st.integers(1, 10_000), st.integers(1, 300))
def test_spaced_points_are_few_and_end_at_the_end(steps: int, points: int) -> None:
    chosen = spaced(steps, points)
    assert max(chosen) == steps
    assert min(chosen) >= 1
    assert len(chosen) == min(steps, points)


@settings(max_examples=5, deadline=None)
@given(bad_step=st.integers(1, 12), poison=st.sampled_from([float("nan"), float("inf")]), gradient_only=st.booleans())
def test_divergence_is_noticed_with_its_step(
    images: Images, bad_step: int, poison: float, *, gradient_only: bool
) -> None:
    work = training(cell(), images)
    inner = work.objective.loss

    class Poisoned(Loss):
        def forward(self, z: Tensor, temperature: Temperature) -> Tensor:
            value: Tensor = inner(z, temperature)
            if work.step != bad_step - 1:
                return value
            if gradient_only:
                z.register_hook(lambda gradient: gradient * poison)  # type: ignore[no-untyped-call]
                return value
            return value * poison

    work.objective.loss = Poisoned()
    with pytest.raises(DivergedError) as caught:
        to_the_end(work)
    assert caught.value.step == bad_step


def test_a_huge_learning_rate_diverges_and_says_so(images: Images) -> None:
    wild = cell(steps=60, learning_rate=LearningRate(peak=1e30, warmup_steps=0, schedule="constant"))
    with pytest.raises(DivergedError, match="is not finite"):
        run(wild, images).finish()


def test_views_of_a_large_batch_are_made_part_by_part(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(cell(batch_size=256, steps=2), images)
    sizes: list[int] = []

    def small(pixels: Tensor, parameters: Parameters) -> Tensor:
        sizes.append(len(pixels))
        return apply(pixels, parameters)

    monkeypatch.setattr("ablation.pretrain.views._PART_BYTES", 8 * 64 * 64)
    monkeypatch.setattr("ablation.pretrain.views.apply", small)
    parts = run(cell(batch_size=256, steps=2), images)
    assert sizes == [64] * 8
    assert fingerprint(parts) == fingerprint(whole)
