"""ImageNet as torchvision leaves it: unpacked here by torchvision itself, from small archives of the true format."""

import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from torchvision import datasets
from torchvision.datasets import imagenet
from torchvision.datasets.utils import calculate_md5

from ablation import catalog
from ablation.image_folder.prepare import prepare
from ablation.pretrain import data
from tests.pictures import encoded, noise

WNIDS = ("n01440764", "n01443537", "n02119789")
TRAIN, VAL = 12, 4  # images a class


def tar(path: Path, members: Iterator[tuple[str, bytes]], mode: str = "w") -> None:
    with tarfile.open(path, mode) as file:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, BytesIO(content))


def class_archive(wnid: str, label: int) -> bytes:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as file:
        for number in range(TRAIN):
            content = encoded(noise(100 * label + number, 40, 30), "JPEG", quality=95)
            info = tarfile.TarInfo(f"{wnid}_{number}.JPEG")
            info.size = len(content)
            file.addfile(info, BytesIO(content))
    return stream.getvalue()


def devkit(folder: Path) -> Iterator[tuple[str, bytes]]:
    root = "ILSVRC2012_devkit_t12/data"
    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "O")]
    synsets = np.array([(k + 1, wnid, f"words {k}", "gloss", 0) for k, wnid in enumerate(WNIDS)], dtype=fields)
    savemat(str(folder / "meta.mat"), {"synsets": synsets[:, None]})
    yield f"{root}/meta.mat", (folder / "meta.mat").read_bytes()
    yield f"{root}/ILSVRC2012_validation_ground_truth.txt", "".join(f"{i % 3 + 1}\n" for i in range(3 * VAL)).encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "imagenet"
    root.mkdir()
    names = {key: name for key, (name, _) in imagenet.ARCHIVE_META.items()}
    tar(root / names["devkit"], devkit(tmp_path), "w:gz")
    tar(root / names["train"], ((f"{wnid}.tar", class_archive(wnid, k)) for k, wnid in enumerate(WNIDS)))
    tar(
        root / names["val"],
        (
            (
                f"ILSVRC2012_val_{i + 1:08}.JPEG",
                encoded(noise(900 + i, 30, 40).convert("CMYK" if i == 5 else "RGB"), "JPEG"),
            )
            for i in range(3 * VAL)
        ),
    )
    meta = {key: (name, calculate_md5(root / name)) for key, name in names.items()}
    monkeypatch.setattr(imagenet, "ARCHIVE_META", meta)
    for split in ("train", "val"):
        datasets.ImageNet(root, split)  # unpacks
    return root


def test_torchvisions_layout_is_read_as_torchvision_reads_it(folder: Path, tmp_path: Path) -> None:
    found = prepare(str(folder), 16, "fail", tmp_path / "root")
    facts = catalog.dataset(found.dataset)
    assert (facts.classes, facts.images, facts.test_images) == (3, 3 * TRAIN, 3 * VAL)
    assert any(note == "images converted: 1 CMYK" for note in found.notes)
    images = data.load(found.dataset, tmp_path / "root", download=False)
    assert images.classes == tuple(datasets.ImageNet(folder, "train").wnids)
    test = datasets.ImageNet(folder, "val")
    np.testing.assert_array_equal(images.test_labels, test.targets)
    for pixels, (picture, _) in zip(np.asarray(images.test_images), test, strict=True):
        square = picture.resize((16, 16), 2, box=(0, 5, 30, 35))
        assert np.abs(np.asarray(square).transpose(2, 0, 1).astype(int) - pixels).max() <= 1
