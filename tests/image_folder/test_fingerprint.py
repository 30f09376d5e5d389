"""A fingerprint is a function of names and contents alone, and the index that makes it fast never makes it wrong."""

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablation.errors import UserError
from ablation.image_folder import fingerprint as module
from ablation.image_folder.fingerprint import digests, fingerprint
from ablation.image_folder.scan import scan
from tests.pictures import put

Tree = dict[str, bytes]  # name -> content

NAMES = st.builds(
    "{}/{}.png".format,
    st.sampled_from(["a", "b", "ab", "b c", "é"]),
    st.text("ab/1", max_size=4).map(lambda s: s.replace("/", "x")),
)
TREES = st.dictionaries(NAMES, st.binary(max_size=6), min_size=1, max_size=6)


def write(folder: Path, tree: Tree, order: int = 0) -> Path:
    names = list(tree)
    random.Random(order).shuffle(names)  # noqa: S311
    for name in names:
        put(folder / name, tree[name])
    return folder


def of(folder: Path, index: Path | None = None) -> str:
    return fingerprint(digests(scan(folder), index or folder.parent / "no index"))


@settings(max_examples=40, deadline=None)
@given(tree=TREES, order=st.integers(0, 9))
def test_place_order_and_times_do_not_matter(tmp_path_factory: pytest.TempPathFactory, tree: Tree, order: int) -> None:
    one = write(tmp_path_factory.mktemp("one") / "folder", tree)
    other = write(tmp_path_factory.mktemp("other") / "elsewhere" / "folder", tree, order)
    for name in tree:
        os.utime(other / name, (order, order))
    put(other / "a" / "stray.txt", b"x")
    assert of(one) == of(other)


@settings(max_examples=40, deadline=None)
@given(one=TREES, other=TREES)
def test_different_trees_have_different_fingerprints(
    tmp_path_factory: pytest.TempPathFactory, one: Tree, other: Tree
) -> None:
    folders = [write(tmp_path_factory.mktemp("tree") / "folder", tree) for tree in (one, other)]
    assert (of(folders[0]) == of(folders[1])) == (one == other)


@settings(deadline=None)
@given(names=st.lists(st.text(max_size=3), min_size=2, max_size=2, unique=True))
def test_the_end_of_a_name_is_part_of_it(names: list[str]) -> None:
    one, other = names
    assert fingerprint({one: "00" * 32}) != fingerprint({other: "00" * 32})
    assert fingerprint({one: "00" * 32, other: "11" * 32}) != fingerprint({one: "11" * 32, other: "00" * 32})


def test_a_name_cannot_pass_for_two_files() -> None:
    forged = os.fsdecode(b"a" + bytes(range(32)) + b"b")
    assert fingerprint({"a": bytes(range(32)).hex(), "b": "11" * 32}) != fingerprint({forged: "11" * 32})


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files count as old enough for the index."""
    monkeypatch.setattr(module, "SETTLED", -1_000_000_000)
    return write(tmp_path / "folder", {"a/1.png": b"one", "a/2.png": b"two", "b/3.png": b"three"})


def read(folder: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read for a fingerprint, which must be the right one."""
    names = []

    def spy(path: Path, plain: object = module.file_digest) -> str:
        names.append(path.name)
        return plain(path)  # type: ignore[operator, no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(module, "file_digest", spy)
        found = of(folder, index)
    assert found == of(folder)
    return sorted(names)


def test_only_what_changed_is_read_again(settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "cache" / "index.json"
    assert read(settled, index, monkeypatch) == ["1.png", "2.png", "3.png"]
    assert read(settled, index, monkeypatch) == []
    put(settled / "a" / "2.png", b"TWO")
    put(settled / "b" / "4.png", b"four")
    (settled / "a" / "1.png").unlink()
    assert read(settled, index, monkeypatch) == ["2.png", "4.png"]
    assert read(settled, index, monkeypatch) == []


def test_a_change_that_hides_its_time_is_seen(settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, file = tmp_path / "index.json", settled / "a" / "1.png"
    os.utime(file, ns=(10**9, 10**9))
    read(settled, index, monkeypatch)
    time.sleep(0.02)
    file.write_bytes(b"ONE")
    os.utime(file, ns=(10**9, 10**9))
    assert read(settled, index, monkeypatch) == ["1.png"]


@pytest.mark.parametrize("damage", [b"", b"garbage", b"sha256:", b'{"a/1.png": [3, 0, 0, "00"]}'])
def test_a_damaged_index_is_not_believed(
    settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    index = put(tmp_path / "index.json", damage)
    assert read(settled, index, monkeypatch) == ["1.png", "2.png", "3.png"]
    assert read(settled, index, monkeypatch) == []


def test_a_file_as_young_as_the_clock_s_tick_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "folder", {"a/1.png": b"one"})
    for _ in range(2):
        assert read(folder, tmp_path / "index.json", monkeypatch) == ["1.png"]


def test_an_index_that_cannot_be_written_costs_time_only(
    settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "file", b"")
    for _ in range(2):
        assert len(read(settled, tmp_path / "file" / "index.json", monkeypatch)) == 3


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", {"a/1.png": b"one"})
    seen = scan(folder)
    (folder / "a" / "1.png").unlink()
    with pytest.raises(UserError, match=r"a/1\.png can't be read \(No such file"):
        digests(seen, tmp_path / "index.json")
