"""What the doctor says of machines that lack something."""

import os
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ablation import durable, host
from ablation.doctor import CHECKS, Check, Finding, Place, Verdict, findings, machine
from ablation.doctor.finding import ok

GB = 10**9


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "results", tmp_path / "data")


def one(name: str, place: Place) -> Finding:
    (finding,) = findings(name, place)
    return finding


@pytest.mark.parametrize("name", ["python", "memory", "open files", "disk", "writing", "sockets"])
def test_this_machine_passes_and_nothing_is_left(name: str, place: Place) -> None:
    assert {finding.verdict for finding in findings(name, place)} <= {Verdict.OK, Verdict.NOTE}
    assert not list(place.results.parent.iterdir())


def test_a_container_with_fewer_cpus_than_ray_sees(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    (tmp_path / "cpu.max").write_text("350000 100000")
    for module in (host, machine):
        monkeypatch.setattr(module, "CGROUPS", tmp_path)
    found = one("cpus", place)
    assert found.verdict is Verdict.OK
    assert found.text.endswith("the container may use 3.5: a sweep fills 3")


@pytest.mark.parametrize(
    ("free", "verdict", "text"),
    [
        (1 * GB, Verdict.FIX, "1 GB free; a sweep needs 1.5 GB"),
        (3 * GB, Verdict.NOTE, "run with --max-concurrent 4"),
        (64 * GB, Verdict.OK, "64 GB free"),
    ],
)
def test_memory_for_trials(
    place: Place, monkeypatch: pytest.MonkeyPatch, free: int, verdict: Verdict, text: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(host, "memory_room", lambda _: None)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free, total=64 * GB))
    found = one("memory", place)
    assert (found.verdict, text in found.text) == (verdict, True), found


def test_little_shared_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=64 * 10**6))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=64 * GB))
    found = one("shared memory", place)
    assert found.verdict is Verdict.NOTE
    assert found.text.startswith("64 MB in /dev/shm, where Ray wants 10 GB")
    assert found.text.endswith("--shm-size=11.0gb")


def test_a_low_limit_of_open_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    assert one("open files", place).text.startswith("at most 1,024, and Ray needs 4,096: raise the limit")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    assert one("open files", place).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"f_bavail": 10}, "make room for 1 GB at least"),
        ({"f_bavail": 4 * 10**6}, "96% is used and Ray stops at 95%"),
        ({"f_favail": 5}, "it takes only 5 more files"),
    ],
)
def test_a_full_disk(place: Place, monkeypatch: pytest.MonkeyPatch, changed: dict[str, int], text: str) -> None:
    stat = {"f_bavail": 5 * 10**7, "f_frsize": 4096, "f_blocks": 10**8, "f_files": 10**6, "f_favail": 10**6}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**{**stat, **changed}))
    found = findings("disk", place)[-1]
    assert (found.verdict, text in found.text) == (Verdict.FIX, True), found


def test_a_folder_that_takes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "write", full)
    found = one("writing", place)
    assert found.verdict is Verdict.FIX
    assert "No space left on device: choose another folder" in found.text


def test_sockets_that_can_not_be_made(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SOCKET", "x" * 100)
    assert one("sockets", place).verdict is Verdict.FIX


def test_every_finding_of_a_check_that_breaks_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Place) -> Any:
        yield ok("half", "done")
        raise RuntimeError("boom\n  in two lines")

    monkeypatch.setitem(CHECKS, "python", Check(breaks))
    assert findings("python", place) == [
        Finding("half", Verdict.OK, "done"),
        Finding("python", Verdict.FIX, "RuntimeError: boom in two lines"),
    ]
