"""Datasets that torchvision reads from files: under a folder, packed in one of a few known places, or downloaded.

New files are unpacked into a temporary folder, checked, and renamed, so that a failure leaves nothing half-written and
several processes may do it at once.
"""

import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from tarfile import TarError
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torchvision import datasets
from torchvision.datasets.utils import calculate_md5, extract_archive

from ablation import catalog
from ablation.errors import UserError
from ablation.places import cache_folder, staging
from ablation.pretrain.stored import Pixels

Labels = NDArray[np.int64]

SYSTEM_FOLDER: Final = Path("/usr/share/datasets")  # where Linux distributions put datasets
MEAN_TOLERANCE: Final = 1e-3  # the catalog's means have four digits
_UNREADABLE: Final = (OSError, EOFError, RuntimeError, HTTPException, TarError, zlib.error)


@dataclass(frozen=True)
class Parts:
    """A dataset as its source divides it: images (N, C, S, S) and labels (N,)."""

    images: Pixels
    labels: Labels
    test_images: Pixels
    test_labels: Labels
    classes: tuple[str, ...]


# Datasets in files: how torchvision lays them out


@dataclass(frozen=True)
class _Source:
    dataset: Callable[..., Any]  # torchvision's class
    folder: str  # of the unpacked files, below the root
    files: tuple[str, ...]
    packed: tuple[str, ...]  # the files as they are distributed
    unpack_to: str  # where a packed file is unpacked, below the root
    known_as: str  # a folder that may hold the packed files
    flaw: Callable[[Path], str | None]  # what is wrong with a file, packed or unpacked
    debian: str | None = None  # the package that installs the packed files


def _idx(dataset: type[datasets.MNIST], known_as: str, debian: str | None = None) -> _Source:
    folder = f"{dataset.__name__}/raw"
    packed = tuple(name for name, _ in dataset.resources)
    files = tuple(name.removesuffix(".gz") for name in packed)
    return _Source(dataset, folder, files, packed, folder, known_as, _idx_flaw, debian)


def _idx_flaw(path: Path) -> str | None:
    """Compares the file's size with its header; a packed file carries a checksum that unpacking verifies."""
    if path.suffix == ".gz":
        return None
    dimensions = 3 if "images" in path.name else 1
    with path.open("rb") as file:
        header = file.read(4 * (1 + dimensions))
    magic, *shape = np.frombuffer(header[: len(header) // 4 * 4], dtype=">i4").tolist() or [0]
    if magic != 0x800 + dimensions or len(shape) != dimensions:
        return f"not an idx file of {dimensions}-dimensional bytes"
    expected, size = len(header) + math.prod(shape), path.stat().st_size
    return None if size == expected else f"{size:,} bytes long instead of {expected:,}"


def _cifar(dataset: type[datasets.CIFAR10], known_as: str) -> _Source:
    def flaw(path: Path) -> str | None:
        expected = {
            **dict(dataset.train_list + dataset.test_list),
            dataset.meta["filename"]: dataset.meta["md5"],
            dataset.filename: dataset.tgz_md5,
        }[path.name]
        actual = calculate_md5(path)
        return None if actual == expected else f"its MD5 is {actual} instead of {expected}"

    files = (*(name for name, _ in dataset.train_list + dataset.test_list), dataset.meta["filename"])
    return _Source(dataset, dataset.base_folder, files, (dataset.filename,), "", known_as, flaw)


_SOURCES: Mapping[str, _Source] = {
    "mnist": _idx(datasets.MNIST, "mnist"),
    "fashion_mnist": _idx(datasets.FashionMNIST, "fashion-mnist", debian="dataset-fashion-mnist"),
    "cifar10": _cifar(datasets.CIFAR10, "cifar-10"),
    "cifar100": _cifar(datasets.CIFAR100, "cifar-100"),
}


# Finding, unpacking and reading them


class _DamagedError(Exception):
    """A file, named without its folder, is not what it should be."""


def read_files(name: str, root: Path, *, download: bool) -> Parts:
    """Reads unpacked files below `root`, else unpacks packed ones, else downloads them where that is allowed.

    What can't be written to `root` goes to the cache folder.

    Raises:
        UserError: with every place where the files were looked for, and how to get them; or naming a damaged file.
    """
    source, spec = _SOURCES[name], catalog.DATASETS[name]
    roots = _roots(root)
    for base in roots:
        if _all_in(base / source.folder, source.files):
            try:
                return _read(source, spec, base)
            except _DamagedError as error:
                folder = base / source.folder
                raise UserError(f"{spec.title}: {folder}/{error}. Remove {folder} and run again.") from error
    places = _packed_places(source, roots)
    attempts: list[tuple[str, Callable[[Path], object]]] = [
        (str(place), partial(_unpack, source, place)) for place in places if _all_in(place, source.packed)
    ]
    if download:
        attempts.append(("the download", partial(source.dataset, download=True)))
    failures = []
    for what, fill in attempts:
        try:
            return _install(source, spec, roots, fill)
        except (_DamagedError, *_UNREADABLE) as error:
            failures.append(f"{what}: {error}")
    searched = {source.files: [base / source.folder for base in roots], source.packed: places}
    ways = ways_to_get(name, root, download=download)
    raise UserError(_not_found(spec.title, searched, failures, ways[1:] if download else ways))


def find(name: str, root: Path) -> Path | None:
    """The folder that holds a dataset's files, unpacked or packed, as `read_files` would look for it; or None."""
    source, roots = _SOURCES[name], _roots(root)
    unpacked = (base / source.folder for base in roots if _all_in(base / source.folder, source.files))
    packed = (place for place in _packed_places(source, roots) if _all_in(place, source.packed))
    return next(itertools.chain(unpacked, packed), None)


def ways_to_get(name: str, root: Path, *, download: bool) -> list[str]:
    """How to get the files of a dataset; `download`: torchvision is allowed to download them."""
    source = _SOURCES[name]
    return [
        "with a network, let a sweep download it" if download else "with a network, allow the download",
        *([f"on Debian or Ubuntu, install the package {source.debian}"] if source.debian else []),
        f"offline, copy {', '.join(source.packed)} into {root}",
    ]


def _roots(root: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((root, cache_folder())))


def _packed_places(source: _Source, roots: Iterable[Path]) -> tuple[Path, ...]:
    subfolders = (source.folder, source.known_as, "")
    return (*(base / sub for base in roots for sub in subfolders), SYSTEM_FOLDER / source.known_as)


def _all_in(folder: Path, names: Iterable[str]) -> bool:
    return all((folder / name).is_file() for name in names)


def _unpack(source: _Source, place: Path, stage: Path) -> None:
    for name in source.packed:
        if flaw := source.flaw(place / name):
            raise _DamagedError(f"{name}: {flaw}")
        (stage / source.unpack_to).mkdir(parents=True, exist_ok=True)
        try:
            extract_archive(place / name, stage / source.unpack_to)
        except _UNREADABLE as error:
            raise _DamagedError(f"{name}: {error}") from error


def _install(source: _Source, spec: catalog.Dataset, roots: Iterable[Path], fill: Callable[[Path], object]) -> Parts:
    """Lets `fill` put files into a temporary root, reads them there, and moves them to the first writable root."""
    with staging(roots) as stage:
        fill(stage)
        parts = _read(source, spec, stage)
        target = stage.parent / source.folder
        target.mkdir(parents=True, exist_ok=True)
        for name in source.files:
            (stage / source.folder / name).replace(target / name)
    return parts


def _read(source: _Source, spec: catalog.Dataset, base: Path) -> Parts:
    """Reads the unpacked files below `base`, checked one by one and as a whole."""
    for name in source.files:
        if flaw := source.flaw(base / source.folder / name):
            raise _DamagedError(f"{name}: {flaw}")
    train, test = source.dataset(base, train=True), source.dataset(base, train=False)
    parts = Parts(*_arrays(train), *_arrays(test), tuple(train.classes))
    if problem := _mismatch(parts, spec):
        raise _DamagedError(f"{source.files[0]}: {problem}")
    return parts


def _arrays(dataset: Any) -> tuple[Pixels, Labels]:
    """Torchvision's (N, S, S) or (N, S, S, C) images as (N, C, S, S), and the labels."""
    images = np.asarray(dataset.data)
    images = images[:, None] if images.ndim == 3 else np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images, np.asarray(dataset.targets, dtype=np.int64)


def _mismatch(parts: Parts, spec: catalog.Dataset) -> str | None:
    """How the arrays differ from what the catalog says of the dataset."""
    size = (spec.channels, spec.image_size, spec.image_size)
    for images, labels, number in (
        (parts.images, parts.labels, spec.images),
        (parts.test_images, parts.test_labels, spec.test_images),
    ):
        if images.shape != (number, *size) or labels.shape != (number,):
            return f"images {images.shape} and labels {labels.shape}, where {spec.title} has {number} of {size}"
        if labels.min() < 0 or labels.max() >= spec.classes:
            return f"labels {labels.min()}..{labels.max()}, where {spec.title} has 0..{spec.classes - 1}"
    mean = parts.images.mean((0, 2, 3)) / 255
    if np.abs(mean - spec.mean).max() > MEAN_TOLERANCE:
        return f"a mean of {mean.round(4).tolist()}, where {spec.title} has {list(spec.mean)}: another dataset's files?"
    return None


def _not_found(
    title: str,
    searched: Mapping[tuple[str, ...], Iterable[Path]],
    failures: Iterable[str],
    ways: Iterable[str],
) -> str:
    lines = [f"{title} was not found."]
    for names, folders in searched.items():
        lines += [f"Looked for {', '.join(names)} in", *(f"  {folder}" for folder in folders)]
    lines += [f"Failed: {failure}" for failure in failures]
    return "\n".join([*lines, "To get it:", *(f"  {way}" for way in ways)])
