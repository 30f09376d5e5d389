"""`ablation data`: folders made ready, listed and removed."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Command
from tests.pictures import divided, put


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ABLATION_DATA", str(tmp_path / "root"))
    return tmp_path / "home"


def test_a_folder_is_decoded_once_then_listed_and_removed(ablation: Command, tmp_path: Path) -> None:
    folder = divided(tmp_path / "pets")
    ended = ablation("data", "prepare", folder, "--size", 16)
    assert ended.code == 0
    assert f"{folder}: 32 images of 2 classes, 24.6 kB at 16 x 16; ready after" in ended.out
    assert f"dataset: [{{name: image_folder, path: {folder}, image_size: 16}}]" in ended.out
    (pixels,) = (tmp_path / "root").glob("image_folders/*/pixels")
    assert ablation("data", "prepare", folder, "--size", 16).code == 0
    name = f"{pixels.parent.name[:8]}-16"
    listed = ablation("data", "list")
    assert f"{name}: 32 images, " in listed.out
    assert f"last used 0 days ago; {pixels.parent}" in listed.out
    assert "would free" in ablation("data", "remove", name, "--dry-run").out
    assert pixels.exists()
    assert "freed 2" in ablation("data", "remove", name).out
    assert not pixels.parent.exists()
    assert ablation("data", "list").out.startswith("0 bytes in all")


def test_a_store_that_nobody_uses_shows_it(ablation: Command, tmp_path: Path) -> None:
    ablation("data", "prepare", divided(tmp_path / "pets"))
    (pixels,) = (tmp_path / "root").glob("image_folders/*/pixels")
    long_ago = time.time() - 40 * 86400
    for file in pixels.parent.iterdir():
        os.utime(file, (long_ago, long_ago))
    assert "last used 40 days ago" in ablation("data", "list").out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("prepare", "cifar10", "--size", 16), "--size: the images of cifar10 have one size"),
        (("prepare", "/nowhere"), "/nowhere: there is no folder /nowhere"),
        (("remove", "abc"), "there is no decoded folder abc; there are: none"),
    ],
)
def test_mistakes(ablation: Command, arguments: tuple[object, ...], error: str) -> None:
    ended = ablation("data", *arguments)
    assert ended.code == 2
    assert error in ended.err


def test_bad_images_are_named_or_left_out(ablation: Command, tmp_path: Path) -> None:
    folder = divided(tmp_path / "pets")
    put(folder / "train" / "cat" / "broken.png", b"no image")
    ended = ablation("data", "prepare", folder)
    assert ended.code == 2
    assert "train/cat/broken.png: no image of a known format" in ended.err
    ended = ablation("data", "prepare", folder, "--skip-bad")
    assert ended.code == 0
    assert "note: 1 of 33 images left out" in ended.out
    assert "on_bad_image: skip" in ended.out


def test_a_disk_that_is_too_small_is_named_before_anything_is_decoded(
    ablation: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=9_999))
    ended = ablation("data", "prepare", divided(tmp_path / "pets"), "--size", 16)
    assert ended.code == 2
    assert "its 32 images take 0.0246 MB when decoded to 16 x 16, and" in ended.err
    assert "has 0.01 MB free" in ended.err
    assert not list(tmp_path.glob("**/pixels"))
