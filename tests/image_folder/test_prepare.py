"""From a folder to a dataset: identity, policy, counts, and a cache that any number of processes may fill at once."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.model_selection import train_test_split

from ablation import catalog, durable
from ablation.cell import Component
from ablation.errors import UserError
from ablation.image_folder import cache, decode, scan
from ablation.image_folder.prepare import LEAST, LEAST_WHOLE, Prepared, prepare
from tests.pictures import divided, encoded, fill, noise, put

HOSTILE = {
    "train/cat/cut.png": encoded(noise(1, 40, 40))[:900],
    "train/cat/empty.jpg": b"",
    "train/dog/text.png": b"<html>not found</html>",
    "test/dog/float.tiff": encoded(Image.fromarray(np.zeros((8, 8), np.float32)), "TIFF"),
}
TURNED = Image.Exif()
TURNED[0x0112] = 6
ODD = {
    "train/cat/cmyk.jpg": encoded(Image.new("CMYK", (9, 9)), "JPEG"),
    "train/cat/deep/deep.png": encoded(Image.fromarray(np.zeros((8, 8), np.uint16))),
    "train/dog/one.png": encoded(Image.new("RGB", (1, 1))),
    "train/dog/palette.png": encoded(Image.new("P", (8, 8))),
    "train/dog/turned.png": encoded(noise(2, 9, 8), exif=TURNED),
    "test/dog/moving.gif": encoded(noise(3, 9, 8), "GIF", save_all=True, append_images=[noise(4, 9, 8)]),
    "test/dog/web.webp": encoded(noise(5, 9, 8), "WEBP"),
}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    return tmp_path / "home"


def ready(folder: Path, root: Path | None = None, on_bad_image: str = "fail", image_size: int = 8) -> Prepared:
    return prepare(str(folder), image_size, on_bad_image, root or folder.parent / "root")


def spoil(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        put(folder / name, content)
    return folder


def pixels(dataset: Component, root: Path) -> Any:
    contents, file = cache.find(dataset, root)
    return np.fromfile(file, np.uint8).reshape(len(contents.labels), 3, contents.image_size, contents.image_size)


# What a folder comes to


def test_a_divided_folder_is_counted_and_decoded_in_the_order_of_names(tmp_path: Path) -> None:
    found = ready(divided(tmp_path / "folder"))
    numbers = {"image_size": 8, "classes": 2, "images": 24, "test_images": 8, "skipped": 0}
    assert found.dataset.name == catalog.IMAGE_FOLDER
    assert found.dataset.parameters == {"fingerprint": found.dataset.parameters["fingerprint"], **numbers}
    assert found.notes == ()
    contents, _ = cache.find(found.dataset, tmp_path / "root")
    assert contents.classes == ["cat", "dog"]
    assert contents.labels == [0] * 4 + [1] * 4 + [0] * 12 + [1] * 12
    assert contents.test == [True] * 8 + [False] * 24
    names = [file.name for file in scan.scan(tmp_path / "folder").files]
    expected = np.stack([decode.decode((tmp_path / "folder" / name).read_bytes(), 8)[0] for name in names])
    np.testing.assert_array_equal(pixels(found.dataset, tmp_path / "root"), expected)


def test_a_folder_of_one_part_gives_up_a_test_part(tmp_path: Path) -> None:
    found = ready(fill(tmp_path / "folder", count=30))
    assert found.dataset.parameters["test_images"] == 12
    assert found.dataset.parameters["images"] == 48
    facts = catalog.dataset(found.dataset)
    assert (facts.classes, facts.channels, facts.image_size) == (2, 3, 8)
    assert (facts.pretraining_images, facts.validation_images, facts.test_images) == (38, 10, 12)


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(0, 30), min_size=2, max_size=40), whole=st.booleans())
def test_the_least_numbers_of_images_always_give_a_stratified_split(counts: list[int], whole: bool) -> None:  # noqa: FBT001
    labels = np.repeat(np.arange(len(counts)), np.array(counts) + (LEAST_WHOLE if whole else LEAST))
    for _ in range(2 if whole else 1):
        size = catalog.held_out(len(labels), len(counts))
        labels, held = train_test_split(labels, test_size=size, random_state=0, stratify=labels)
        assert len(held) == size
        assert set(labels) == set(range(len(counts)))


def test_a_hold_out_has_room_for_every_class() -> None:
    assert [catalog.held_out(*of) for of in ((20, 2), (4999, 10), (5000, 10), (5000, 1000))] == [4, 1000, 500, 1000]


def test_moving_a_folder_changes_nothing_and_touching_an_image_does(tmp_path: Path) -> None:
    first = ready(divided(tmp_path / "folder"))
    moved = tmp_path / "else" / "where"
    moved.parent.mkdir()
    (tmp_path / "folder").rename(moved)
    assert ready(moved, tmp_path / "root") == first
    put(moved / "train" / "cat" / "0.png", encoded(noise(99)))
    changed = ready(moved, tmp_path / "root")
    assert changed.dataset.parameters["fingerprint"] != first.dataset.parameters["fingerprint"]
    assert cache.find(first.dataset, tmp_path / "root")[0].fingerprint == first.dataset.parameters["fingerprint"]


def test_only_the_first_call_decodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ready(divided(tmp_path / "folder"))
    monkeypatch.setattr(decode, "decode", lambda *_: pytest.fail("decoded again"))
    assert ready(tmp_path / "folder") == first
    assert ready(shutil.copytree(tmp_path / "folder", tmp_path / "copy")) == first


def test_each_size_is_decoded_for_itself(tmp_path: Path) -> None:
    small, large = (ready(divided(tmp_path / "folder"), image_size=size).dataset for size in (4, 16))
    assert pixels(small, tmp_path / "root").shape == (32, 3, 4, 4)
    assert pixels(large, tmp_path / "root").shape == (32, 3, 16, 16)


# Bad, odd and stray files


def test_all_bad_images_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        ready(spoil(divided(tmp_path / "folder"), HOSTILE))
    first, *lines = str(caught.value).splitlines()
    assert first == ("4 of 36 images can't be decoded; mend or remove them, or leave them out with on_bad_image: skip:")
    assert [line.split(": ")[0].strip() for line in lines] == sorted(HOSTILE)
    assert "train/cat/empty.jpg: an empty file" in lines[2]


def test_of_many_bad_images_the_first_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    folder = spoil(divided(tmp_path / "folder"), {f"train/cat/bad{i:02}.png": b"" for i in range(50)})
    with pytest.raises(UserError, match=r"(?s)^50 of 82 .*bad00.*bad19\.png: an empty file\n  and 30 more$"):
        ready(folder)


def test_bad_images_can_be_left_out(tmp_path: Path) -> None:
    clean = ready(divided(tmp_path / "folder"))
    spoilt = ready(spoil(tmp_path / "folder", HOSTILE), on_bad_image="skip")
    assert spoilt.dataset.parameters["skipped"] == 4
    assert {**spoilt.dataset.parameters, "skipped": 0, "fingerprint": ""} == {
        **clean.dataset.parameters,
        "fingerprint": "",
    }
    np.testing.assert_array_equal(*(pixels(found.dataset, tmp_path / "root") for found in (clean, spoilt)))
    (note,) = spoilt.notes
    assert note.startswith(
        "4 of 36 images left out, which can't be decoded: test/dog/float.tiff (floating-point pixels"
    )
    assert "train/cat/empty.jpg (an empty file)" in note


def test_the_policy_is_no_part_of_the_identity(tmp_path: Path) -> None:
    divided(tmp_path / "folder")
    assert ready(tmp_path / "folder", on_bad_image="skip").dataset == ready(tmp_path / "folder").dataset


def test_odd_images_are_decoded_and_counted(tmp_path: Path) -> None:
    found = ready(spoil(divided(tmp_path / "folder"), ODD))
    assert found.dataset.parameters["images"] == 24 + 5
    assert found.dataset.parameters["test_images"] == 8 + 2
    assert found.notes == (
        "images converted: 1 16-bit, 1 CMYK, 1 animated (first frame), 1 enlarged, 1 grey, 2 palette, 1 turned by EXIF",
    )


def test_names_that_are_no_text_are_names_all_the_same(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    folder = divided(tmp_path / "folder", ("cat", name))
    put(folder / "train" / name / f"{name}.png", b"")
    found = ready(folder, on_bad_image="skip")
    assert cache.find(found.dataset, tmp_path / "root")[0].classes == [r"'caf\udce9'", "cat"]
    assert found.notes[0].endswith(r"decoded: 'train/caf\udce9/caf\udce9.png' (an empty file)")
    assert ready(folder, on_bad_image="skip") == found


def test_what_looks_like_a_mistake_is_noted(tmp_path: Path) -> None:
    folder = divided(tmp_path / "folder", ("cat", "dog", "emu"))
    shutil.rmtree(folder / "test" / "emu")
    shutil.copy(folder / "train" / "cat" / "0.png", folder / "test" / "cat" / "copy.png")
    (folder / "train" / "fox").mkdir()
    spoil(folder, {"train/readme.md": b"", "train/cat/.DS_Store": b""})
    assert ready(folder).notes == (
        "2 stray files and folders ignored: train/readme.md, train/cat/.DS_Store",
        "class folders without an image: train/fox",
        "classes without an image in test/: emu",
        "1 images of test/ are in train/ too: test/cat/copy.png",
    )


def test_grey_images_alone_are_noted(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for number in range(24):
        put(folder / "ab"[number % 2] / f"{number}.png", encoded(noise(number).convert("L")))
    assert ready(folder).notes[-1].startswith("all images are grey, so jitter")


def test_a_class_of_bad_images_is_no_class(tmp_path: Path) -> None:
    folder = spoil(divided(tmp_path / "folder"), {f"train/cow/{i}.png": b"" for i in range(9)})
    assert ready(folder, on_bad_image="skip").dataset.parameters["classes"] == 2


# What is refused


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no images, and at least 2 are needed; the layout is"),
        (["cat/{}.png"] * 12, r"has one class with images \(cat\), and at least 2 are needed"),
        (["cat/{}.png"] * 12 + ["dog/{}.png"] * 9, "has too few images for training; each class needs 10: dog 9"),
        (["train/cat/{}.png"] * 5 + ["train/dog/{}.png"] * 4 + ["val/dog/{}.png"] * 9, "each class needs 5: dog 4"),
        (["train/cat/{}.png"] * 5 + ["test/dog/{}.png"] * 9, "each class needs 5: dog 0"),
        (["train/cat/{}.png"] * 5 + ["train/dog/{}.png"] * 5 + ["val/note"], "has no images in val/"),
    ],
)
def test_a_folder_that_is_no_dataset(tmp_path: Path, names: list[str], message: str) -> None:
    (tmp_path / "folder").mkdir()
    for number, name in enumerate(names):
        put(tmp_path / "folder" / name.format(number), encoded(noise(number)))
    with pytest.raises(UserError, match=message):
        ready(tmp_path / "folder")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", r"needs a folder; write image_folder:PATH, or \{name: image_folder, path: PATH\}"),
        ("nothing", "there is no nothing in .*root, where a relative path begins; give an absolute one"),
        ("../folder", "leads out of .*root, where a relative path begins"),
        ("a/../../folder", "leads out of"),
        ("/no/where", "there is no folder /no/where"),
        ("~nobody-of-this-name/x", "nobody-of-this-name"),
        ("/\0", "there is no folder"),
        ("\0", "there is no"),
    ],
)
def test_paths_that_lead_nowhere(tmp_path: Path, path: str, message: str) -> None:
    divided(tmp_path / "folder")
    with pytest.raises(UserError, match=message):
        prepare(path, 8, "fail", tmp_path / "root")


def test_a_relative_path_begins_in_the_root(tmp_path: Path) -> None:
    divided(tmp_path / "root" / "my" / "folder")
    assert prepare("my/folder", 8, "fail", tmp_path / "root") == ready(
        tmp_path / "root" / "my" / "folder", tmp_path / "root"
    )


def test_an_image_that_changes_between_fingerprint_and_decoding_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = divided(tmp_path / "folder")
    plain = cache.decoded

    def late(*arguments: Any) -> cache.Contents:
        put(folder / "train" / "cat" / "3.png", encoded(noise(77)))
        return plain(*arguments)

    monkeypatch.setattr(cache, "decoded", late)
    with pytest.raises(UserError, match=r"train/cat/3\.png changed while it was read; run again"):
        ready(folder)
    assert not list((tmp_path / "root").glob("**/pixels"))


# The cache


def test_a_root_that_cannot_be_written_is_read_and_the_cache_folder_written(tmp_path: Path, home: Path) -> None:
    put(tmp_path / "file", b"")
    found = ready(divided(tmp_path / "folder"), tmp_path / "file" / "root")
    assert list((home / ".cache" / "ablation" / "image_folders").glob("*/pixels"))
    assert len(pixels(found.dataset, tmp_path / "file" / "root")) == 32


@pytest.mark.parametrize("damage", ["no contents", "no pixels", "cut", "foreign", "other version"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, damage: str) -> None:
    first = ready(divided(tmp_path / "folder"))
    before = pixels(first.dataset, tmp_path / "root")
    (made,) = (tmp_path / "root" / "image_folders").iterdir()
    if damage.startswith("no "):
        (made / ("contents.json" if damage == "no contents" else "pixels")).unlink()
    elif damage == "cut":
        os.truncate(made / "pixels", 100)
    else:
        (made / "contents.json").write_bytes(b"garbage" if damage == "foreign" else b"sha256:" + b"0" * 64 + b"\n{}")
    assert ready(tmp_path / "folder") == first
    np.testing.assert_array_equal(pixels(first.dataset, tmp_path / "root"), before)
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["image_folders"]


def test_what_a_killed_process_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, young = (tmp_path / "root" / f".unpacking-{name}" for name in ("old", "young"))
    for left in (old, young):
        put(left / "made" / "pixels", b"half")
    os.utime(old, (0, 0))
    ready(divided(tmp_path / "folder"))
    assert (old.exists(), young.exists()) == (False, True)


def test_changed_pixels_are_found_when_they_are_loaded(tmp_path: Path) -> None:
    first = ready(divided(tmp_path / "folder"))
    _, file = cache.find(first.dataset, tmp_path / "root")
    content = bytearray(file.read_bytes())
    content[50] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match=f"{file.parent} is damaged: remove it and run again"):
        cache.find(first.dataset, tmp_path / "root")


def test_a_cell_of_another_decoding_is_refused(tmp_path: Path) -> None:
    dataset = ready(divided(tmp_path / "folder")).dataset
    other = dataset.model_copy(update={"parameters": {**dataset.parameters, "images": 23}})
    with pytest.raises(UserError, match="is not what was planned; plan the sweep again"):
        cache.find(other, tmp_path / "root")
    with pytest.raises(UserError, match=r"are not in .*elsewhere.*; plan the sweep again"):
        cache.find(dataset, tmp_path / "elsewhere")


@pytest.mark.parametrize("where", ["decode_all", "write"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(decode if where == "decode_all" else durable, where, full)
    with pytest.raises(UserError, match=r"can't be written to .*root \(No space left on device\)"):
        ready(divided(tmp_path / "folder"))
    assert not list((tmp_path / "root").glob("**/pixels"))
    assert not list((tmp_path / "root").glob(".*"))


def test_processes_may_decode_at_once(tmp_path: Path) -> None:
    spoil(divided(tmp_path / "folder"), ODD)
    (tmp_path / "decoded").mkdir()
    code = f"""
import os, time
from pathlib import Path
from ablation.image_folder import decode
from ablation.image_folder.prepare import prepare

def decode_in_step(*arguments, plain=decode.decode_all):
    contents = plain(*arguments)
    Path({str(tmp_path / "decoded")!r}, str(os.getpid())).touch()
    while len(os.listdir({str(tmp_path / "decoded")!r})) < 3:
        time.sleep(0.01)
    return contents

decode.decode_all = decode_in_step
print(prepare({str(tmp_path / "folder")!r}, 8, 'fail', Path({str(tmp_path / "root")!r})).dataset)
"""
    environment = {**os.environ, "HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", code]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    found = ready(tmp_path / "folder")
    assert outputs == [f"{found.dataset}\n"] * 3
    assert len(pixels(found.dataset, tmp_path / "root")) == 39
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["image_folders"]
