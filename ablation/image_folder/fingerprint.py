"""The fingerprint of a folder's images: names and contents, whatever the folder is called and the files' times are."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ablation import durable
from ablation.errors import UserError
from ablation.host import usable_cpus
from ablation.image_folder.scan import File, Scan, shown_name

SETTLED = 2_000_000_000  # ns; a file changed later than this before its hashing may change again within one clock tick

Digests = Mapping[str, str]  # name of a file -> SHA-256 of its content, hex


def digests(scan: Scan, index: Path) -> dict[str, str]:
    """The SHA-256 of every file, by name.

    `index` is a file that keeps them from one call to the next: a file of the same size and times as then is not read
    again. An index that is missing, damaged or can't be written costs time only.

    Raises:
        UserError: a file can't be read.
    """
    known = _load(index)
    before = time.time_ns()
    found = {file.name: entry[1] for file in scan.files if (entry := known.get(file.name)) and entry[0] == file.state}
    unknown = [file for file in scan.files if file.name not in found]
    with ThreadPoolExecutor(usable_cpus()) as pool:
        read = pool.map(lambda file: file_digest(scan.folder / file.name), unknown)
        found.update((file.name, digest) for file, digest in zip(unknown, read, strict=True))
    kept = [file for file in scan.files if max(file.state[1:]) < before - SETTLED]
    if unknown or len(known) != len(kept):
        _save(index, kept, found)
    return found


def fingerprint(digests: Digests) -> str:
    """SHA-256, hex, over names and contents in the order of the names."""
    whole = hashlib.sha256()
    for name, digest in sorted((os.fsencode(name), digest) for name, digest in digests.items()):
        whole.update(len(name).to_bytes(8) + name + bytes.fromhex(digest))
    return whole.hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256, hex, of a file's content.

    Raises:
        UserError: it can't be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{shown_name(str(path))} can't be read ({error.strerror})") from error


def _load(index: Path) -> dict[str, tuple[tuple[int, int, int], str]]:
    try:
        entries = json.loads(durable.unseal(index.read_bytes()))
        return {name: ((size, changed, inode), digest) for name, (size, changed, inode, digest) in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, durable.DamagedError):
        return {}


def _save(index: Path, files: Iterable[File], found: Digests) -> None:
    entries = {file.name: (*file.state, found[file.name]) for file in files}
    with suppress(OSError):
        index.parent.mkdir(parents=True, exist_ok=True)
        durable.write(index, durable.seal(json.dumps(entries).encode()))
