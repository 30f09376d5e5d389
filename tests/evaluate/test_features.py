from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ablation.evaluate.features import CHUNK, Labelled, extract, frozen
from ablation.pretrain.encoder import weights_hash
from ablation.pretrain.random import stream

CPU = torch.device("cpu")
MEAN, STD = (0.2, 0.5), (0.3, 0.25)


class Network(nn.Module):
    """Its batch norm has running statistics that are not the initial ones."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(5)
        values = stream(0, "network")
        with torch.no_grad():
            for tensor in self.state_dict().values():
                if tensor.is_floating_point():
                    tensor.copy_(torch.from_numpy(values.uniform(0.1, 1, tensor.shape)))

    def forward(self, images: Tensor) -> Tensor:
        h: Tensor = self.norm(self.convolution(images)).relu().mean((2, 3))
        return h


def pixels(number: int) -> np.ndarray:
    return stream(1, "pixels").integers(0, 256, (number, 2, 6, 6), dtype=np.uint8)


@pytest.mark.parametrize("number", [1, CHUNK, 2 * CHUNK + 3])
def test_extract_matches_a_float64_forward_pass_of_normalised_images(number: int) -> None:
    encoder, images = Network().eval(), pixels(number)
    features = extract(encoder, images, MEAN, STD, CPU)
    normalised = (images / 255 - np.reshape(MEAN, (2, 1, 1))) / np.reshape(STD, (2, 1, 1))
    with torch.no_grad():
        expected = Network().eval().double()(torch.from_numpy(normalised))
    assert features.dtype == torch.float32
    torch.testing.assert_close(features.double(), expected, rtol=1e-5, atol=1e-6)


def test_extract_takes_read_only_arrays_and_tensors_alike_and_repeats_to_the_bit() -> None:
    encoder, images = Network().eval(), pixels(CHUNK + 1)
    images.flags.writeable = False
    first = extract(encoder, images, MEAN, STD, CPU)
    assert torch.equal(first, extract(encoder, images, MEAN, STD, CPU))
    assert torch.equal(first, extract(encoder, torch.tensor(images), MEAN, STD, CPU))


def test_extract_feeds_a_bounded_number_of_channels_last_images() -> None:
    seen = []

    class Recorder(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            seen.append((len(images), images.is_contiguous(memory_format=torch.channels_last)))
            return images.flatten(1)

    extract(Recorder(), pixels(2 * CHUNK + 3), MEAN, STD, CPU)
    assert seen == [(CHUNK, True), (CHUNK, True), (3, True)]


def test_features_can_enter_autograd() -> None:
    features = extract(Network().eval(), pixels(3), MEAN, STD, CPU)
    weight = torch.ones(5, requires_grad=True)
    (features @ weight).sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(weight.grad, features.sum(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    encoder = Network().eval()
    with torch.no_grad():
        encoder.norm.weight[2] = value
    with pytest.raises(FloatingPointError, match="not finite"):
        extract(encoder, pixels(3), MEAN, STD, CPU)


def test_joined_rows_follow_each_other() -> None:
    first = Labelled(torch.zeros(2, 3), torch.tensor([4, 5]))
    second = Labelled(torch.ones(1, 3), torch.tensor([6]))
    both = first.joined(second)
    assert both.labels.tolist() == [4, 5, 6]
    assert both.features.sum(1).tolist() == [0, 0, 3]


def test_frozen_means_eval_without_gradients_and_gives_back_each_training_flag() -> None:
    encoder = Network().train()
    encoder.norm.eval()  # one submodule was frozen by its owner
    flags = [module.training for module in encoder.modules()]
    with frozen(encoder):
        assert not any(module.training for module in encoder.modules())
        assert not encoder(torch.ones(1, 2, 6, 6)).requires_grad
    assert [module.training for module in encoder.modules()] == flags
    assert encoder(torch.ones(1, 2, 6, 6)).requires_grad


def test_frozen_gives_back_the_flags_and_the_error_when_its_body_fails() -> None:
    encoder = Network().train()

    def fail() -> None:
        encoder.norm.weight.zero_()  # the body's own error is the one to see
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), frozen(encoder):
        fail()
    assert all(module.training for module in encoder.modules())


def nudge(encoder: Network) -> None:
    weight = encoder.convolution.weight
    weight[0, 0, 0, 0] = torch.nextafter(weight[0, 0, 0, 0], torch.tensor(9.0))


def rescale_a_buffer(encoder: Network) -> None:
    encoder.norm.running_var.mul_(2)  # type: ignore[union-attr]


def run_batch_norm_in_training_mode(encoder: Network) -> None:
    encoder.norm.train()
    extract(encoder, pixels(8), MEAN, STD, CPU)


@pytest.mark.parametrize("change", [nudge, rescale_a_buffer, run_batch_norm_in_training_mode])
def test_frozen_notices_every_change_of_a_parameter_or_buffer(change: Callable[[Network], None]) -> None:
    encoder = Network()
    with pytest.raises(RuntimeError, match="changed"), frozen(encoder):
        change(encoder)
    assert encoder.training


def test_frozen_accepts_an_encoder_that_stays_as_it_is() -> None:
    encoder = Network().train()
    before = weights_hash(encoder)
    with frozen(encoder):
        extract(encoder, pixels(8), MEAN, STD, CPU)
    assert weights_hash(encoder) == before
