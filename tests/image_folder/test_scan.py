"""What counts as an image of which class and part, what is stray, and what is refused."""

import os
from pathlib import Path

import pytest

from ablation.errors import UserError
from ablation.image_folder import scan as module
from ablation.image_folder.scan import scan, shown_name
from tests.pictures import put


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        put(folder / name, b"")
    return folder


def found(folder: Path) -> list[tuple[str, str, bool]]:
    return [(file.name, file.label, file.test) for file in scan(folder).files]


def test_a_folder_of_classes_is_one_part(tmp_path: Path) -> None:
    touch(tmp_path, "dog/b.JPG", "cat/deep/er/a.png", "cat/z.webp", "README", "cat/notes.txt", ".git/x.png", "top.png")
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    seen = scan(tmp_path)
    assert found(tmp_path) == [
        ("cat/deep/er/a.png", "cat", False),
        ("cat/z.webp", "cat", False),
        ("dog/b.JPG", "dog", False),
    ]
    assert (seen.parts, seen.empty) == ((), ("empty",))
    assert sorted(seen.stray) == [".git", "README", "cat/notes.txt", "top.png"]


@pytest.mark.parametrize("test", ["test", "val"])
def test_train_and_test_divide_a_folder(tmp_path: Path, test: str) -> None:
    touch(tmp_path, "train/cat/a.png", f"{test}/cat/a.png", f"{test}/dog/b.png", "other/cat/c.png", "train/stray.png")
    (tmp_path / "train" / "dog").mkdir()
    seen = scan(tmp_path)
    assert seen.parts == ("train", test)
    assert {(file.name, file.label, file.test) for file in seen.files} == {
        ("train/cat/a.png", "cat", False), (f"{test}/cat/a.png", "cat", True), (f"{test}/dog/b.png", "dog", True),
    }  # fmt: skip
    assert sorted(seen.stray) == ["other", "train/stray.png"]
    assert seen.empty == ("train/dog",)


def test_test_goes_before_val_which_is_then_stray(tmp_path: Path) -> None:
    seen = scan(touch(tmp_path, "train/a/1.png", "test/a/2.png", "val/a/3.png"))
    assert [file.name for file in seen.files] == ["test/a/2.png", "train/a/1.png"]
    assert seen.stray == ("val",)


def test_train_alone_is_a_class_like_any_other(tmp_path: Path) -> None:
    assert found(touch(tmp_path, "train/1.png", "car/1.png")) == [
        ("car/1.png", "car", False),
        ("train/1.png", "train", False),
    ]


def test_hidden_images_are_stray(tmp_path: Path) -> None:
    seen = scan(touch(tmp_path, "cat/._1.jpg", "cat/1.jpg", "cat/.cache/2.jpg"))
    assert [file.name for file in seen.files] == ["cat/1.jpg"]
    assert sorted(seen.stray) == ["cat/._1.jpg", "cat/.cache"]


def test_links_within_the_folder_are_images(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.png")
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog" / "2.png").symlink_to("../cat/1.png")
    assert [file.name for file in scan(tmp_path).files] == ["cat/1.png", "dog/2.png"]


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("cat/x.png", "../../outside/1.png"),
        ("cat/x.png", "/etc/passwd"),
        ("cat/x.png", "nowhere.png"),
        ("cat/x.png", "x.png"),
        ("cat/deep", "../../outside"),
        ("cat/loop", ".."),
        ("dog", "../outside"),
        ("dog", "cat"),
    ],
)
def test_links_out_of_the_folder_or_to_folders_are_refused(tmp_path: Path, link: str, target: str) -> None:
    touch(tmp_path / "outside", "1.png")
    folder = touch(tmp_path / "folder", "cat/1.png")
    (folder / link).symlink_to(target)
    with pytest.raises(UserError, match=f"has 1 links to folders, out of the folder or to nowhere.*: {link};"):
        scan(folder)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_part_that_is_a_link_is_refused_unread(tmp_path: Path, part: str) -> None:
    folder = touch(tmp_path / "folder", "train/cat/1.png", "test/cat/1.png")
    (folder / part).rename(tmp_path / "outside")
    (folder / part).symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match=rf"not followed: {part};"):
        scan(folder)


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    touch(tmp_path / "folder", "cat/1.png")
    (tmp_path / "link").symlink_to("folder")
    assert scan(tmp_path / "link") == scan(tmp_path / "folder")


def test_pipes_are_never_opened_and_folders_are_no_images(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.png")
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    (tmp_path / "cat" / "folder.png").mkdir()
    seen = scan(tmp_path)
    assert [file.name for file in seen.files] == ["cat/1.png"]
    assert sorted(seen.stray) == ["cat/folder.png", "cat/pipe.png"]


def test_names_that_are_no_text_are_shown_as_some(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9\n.png")
    touch(tmp_path, f"cat/{name}")
    (file,) = scan(tmp_path).files
    assert shown_name(file.name) == r"'cat/caf\udce9\n.png'"
    shown_name(file.name).encode()


@pytest.mark.parametrize("name", ["nothing", "file", "file/below", "\0"])
def test_what_is_no_folder(tmp_path: Path, name: str) -> None:
    put(tmp_path / "file", b"")
    with pytest.raises(UserError, match=r"there is no folder|is not a folder"):
        scan(tmp_path / name)


def test_a_folder_of_everything_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 5)
    scan(touch(tmp_path, "a/1.png", "a/2.png", "b/3.txt"))
    with pytest.raises(UserError, match="holds more than 5 files; is it the right one"):
        scan(touch(tmp_path, "b/4.txt"))
