import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ablation.pretrain.order import SampleOrder

EPOCHS = 5


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    """(images, batch size), often close to each other, where a remainder fills most of the next batch."""
    images = draw(st.integers(1, 60))
    close = st.integers(max(1, images - 3), images)
    return images, draw(close | st.integers(1, images))


def batches(seed: int, images: int, batch_size: int) -> list[list[int]]:
    order = SampleOrder(seed, images, batch_size)
    return [order.batch(step).tolist() for step in range(EPOCHS * images // batch_size)]


@settings(deadline=None)
@given(st.integers(0, 5), sizes())
@example(0, (10, 9))
@example(0, (10, 10))
@example(0, (7, 4))
def test_no_image_comes_twice_in_a_batch(seed: int, size: tuple[int, int]) -> None:
    for batch in batches(seed, *size):
        assert len(batch) == len(set(batch)) == size[1]


@settings(deadline=None)
@given(st.integers(0, 5), sizes())
@example(0, (10, 9))
def test_every_epoch_shows_every_image_once(seed: int, size: tuple[int, int]) -> None:
    images, batch_size = size
    shown = np.concatenate(batches(seed, images, batch_size))
    for start in range(0, len(shown) - images + 1, images):
        assert sorted(shown[start : start + images]) == list(range(images))


@settings(max_examples=50, deadline=None)
@given(sizes(), st.lists(st.integers(0, 40), max_size=12))
def test_random_access_equals_sequential(size: tuple[int, int], steps: list[int]) -> None:
    sequential = SampleOrder(3, *size)
    expected = [sequential.batch(step) for step in range(41)]
    jumping = SampleOrder(3, *size)
    for step in steps:
        np.testing.assert_array_equal(jumping.batch(step), expected[step])
        np.testing.assert_array_equal(SampleOrder(3, *size).batch(step), expected[step])


def test_a_batch_belongs_to_its_receiver() -> None:
    order = SampleOrder(0, 10, 4)
    for step in range(4):
        expected = order.batch(step).copy()
        order.batch(step)[:] = -1
        np.testing.assert_array_equal(order.batch(step), expected)


def test_seeds_and_epochs_differ_and_every_image_is_equally_likely() -> None:
    first = [SampleOrder(seed, 50, 20).batch(0).tolist() for seed in range(20)]
    assert len(set(map(tuple, first))) == 20
    assert SampleOrder(0, 50, 50).batch(0).tolist() != SampleOrder(0, 50, 50).batch(1).tolist()
    # the batch that straddles the first two epochs: each of 12 images is in it with probability 9/12
    counts = np.bincount(np.concatenate([SampleOrder(seed, 12, 9).batch(1) for seed in range(2000)]), minlength=12)
    deviations = (counts / 2000 - 9 / 12) / np.sqrt(9 / 12 * 3 / 12 / 2000)
    assert np.abs(deviations).max() < 4


@pytest.mark.parametrize("batch_size", [0, 11])
def test_impossible_batch_sizes_are_refused(batch_size: int) -> None:
    with pytest.raises(ValueError, match=f"batches of {batch_size} distinct images can't be drawn from 10"):
        SampleOrder(0, 10, batch_size)
