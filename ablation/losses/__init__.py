"""Contrastive losses on the two views of a batch: one short file a family, most on `ablation.losses.kernel`."""

from collections.abc import Callable, Mapping

from ablation.cell import Component
from ablation.losses.barlow import BarlowTwins
from ablation.losses.base import ContrastiveLoss, Loss
from ablation.losses.dcl import DCL, DCLW
from ablation.losses.epsilon import Epsilon
from ablation.losses.flatnce import FlatNCE, FlatNCELog
from ablation.losses.infonce import InfoNCE, InfoNCERescaled, InfoNCETextbook
from ablation.losses.siglip import SigLIP
from ablation.losses.supcon import SupCon
from ablation.losses.vicreg import VICReg

__all__ = ["ContrastiveLoss", "Loss", "build"]

_LOSSES: Mapping[str, Callable[..., Loss]] = {
    "infonce": InfoNCE,
    "flatnce": FlatNCE,
    "flatnce_log": FlatNCELog,
    "dcl": DCL,
    "dclw": DCLW,
    "epsilon": Epsilon,
    "infonce_rescaled": InfoNCERescaled,
    "infonce_textbook": InfoNCETextbook,
    "supcon": SupCon,
    "siglip": SigLIP,
    "barlow": BarlowTwins,
    "vicreg": VICReg,
}


def build(component: Component) -> Loss:
    """The loss that `ablation.catalog.LOSSES` describes under the component's name, with the component's parameters."""
    return _LOSSES[component.name](**component.parameters)
