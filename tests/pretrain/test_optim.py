"""Optimisers and the learning rate of every update, against hand-computed numbers."""

import math

import pytest
import torch
from torch import nn

from ablation.catalog import OPTIMIZERS
from ablation.cell import Component, LearningRate
from ablation.pretrain.optim import build_optimizer, learning_rate_at


def test_warmup_and_cosine_by_hand() -> None:
    schedule = LearningRate(peak=0.8, warmup_steps=4, schedule="cosine")
    rates = [learning_rate_at(schedule, step, 8) for step in range(8)]
    half = math.sqrt(0.5)
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.4 * (1 + half), 0.4, 0.4 * (1 - half)])


def test_constant_after_the_warmup() -> None:
    schedule = LearningRate(peak=0.5, warmup_steps=1, schedule="constant")
    assert [learning_rate_at(schedule, step, 5) for step in range(5)] == [0.5] * 5


def test_no_warmup_begins_at_the_peak() -> None:
    assert learning_rate_at(LearningRate(peak=0.3, warmup_steps=0, schedule="cosine"), 0, 100) == 0.3


def step_once(name: str, parameters: dict[str, float | bool], rate: float, gradient: float) -> tuple[float, float]:
    """One update of a weight and a bias that stand at 1, with equal gradients."""
    layer = nn.Linear(1, 1)
    nn.init.ones_(layer.weight)
    nn.init.ones_(layer.bias)
    optimizer = build_optimizer(Component(name=name, parameters=dict(parameters)), [layer])
    for group in optimizer.param_groups:
        group["lr"] = rate
    layer.weight.grad = torch.full_like(layer.weight, gradient)
    layer.bias.grad = torch.full_like(layer.bias, gradient)
    optimizer.step()
    return layer.weight.item(), layer.bias.item()


def test_sgd_decays_all_parameters() -> None:
    weight, bias = step_once("sgd", {"momentum": 0.9, "nesterov": False, "weight_decay": 0.5}, rate=0.1, gradient=1.0)
    assert weight == pytest.approx(1 - 0.1 * 1.5)
    assert bias == pytest.approx(1 - 0.1 * 1.5)


def test_adam_ignores_the_scale_of_the_gradient_until_its_eps() -> None:
    adam = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
    assert step_once("adam", adam, rate=0.1, gradient=1.0)[0] == pytest.approx(0.9)
    assert step_once("adam", adam, rate=0.1, gradient=1e-8)[0] == pytest.approx(0.95, abs=1e-6)
    assert step_once("adam", {**adam, "eps": 1e-16}, rate=0.1, gradient=1e-8)[0] == pytest.approx(0.9, abs=1e-6)


def test_adamw_decays_apart_from_the_gradient() -> None:
    adamw = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.5}
    assert step_once("adamw", adamw, rate=0.1, gradient=1.0)[0] == pytest.approx(1 * (1 - 0.05) - 0.1)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_lars_rescales_weights_and_leaves_biases_alone(decay: float) -> None:
    lars = {"momentum": 0.9, "weight_decay": decay, "trust_coefficient": 0.001}
    weight, bias = step_once("lars", lars, rate=10.0, gradient=4.0)
    trust = 0.001 * 1.0 / (4.0 + decay * 1.0)
    assert weight == pytest.approx(1 - 10.0 * trust * (4.0 + decay), rel=1e-5)
    assert bias == pytest.approx(1 - 10.0 * 4.0)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "lars"])
def test_parameters_of_the_objective_are_trained_without_decay(name: str) -> None:
    layer, scalar = nn.Linear(1, 1), nn.Parameter(torch.ones(()))
    parameters = {k: p.default for k, p in OPTIMIZERS[name].parameters.items()} | {"weight_decay": 0.5}
    optimizer = build_optimizer(Component(name=name, parameters=parameters), [layer], [scalar])
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    scalar.grad = torch.zeros_like(scalar)
    optimizer.step()
    assert scalar.item() == 1
    scalar.grad = torch.ones_like(scalar)
    optimizer.step()
    assert scalar.item() < 1
