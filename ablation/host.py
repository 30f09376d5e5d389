"""What this machine lets the process use: CPUs by affinity and by the container's limit, memory within its limit."""

import os
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """CPUs that this process can keep busy: those of its affinity, within the container's limit; at least one."""
    usable = len(os.sched_getaffinity(0))
    limit = cpu_limit(CGROUPS)
    return usable if limit is None else max(1, min(usable, int(limit)))


def cpu_limit(cgroups: Path) -> float | None:
    """CPUs that the container may use, by version 2 or 1 of control groups; None where it has no limit."""
    if (limit := _words(cgroups / "cpu.max")) and limit[0] != "max":
        return int(limit[0]) / int(limit[1])
    quota, period = (_words(cgroups / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return int(quota[0]) / int(period[0]) if quota and period and int(quota[0]) > 0 else None


def memory_room(cgroups: Path) -> int | None:
    """Bytes that the container may still take, its page cache counted as free; None where it has no limit."""
    for limit_file, used_file, stat_file, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        limit, used, stat = _words(cgroups / limit_file), _words(cgroups / used_file), _words(cgroups / stat_file)
        if limit and used and limit[0] != "max":
            cached = int(stat[stat.index(cache) + 1]) if cache in stat else 0
            return int(limit[0]) - int(used[0]) + cached
    return None


def free_memory() -> int:
    """Bytes that this process may still take, within the container's limit."""
    free, room = psutil.virtual_memory().available, memory_room(CGROUPS)
    return free if room is None else min(free, room)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []
