"""Files that are whole or absent, whatever kills the writer, and sealed bytes that show any damage."""

import hashlib
import os
import secrets
from pathlib import Path

_SEAL = b"sha256:"
_HEADER = len(_SEAL) + 64 + 1


class DamagedError(Exception):
    """A file that is not what was written: truncated, empty, overwritten or foreign."""


def write(path: Path, data: bytes) -> None:
    """Writes `data` durably: a temporary file in the same folder, fsync, rename over `path`, fsync of the folder.

    Raises:
        OSError: nothing changed at `path`, and no temporary file stays, where the disk is full or not writable.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(folder: Path) -> None:
    """Makes what was renamed into `folder` last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seal(data: bytes) -> bytes:
    """`data` behind its checksum, for `unseal`."""
    return _SEAL + hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def unseal(sealed: bytes) -> bytes:
    """The data that `seal` was given.

    Raises:
        DamagedError: the checksum does not fit or there is none.
    """
    data = sealed[_HEADER:]
    if sealed[:_HEADER] != seal(data)[:_HEADER]:
        raise DamagedError("its checksum does not fit its content")
    return data
