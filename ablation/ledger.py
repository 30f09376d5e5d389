"""The ledger: one folder a sweep, the only truth about which cells have ended and how.

sweep.yaml  plan.json              what was asked
records/<id>.json                  how each cell ended; written atomically, validated on read
histories/<id>.json                how it went there
encoders/<pretraining key>.safetensors
work/<pretraining key>/            checkpoints of unfinished cells, by attempt
retried/                           records that --retry took back
logs/<id>.log                      what each attempt did
quarantine/                        damaged files, moved here and never deleted
report/                            made from the above, at any moment
"""

import fcntl
import json
import os
import platform
import shutil
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from ablation import durable
from ablation.errors import UserError
from ablation.record import SCHEMA_VERSION, History, Record, Status


class Ledger:
    """The records of the sweep in `folder`, an absolute path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.sweep_file = self.folder / "sweep.yaml"
        self.plan_file = self.folder / "plan.json"
        self.quarantined: list[str] = []  # one line for each file moved away by this object

    def create(self) -> None:
        """Makes the folder.

        Raises:
            UserError: it can't be made or written to.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".writable-{os.getpid()}"
            durable.write(probe, b"")
            probe.unlink()
        except OSError as error:
            raise UserError(
                f"{self.folder}: can't write results here ({error.strerror}); choose another folder with --results"
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the sweep's one lock, which the system frees when this process ends, however it ends.

        Raises:
            UserError: another process holds it; the message names it.
        """
        path = self.folder / ".lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = os.read(file, 1000).decode(errors="replace").strip() or "another process"
                raise UserError(f"{self.folder}: {owner} is running this sweep; wait for it or stop it") from error
            now = datetime.now(UTC).isoformat(timespec="seconds")
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {platform.node()}, since {now},".encode(), 0)
            yield
        finally:
            os.close(file)

    def work(self, pretraining_key: str) -> Path:
        """The folder for the checkpoints of a pretraining run."""
        return self.folder / "work" / pretraining_key

    def encoder(self, pretraining_key: str) -> Path:
        """The file of a trained encoder and head."""
        return self._made("encoders") / f"{pretraining_key}.safetensors"

    def put(self, record: Record, history: History) -> None:
        """Commits a cell's end; durable when this returns. The history comes first, so no record lacks its own."""
        durable.write(self._made("histories") / f"{record.id}.json", history.model_dump_json().encode())
        durable.write(self._made("records") / f"{record.id}.json", (record.model_dump_json(indent=1) + "\n").encode())
        if record.status is Status.DONE:
            shutil.rmtree(self.work(record.pretraining_key), ignore_errors=True)

    def retire(self, statuses: Container[Status], cells: Iterable[str]) -> int:
        """Takes the records of `cells` with these statuses out of the ledger, so that they run again; counts them."""
        count = 0
        for cell_id in cells:
            record = self.get(cell_id)
            if record is not None and record.status in statuses:
                stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
                target = self._made("retried") / f"{cell_id}-{stamp}.json"
                (self.folder / "records" / f"{cell_id}.json").replace(target)
                count += 1
        return count

    def log_file(self, cell_id: str) -> Path:
        """Where the attempts at a cell say what they do."""
        return self._made("logs") / f"{cell_id}.log"

    def get(self, cell_id: str) -> Record | None:
        """The valid record of a cell, or None. A damaged one is put in quarantine: the cell then counts as not run."""
        path = self.folder / "records" / f"{cell_id}.json"
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            record = Record.model_validate_json(text)
        except ValidationError as error:
            _refuse_other_versions(path, text)
            self.quarantine(path, str(error.errors()[0]["msg"]))
            return None
        if record.id != cell_id:
            self.quarantine(path, f"it holds the record of another cell, {record.id}")
            return None
        return record

    def records(self) -> dict[str, Record]:
        """All valid records by id, those of cells that the plan no longer has included."""
        ids = sorted(path.stem for path in (self.folder / "records").glob("[!.]*.json"))
        return {cell_id: record for cell_id in ids if (record := self.get(cell_id)) is not None}

    def history(self, cell_id: str) -> History | None:
        """How a cell went, or None where that is missing or damaged."""
        try:
            return History.model_validate_json((self.folder / "histories" / f"{cell_id}.json").read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def quarantine(self, path: Path, why: str) -> None:
        """Moves a damaged file out of the way, under a name of its own, with the reason beside it."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        target = self._made("quarantine") / f"{stamp}-{path.name}"
        path.replace(target)
        durable.write(target.with_name(target.name + ".reason.txt"), f"{path}: {why}\n".encode())
        self.quarantined.append(f"{path}: {why}; moved to {target}")

    def _made(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _refuse_other_versions(path: Path, text: bytes) -> None:
    """A record of another schema version is not damaged: it must stay where it is, and the user must know."""
    try:
        version = json.loads(text)["schema_version"]
    except (ValueError, KeyError, TypeError):
        return
    if isinstance(version, int) and version != SCHEMA_VERSION:
        age = "newer" if version > SCHEMA_VERSION else "older"
        raise UserError(
            f"{path}: written by a{'n' if age == 'older' else ''} {age} version of ablation "
            f"(record schema {version}; this one reads {SCHEMA_VERSION}); use that version, or another results folder"
        )
