"""Encoders and heads: shapes, stems, and initial weights that depend on seed and encoder only."""

import pytest
import torch

from ablation.catalog import ENCODERS, stem
from ablation.cell import Component, Projection
from ablation.pretrain.encoder import Encoder, build_encoder, build_head, weights_hash


def encoder(name: str = "resnet8", image_size: int = 8, channels: int = 1, seed: int = 0) -> Encoder:
    parameters = {key: parameter.default for key, parameter in ENCODERS[name].parameters.items()}
    component = Component(name=name, parameters=parameters)
    return build_encoder(component, image_size=image_size, channels=channels, seed=seed)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize(("image_size", "channels"), [(8, 1), (28, 1), (32, 3), (96, 3)])
def test_features_are_pooled_to_the_width_that_the_catalog_states(name: str, image_size: int, channels: int) -> None:
    net = encoder(name, image_size, channels).eval()
    h = net(torch.zeros(2, channels, image_size, image_size))
    assert h.shape == (2, ENCODERS[name].features) == (2, net.features)


@pytest.mark.parametrize("name", ENCODERS)
def test_the_catalog_states_the_number_of_weights(name: str) -> None:
    count = sum(parameter.numel() for parameter in encoder(name, 32, 3).parameters())
    assert count == pytest.approx(ENCODERS[name].weights, rel=0.01)


@pytest.mark.parametrize(
    ("name", "image_size", "stride", "side"),
    [("resnet18", 32, 1, 32), ("resnet18", 224, 2, 112), ("resnet8", 8, 1, 8), ("resnet8", 28, 2, 14)],
)
def test_the_stem_fits_the_image_size(name: str, image_size: int, stride: int, side: int) -> None:
    first = next(m for m in encoder(name, image_size).modules() if isinstance(m, torch.nn.Conv2d))
    assert first.stride == (stride, stride)
    assert first(torch.zeros(1, 1, image_size, image_size)).shape[-1] == side
    assert f"stride {stride}" in stem(name, image_size)


def test_weights_depend_on_the_seed_and_nothing_global() -> None:
    torch.manual_seed(1)
    one = encoder(seed=3)
    torch.manual_seed(2)
    torch.rand(5)
    state = torch.random.get_rng_state()
    two = encoder(seed=3)
    assert weights_hash(one) == weights_hash(two)
    assert torch.random.get_rng_state().equal(state)
    assert weights_hash(one) != weights_hash(encoder(seed=4))


def test_the_encoders_weights_do_not_depend_on_the_head() -> None:
    build_head(Projection(hidden=8, out=8), features=64, seed=0)
    one = encoder()
    build_head(Projection(hidden=99, out=8), features=64, seed=0)
    assert weights_hash(one) == weights_hash(encoder())


def test_the_head_maps_features_to_the_asked_width() -> None:
    head = build_head(Projection(hidden=12, out=7), features=64, seed=0)
    assert head(torch.zeros(3, 64)).shape == (3, 7)
    assert not any(isinstance(m, torch.nn.BatchNorm1d) for m in head)


def test_the_hash_sees_every_parameter_and_buffer() -> None:
    net = encoder()
    before = weights_hash(net)
    for tensor in net.state_dict().values():
        kept = tensor.clone()
        tensor.add_(1)
        assert weights_hash(net) != before
        tensor.copy_(kept)
    assert weights_hash(net) == before
