"""Files that are whole or absent."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablation import durable


def test_write_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    durable.write(path, b"one")
    durable.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    durable.write(path, b"one")

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        durable.write(path, b"two")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


@given(st.binary(max_size=200))
def test_seal_round_trip(data: bytes) -> None:
    assert durable.unseal(durable.seal(data)) == data


@given(st.binary(max_size=100), st.data())
def test_any_damage_shows(data: bytes, draw: st.DataObject) -> None:
    sealed = durable.seal(data)
    kind = draw.draw(st.sampled_from(["flip", "cut", "append"]))
    if kind == "flip":
        index = draw.draw(st.integers(0, len(sealed) - 1))
        damaged = sealed[:index] + bytes([sealed[index] ^ draw.draw(st.integers(1, 255))]) + sealed[index + 1 :]
    elif kind == "cut":
        damaged = sealed[: draw.draw(st.integers(0, len(sealed) - 1))]
    else:
        damaged = sealed + draw.draw(st.binary(min_size=1, max_size=10))
    with pytest.raises(durable.DamagedError):
        durable.unseal(damaged)
