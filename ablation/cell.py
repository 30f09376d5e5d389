"""Cell: everything that can change one result, in resolved form, and the two ids that follow from it.

A sweep file speaks in recipes (``learning_rate: {base: 0.3, rule: sqrt}``); a cell holds what they resolve to (a
peak rate, a number of steps), so that two recipes for the same computation share one result.

Field defaults in this module are permanent: an id leaves out every field at its default, so that a field added
later, at the value that all earlier cells had, renames none of them.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ablation import catalog
from ablation.catalog import Scalar

ID_LENGTH = 16  # hex digits of SHA-256: 64 bits keep a million cells apart
UNKNOWN_NAME = "unknown_name"  # the type of pydantic's error on a component that the catalog lacks

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)

Probability = Annotated[float, Field(ge=0, le=1)]


class Frozen(BaseModel):
    """An immutable value that refuses unknown keys, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Component(Frozen):
    """Something of the catalog, by name, with every parameter it takes."""

    name: str
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Projection(Frozen):
    """The head between the encoder's features h and the loss: linear, ReLU, linear; no batch norm."""

    hidden: int = Field(ge=1)
    out: int = Field(ge=1)


class Views(Frozen):
    """How one image becomes two views; SimCLR's augmentation (arXiv:2002.05709, appendix A)."""

    crop_scale: tuple[float, float]  # share of the image's area
    flip: bool  # horizontally, with probability 1/2
    jitter: float  # strength s: brightness, contrast, saturation .8 s and hue .2 s, with probability .8
    grayscale: Probability
    blur: Probability


class LearningRate(Frozen):
    """A resolved schedule: linear warm-up from 0 over `warmup_steps` updates to `peak`, then `schedule`."""

    peak: float
    warmup_steps: int
    schedule: Literal["cosine", "constant"]


class Pretraining(Frozen):
    """One contrastive pretraining run of `steps` updates on batches of `batch_size` images, two views each."""

    loss: Component
    batch_size: int
    steps: int
    temperature: float  # the initial one where it is controlled
    projection: Projection
    optimizer: Component
    learning_rate: LearningRate
    views: Views
    temperature_control: Component = Component(name="fixed")
    loss_dtype: Literal["float16", "bfloat16", "float32", "float64"] = "float32"  # of logits, reductions and d/dz
    gradient_scaling: bool = False  # dynamic, as in mixed-precision training (arXiv:1710.03740)
    precision: Literal["float32", "float64", "bfloat16"] = "float32"  # of the network; bfloat16: by autocast
    negatives: int | None = None  # drawn for each anchor out of the 2B - 2; None: all
    norm_batch: int | None = None  # images that share batch-norm statistics; None: the whole batch
    learning_curve: Literal["even", "log"] = "even"  # the updates after which the run is evaluated


class Probe(Frozen):
    """How a linear classifier is trained; see `ablation.evaluate.sgd`."""

    solver: Literal["sgd"]
    epochs: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    learning_rate: float  # at the first update; a cosine leads to 0
    momentum: float
    weight_decay: float


class Evaluation(Frozen):
    """The protocol that judges the frozen features. `version` rises whenever a protocol's numbers could change."""

    protocol: Literal["linear+knn"] = "linear+knn"
    version: int = 1
    probe: Probe | None = None  # of the linear accuracies; None: by L-BFGS

    @property
    def text(self) -> str:
        """Names the protocol: numbers under different texts are different quantities."""
        return f"{self.protocol}, version {self.version}{f', by {self.classifier}' if self.probe else ''}"

    @property
    def classifier(self) -> str:
        """How the linear classifier comes about."""
        if self.probe is None:
            return "L-BFGS"
        probe = self.probe
        return (
            f"SGD on the features as they are, {probe.epochs:,} epochs in batches of {probe.batch_size:,}, learning "
            f"rate {probe.learning_rate:g} falling to 0 along a cosine, momentum {probe.momentum:g}, weight decay "
            f"{probe.weight_decay:g}"
        )


class Cell(Frozen):
    """One point of a sweep's grid. `pretraining` None is the random-init baseline: the encoder as initialised."""

    dataset: Component
    encoder: Component
    seed: int = Field(ge=0)
    pretraining: Pretraining | None
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        named = {"dataset": self.dataset, "encoder": self.encoder}
        if self.pretraining:
            inner = self.pretraining
            named.update(loss=inner.loss, optimizer=inner.optimizer, temperature_control=inner.temperature_control)
        for kind, component in named.items():
            of_a_user = kind == "loss" and "version" in component.parameters  # see `ablation.user_loss`
            if component.name not in catalog.COMPONENTS[kind] and not of_a_user:
                raise PydanticCustomError(
                    UNKNOWN_NAME, "this version knows no {kind} {name}", {"kind": kind, "name": component.name}
                )
        return self

    @cached_property
    def pretraining_key(self) -> str:
        """Names the trained encoder: the hash of all but the evaluation."""
        return _digest({k: v for k, v in _canonical(self).items() if k != "evaluation"})

    @cached_property
    def id(self) -> str:
        """Names the record: the hash of the pretraining key and the evaluation protocol with its version."""
        named = {"protocol": self.evaluation.protocol, "version": self.evaluation.version}
        evaluation = named | self.evaluation.model_dump(mode="json", exclude_defaults=True)
        return _digest({"pretraining_key": self.pretraining_key, "evaluation": evaluation})

    def baseline(self) -> Self:
        """The random-init cell with the same encoder, dataset, seed and evaluation."""
        return type(self)(
            dataset=self.dataset, encoder=self.encoder, seed=self.seed, pretraining=None, evaluation=self.evaluation
        )

    @property
    def relative_cost(self) -> float:
        """How long the cell takes, in no unit: a step costs about as much as four more images, whatever its batch."""
        if self.pretraining is None:
            return 0.0
        images = self.pretraining.steps * (self.pretraining.batch_size + 4)
        pixels = catalog.dataset(self.dataset).image_size ** 2
        return float(images * pixels * catalog.ENCODERS[self.encoder.name].weights)


def _canonical(cell: Cell) -> dict[str, Any]:
    """The cell as plain data without what stands at its permanent default."""
    data = cell.model_dump(mode="json", exclude_defaults=True)
    for owner in (data, data["pretraining"] or {}):
        for kind, group in catalog.COMPONENTS.items():
            if kind in owner:
                owner[kind] = _without_defaults(owner[kind], group)
    return data


def _without_defaults(component: dict[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    given = component.get("parameters", {})
    known = group[component["name"]].parameters if component["name"] in group else {}  # a user's loss has no defaults
    kept = {key: value for key, value in given.items() if key not in known or known[key].default != value}
    return {"name": component["name"], **({"parameters": kept} if kept else {})}


def _digest(data: dict[str, Any]) -> str:
    return hashlib.sha256(_CANONICAL.encode(data).encode()).hexdigest()[:ID_LENGTH]
