"""Optimisers by name, and the learning rate of every update."""

import math
from collections.abc import Iterable

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from ablation.cell import Component, LearningRate


def build_optimizer(
    component: Component, modules: Iterable[nn.Module], undecayed: Iterable[nn.Parameter] = ()
) -> Optimizer:
    """The named optimiser over all parameters of `modules`; its learning rate is set before every update.

    SGD, Adam and AdamW decay every parameter of the modules, and none of `undecayed`. LARS (arXiv:1708.03888) neither
    decays nor rescales biases, normalisation weights and `undecayed`, as in arXiv:2002.05709, and rescales all others
    whether they decay or not.
    """
    given = component.parameters
    parameters = [parameter for module in modules for parameter in module.parameters()]
    extra = list(undecayed)
    decay = float(given["weight_decay"])
    if component.name == "lars":
        from timm.optim.lars import Lars

        vectors = [*(p for p in parameters if p.ndim <= 1), *extra]
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay, "always_adapt": True},
            {"params": vectors, "weight_decay": 0.0, "always_adapt": False},
        ]
        trust = float(given["trust_coefficient"])
        lars: Optimizer = Lars(groups, lr=0.0, momentum=float(given["momentum"]), trust_coeff=trust)
        return lars
    groups = [{"params": parameters}]
    if extra:
        groups.append({"params": extra, "weight_decay": 0.0})
    if component.name == "sgd":
        momentum, nesterov = float(given["momentum"]), bool(given["nesterov"])
        return SGD(groups, lr=0.0, momentum=momentum, nesterov=nesterov, weight_decay=decay, fused=True)
    betas, eps = (float(given["beta1"]), float(given["beta2"])), float(given["eps"])
    kind: type[Adam] = {"adam": Adam, "adamw": AdamW}[component.name]
    return kind(groups, lr=0.0, betas=betas, eps=eps, weight_decay=decay, fused=True)


def learning_rate_at(schedule: LearningRate, step: int, steps: int) -> float:
    """The rate of update `step` (from 0) of `steps`: linear warm-up that reaches the peak, then cosine towards 0.

    Warm-up update s has rate peak (s + 1) / warmup_steps; the cosine runs from the peak, at the first update after
    the warm-up, towards 0, which it would reach one update past the last (arXiv:1608.03983 without restarts).
    """
    warmup = schedule.warmup_steps
    if step < warmup:
        return schedule.peak * (step + 1) / warmup
    if schedule.schedule == "constant":
        return schedule.peak
    progress = (step - warmup) / (steps - warmup)
    return schedule.peak * 0.5 * (1 + math.cos(math.pi * progress))
