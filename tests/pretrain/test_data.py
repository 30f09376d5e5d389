"""Datasets from small files in their true formats, read through torchvision's own classes."""

import gzip
import hashlib
import io
import multiprocessing
import os
import pickle
import shutil
import tarfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torchvision import datasets

from ablation import catalog
from ablation.cell import Component
from ablation.errors import UserError
from ablation.pretrain import data, dataset_files
from ablation.pretrain.data import Images

TRAIN, TEST = 200, 40
FASHION = Component(name="fashion_mnist")
CIFAR10, CIFAR100 = Component(name="cifar10"), Component(name="cifar100")
PACKED = tuple(name for name, _ in datasets.FashionMNIST.resources)
UNPACKED = tuple(name.removesuffix(".gz") for name in PACKED)

Array = np.ndarray[Any, np.dtype[np.uint8]]


def pictures(number: int, channels: int, size: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (number, channels, size, size), dtype=np.uint8)


def shrink(monkeypatch: pytest.MonkeyPatch, name: str, images: Array) -> None:
    """Has the catalog expect the small dataset whose training part is `images`."""
    means = tuple((images.mean((0, 2, 3)) / 255).tolist())
    spec = replace(catalog.DATASETS[name], images=TRAIN, test_images=TEST, mean=means)
    monkeypatch.setitem(cast("dict[str, catalog.Dataset]", catalog.DATASETS), name, spec)


@pytest.fixture(autouse=True)
def nothing_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hides this machine's own copies of datasets."""
    monkeypatch.setattr(dataset_files, "SYSTEM_FOLDER", tmp_path / "system")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.delenv("ABLATION_DATA", raising=False)


@pytest.fixture
def fashion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of the four packed files of a small Fashion-MNIST."""
    folder = tmp_path / "fashion"
    folder.mkdir()
    train, test = pictures(TRAIN, 1, 28, 0), pictures(TEST, 1, 28, 1)
    shrink(monkeypatch, "fashion_mnist", train)
    for part, images in (("train", train), ("t10k", test)):
        labels = np.arange(len(images), dtype=np.uint8) % 10
        for kind, array in (("images-idx3", images[:, 0]), ("labels-idx1", labels)):
            header = np.array([0x800 + array.ndim, *array.shape], dtype=">i4")
            with gzip.open(folder / f"{part}-{kind}-ubyte.gz", "wb") as file:
                file.write(header.tobytes() + array.tobytes())
    return folder


def write_cifar(
    monkeypatch: pytest.MonkeyPatch, root: Path, dataset: type[datasets.CIFAR10], name: str, label_key: str, classes: int
) -> Array:
    """Writes a small CIFAR as torchvision unpacks it; torchvision and `ablation` expect the small files' checksums."""
    folder = root / dataset.base_folder
    folder.mkdir(parents=True)
    train, test = pictures(TRAIN, 3, 32, 2), pictures(TEST, 3, 32, 3)
    shrink(monkeypatch, name, train)

    def write(file: str, content: object) -> str:
        (folder / file).write_bytes(pickle.dumps(content))
        return hashlib.md5((folder / file).read_bytes()).hexdigest()  # noqa: S324

    def write_batches(files: list[str], images: Array) -> list[list[str]]:
        parts = np.array_split(np.arange(len(images)), len(files))
        return [
            [file, write(file, {"data": images[part].reshape(len(part), -1), label_key: (part % classes).tolist()})]
            for file, part in zip(files, parts, strict=True)
        ]

    monkeypatch.setattr(dataset, "train_list", write_batches([file for file, _ in dataset.train_list], train))
    monkeypatch.setattr(dataset, "test_list", write_batches([file for file, _ in dataset.test_list], test))
    names = {dataset.meta["key"]: [f"class {k}" for k in range(classes)]}
    monkeypatch.setattr(dataset, "meta", {**dataset.meta, "md5": write(dataset.meta["filename"], names)})
    return train


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def same(a: Images, b: Images) -> bool:
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(Images))


# What every dataset gives


def test_digits_are_sklearns_with_fixed_stratified_splits(tmp_path: Path) -> None:
    images, spec = data.load(Component(name="digits"), tmp_path, download=False), catalog.DATASETS["digits"]
    assert images.train_images.shape == (spec.pretraining_images, 1, 8, 8)
    assert images.validation_images.shape == (spec.validation_images, 1, 8, 8)
    assert images.test_images.shape == (spec.test_images, 1, 8, 8)
    parts = (images.train_images, images.validation_images, images.test_images)
    labels = (images.train_labels, images.validation_labels, images.test_labels)
    assert {part.dtype for part in parts} == {np.dtype(np.uint8)}
    assert {part.dtype for part in labels} == {np.dtype(np.int64)}
    # together they are the whole dataset, each image once: 0..16 scaled to 0..255
    source = load_digits()
    expected = sorted((*np.rint(16 * image.ravel()).astype(int).tolist(), t) for image, t in zip(source.images, source.target, strict=True))
    back = np.rint(np.concatenate(parts).reshape(1797, 64) * (16 / 255) * 16).astype(int)
    assert sorted((*image, t) for image, t in zip(back.tolist(), np.concatenate(labels), strict=True)) == expected
    assert np.concatenate(parts).max() == 255
    shares = np.bincount(source.target) / 1797
    for part in labels:
        assert np.abs(np.bincount(part) - shares * len(part)).max() <= 1.5
    assert np.concatenate(parts[:2]).mean() / 255 == pytest.approx(spec.mean[0], abs=1e-3)
    assert np.concatenate(parts[:2]).std() / 255 == pytest.approx(spec.std[0], abs=1e-3)
    assert files_below(tmp_path) == set()
    assert same(images, data.load(Component(name="digits"), None, download=False))
