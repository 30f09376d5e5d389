"""What in a sweep's folder is of no use any more. Records, histories, encoders and what is damaged never are in it."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from ablation import durable
from ablation.ledger import Ledger
from ablation.pretrain import checkpoint
from ablation.record import Status

STALE = 60.0  # seconds without a write after which a temporary file's writer is taken for dead
RAY_PARENT = Path("/tmp")  # noqa: S108 - where a sweep's own Ray keeps its sockets and logs
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp|\.writable-\d+")


@dataclass(frozen=True)
class Leftover:
    """A file or folder that can go, with all that is in it."""

    path: Path
    why: str

    @property
    def bytes(self) -> int:
        """What removing it frees."""
        inside = self.path.rglob("*") if self.path.is_dir() and not self.path.is_symlink() else ()
        return sum(path.lstat().st_size for path in (self.path, *inside) if path.is_symlink() or not path.is_dir())

    def remove(self) -> None:
        """Removes it.

        Raises:
            OSError: not all of it can be removed.
        """
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)


def leftovers(ledger: Ledger) -> list[Leftover]:
    """What can go while nobody runs the sweep: the caller holds its lock."""
    done = {record.pretraining_key for record in ledger.records().values() if record.status is Status.DONE}
    found = list(ray_folders())
    found += (Leftover(path, "asked a sweep to stop that has ended") for path in ledger.folder.glob(".stop-*"))
    work = ledger.folder / "work"
    for folder in sorted(work.iterdir()) if work.is_dir() else ():
        if folder.name in done:
            found.append(Leftover(folder, "its cell is done"))
        else:
            found += _superseded(folder)
    gone = {leftover.path for leftover in found}
    found += (one for one in _temporary_files(ledger.folder) if not gone & {one.path, *one.path.parents})
    return found


def _superseded(folder: Path) -> Iterator[Leftover]:
    """Checkpoints of other attempts than the one that goes furthest; their folders stay and count the attempts."""
    steps: dict[Path, int] = {}
    for path in sorted(folder.glob("*/checkpoint*.pt")):
        try:
            steps[path] = checkpoint.read(path, folder.name)["step"]
        except durable.DamagedError:
            continue  # the next attempt puts it in quarantine
    best = max(steps, key=lambda path: steps[path], default=None)
    for path in steps:
        if best is not None and path.parent != best.parent:
            yield Leftover(path, f"another attempt has a checkpoint of step {steps[best]}")


def _temporary_files(folder: Path) -> Iterator[Leftover]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if _TEMPORARY.fullmatch(name) and time.time() - path.lstat().st_mtime > STALE:
                yield Leftover(path, "half-written, and its writer is gone")


def ray_folders() -> Iterator[Leftover]:
    """Folders of Ray clusters whose driver, named by its process id, is no more."""
    for path in sorted(RAY_PARENT.glob("abl-*-*")):
        driver = path.name.split("-")[1]
        if driver.isdecimal() and not psutil.pid_exists(int(driver)) and path.lstat().st_uid == os.getuid():
            yield Leftover(path, f"of the Ray cluster of process {driver}, which has ended")
