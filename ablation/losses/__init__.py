"""Contrastive losses on the two views of a batch: one short file a family, most on `ablation.losses.kernel`."""

from collections.abc import Callable, Mapping
from importlib import import_module

from ablation import user_loss
from ablation.cell import Component
from ablation.errors import UserError
from ablation.losses.barlow import BarlowTwins
from ablation.losses.base import ClosedForm, ContrastiveLoss, FunctionLoss, Loss
from ablation.losses.dcl import DCL, DCLW
from ablation.losses.epsilon import Epsilon
from ablation.losses.flatnce import FlatNCE, FlatNCELog
from ablation.losses.infonce import InfoNCE, InfoNCERescaled, InfoNCETextbook
from ablation.losses.siglip import SigLIP
from ablation.losses.supcon import SupCon
from ablation.losses.vicreg import VICReg

__all__ = ["ClosedForm", "ContrastiveLoss", "Loss", "build"]

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
    """The loss that `ablation.catalog.LOSSES` describes under the component's name, with the component's parameters.

    Any other name is that of a user's loss, which is imported now: see `ablation.user_loss`.

    Raises:
        UserError: there is no such loss, or its source is not that of the component's version.
    """
    if component.name in _LOSSES:
        return _LOSSES[component.name](**component.parameters)
    found = user_loss.find(component.name)
    version = found.described.parameters["version"].default
    if component.parameters.get("version", version) != version:
        raise UserError(f"{component.name}: its source has changed since the sweep was planned; run the sweep again")
    made = getattr(import_module(found.module), found.attribute)
    parameters = {key: value for key, value in component.parameters.items() if key != "version"}
    loss = made(**parameters) if isinstance(made, type) else FunctionLoss(made, parameters)
    if not isinstance(loss, Loss):
        raise UserError(f"{component.name}: should be a function or a subclass of ablation.losses.Loss")
    return loss
