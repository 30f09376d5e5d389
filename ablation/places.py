"""Folders for what is made of datasets: one cache, and a way to put something into it that is there as a whole."""

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ablation.errors import UserError

PREFIX = ".unpacking-"
ABANDONED = 86_400.0  # seconds; no unpacking takes so long


def cache_folder() -> Path:
    """Where dataset files go when no other folder is named or can be written."""
    return Path.home() / ".cache" / "ablation"


@contextmanager
def staging(roots: Iterable[Path]) -> Iterator[Path]:
    """A temporary folder in the first of `roots` that can be written: what is done in it is renamed out of it.

    Those that killed processes left there more than a day ago are removed.

    Raises:
        UserError: none of them can be written.
    """
    failures = []
    for root in roots:
        try:
            root.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(root)
            folder = tempfile.TemporaryDirectory(dir=root, prefix=PREFIX)
        except OSError as error:
            failures.append(f"{root} ({error.strerror})")
        else:
            with folder as stage:
                yield Path(stage)
            return
    raise UserError(f"Dataset files can't be unpacked; no folder can be written: {', '.join(failures)}.")


def _remove_abandoned(root: Path) -> None:
    for folder in root.glob(f"{PREFIX}*"):
        if folder.lstat().st_mtime < time.time() - ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)
