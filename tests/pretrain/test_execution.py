"""How a run is carried out changes its seconds and bytes, not what it computes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ablation.catalog import LOSSES
from ablation.cell import Component, Pretraining
from ablation.errors import UserError
from ablation.losses import Loss
from ablation.pretrain import execution as module
from ablation.pretrain.data import Images, load
from ablation.pretrain.encoder import build_encoder, weights_hash
from ablation.pretrain.execution import PLAIN, Execution, activation_bytes, statistics_kept
from ablation.pretrain.loop import Training
from tests.cells import cell, pretraining

CPU = torch.device("cpu")
LARS = Component(name="lars", parameters={"momentum": 0.9, "weight_decay": 1e-6, "trust_coefficient": 0.001})
LEARNED = Component(name="learned", parameters={"minimum": 0.01, "maximum": 1.0})


@pytest.fixture(scope="module")
def images() -> Images:
    return load(Component(name="digits"), Path(), download=False)


def run(images: Images, execution: Execution, **changes: Any) -> Training:
    """A whole run of few updates."""
    work = Training(cell(**changes), images, CPU, evaluate=lambda _: 0.5, execution=execution)
    while not work.done:
        work.advance()
    return work


def losses(work: Training) -> list[float]:
    return [point.loss for point in work.history.trace]


@pytest.mark.parametrize("micro_batch", [4, 8, 9])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"loss": Component(name="flatnce")},
        {"precision": "bfloat16"},
        {"optimizer": "lars"},
        {"precision": "float64"},
    ],
)
def test_micro_batches_change_no_bit(images: Images, micro_batch: int, change: dict[str, Any]) -> None:
    if change.get("optimizer") == "lars":
        parameters = {"momentum": 0.9, "weight_decay": 1e-6, "trust_coefficient": 0.001}
        change = {"optimizer": Component(name="lars", parameters=parameters)}
    whole = run(images, PLAIN, norm_batch=4, steps=5, **change)
    cached = run(images, Execution(micro_batch=micro_batch), norm_batch=4, steps=5, **change)
    assert cached.forward.micro_batch == micro_batch // 4 * 4
    assert weights_hash(cached.encoder) == weights_hash(whole.encoder)  # parameters and running statistics
    assert weights_hash(cached.head) == weights_hash(whole.head)
    assert cached.history.deterministic() == whole.history.deterministic()


def test_micro_batches_keep_the_activations_of_one_at_a_time(images: Images) -> None:
    """Counted as what autograd holds between forward and backward pass."""

    def held(execution: Execution) -> int:
        work = Training(cell(norm_batch=4, batch_size=64), images, CPU, lambda _: 0.5, execution)
        pixels, labels = (part[0] for part in work.batches(range(1)))
        found: dict[int, int] = {}
        alive: list[Tensor] = []

        def note(tensor: Tensor) -> Tensor:
            alive.append(tensor)
            found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            _, loss = work.forward(work.views(pixels, 0), labels, None, 0)
        assert loss.isfinite()
        return sum(found.values())

    assert held(Execution(micro_batch=4)) < held(PLAIN) / 4


@pytest.mark.parametrize(
    ("changes", "micro_batch", "held"),
    [
        ({}, 4, None),  # batch norm spans the batch
        ({"norm_batch": 4}, "all", None),
        ({"norm_batch": 4}, 16, None),  # the whole batch anyway
        ({"norm_batch": 4}, 4, 4),
        ({"norm_batch": 4}, 11, 8),
        ({"norm_batch": 8}, 4, 8),  # the sweep file says so: see tests/test_sweep.py
    ],
)
def test_a_micro_batch_holds_whole_groups_of_batch_norm(
    changes: dict[str, Any], micro_batch: Any, held: int | None
) -> None:
    recipe = pretraining(**changes)
    encoder = build_encoder(cell().encoder, image_size=8, channels=1, seed=0).train()
    assert Execution(micro_batch=micro_batch).held(recipe, encoder, (1, 8, 8)) == held


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_auto_keeps_the_whole_batch_where_it_fits(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    recipe = pretraining(norm_batch=4, batch_size=32)
    encoder = build_encoder(cell().encoder, image_size=8, channels=1, seed=0).train()
    needed = 8 * activation_bytes(encoder, torch.zeros(8, 1, 8, 8))
    monkeypatch.setattr(module, "free_memory", lambda: share * needed / module.USABLE)
    monkeypatch.setattr(module, "usable_cpus", torch.get_num_threads)
    assert Execution(micro_batch="auto").held(recipe, encoder, (1, 8, 8)) == (4 if share < 1 else None)


def test_auto_counts_activations_in_the_precision_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = build_encoder(cell().encoder, image_size=8, channels=1, seed=0).train()
    needed = 8 * activation_bytes(encoder, torch.zeros(8, 1, 8, 8))
    monkeypatch.setattr(module, "free_memory", lambda: 0.8 * needed / module.USABLE)
    monkeypatch.setattr(module, "usable_cpus", torch.get_num_threads)
    for precision, held in (("float32", 4), ("bfloat16", None)):
        recipe = pretraining(norm_batch=4, batch_size=32, precision=precision)
        assert Execution(micro_batch="auto").held(recipe, encoder, (1, 8, 8)) == held


def test_activations_are_counted_once_and_without_weights() -> None:
    network = nn.Sequential(nn.Linear(3, 5), nn.Sigmoid(), nn.Linear(5, 2))
    kept = 7 * 3 * 4 + 7 * 5 * 4  # input of the first layer; the sigmoid's output, which is the last one's input
    views = torch.zeros(7, 3, 1, 1)

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.network(x.flatten(1))
            return result

    assert activation_bytes(Flat(), views) == kept
    assert activation_bytes(Flat(), torch.zeros(14, 3, 1, 1)) == 2 * kept


def test_running_statistics_are_put_back_even_after_an_error() -> None:
    norm = nn.BatchNorm2d(3)
    before = weights_hash(norm)

    def fail() -> None:
        norm(torch.rand(4, 3, 2, 2))
        assert weights_hash(norm) != before
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), statistics_kept(norm):
        fail()
    assert weights_hash(norm) == before


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled is traced and differentiated as always, and then run as it is: no C++ compiler, no waiting."""
    compiler = torch.compile

    def trace(function: Any, *, dynamic: bool, options: object) -> Any:
        assert options
        return compiler(function, dynamic=dynamic, backend="aot_eager")

    monkeypatch.setattr(torch, "compile", trace)


def check_within_rounding(images: Images, changes: dict[str, Any]) -> None:
    eager, compiled = (run(images, e, steps=4, **changes) for e in (PLAIN, Execution(compile=True)))
    assert compiled.forward.compiled
    assert not eager.forward.compiled
    torch.testing.assert_close(torch.tensor(losses(compiled)), torch.tensor(losses(eager)), rtol=1e-3, atol=1e-4)
    point = compiled.history.trace[0].diagnostics
    assert point is not None
    assert point.rounding_error is not None  # of the gradient that the compiled pass computed
    assert 0 < point.rounding_error < (0.05 if changes.get("loss_dtype") else 1e-4)


def test_a_compiled_run_is_the_same_within_rounding(images: Images) -> None:
    check_within_rounding(images, {})


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    "changes",
    [
        {"loss": Component(name="flatnce"), "temperature_control": LEARNED},
        {"precision": "bfloat16"},
        {"norm_batch": 4},
        {"loss_dtype": "bfloat16"},
        {"negatives": 3},
    ],
)
def test_so_is_one_of_any_kind(images: Images, changes: dict[str, Any]) -> None:
    check_within_rounding(images, changes)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_compiles(images: Images, name: str) -> None:
    parameters = {key: parameter.default for key, parameter in LOSSES[name].parameters.items()}
    check_within_rounding(images, {"loss": Component(name=name, parameters=parameters)})


def test_a_compiled_run_that_is_interrupted_ends_the_same_to_the_bit(images: Images) -> None:
    compiled = Execution(compile=True)
    whole = run(images, compiled, steps=4)
    first = Training(cell(steps=4), images, CPU, lambda _: 0.5, compiled)
    for _ in range(2):
        first.advance()
    second = Training(cell(steps=4), images, CPU, lambda _: 0.5, compiled)
    second.restore(first.state())
    while not second.done:
        second.advance()
    assert weights_hash(second.encoder) == weights_hash(whole.encoder)
    assert second.history.deterministic() == whole.history.deterministic()


@pytest.mark.usefixtures("traced")
def test_many_compiled_cells_in_one_process_stay_compiled(images: Images) -> None:
    """Dynamo gives up at the eighth version of a function, without a word that a run would notice."""
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        for batch_size in (4, 5, 6):
            run(images, Execution(compile=True), steps=1, batch_size=batch_size)


@pytest.mark.parametrize("steps", [10, module.WORTH_COMPILING])
def test_auto_compiles_long_runs(steps: int) -> None:
    recipe: Pretraining = pretraining(steps=steps)
    assert Execution(compile="auto").compiles(recipe, CPU) == (steps >= module.WORTH_COMPILING)


def test_without_a_compiler_auto_does_without_and_true_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_compiler", lambda _: False)
    recipe = pretraining(steps=10**6)
    assert not Execution(compile="auto").compiles(recipe, CPU)
    with pytest.raises(UserError, match="compile: true needs a"):
        Execution(compile=True).compiles(recipe, CPU)


@given(st.sampled_from([PLAIN, Execution(compile="auto", micro_batch="auto"), Execution(micro_batch=3)]))
def test_an_execution_survives_json(execution: Execution) -> None:
    assert Execution.model_validate_json(execution.model_dump_json()) == execution


@pytest.mark.usefixtures("traced")
def test_a_loss_of_the_users_own_is_not_compiled(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unknown(Loss):
        def forward(self, z: Tensor, temperature: float | Tensor) -> Tensor:
            assert not torch.compiler.is_compiling()
            return (z[: len(z) // 2] - z[len(z) // 2 :]).square().mean() / temperature

    monkeypatch.setattr("ablation.pretrain.forward.LOSSES", {})
    monkeypatch.setattr("ablation.pretrain.objective.losses.build", lambda _: Unknown())
    assert run(images, Execution(compile=True), steps=2).forward.compiled
