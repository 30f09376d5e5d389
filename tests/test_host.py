"""What a container's limits leave of the machine."""

import os
from pathlib import Path

import pytest

from ablation import host


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "250000 100000"}, 2.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_the_cpu_limit_of_a_container(tmp_path: Path, files: dict[str, str], limit: float | None) -> None:
    written(tmp_path, files)
    assert host.cpu_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("files", "room"),
    [
        ({}, None),
        ({"memory.max": "max", "memory.current": "5"}, None),
        ({"memory.max": "100", "memory.current": "60", "memory.stat": "anon 1\ninactive_file 20\n"}, 60),
        (
            {
                "memory/memory.limit_in_bytes": "100",
                "memory/memory.usage_in_bytes": "60",
                "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 30",
            },
            70,
        ),
    ],
)
def test_the_memory_that_a_container_may_still_take(tmp_path: Path, files: dict[str, str], room: int | None) -> None:
    written(tmp_path, files)
    assert host.memory_room(tmp_path) == room


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{text}\n")


@pytest.mark.parametrize(("limit", "usable"), [("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1)])
def test_usable_cpus_are_those_of_the_affinity_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, usable: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 5})
    monkeypatch.setattr(host, "CGROUPS", tmp_path)
    written(tmp_path, {"cpu.max": limit})
    assert host.usable_cpus() == usable
