"""Where and with what code a trial ran."""

import ctypes
import platform
import resource
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import torch

import ablation
from ablation.record import Environment

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def default_device() -> torch.device:
    """The accelerator, if this process can see one, else the CPU; a CUDA build without a GPU has none."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return found or torch.device("cpu")


def describe(device: torch.device) -> Environment:
    """The environment of a trial on `device`, now and in this process."""
    commit, dirty = _code_version()
    return Environment(
        package=ablation.__version__,
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        torch=torch.__version__,
        numpy=np.__version__,
        host=platform.node(),
        platform=platform.platform(),
        processor=_processor(),
        threads=torch.get_num_threads(),
        device=device.type,
        device_name=_processor() if device.type == "cpu" else _accelerator_name(device),
    )


@cache
def _code_version() -> tuple[str | None, bool | None]:
    """Commit and whether the package's own files differ from it; None where the package is no checkout."""
    folder = Path(ablation.__file__).parent
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        if Path(_git(folder, "rev-parse", "--show-toplevel")) != folder.parent:
            return None, None  # installed inside some other project's checkout
        return commit, bool(_git(folder, "status", "--porcelain", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _accelerator_name(device: torch.device) -> str:
    module = torch.get_device_module(device)
    return str(module.get_device_name(device)) if hasattr(module, "get_device_name") else device.type


def keep_freed_memory() -> None:
    """Lets this process reuse large tensors' memory, where the C library is glibc.

    By default glibc hands it back to the system at once, which then maps and clears every page of it anew: half of the
    time that large batches of views take.
    """
    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)  # glibc's own upper limit, beyond which a block is mapped alone
        library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _return_freed_memory() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def reset_peak_memory(device: torch.device) -> None:
    """Starts the measurement that `peak_memory` reads."""
    if device.type == "cpu":
        _return_freed_memory()
        try:
            Path("/proc/self/clear_refs").write_text("5")  # Linux: resets the peak resident size
        except OSError:
            return  # the peak then covers the whole life of the process
    elif hasattr(module := torch.get_device_module(device), "reset_peak_memory_stats"):
        module.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int | None:
    """Bytes at the peak since `reset_peak_memory`: of the device's allocator, or of the process on a CPU."""
    if device.type != "cpu":
        module = torch.get_device_module(device)
        return int(module.max_memory_allocated(device)) if hasattr(module, "max_memory_allocated") else None
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
