"""Images that stay in their file, and the batches that are read from it."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ablation.pretrain.batches import Batches
from ablation.pretrain.data import Images
from ablation.pretrain.order import SampleOrder
from ablation.pretrain.stored import Pixels, Stored, chunks

SHAPE = (600, 3, 4, 4)
CPU = torch.device("cpu")


@pytest.fixture
def pixels() -> Pixels:
    return np.random.default_rng(0).integers(0, 256, SHAPE, dtype=np.uint8)


@pytest.fixture
def stored(pixels: Pixels, tmp_path: Path) -> Stored:
    """Every second image."""
    pixels.tofile(tmp_path / "pixels")
    return Stored(tmp_path / "pixels", SHAPE, np.arange(0, 600, 2))


def test_it_is_the_array_in_its_file(pixels: Pixels, stored: Stored) -> None:
    every = pixels[::2]
    assert (len(stored), stored.shape, stored.nbytes) == (300, (300, 3, 4, 4), every.nbytes)
    np.testing.assert_array_equal(stored, every)
    np.testing.assert_array_equal(stored[10:50:3], every[10:50:3])
    np.testing.assert_array_equal(stored[np.array([7, 0, 7])], every[[7, 0, 7]])
    np.testing.assert_array_equal(stored.take(np.array([5, 1]))[1:], every[[1]])
    np.testing.assert_array_equal(np.concatenate(list(chunks(stored))), every)


def test_another_process_gets_its_path_not_its_pixels(pixels: Pixels, stored: Stored) -> None:
    np.testing.assert_array_equal(stored[:1], pixels[:1])  # it has mapped the file
    sent = pickle.dumps(stored)
    assert len(sent) < 4000  # of 14,400 bytes of pixels; the rows' numbers take 2,400
    np.testing.assert_array_equal(pickle.loads(sent), pixels[::2])  # noqa: S301 - our own


def dataset(train: Any) -> Images:
    labels = np.arange(len(train)) % 5
    return Images(train, labels, train, labels, train, labels, tuple("abcde"), (0.5,) * 3, (0.2,) * 3, "")


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("begins", [range(0, 30, 3), [0, 3, 9, 10, 3, 3, 40, 43]])
def test_batches_are_the_same_from_a_file_as_from_memory(
    pixels: Pixels, stored: Stored, begins: Any, count: int
) -> None:
    memory = Batches(dataset(pixels[::2].copy()), SampleOrder(3, 300, 70), CPU)
    file = Batches(dataset(stored), SampleOrder(3, 300, 70), CPU)
    for begin in begins:
        steps = range(begin, begin + count)
        for expected, found in zip(memory(steps), file(steps), strict=True):
            assert torch.equal(expected, found)


def test_a_file_that_is_gone_is_an_error_of_that_file(stored: Stored, tmp_path: Path) -> None:
    batches = Batches(replace(dataset(stored)), SampleOrder(0, 300, 8), CPU)
    (tmp_path / "pixels").unlink()
    with pytest.raises(FileNotFoundError, match="pixels"):
        batches(range(1))
