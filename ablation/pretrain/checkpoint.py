"""Checkpoints of one pretraining run: sealed, atomic, with one predecessor, private to the attempt that writes them.

A run keeps a folder, each attempt (each process that works on the cell) a folder in it. An attempt writes only to
its own, and begins from the newest valid checkpoint of any: so an orphan of a killed sweep can't damage the work of
its successor.
"""

import io
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from ablation import durable

_NEWEST, _PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"
_COST = 0.02  # at most this share of the time goes into checkpoints


class Checkpoints:
    """The checkpoints of the pretraining run `key` in `folder`, written by this attempt."""

    def __init__(self, folder: Path, key: str, interval: float = 30.0) -> None:
        """`interval`: seconds between two checkpoints, more where writing one is slow."""
        self._folder = folder
        self._key = key
        self._own = folder / secrets.token_hex(4)
        self._own.mkdir(parents=True)
        self._interval = interval
        self._due = time.monotonic() + interval

    def due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return time.monotonic() >= self._due

    def save(self, state: Mapping[str, Any]) -> None:
        """Writes `state` (tensors, numbers, texts and containers of them); the one before becomes the predecessor."""
        start = time.monotonic()
        buffer = io.BytesIO()
        torch.save({"key": self._key, **state}, buffer)
        self._own.mkdir(parents=True, exist_ok=True)  # an orphan that ended the cell may have cleared it away
        newest = self._own / _NEWEST
        if newest.exists():
            newest.replace(self._own / _PREVIOUS)
        durable.write(newest, durable.seal(buffer.getvalue()))
        end = time.monotonic()
        self._due = end + max(self._interval, (end - start) / _COST)

    def latest(self, damaged: Callable[[Path, str], None] = lambda _path, _why: None) -> dict[str, Any] | None:
        """The valid checkpoint with the most steps over all attempts, or None; `damaged` hears of each unusable one."""
        best: dict[str, Any] | None = None
        for path in sorted(self._folder.glob("*/checkpoint*.pt")):
            try:
                state = read(path, self._key)
            except durable.DamagedError as error:
                damaged(path, str(error))
                continue
            if best is None or state["step"] > best["step"]:
                best = state
        return best

    @staticmethod
    def attempts(folder: Path) -> int:
        """How many attempts there have been at the run in `folder`; at least 1."""
        return max(1, sum(path.is_dir() for path in folder.glob("*")))


def read(path: Path, key: str) -> dict[str, Any]:
    """The state in a checkpoint of the pretraining run `key`.

    Raises:
        DamagedError: the file is none.
    """
    try:
        data = durable.unseal(path.read_bytes())
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except durable.DamagedError:
        raise
    except Exception as error:  # torch names no common base of what a foreign file can raise
        raise durable.DamagedError(f"not a readable checkpoint ({type(error).__name__})") from error
    if not isinstance(state, dict) or state.get("key") != key or not isinstance(state.get("step"), int):
        raise durable.DamagedError(f"not a checkpoint of the pretraining run {key}")
    return state
