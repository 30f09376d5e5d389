"""Checkpoints: the newest valid one wins, damage falls back to its predecessor, attempts don't touch each other."""

import pickle
from pathlib import Path

import pytest
import torch

from ablation import durable
from ablation.pretrain.checkpoint import Checkpoints


def state(step: int) -> dict[str, object]:
    return {"step": step, "weights": {"w": torch.full((3,), float(step))}, "history": "{}"}


def newest(folder: Path) -> Path:
    return max(folder.glob("*/checkpoint.pt"), key=lambda path: path.stat().st_mtime_ns)


def test_the_last_state_comes_back(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "key")
    assert checkpoints.latest() is None
    for step in (1, 2, 3):
        checkpoints.save(state(step))
    loaded = Checkpoints(tmp_path, "key").latest()
    assert loaded is not None
    assert loaded["step"] == 3
    assert loaded["weights"]["w"].equal(torch.full((3,), 3.0))


@pytest.mark.parametrize(
    "content", [b"", b"garbage", durable.seal(b"garbage"), durable.seal(pickle.dumps({"step": 9}))]
)
def test_a_damaged_checkpoint_falls_back_to_its_predecessor(tmp_path: Path, content: bytes) -> None:
    checkpoints = Checkpoints(tmp_path, "key")
    checkpoints.save(state(1))
    checkpoints.save(state(2))
    newest(tmp_path).write_bytes(content)
    seen: list[Path] = []
    loaded = Checkpoints(tmp_path, "key").latest(damaged=lambda path, _why: seen.append(path))
    assert loaded is not None
    assert loaded["step"] == 1
    assert seen == [newest(tmp_path)]


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "attacked"),))

    checkpoints = Checkpoints(tmp_path / "work", "key")
    checkpoints.save(state(1))
    for data in (pickle.dumps(Attack()), pickle.dumps({"key": "key", "step": Attack()})):
        newest(tmp_path / "work").write_bytes(durable.seal(data))
        assert checkpoints.latest() is None
    assert not (tmp_path / "attacked").exists()


def test_the_checkpoint_of_another_run_is_not_taken(tmp_path: Path) -> None:
    Checkpoints(tmp_path, "one").save(state(5))
    assert Checkpoints(tmp_path, "two").latest() is None


def test_an_orphan_does_not_damage_its_successor(tmp_path: Path) -> None:
    orphan, successor = Checkpoints(tmp_path, "key"), Checkpoints(tmp_path, "key")
    orphan.save(state(1))
    successor.save(state(2))
    orphan.save(state(1))
    loaded = successor.latest()
    assert loaded is not None
    assert loaded["step"] == 2
    assert Checkpoints.attempts(tmp_path) == 2


def test_slow_checkpoints_come_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(durable, "write", lambda _path, _data: now.__setitem__(0, now[0] + 4.0))
    checkpoints = Checkpoints(tmp_path, "key", interval=30.0)
    now[0] = 30.0
    assert checkpoints.due()
    checkpoints.save(state(1))  # takes 4 s, so that 2 % of the time allows one every 200 s
    now[0] = 34.0 + 199.0
    assert not checkpoints.due()
    now[0] = 34.0 + 200.0
    assert checkpoints.due()
