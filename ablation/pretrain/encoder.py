"""Encoders f and projection heads g: image -> features h = f(x), which are evaluated -> g(h), which the loss sees."""

import hashlib
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torchvision.models import resnet
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from ablation.catalog import small_stem
from ablation.cell import Component, Projection
from ablation.pretrain.random import stream

M = TypeVar("M", bound=nn.Module)


class Encoder(nn.Module):
    """Maps images (N, channels, S, S) to pooled features h (N, `features`)."""

    def __init__(self, backbone: nn.Module, features: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.features = features

    def forward(self, images: Tensor) -> Tensor:
        """Features h of `images`."""
        h: Tensor = self.backbone(images)
        return h


def build_encoder(component: Component, *, image_size: int, channels: int, seed: int) -> Encoder:
    """The named encoder with initial weights that depend on `seed` and the encoder's shape only."""
    make = {"resnet8": _resnet8}.get(component.name, _torchvision_resnet)
    return _seeded(lambda: make(component, image_size, channels), seed, "encoder")


def build_head(projection: Projection, *, features: int, seed: int) -> nn.Sequential:
    """g: linear, ReLU, linear (arXiv:2002.05709, section 2.1), without batch norm; h (N, features) -> (N, out)."""
    return _seeded(
        lambda: nn.Sequential(
            nn.Linear(features, projection.hidden), nn.ReLU(inplace=True), nn.Linear(projection.hidden, projection.out)
        ),
        seed,
        "head",
    )


def _seeded(make: Callable[[], M], seed: int, name: str) -> M:
    """Builds on the CPU with torch's own initialisers, from a stream of its own; torch's global state is put back."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(int(stream(seed, name).integers(2**63)))
        module = make()
    return module.to(memory_format=torch.channels_last)


def _torchvision_resnet(component: Component, image_size: int, channels: int) -> Encoder:
    depths = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}[component.name]
    network = ResNet(Bottleneck if component.name == "resnet50" else BasicBlock, list(depths))
    if small_stem(component.name, image_size):
        network.conv1 = _kaiming(nn.Conv2d(channels, 64, 3, stride=1, padding=1, bias=False))
        network.maxpool = nn.Identity()
    elif channels != 3:
        network.conv1 = _kaiming(nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False))
    features = network.fc.in_features
    network.fc = nn.Identity()
    return Encoder(network, features)


def _resnet8(component: Component, image_size: int, channels: int) -> Encoder:
    """Three residual blocks of widths w, 2w and 4w; a third of the depth of arXiv:1512.03385's CIFAR ResNet-20."""
    width = int(component.parameters["width"])
    stride = 1 if small_stem(component.name, image_size) else 2
    layers = [
        nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        BasicBlock(width, width),
        BasicBlock(width, 2 * width, 2, _shortcut(width, 2 * width)),
        BasicBlock(2 * width, 4 * width, 2, _shortcut(2 * width, 4 * width)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    backbone = nn.Sequential(*layers)
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            _kaiming(module)
    return Encoder(backbone, 4 * width)


def _shortcut(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(resnet.conv1x1(inputs, outputs, 2), nn.BatchNorm2d(outputs))


def _kaiming(convolution: nn.Conv2d) -> nn.Conv2d:
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution


def weights_hash(module: nn.Module) -> str:
    """SHA-256 of all parameters and buffers: names, dtypes, shapes and values, whatever device they lie on."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
