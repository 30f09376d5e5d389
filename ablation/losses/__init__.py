"""Contrastive losses on the two views of a batch: one short file a family, all on `ablation.losses.kernel`."""

from collections.abc import Callable, Mapping

from ablation.cell import Component
from ablation.losses.base import Loss
from ablation.losses.dcl import DCL
from ablation.losses.flatnce import FlatNCE, FlatNCELog
from ablation.losses.infonce import InfoNCE, InfoNCETextbook

__all__ = ["Loss", "build"]

_LOSSES: Mapping[str, Callable[..., Loss]] = {
    "infonce": InfoNCE,
    "flatnce": FlatNCE,
    "flatnce_log": FlatNCELog,
    "dcl": DCL,
    "infonce_textbook": InfoNCETextbook,
}


def build(component: Component) -> Loss:
    """The loss that `ablation.catalog.LOSSES` describes under the component's name, with the component's parameters."""
    return _LOSSES[component.name](**component.parameters)
