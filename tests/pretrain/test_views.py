"""Each operation of the batched views against torchvision's, image by image, on the same parameters."""

import colorsys
import dataclasses
from collections import Counter
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2 import functional as tv

from ablation.cell import Views
from ablation.pretrain.views import Parameters, ViewMaker, apply, draw, normalise

OFF = Views(crop_scale=(1, 1), flip=False, jitter=0, grayscale=0, blur=0)
ALL = Views(crop_scale=(0.08, 1), flip=True, jitter=1, grayscale=0.3, blur=0.5)
JITTER = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)


def pixels(batch: int, channels: int, size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, channels, size, size), dtype=torch.uint8, generator=generator)


def kernel_size(size: int) -> int:
    tenth = size // 10
    return max(3, tenth + 1 if tenth % 2 == 0 else tenth)


def reference(image: Tensor, parameters: Parameters, row: int) -> Tensor:
    """One view by torchvision's functions, in SimCLR's order."""
    size = image.shape[-1]
    p = {key: value[row] for key, value in vars(parameters).items() if value is not None}
    box = [int(p[key]) for key in ("top", "left", "height", "width")]
    x: Tensor = tv.resized_crop(image.float() / 255, *box, [size, size], antialias=True)
    if p.get("flip"):
        x = tv.horizontal_flip(x)
    for operation in p["order"].tolist() if "order" in p else ():
        factor = float(p["factors"][operation])
        if factor != (1, 1, 1, 0)[operation]:  # torchvision's hue rounds to HSV and back even where it turns by 0
            x = JITTER[operation](x, factor)
    if p.get("grayscale"):
        x = tv.rgb_to_grayscale(x, num_output_channels=x.shape[0])
    if p.get("sigma", 0) > 0:
        x = tv.gaussian_blur(x, [kernel_size(size)] * 2, [float(p["sigma"])] * 2)
    return x


def worst_difference(images: Tensor, parameters: Parameters) -> float:
    views = apply(images, parameters)
    batch = len(images)
    return max(
        float((views[row] - reference(images[row % batch], parameters, row)).abs().max()) for row in range(2 * batch)
    )


def one_operation(**parts: Any) -> Views:
    return OFF.model_copy(update=parts)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [8, 28, 32])
@pytest.mark.parametrize(
    ("views", "tolerance"),
    [
        (OFF, 1e-7),
        (one_operation(crop_scale=(0.08, 1.0)), 1e-6),
        (one_operation(flip=True), 1e-7),
        (one_operation(grayscale=0.5), 1e-6),
        (one_operation(blur=0.5), 1e-6),
        # float32 rounding, 6e-8 of a turn in torchvision's hue, grows up to sixfold in a sextant, and again through
        # the contrast and saturation factors that follow
        (one_operation(jitter=0.5), 5e-6),
        (one_operation(jitter=1.0), 1e-5),
        (ALL, 1e-5),
    ],
    ids=["none", "crop", "flip", "grayscale", "blur", "jitter .5", "jitter 1", "all"],
)
def test_operations_match_torchvision(views: Views, tolerance: float, channels: int, size: int) -> None:
    parameters = draw(views, 0, 0, 48, image_size=size, channels=channels)
    assert worst_difference(pixels(48, channels, size), parameters) <= tolerance


@pytest.mark.parametrize(("channels", "operation"), [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2), (3, 3)])
def test_each_jitter_operation_matches_torchvision(channels: int, operation: int) -> None:
    drawn = draw(one_operation(jitter=1.0), 0, 0, 32, image_size=32, channels=channels)
    assert drawn.factors is not None
    factors = torch.tensor([1.0, 1, 1, 0])[: drawn.factors.shape[1]].repeat(64, 1)
    factors[:, operation] = drawn.factors[:, operation]
    tolerance = 5e-6 if operation == 3 else 1e-6  # see above; against exact HSV it is 1e-6, below
    assert worst_difference(pixels(32, channels, 32), dataclasses.replace(drawn, factors=factors)) <= tolerance


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 3]), st.integers(3, 48), st.integers(1, 5), st.floats(0.01, 1), st.integers(0, 99))
def test_any_size_and_box_matches_torchvision(channels: int, size: int, batch: int, smallest: float, seed: int) -> None:
    views = Views(crop_scale=(smallest, 1), flip=True, jitter=0.5, grayscale=0.2, blur=0.5)
    parameters = draw(views, seed, 1, batch, image_size=size, channels=channels)
    assert worst_difference(pixels(batch, channels, size, seed), parameters) <= 1e-5


def test_hue_is_that_of_exact_hsv() -> None:
    images = pixels(4, 3, 8)
    images[0] = images[0, :1]  # grey: no hue to turn
    images[1, 0], images[2, 1] = images[1, 1], images[2, 2]  # ties between channels
    drawn = draw(one_operation(jitter=1.0), 0, 0, 4, image_size=8, channels=3)
    turns = torch.linspace(-0.2, 0.2, 8)
    factors = torch.cat((torch.ones(8, 3), turns[:, None]), dim=1)
    views = apply(images, dataclasses.replace(drawn, factors=factors)).double().permute(0, 2, 3, 1).reshape(8, -1, 3)
    for row in range(8):
        before = images[row % 4].double().div(255).permute(1, 2, 0).reshape(-1, 3)
        for rgb, turned in zip(before.tolist(), views[row].tolist(), strict=True):
            h, s, v = colorsys.rgb_to_hsv(*rgb)
            assert turned == pytest.approx(colorsys.hsv_to_rgb((h + float(turns[row])) % 1, s, v), abs=1e-6)


def test_black_white_and_grey_images_stay_finite_and_inside_the_range() -> None:
    images = torch.tensor([0, 128, 255], dtype=torch.uint8)[:, None, None, None].repeat(8, 3, 16, 16)
    views = apply(images, draw(ALL, 0, 0, 24, image_size=16, channels=3))
    assert views.isfinite().all()
    assert views.min() >= 0
    assert views.max() <= 1 + 1e-6


# Drawing


def assert_equal(a: Parameters, b: Parameters) -> None:
    for field in dataclasses.fields(Parameters):
        torch.testing.assert_close(getattr(a, field.name), getattr(b, field.name), rtol=0, atol=0)


def rows(parameters: Parameters, index: Tensor) -> Parameters:
    return Parameters(**{key: value[index] for key, value in vars(parameters).items()})


@pytest.mark.parametrize("channels", [1, 3])
def test_parameters_are_a_function_of_seed_step_index_and_view(channels: int) -> None:
    views = ALL if channels == 3 else ALL.model_copy(update={"grayscale": 0.0})
    whole = draw(views, 7, 3, 16, image_size=32, channels=channels)
    draw(views, 7, 4, 16, image_size=32, channels=channels)
    assert_equal(whole, draw(views, 7, 3, 16, image_size=32, channels=channels))
    part = draw(views, 7, 3, 5, image_size=32, channels=channels)
    if channels == 3:
        assert_equal(part, rows(whole, torch.cat((torch.arange(5), torch.arange(16, 21)))))
    else:
        assert part.grayscale is None
        torch.testing.assert_close(part.top, torch.cat((whole.top[:5], whole.top[16:21])))


def test_switching_an_operation_off_changes_no_other() -> None:
    everything = draw(ALL, 0, 0, 32, image_size=32, channels=3)
    for part in ("flip", "jitter", "grayscale", "blur"):
        fewer = draw(ALL.model_copy(update={part: type(getattr(ALL, part))(0)}), 0, 0, 32, image_size=32, channels=3)
        kept = {key: value for key, value in vars(fewer).items() if value is not None}
        assert len(kept) < len(vars(everything))
        for key, value in kept.items():
            torch.testing.assert_close(value, getattr(everything, key), rtol=0, atol=0)


def test_images_views_steps_and_seeds_draw_independently() -> None:
    def sample(seed: int, step: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        p = draw(ALL, seed, step, 512, image_size=96, channels=3)
        assert p.factors is not None
        assert p.flip is not None
        boxes = (p.top / p.height.neg().add(97), p.left / p.width.neg().add(97), p.height * p.width)
        return torch.stack([column.double() for column in (*boxes, p.flip, *p.factors.unbind(1))]).numpy()

    base = sample(0, 0)
    assert (base.std(1) > 0).all()
    others = {
        "the other view": np.roll(base, 512, axis=1),
        "the next image": np.roll(base, 1, axis=1),
        "the next step": sample(0, 1),
        "the next seed": sample(1, 0),
    }
    for name, other in others.items():
        for a, b in zip(base, other, strict=True):
            assert abs(np.corrcoef(a, b)[0, 1]) < 0.15, name  # 1024 pairs: sd of a zero correlation is .03


@pytest.mark.parametrize("scale", [(0.08, 1.0), (0.5, 0.9)])
def test_boxes_are_distributed_as_torchvisions(scale: tuple[float, float]) -> None:
    size, views = 200, 2000
    with torch.random.fork_rng():
        torch.manual_seed(0)
        image = torch.empty(1, size, size)
        theirs = np.array([RandomResizedCrop.get_params(image, list(scale), [3 / 4, 4 / 3]) for _ in range(views)])
    p = draw(one_operation(crop_scale=scale), 0, 0, views // 2, image_size=size, channels=1)
    ours = torch.stack((p.top, p.left, p.height, p.width), dim=1).numpy()
    for name, measure in {
        "top": np.array([1, 0, 0, 0]),
        "left": np.array([0, 1, 0, 0]),
        "height + width": np.array([0, 0, 1, 1]),
        "height - width": np.array([0, 0, 1, -1]),
    }.items():
        assert stats.ks_2samp(ours @ measure, theirs @ measure).pvalue > 0.01, name


def test_boxes_lie_inside_and_hopeless_scales_keep_the_whole_image() -> None:
    p = draw(one_operation(crop_scale=(0.01, 1.0)), 0, 0, 2000, image_size=8, channels=1)
    for start, length in ((p.top, p.height), (p.left, p.width)):
        assert int(start.min()) == 0
        assert int(length.min()) >= 1
        assert int((start + length).max()) == 8
        assert start[length == 4].unique().tolist() == [0, 1, 2, 3, 4]  # type: ignore[no-untyped-call]
    p = draw(one_operation(crop_scale=(2.0, 3.0)), 0, 0, 50, image_size=8, channels=1)  # no box of these fits
    assert {tuple(box) for box in torch.stack((p.top, p.left, p.height, p.width), dim=1).tolist()} == {(0, 0, 8, 8)}


def test_probabilities_and_ranges_are_simclrs() -> None:
    p = draw(
        Views(crop_scale=(0.2, 1), flip=True, jitter=0.5, grayscale=0.2, blur=0.3),
        0,
        0,
        5000,
        image_size=32,
        channels=3,
    )
    assert p.flip is not None
    assert p.grayscale is not None
    assert p.sigma is not None
    assert p.factors is not None
    assert p.order is not None
    jittered = (p.factors != torch.tensor([1.0, 1, 1, 0])).any(1)
    for happens, probability in ((p.flip, 0.5), (p.grayscale, 0.2), (p.sigma > 0, 0.3), (jittered, 0.8)):
        assert stats.binomtest(int(happens.sum()), 10_000, probability).pvalue > 1e-3
    factors, sigma = p.factors[jittered].numpy(), p.sigma[p.sigma > 0].numpy()
    for values, low, high in (
        *((factors[:, k], 0.6, 1.4) for k in range(3)),
        (factors[:, 3], -0.1, 0.1),
        (sigma, 0.1, 2),
    ):
        assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 1e-3
    orders = Counter(map(tuple, p.order.tolist()))
    assert orders.keys() == set(permutations(range(4)))
    assert stats.chisquare(list(orders.values())).pvalue > 1e-3
    grey = draw(one_operation(jitter=0.5), 0, 0, 500, image_size=32, channels=1).order
    assert grey is not None
    assert stats.binomtest(grey.tolist().count([0, 1]), 1000).pvalue > 1e-3
    assert grey.tolist().count([0, 1]) + grey.tolist().count([1, 0]) == 1000
    strong = draw(one_operation(jitter=2.0), 0, 0, 1000, image_size=8, channels=3).factors
    assert strong is not None
    assert float(strong[:, :3].min()) >= 0


# The pair used by the loop


def test_view_maker_gives_normalised_views_view_by_view() -> None:
    images = pixels(6, 3, 32)
    maker = ViewMaker(OFF, 32, 3, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), 0)
    views = maker(images, 0)
    expected = tv.normalize(images.float() / 255, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
    torch.testing.assert_close(views, expected.repeat(2, 1, 1, 1), rtol=0, atol=1e-6)
    assert views.is_contiguous(memory_format=torch.channels_last)


def test_view_maker_forgets_earlier_steps_and_leaves_the_images_alone() -> None:
    images = pixels(6, 3, 32)
    kept = images.clone()
    one = ViewMaker(ALL, 32, 3, (0.5,) * 3, (0.2,) * 3, 1)
    steps = [one(images, step) for step in range(3)]
    torch.testing.assert_close(images, kept)
    torch.testing.assert_close(ViewMaker(ALL, 32, 3, (0.5,) * 3, (0.2,) * 3, 1)(images, 2), steps[2], rtol=0, atol=0)
    for a, b in pairwise(steps):
        assert (a - b).abs().amax((1, 2, 3)).min() > 1e-3


@pytest.mark.parametrize("channels", [1, 3])
def test_a_sub_batch_gets_the_views_of_the_whole(channels: int) -> None:
    images = pixels(12, channels, 28)
    maker = ViewMaker(ALL, 28, channels, (0.5,) * channels, (0.2,) * channels, 1)
    whole, part = maker(images, 5), maker(images[:4], 5)
    torch.testing.assert_close(part, torch.cat((whole[:4], whole[12:16])), rtol=0, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("batch", [2, 8, 33])
def test_views_of_several_steps_are_those_of_each_alone_to_the_bit(channels: int, batch: int) -> None:
    images = pixels(5 * batch, channels, 28).view(5, batch, channels, 28, 28)
    maker = ViewMaker(ALL, 28, channels, (0.5,) * channels, (0.2,) * channels, 1)
    at_once = maker(images, 3).chunk(5)
    for k, views in enumerate(at_once):
        assert torch.equal(views, maker(images[k], 3 + k))
        assert views.is_contiguous(memory_format=torch.channels_last)


def test_normalise_is_an_affine_map_per_channel() -> None:
    x = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    mean, std = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    for channel in range(3):
        expected = (x[:, channel].clone() - mean[channel]) / std[channel]
        torch.testing.assert_close(normalise(x.clone(), mean, std)[:, channel], expected)


@pytest.mark.parametrize("most", [1, 5, 16])
def test_views_of_a_large_batch_are_made_part_by_part(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    images = pixels(16, 3, 16)
    maker = ViewMaker(ALL, 16, 3, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), seed=0)
    whole = maker(images, 3)
    monkeypatch.setattr("ablation.pretrain.views._PART_BYTES", 8 * most * images[0].numel())
    parts = maker(images[None], 3)  # as a training gives them
    assert torch.equal(parts, whole)
    assert parts.is_contiguous(memory_format=torch.channels_last)
