"""Names, sizes and parameters of everything a sweep can name, importable without torch.

The parameter defaults below are permanent: a cell's id leaves out every parameter at its default, so that a
parameter added later renames no old cell. To change what users get, change the sweep's default, never this one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

Scalar = bool | int | float | str


@dataclass(frozen=True)
class Parameter:
    """A parameter of a loss, an optimiser, an encoder or a dataset. Bounds are inclusive unless `above` is set."""

    default: Scalar
    minimum: float | None = None
    maximum: float | None = None
    above: bool = False  # the minimum itself is excluded
    below: bool = False  # the maximum itself is excluded
    choices: tuple[str, ...] = ()  # of a text; any where there are none

    def check(self, value: object) -> str | None:
        """What is wrong with `value`, as the end of a sentence; None where nothing is."""
        kind = type(self.default)
        if isinstance(value, bool) != (kind is bool) or not isinstance(value, (int, float) if kind is float else kind):
            return f"should be {_KIND_NAMES[kind]}"
        if isinstance(value, (int, float)) and not self._inside(value):
            return f"should be {self.range_text()}"
        if self.choices and value not in self.choices:
            return f"should be {' or '.join(self.choices)}"
        return None

    def _inside(self, value: float) -> bool:
        low, high = self.minimum, self.maximum
        return (
            float("-inf") < value < float("inf")
            and (low is None or (value > low if self.above else value >= low))
            and (high is None or (value < high if self.below else value <= high))
        )

    def range_text(self) -> str:
        """The bounds in words, such as ``above 0 and at most 1``."""
        parts = []
        if self.minimum is not None:
            parts.append(f"{'above' if self.above else 'at least'} {self.minimum:g}")
        if self.maximum is not None:
            parts.append(f"{'below' if self.below else 'at most'} {self.maximum:g}")
        return " and ".join(parts) or "finite"


_KIND_NAMES: Mapping[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


@dataclass(frozen=True)
class Loss:
    """A loss on the two views of a batch; see `ablation.losses` for the code."""

    title: str  # as figures and tables name it
    summary: str
    source: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    contrastive: bool = True  # made of a positive and negatives for every anchor


@dataclass(frozen=True)
class TemperatureControl:
    """How the temperature changes along a run; see `ablation.pretrain.temperature` for the code."""

    summary: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Optimizer:
    """An update rule; see `ablation.pretrain.optim` for the code."""

    summary: str
    parameters: Mapping[str, Parameter]
    state: int  # numbers kept for every weight, for the disk estimate


@dataclass(frozen=True)
class Encoder:
    """A backbone whose pooled features are evaluated; see `ablation.pretrain.encoder` for the code."""

    summary: str
    features: int  # width of the pooled features at default parameters
    weights: int  # number of parameters, for the disk estimate
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """A labelled image dataset. `images` counts its training part, validation included."""

    title: str
    classes: int
    channels: int
    image_size: int  # pixels a side
    images: int
    test_images: int
    mean: tuple[float, ...]  # of each channel over the training images, in [0, 1]
    std: tuple[float, ...]
    source: str
    flip_changes_class: bool = False  # a mirrored 2 is no 2
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def validation_images(self) -> int:
        """Images of the training part that are held out for selection."""
        return held_out(self.images, self.classes)

    @property
    def bytes(self) -> int:
        """Of all images, decoded."""
        return (self.images + self.test_images) * self.channels * self.image_size**2

    @property
    def pretraining_images(self) -> int:
        """Images that pretraining draws its batches from."""
        return self.images - self.validation_images


def held_out(images: int, classes: int) -> int:
    """The size of a hold-out: 20 % below 5,000 images, else 10 %, and at least one image for each class."""
    return max(round(images * (0.2 if images < 5000 else 0.1)), classes)


LOSSES: Mapping[str, Loss] = {
    "infonce": Loss("SimCLR (InfoNCE)", "log(1 + xi), exact: its gradient never cancels", "arXiv:2002.05709"),
    "flatnce": Loss(
        "FlatCLR (FlatNCE)", "every anchor's gradient has weight 1; reports InfoNCE's value", "arXiv:2107.01152"
    ),
    "flatnce_log": Loss("FlatNCE, log form", "log xi: FlatNCE's gradient with a value of its own", "arXiv:2107.01152"),
    "dcl": Loss("DCL", "decoupled: the positive leaves the denominator", "arXiv:2110.06848"),
    "dclw": Loss(
        "DCLW",
        "DCL with more weight on positives that are far apart",
        "arXiv:2110.06848",
        {"sigma": Parameter(0.5, minimum=0, above=True)},
    ),
    "epsilon": Loss(
        "log(eps + xi)",
        "a bridge: InfoNCE at eps 1, FlatNCE's gradient as eps goes to 0",
        "this project",
        {"eps": Parameter(1.0, minimum=0, above=True)},
    ),
    "infonce_rescaled": Loss(
        "SimCLR, rescaled",
        "InfoNCE over the running mean of 1 - p_pos: a control without weights of single anchors",
        "this project",
        {"decay": Parameter(0.99, minimum=0, maximum=1, below=True)},
    ),
    "infonce_textbook": Loss(
        "SimCLR (textbook form)", "cross entropy of the full logit row, as most code writes InfoNCE", "arXiv:2002.05709"
    ),
    "supcon": Loss(
        "SupCon (sees labels)",
        "supervised: every image of the class is a positive",
        "arXiv:2004.11362",
        contrastive=False,
    ),
    "siglip": Loss(
        "SigLIP",
        "a sigmoid for every pair of views, with a learned bias",
        "arXiv:2303.15343",
        {"bias": Parameter(-10.0)},
        contrastive=False,
    ),
    "barlow": Loss(
        "Barlow Twins",
        "the views' cross-correlation towards the identity",
        "arXiv:2103.03230",
        {"weight": Parameter(0.005, minimum=0)},
        contrastive=False,
    ),
    "vicreg": Loss(
        "VICReg",
        "variance, invariance and covariance of the features",
        "arXiv:2105.04906",
        {
            "invariance": Parameter(25.0, minimum=0),
            "variance": Parameter(25.0, minimum=0),
            "covariance": Parameter(1.0, minimum=0),
        },
        contrastive=False,
    ),
}

_TEMPERATURE_RANGE = {
    "minimum": Parameter(0.05, minimum=0, above=True),
    "maximum": Parameter(1.0, minimum=0, above=True),
}

TEMPERATURES: Mapping[str, TemperatureControl] = {
    "fixed": TemperatureControl("the same throughout"),
    "learned": TemperatureControl("a weight like others, kept within its range", _TEMPERATURE_RANGE),
    "ess": TemperatureControl(
        "lowered while the negatives' effective sample size is above its target, raised below (arXiv:2107.01152)",
        {
            "target": Parameter(0.5, minimum=0, above=True, maximum=1),
            "rate": Parameter(0.01, minimum=0, above=True),
            **_TEMPERATURE_RANGE,
        },
    ),
}

_WEIGHT_DECAY = Parameter(0.0, minimum=0)
_ADAM = {
    "beta1": Parameter(0.9, minimum=0, maximum=1, below=True),
    "beta2": Parameter(0.999, minimum=0, maximum=1, below=True),
    "eps": Parameter(1e-8, minimum=0),
    "weight_decay": _WEIGHT_DECAY,
}
_MOMENTUM = Parameter(0.9, minimum=0, maximum=1, below=True)

OPTIMIZERS: Mapping[str, Optimizer] = {
    "sgd": Optimizer(
        "SGD with momentum",
        {"momentum": _MOMENTUM, "nesterov": Parameter(False), "weight_decay": _WEIGHT_DECAY},
        state=1,
    ),
    "adam": Optimizer("Adam", _ADAM, state=2),
    "adamw": Optimizer("Adam with decoupled weight decay", _ADAM, state=2),
    "lars": Optimizer(
        "LARS (timm's); biases and normalisation weights get neither decay nor adaptation",
        {
            "momentum": _MOMENTUM,
            "weight_decay": _WEIGHT_DECAY,
            "trust_coefficient": Parameter(0.001, minimum=0, above=True),
        },
        state=1,
    ),
}

ENCODERS: Mapping[str, Encoder] = {
    "resnet8": Encoder(
        "three residual blocks, for CPUs and small images",
        features=64,
        weights=78_000,
        parameters={"width": Parameter(16, minimum=1, maximum=1024)},
    ),
    "resnet18": Encoder("torchvision's ResNet-18", features=512, weights=11_177_000),
    "resnet34": Encoder("torchvision's ResNet-34", features=512, weights=21_285_000),
    "resnet50": Encoder("torchvision's ResNet-50", features=2048, weights=23_508_000),
}

RESIDENT = 4 * 10**9  # bytes of images up to which a GPU holds an image folder as a whole
IMAGE_FOLDER = "image_folder"  # a user's own images; see `dataset` and `ablation.image_folder`

DATASETS: Mapping[str, Dataset] = {
    "digits": Dataset(
        "Digits (8 x 8)", 10, 1, 8, 1437, 360, (0.3053,), (0.3760,),
        "scikit-learn's bundled copy of the UCI optical digits", flip_changes_class=True,
    ),
    "mnist": Dataset(
        "MNIST", 10, 1, 28, 60_000, 10_000, (0.1307,), (0.3081,), "torchvision.datasets.MNIST", flip_changes_class=True
    ),
    "fashion_mnist": Dataset(
        "Fashion-MNIST", 10, 1, 28, 60_000, 10_000, (0.2860,), (0.3530,), "torchvision.datasets.FashionMNIST"
    ),
    "cifar10": Dataset(
        "CIFAR-10", 10, 3, 32, 50_000, 10_000, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616),
        "torchvision.datasets.CIFAR10",
    ),
    "cifar100": Dataset(
        "CIFAR-100", 100, 3, 32, 50_000, 10_000, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762),
        "torchvision.datasets.CIFAR100",
    ),
    IMAGE_FOLDER: Dataset(
        "Image folder", 0, 3, 0, 0, 0, (), (), "a folder of images, a subfolder a class",
        parameters={
            "path": Parameter(""),
            "image_size": Parameter(32, minimum=4, maximum=1024),
            "on_bad_image": Parameter("fail", choices=("fail", "skip")),
        },
    ),
}  # fmt: skip

Described = Dataset | Loss | Encoder | Optimizer | TemperatureControl

COMPONENTS: Mapping[str, Mapping[str, Described]] = {
    "dataset": DATASETS,
    "loss": LOSSES,
    "encoder": ENCODERS,
    "optimizer": OPTIMIZERS,
    "temperature_control": TEMPERATURES,
}  # kind of component -> those that a sweep can name


class Named(Protocol):
    """A component, as a cell holds it."""

    @property
    def name(self) -> str:
        """Its name in the catalog."""

    @property
    def parameters(self) -> Mapping[str, Scalar]:
        """Its parameters."""


def dataset(component: Named) -> Dataset:
    """What is known of a cell's dataset; of an image folder that is what its parameters say.

    An image folder's mean and deviation are empty: they are computed when its pixels are loaded.
    """
    known, found = DATASETS[component.name], component.parameters
    if component.name != IMAGE_FOLDER:
        return known
    counts: dict[str, Any] = {key: found[key] for key in ("classes", "image_size", "images", "test_images")}
    return replace(known, title=f"image folder {str(found['fingerprint'])[:8]}", **counts)


def small_stem(encoder: str, image_size: int) -> bool:
    """Whether images this small keep their resolution at the encoder's first convolution.

    torchvision's ResNets halve twice before their first block, which suits 224 pixels and ruins 32; resnet8 halves
    once above 16 pixels, to stay affordable on a CPU.
    """
    return image_size <= (16 if encoder == "resnet8" else 64)


def stem(encoder: str, image_size: int) -> str:
    """The first layers that `encoder` gets at this image size, in words."""
    if small_stem(encoder, image_size):
        return "3 x 3 convolution, stride 1"
    return "3 x 3 convolution, stride 2" if encoder == "resnet8" else "7 x 7 convolution, stride 2, max-pool"
