"""The ledger: one folder a sweep, the only truth about which cells have ended and how.

sweep.yaml  plan.json              what was asked
records/<id>.json                  how each cell ended; written atomically, validated on read
histories/<id>.json                how it went there
logs/<id>.log                      what each attempt did
encoders/<pretraining key>.safetensors
work/<pretraining key>/            checkpoints of unfinished cells, by attempt
retried/                           records that --retry took back
quarantine/                        damaged files, moved here and never deleted
report/                            made from the above, at any moment
"""

import errno
import fcntl
import json
import os
import platform
import shutil
import struct
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ablation import durable
from ablation.cell import UNKNOWN_NAME
from ablation.errors import UserError
from ablation.record import SCHEMA_VERSION, History, Record, Status

MAX_BYTES = 64 * 1024**2  # of a record or a history; they take kilobytes


class Ledger:
    """The records of the sweep in `folder`, an absolute path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.sweep_file = self.folder / "sweep.yaml"
        self.plan_file = self.folder / "plan.json"
        self._lock = self.folder / ".lock"
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
        try:
            file = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"{self.folder}: can't be locked ({error.strerror})") from error
        try:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise UserError(f"{self.folder}: can't be locked ({error.strerror}); use another disk") from error
                owner = _owner(file)
                raise UserError(f"{self.folder}: {owner}, is running this sweep; wait for it or stop it") from error
            now = datetime.now(UTC).isoformat(timespec="seconds")
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {platform.node()}, since {now}".encode(), 0)
            yield
        finally:
            os.close(file)

    def owner(self) -> str | None:
        """Who holds the lock now, or None; takes no lock. Not for the holder itself, which would lose it by closing."""
        try:
            file = os.open(self._lock, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            layout = "hhqqi"  # struct flock: type, whence, start, length, pid
            asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, asked))
            return None if answer[0] == fcntl.F_UNLCK else _owner(file)
        finally:
            os.close(file)

    def log_file(self, cell_id: str) -> Path:
        """The file that a cell's attempts append lines to; its folder is there where it can be made."""
        with suppress(OSError):
            self._made("logs")
        return self.folder / "logs" / f"{cell_id}.log"

    def work(self, pretraining_key: str) -> Path:
        """The folder for the checkpoints of a pretraining run."""
        return self.folder / "work" / pretraining_key

    def encoder(self, pretraining_key: str) -> Path:
        """The file of a trained encoder and head."""
        return self._made("encoders") / f"{pretraining_key}.safetensors"

    def put(self, record: Record, history: History) -> None:
        """Commits a cell's end; durable when this returns. The history comes first, so no record lacks its own."""
        durable.write(self._made("histories") / f"{record.id}.json", history.model_dump_json().encode())
        durable.write(self._made("records") / f"{record.id}.json", _text(record))
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

    def get(self, cell_id: str) -> Record | None:
        """The valid record of a cell, or None. A damaged one is put in quarantine: the cell then counts as not run.

        Raises:
            UserError: whether it is damaged can't be told: it can't be read, or another version wrote it.
        """
        return self._get(self.folder / "records" / f"{cell_id}.json")

    def _get(self, path: Path) -> Record | None:
        try:
            return _read_record(path)
        except FileNotFoundError:
            return None
        except durable.DamagedError as error:
            self.quarantine(path, str(error))
            return None

    def records(self) -> dict[str, Record]:
        """All valid records by id, those of cells that the plan no longer has included."""
        return {record.id: record for record in self.each()}

    def each(self) -> Iterator[Record]:
        """All valid records, one after another: thousands of them at once take more time to make room for."""
        try:
            paths = sorted((self.folder / "records").iterdir(), key=lambda path: path.name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(
                f"{self.folder / 'records'}: can't be read ({error.strerror}); it should be a folder"
            ) from error
        for path in paths:
            if path.suffix == ".json" and not path.name.startswith(".") and (record := self._get(path)) is not None:
                yield record

    def history(self, cell_id: str) -> History | None:
        """How a cell went, or None where that is missing or damaged."""
        try:
            text = durable.read(self.folder / "histories" / f"{cell_id}.json", MAX_BYTES)
            return History.model_validate_json(text, strict=True)
        except (OSError, durable.DamagedError, ValidationError):
            return None

    def quarantine(self, path: Path, why: str) -> None:
        """Moves a damaged file out of the way, under a name of its own, with the reason beside it.

        Where that is not allowed the file stays, and so does the line in `quarantined`.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        reason = _printable(f"{path}: {why}")
        try:
            name = os.fsdecode(os.fsencode(path.name)[-150:])  # with what stands around it still a legal name
            target = self._made("quarantine") / f"{stamp}-{name}"
            path.replace(target)
            durable.write(target.with_name(f"{target.name}.reason.txt"), f"{reason}\n".encode())
        except FileNotFoundError:
            return  # another process was faster
        except OSError as error:
            self.quarantined.append(f"{reason}; it can't be moved away ({error.strerror})")
        else:
            self.quarantined.append(f"{reason}; moved to {_printable(str(target))}")

    def _made(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _owner(lock: int) -> str:
    return _printable(os.pread(lock, 1000, 0).decode(errors="replace").strip()) or "another process"


def _read_record(path: Path) -> Record:
    """The record in `path`, whose name is its id.

    Raises:
        FileNotFoundError: there is none.
        DamagedError: the file is no such record.
        UserError: it can't be read, or another version wrote it.
    """
    try:
        text = durable.read(path, MAX_BYTES)
    except OSError as error:
        if path.is_symlink() and error.errno in (errno.ENOENT, errno.ELOOP):
            raise durable.DamagedError("is a link that leads nowhere") from error
        if isinstance(error, FileNotFoundError):
            raise
        raise UserError(f"{path}: can't be read ({error.strerror}); make it readable, or move it away") from error
    try:
        record = Record.model_validate_json(text, strict=True)
    except ValidationError as error:
        _refuse_other_versions(path, text, error)
        wrong = error.errors(include_url=False, include_input=False)[0]
        raise durable.DamagedError(": ".join(filter(None, (".".join(map(str, wrong["loc"])), wrong["msg"])))) from error
    if record.id != path.stem:
        raise durable.DamagedError(f"it holds the record of another cell, {record.id}")
    if text != _text(record) and (key := _repeated_key(text)) is not None:
        raise durable.DamagedError(f"has the key {key} twice")
    return record


def _text(record: Record) -> bytes:
    return (record.model_dump_json(indent=1) + "\n").encode()


def _repeated_key(text: bytes) -> str | None:
    """A key that stands twice in one of the objects of a JSON text; readers differ in which of the two counts."""
    found: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) < len(pairs):
            found.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)

    json.loads(text, object_pairs_hook=note)
    return found[0] if found else None


def _refuse_other_versions(path: Path, text: bytes, error: ValidationError) -> None:
    """A record of another version is not damaged: it must stay where it is, and the user must know."""
    remedy = "use the version that wrote it, or another results folder"
    for wrong in error.errors(include_url=False):
        if wrong["type"] == UNKNOWN_NAME and error.error_count() == 1:
            raise UserError(f"{path}: {wrong['msg']}; {remedy}")
    try:
        version = json.loads(text)["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if type(version) is int and 0 <= version < 10**6 and version != SCHEMA_VERSION:
        age = "a newer" if version > SCHEMA_VERSION else "an older"
        raise UserError(
            f"{path}: written by {age} version of ablation "
            f"(record schema {version}; this one reads {SCHEMA_VERSION}); {remedy}"
        )


def _printable(text: str) -> str:
    """File names may hold anything, bytes that are no UTF-8 included; a terminal should get none of it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
