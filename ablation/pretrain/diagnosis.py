"""The diagnostics of one update: the rows, the gradient at them, and what float64 makes of the same rows."""

import torch
from torch import Tensor

from ablation.losses.diagnostics import measure_contrast, measure_geometry, rounding_error
from ablation.pretrain.objective import Objective
from ablation.record import Diagnostics


def diagnose(objective: Objective, z: Tensor, gradient: Tensor, labels: Tensor, step: int) -> Diagnostics:
    """Of update `step`, after its gradient is known and before anything changes.

    Args:
        objective: in the state that gave the gradient.
        z: (2B, d), finite, as the objective was given it.
        gradient: (2B, d), of the objective at z.
        labels: (B,).
        step: counted from 0.
    """
    device = torch.device("cpu") if z.device.type == "mps" else z.device  # which has no float64
    exact = objective.exact().to(device)
    rows = z.detach().to(device, torch.float64).requires_grad_()
    found = gradient.detach().to(device, torch.float64)
    (exact_gradient,) = torch.autograd.grad(exact(rows, labels.to(device), step), rows)
    unit = exact.unit(rows.detach())
    temperature = torch.as_tensor(exact.temperature(), dtype=torch.float64).item()
    norm = found.norm().item()
    return Diagnostics(
        temperature=temperature,
        **vars(measure_contrast(unit, temperature)),
        **vars(measure_geometry(unit)),
        gradient_norm=norm if norm < float("inf") else None,
        rounding_error=rounding_error(found, exact_gradient),
    )
