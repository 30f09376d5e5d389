"""Labelled images as plain arrays, with fixed splits and a checksum."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ablation import catalog
from ablation.cell import Component
from ablation.image_folder import cache
from ablation.image_folder.cache import Facts
from ablation.pretrain.dataset_files import Labels, Parts, read_files
from ablation.pretrain.stored import Pixels, Stored, chunks


@dataclass(frozen=True)
class Images:
    """A dataset: images (N, C, S, S) uint8 and labels (N,) int64 for pretraining, selection and the final test."""

    train_images: Pixels | Stored
    train_labels: Labels
    validation_images: Pixels | Stored
    validation_labels: Labels
    test_images: Pixels | Stored
    test_labels: Labels
    classes: tuple[str, ...]  # names, by label
    mean: tuple[float, ...]  # of each channel over the training part, in [0, 1]
    std: tuple[float, ...]
    checksum: str  # SHA-256, hex, over the six arrays


def shared(array: NDArray[Any]) -> Tensor:
    """The array as a tensor on its own memory; for reading only, since other trials may read it too."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def load(dataset: Component, root: Path, *, download: bool) -> Images:
    """The dataset with its fixed, stratified splits: the same arrays in every process.

    Args:
        dataset: one of the catalog's datasets, with what its parameters say.
        root: the folder of dataset files, decoded image folders among them; `digits` needs none.
        download: whether torchvision may download files that are found nowhere.

    Raises:
        UserError: files are missing, damaged or another dataset's.
    """
    spec = catalog.dataset(dataset)
    if dataset.name == catalog.IMAGE_FOLDER:
        return _folder(dataset, spec, root)
    bundled = dataset.name == "digits"
    parts = _digits(spec.test_images) if bundled else read_files(dataset.name, root, download=download)
    train, validation = _hold_out(parts.labels, spec.validation_images)
    images = (parts.images[train], parts.images[validation], parts.test_images)
    labels = (parts.labels[train], parts.labels[validation], parts.test_labels)
    facts = Facts(mean=spec.mean, std=spec.std, checksum=_checksum(images, labels))
    return _images(images, labels, parts.classes, facts)


def _images(
    images: "Sequence[Pixels | Stored]", labels: Sequence[Labels], classes: tuple[str, ...], facts: Facts
) -> Images:
    return Images(
        train_images=images[0],
        train_labels=labels[0],
        validation_images=images[1],
        validation_labels=labels[1],
        test_images=images[2],
        test_labels=labels[2],
        classes=classes,
        mean=facts.mean,
        std=facts.std,
        checksum=facts.checksum,
    )


def _digits(test_images: int) -> Parts:
    """Scikit-learn's digits; 0..16 becomes 0..255, rounded to the nearest, halves (8 -> 127.5) to even."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images[:, None] * (255 / 16)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    train, test = _hold_out(labels, test_images)
    return Parts(images[train], labels[train], images[test], labels[test], tuple(map(str, bunch.target_names)))


def _folder(dataset: Component, spec: catalog.Dataset, root: Path) -> Images:
    """A decoded image folder, whose pixels stay in their file; the test part of an undivided one is held out of it."""
    contents, file = cache.find(dataset, root)
    labels = np.array(contents.labels)
    shape = (len(labels), spec.channels, spec.image_size, spec.image_size)
    if contents.test is None:
        training, test = _hold_out(labels, spec.test_images)
    else:
        training, test = (np.flatnonzero(np.array(contents.test) == part) for part in (False, True))
    train, validation = (training[rows] for rows in _hold_out(labels[training], spec.validation_images))
    images = [Stored(file, shape, rows) for rows in (train, validation, test)]
    targets = [labels[rows] for rows in (train, validation, test)]
    if (facts := cache.facts(file)) is None:
        mean, std = _statistics(Stored(file, shape, training))
        facts = Facts(mean=mean, std=std, checksum=_checksum(images, targets))
        cache.keep(file, facts)
    return _images(images, targets, tuple(contents.classes), facts)


def _statistics(images: Stored) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, in [0, 1]; a constant channel's deviation is taken for one step of 255."""
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    for pixels in chunks(images):
        counts += [np.bincount(channel.ravel(), minlength=256) for channel in pixels.swapaxes(0, 1)]
    values = np.arange(256) / 255
    mean = counts @ values / counts.sum(1)
    std = np.sqrt((counts * (values - mean[:, None]) ** 2).sum(1) / counts.sum(1))
    return tuple(mean.tolist()), tuple(np.maximum(std, 1 / 255).tolist())


def _hold_out(labels: Labels, size: int) -> tuple[Labels, Labels]:
    """Indices of what stays and of a stratified hold-out of `size`, both ascending."""
    from sklearn.model_selection import train_test_split

    stays, held_out = train_test_split(np.arange(len(labels)), test_size=size, random_state=0, stratify=labels)
    return np.sort(stays), np.sort(held_out)


def _checksum(images: "Sequence[Pixels | Stored]", labels: Sequence[Labels]) -> str:
    digest = hashlib.sha256()
    for pixels, targets in zip(images, labels, strict=True):
        digest.update(str(pixels.shape).encode())
        for chunk in chunks(pixels):
            digest.update(np.ascontiguousarray(chunk).data)
        digest.update(targets.astype("<i8").tobytes())
    return digest.hexdigest()
