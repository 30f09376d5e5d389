"""The machine: what it has, and what it lets this process use."""

import fcntl
import os
import platform
import resource
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from ablation import durable
from ablation.doctor.finding import Finding, Place, fix, note, ok
from ablation.host import CGROUPS, cpu_limit, free_memory, usable_cpus

GB = 10**9
WORKER = 0.5 * GB  # memory of one more trial, beyond what processes share
BASE = 1.5 * GB  # memory of the driver, Ray's own processes and one trial
DISK = 1 * GB  # records, encoders and checkpoints of a small sweep; Ray's logs
RAY_DISK_SHARE = 0.95  # Ray creates no more objects on a disk that is fuller
RAY_FILES = 4096  # Ray warns below
RAY_STORE_SHARE, RAY_STORE_CAP = 0.3, 10 * GB  # of memory, and at most, that Ray wants in /dev/shm
SOCKET = "session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store"  # the longest that Ray makes


def python(_: Place) -> Iterator[Finding]:
    """The interpreter."""
    yield ok("python", f"{platform.python_version()} ({platform.python_implementation()}) on {platform.platform()}")


def cpus(_: Place) -> Iterator[Finding]:
    """CPUs by affinity and by the container's limit: as many as a sweep fills."""
    text = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} by affinity"
    limit = cpu_limit(CGROUPS)
    bound = "no lower limit of the container"
    if limit is not None and usable_cpus() < len(os.sched_getaffinity(0)):
        bound = f"the container may use {limit:g}: a sweep fills {usable_cpus()}"
    yield ok("cpus", f"{text}, {bound}")


def memory(_: Place) -> Iterator[Finding]:
    """Free memory beside what trials need."""
    free = free_memory()
    slots = usable_cpus()
    fitting = int((free - BASE) / WORKER) + 1
    if free < BASE:
        yield fix("memory", f"{_size(free)} free; a sweep needs {_size(BASE)}: end other programs")
    elif fitting < slots:
        yield note(
            "memory", f"{_size(free)} free, for about {fitting} cells at once: run with --max-concurrent {fitting}"
        )
    else:
        yield ok("memory", f"{_size(free)} free of {_size(psutil.virtual_memory().total)}")


def shared_memory(_: Place) -> Iterator[Finding]:
    """The system's shared memory, where Ray keeps the datasets that all trials read."""
    try:
        free = shutil.disk_usage("/dev/shm").free  # noqa: S108 - the system's own folder
    except OSError as error:
        yield fix("shared memory", f"no /dev/shm ({error.strerror}): mount a tmpfs there")
        return
    wanted = min(RAY_STORE_SHARE * psutil.virtual_memory().available, RAY_STORE_CAP)
    if free < wanted:
        advice = f"in Docker, --shm-size={wanted * 1.1 / GB:.1f}gb"
        yield note(
            "shared memory", f"{_size(free)} in /dev/shm, where Ray wants {_size(wanted)}; it uses /tmp: {advice}"
        )
    else:
        yield ok("shared memory", f"{_size(free)} in /dev/shm")


def open_files(_: Place) -> Iterator[Finding]:
    """The limit of open files; Ray raises the soft one as far as the hard one allows."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < RAY_FILES:
        yield fix(
            "open files", f"at most {hard:,}, and Ray needs {RAY_FILES:,}: raise the limit, ulimit -Hn 65536 as root"
        )
    else:
        yield ok("open files", "no limit" if hard == resource.RLIM_INFINITY else f"up to {hard:,}")


def disk(place: Place) -> Iterator[Finding]:
    """Space for results and for Ray's files."""
    yield _space("disk for results", existing(place.results))
    yield _space("disk for Ray", Path("/tmp"), share=RAY_DISK_SHARE)  # noqa: S108 - where a sweep's Ray works


def _space(name: str, folder: Path, share: float = 1.0) -> Finding:
    found = os.statvfs(folder)
    free, used = found.f_bavail * found.f_frsize, 1 - found.f_bavail / max(1, found.f_blocks)
    text = f"{_size(free)} free at {folder}"
    if free < DISK:
        return fix(name, f"{text}: make room for {_size(DISK)} at least")
    if used > share:
        return fix(name, f"{text}, but {used:.0%} is used and Ray stops at {share:.0%}: make room")
    if found.f_files and found.f_favail < 10_000:
        return fix(name, f"{text}, but it takes only {found.f_favail:,} more files: remove some")
    return ok(name, text)


def writing(place: Place) -> Iterator[Finding]:
    """Whether the results' disk can do what the ledger needs: durable files, renames and a lock."""
    folder = existing(place.results)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".ablation-doctor-") as made:
            file = Path(made) / "file"
            durable.write(file, b"")
            durable.write(file, b"x")
            with file.open("r+b") as opened:
                fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        yield fix("writing", f"{folder}: {error.strerror}: choose another folder with --results")
    else:
        yield ok("writing", f"{folder} takes files and locks")


def socket_path(_: Place) -> Iterator[Finding]:
    """Whether Ray's sockets, whose paths are limited to 107 characters, can be made."""
    try:
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="abl-1234567-") as made:
            path = Path(made) / SOCKET
            path.parent.mkdir(parents=True)
            with socket.socket(socket.AF_UNIX) as opened:
                opened.bind(str(path))
    except OSError as error:
        yield fix("sockets", f"none can be made below /tmp ({error}): /tmp should be a local folder that you can write")
    else:
        yield ok("sockets", f"paths of {len(str(path))} characters, where 107 are allowed")


def existing(path: Path) -> Path:
    """The folder itself, or the nearest above it that exists."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _size(count: float) -> str:
    return f"{count / GB:.3g} GB" if count >= 0.1 * GB else f"{count / 10**6:.3g} MB"
