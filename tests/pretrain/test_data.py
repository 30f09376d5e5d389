"""Datasets from small files in their true formats, read through torchvision's own classes."""

import gzip
import hashlib
import io
import pickle
import shutil
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torchvision import datasets
from torchvision.datasets.utils import extract_archive

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
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    *,
    dataset: type[datasets.CIFAR10],
    name: str,
    label_key: str,
    classes: int,
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
    assert {np.asarray(part).dtype for part in parts} == {np.dtype(np.uint8)}
    assert {part.dtype for part in labels} == {np.dtype(np.int64)}
    # together they are the whole dataset, each image once, 0..16 scaled to 0..255
    source = load_digits()
    expected = np.column_stack((np.rint(source.images.reshape(1797, 64) / 16 * 255), source.target)).tolist()
    actual = np.column_stack((np.concatenate(parts).reshape(1797, 64), np.concatenate(labels))).tolist()
    assert sorted(actual) == sorted(expected)
    assert np.concatenate(parts).max() == 255
    shares = np.bincount(source.target) / 1797
    for part in labels:
        assert np.abs(np.bincount(part) - shares * len(part)).max() <= 1.5
    assert np.concatenate(parts[:2]).mean() / 255 == pytest.approx(spec.mean[0], abs=1e-3)
    assert np.concatenate(parts[:2]).std() / 255 == pytest.approx(spec.std[0], abs=1e-3)
    assert files_below(tmp_path) == set()
    assert same(images, data.load(Component(name="digits"), tmp_path, download=False))


def test_validation_is_a_stratified_part_of_the_training_part(fashion: Path) -> None:
    images, spec = data.load(FASHION, fashion, download=False), catalog.DATASETS["fashion_mnist"]
    assert len(images.train_images) == len(images.train_labels) == spec.pretraining_images
    assert np.bincount(images.validation_labels).tolist() == [spec.validation_images // 10] * 10
    rows = np.concatenate((images.train_images, images.validation_images)).reshape(TRAIN, -1)
    assert sorted(rows.tolist()) == sorted(pictures(TRAIN, 1, 28, 0).reshape(TRAIN, -1).tolist())


def test_checksum_sees_pixels_labels_and_split(fashion: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = data.load(FASHION, fashion, download=False)
    checksums = {original.checksum}
    raw = fashion / "FashionMNIST" / "raw"
    for name in UNPACKED:
        content = (raw / name).read_bytes()
        (raw / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        checksums.add(data.load(FASHION, fashion, download=False).checksum)
        (raw / name).write_bytes(content)
    assert data.load(FASHION, fashion, download=False).checksum == original.checksum
    monkeypatch.setattr("sklearn.model_selection.train_test_split", lambda rows, **_: (rows[:180], rows[180:]))
    checksums.add(data.load(FASHION, fashion, download=False).checksum)
    assert len(checksums) == 6


# Where files are found


@pytest.mark.parametrize("place", ["", "fashion-mnist", "FashionMNIST/raw", "system"])
def test_packed_files_are_unpacked_into_the_root(fashion: Path, tmp_path: Path, place: str) -> None:
    root = tmp_path / "root"
    shutil.copytree(fashion, tmp_path / "system" / "fashion-mnist" if place == "system" else root / place)
    images = data.load(FASHION, root, download=False)
    np.testing.assert_array_equal(images.test_images, pictures(TEST, 1, 28, 1))
    np.testing.assert_array_equal(images.test_labels, np.arange(TEST) % 10)
    assert images.classes[9] == "Ankle boot"
    added = {f"FashionMNIST/raw/{name}" for name in UNPACKED}
    packed = set() if place == "system" else {str(Path(place) / name) for name in PACKED}
    assert files_below(root) == added | packed
    for name in packed:
        (root / name).unlink()
    shutil.rmtree(tmp_path / "system", ignore_errors=True)
    assert same(images, data.load(FASHION, root, download=False))


def test_a_root_that_cannot_be_written_is_read_and_the_cache_written(
    fashion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary_directory = tempfile.TemporaryDirectory

    def refuse(dir: Path, prefix: str) -> Any:  # noqa: A002
        if dir == fashion:
            raise PermissionError(13, "Permission denied")
        return temporary_directory(dir=dir, prefix=prefix)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    images = data.load(FASHION, fashion, download=False)
    assert files_below(fashion) == set(PACKED)
    cache = tmp_path / "home/.cache/ablation"
    assert files_below(cache) == {f"FashionMNIST/raw/{name}" for name in UNPACKED}
    assert same(images, data.load(FASHION, fashion, download=False))


def test_nowhere_to_write_is_the_users_mistake(fashion: Path, tmp_path: Path) -> None:
    shutil.copytree(fashion, tmp_path / "system" / "fashion-mnist")
    (tmp_path / "file").touch()
    (tmp_path / "home").touch()
    with pytest.raises(UserError, match=r"no folder can be written: .*file/root \(Not a directory\), .*home"):
        data.load(FASHION, tmp_path / "file" / "root", download=False)


def test_cifar10_is_read_channels_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = write_cifar(monkeypatch, tmp_path, dataset=datasets.CIFAR10, name="cifar10", label_key="labels", classes=10)
    images = data.load(CIFAR10, tmp_path, download=False)
    rows = np.concatenate((images.train_images, images.validation_images)).reshape(TRAIN, -1)
    assert sorted(rows.tolist()) == sorted(train.reshape(TRAIN, -1).tolist())
    np.testing.assert_array_equal(images.test_images, pictures(TEST, 3, 32, 3))
    assert np.asarray(images.test_images).flags.c_contiguous
    assert images.classes == tuple(f"class {k}" for k in range(10))


def test_cifar100_uses_the_fine_labels_and_its_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar(
        monkeypatch,
        tmp_path / "source",
        dataset=datasets.CIFAR100,
        name="cifar100",
        label_key="fine_labels",
        classes=20,
    )
    root = tmp_path / "root"
    root.mkdir()
    with tarfile.open(root / "cifar-100-python.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "source" / "cifar-100-python", "cifar-100-python")
    checksum = hashlib.md5((root / "cifar-100-python.tar.gz").read_bytes()).hexdigest()  # noqa: S324
    monkeypatch.setattr(datasets.CIFAR100, "tgz_md5", checksum)
    images = data.load(CIFAR100, root, download=False)
    np.testing.assert_array_equal(images.test_labels, np.arange(TEST) % 20)
    names = {"cifar-100-python/train", "cifar-100-python/test", "cifar-100-python/meta"}
    assert files_below(root) == names | {"cifar-100-python.tar.gz"}


def test_two_may_unpack_at_once(fashion: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=60)

    def in_step(*arguments: Any) -> None:
        both.wait()
        extract_archive(*arguments)

    monkeypatch.setattr(dataset_files, "extract_archive", in_step)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: data.load(FASHION, fashion, download=False), range(2))
    assert same(one, other)
    assert files_below(fashion) == set(PACKED) | {f"FashionMNIST/raw/{name}" for name in UNPACKED}


# What goes wrong


@pytest.mark.parametrize("component", [FASHION, CIFAR10], ids=["fashion_mnist", "cifar10"])
def test_missing_files_are_reported_with_every_place_and_every_way(component: Component, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        data.load(component, tmp_path / "root", download=False)
    source = dataset_files._SOURCES[component.name]
    places = [tmp_path / "system" / source.known_as]
    for root in (tmp_path / "root", tmp_path / "home/.cache/ablation"):
        places += [root, root / source.folder, root / source.known_as]
    message = str(caught.value)
    lines = message.splitlines()
    for place in places:
        assert f"  {place}" in lines
    for name in (*source.files, *source.packed):
        assert name in message
    assert "allow the download" in message
    assert f"offline, copy {', '.join(source.packed)} into {tmp_path / 'root'}" in message
    assert ("dataset-fashion-mnist" in message) == (component is FASHION)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("component", [FASHION, CIFAR10], ids=["fashion_mnist", "cifar10"])
def test_a_failed_download_leaves_nothing_and_says_why(
    component: Component, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(_url: str, root: str, **_: object) -> None:
        Path(root).mkdir(parents=True, exist_ok=True)
        (Path(root) / "half").write_bytes(b"half a fi")
        raise URLError("no route to host")

    def cut_off_archive(url: str, download_root: str, **_: object) -> None:
        cut_off(url, download_root)

    monkeypatch.setattr(datasets.mnist, "download_and_extract_archive", cut_off_archive)
    monkeypatch.setattr(datasets.cifar, "download_and_extract_archive", cut_off)
    with pytest.raises(UserError, match=r"(?s)Failed: the download: .*no route to host.*offline, copy") as caught:
        data.load(component, tmp_path / "root", download=True)
    assert "allow the download" not in str(caught.value)
    assert files_below(tmp_path) == set()


def test_a_download_ends_up_in_the_root(fashion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(_url: str, download_root: str, filename: str, **_: object) -> None:
        content = gzip.decompress((fashion / filename).read_bytes())
        (Path(download_root) / filename.removesuffix(".gz")).write_bytes(content)
        (Path(download_root) / filename).touch()

    monkeypatch.setattr(datasets.mnist, "download_and_extract_archive", fetch)
    data.load(FASHION, tmp_path / "root", download=True)
    assert files_below(tmp_path / "root") == {f"FashionMNIST/raw/{name}" for name in UNPACKED}


@pytest.mark.parametrize("name", UNPACKED)
@pytest.mark.parametrize("damage", ["cut", "empty", "header", "longer"])
def test_a_damaged_unpacked_file_is_named(fashion: Path, name: str, damage: str) -> None:
    data.load(FASHION, fashion, download=False)
    path = fashion / "FashionMNIST" / "raw" / name
    content = path.read_bytes()
    damaged = {"cut": content[:-1], "empty": b"", "header": b"\0\0\x0b" + content[3:], "longer": content + b"x"}
    path.write_bytes(damaged[damage])
    with pytest.raises(UserError, match=rf"^Fashion-MNIST: {path}: .* Remove .* and run again\.$"):
        data.load(FASHION, fashion, download=False)


@pytest.mark.parametrize("damage", ["cut", "changed", "no gzip"])
def test_a_damaged_packed_file_is_named_and_not_unpacked(fashion: Path, damage: str) -> None:
    path = fashion / PACKED[0]
    content = path.read_bytes()
    middle = len(content) // 2
    changed = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
    path.write_bytes({"cut": content[:middle], "changed": changed, "no gzip": b"<html>not found</html>"}[damage])
    with pytest.raises(UserError, match=rf"Failed: {fashion}: {PACKED[0]}: "):
        data.load(FASHION, fashion, download=False)
    assert files_below(fashion) == set(PACKED)


@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
def test_a_damaged_cifar_file_is_named_and_never_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_cifar(monkeypatch, tmp_path, dataset=datasets.CIFAR10, name="cifar10", label_key="labels", classes=10)
    path = tmp_path / "cifar-10-batches-py" / name
    path.write_bytes(path.read_bytes()[:-5])
    monkeypatch.setattr(pickle, "load", lambda *_, **__: pytest.fail("a file of unknown content was unpickled"))
    with pytest.raises(UserError, match=rf"^CIFAR-10: {path}: its MD5 is .* instead of "):
        data.load(CIFAR10, tmp_path, download=False)


def test_a_foreign_cifar_archive_is_never_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("cifar-10-batches-py/data_batch_1"), io.BytesIO())
    with pytest.raises(
        UserError, match=r"cifar-10-python.tar.gz: its MD5 is .* instead of c58f30108f718f92721af3b95e74349a"
    ):
        data.load(CIFAR10, tmp_path, download=False)
    assert files_below(tmp_path) == {"cifar-10-python.tar.gz"}


def test_another_datasets_files_are_refused(fashion: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, "mnist", pictures(TRAIN, 1, 28, 0) // 2)
    with pytest.raises(UserError, match=r"a mean of .* where MNIST has .*another dataset's files\?"):
        data.load(Component(name="mnist"), fashion, download=False)
    assert files_below(fashion) == set(PACKED)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"images": TRAIN + 1}, r"images \(200, 1, 28, 28\) and labels \(200,\), where Fashion-MNIST has 201 of"),
        ({"test_images": TEST - 1}, r"images \(40, 1, 28, 28\) .* has 39 of"),
        ({"image_size": 32}, r"has 200 of \(1, 32, 32\)"),
        ({"classes": 9}, r"labels 0\.\.9, where Fashion-MNIST has 0\.\.8"),
    ],
)
def test_sizes_agree_with_the_catalog(
    fashion: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], problem: str
) -> None:
    spec = replace(catalog.DATASETS["fashion_mnist"], **change)
    monkeypatch.setitem(cast("dict[str, catalog.Dataset]", catalog.DATASETS), "fashion_mnist", spec)
    with pytest.raises(UserError, match=problem):
        data.load(FASHION, fashion, download=False)
