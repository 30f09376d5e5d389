"""What runs beside what, and clusters that can't be had."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from ablation.cell import Evaluation
from ablation.errors import UserError
from ablation.ledger import Ledger
from ablation.record import Status
from ablation.schedule import cluster, waves
from ablation.schedule.watch import Watcher
from tests.cells import SGD, cell


def test_cells_of_one_encoder_wait_for_the_first_of_them() -> None:
    usual = [cell(seed) for seed in range(3)]
    probed = [one.model_copy(update={"evaluation": Evaluation(probe=SGD)}) for one in usual]
    assert waves([*usual, *probed]) == [usual, probed]
    assert waves([probed[1], *usual]) == [[probed[1], usual[0], usual[2]], [usual[1]]]
    assert waves(usual) == [usual]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:1", "host.invalid:6379", "127.0.0.1", "127.0.0.1:99999", "ray://127.0.0.1:10001", "a/b:1", ""],
)
def test_an_address_without_a_cluster_is_refused_at_once(address: str) -> None:
    with (
        pytest.raises(UserError, match=rf"can't reach a Ray cluster at {address}|{address}: should be HOST:PORT"),
        cluster.connect(address),
    ):
        pass


@pytest.mark.parametrize(
    "raised", [Exception("timed out during startup"), ConnectionError(), RuntimeError("no memory")]
)
def test_a_cluster_that_does_not_start_is_told_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def init(**_: Any) -> None:
        raise raised

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "unused")
    with (
        pytest.raises(UserError, match=f"can't start Ray: {str(raised) or type(raised).__name__}"),
        cluster.connect(None),
    ):
        pass
    assert not list(Path("/tmp").glob(f"abl-{os.getpid()}-*"))


@pytest.mark.parametrize(
    ("failures", "error", "status"),
    [(1, None, None), (2, None, None), (3, None, Status.FAILED), (3, "ray.exceptions.OutOfMemoryError", Status.OOM)],
)
def test_a_cell_has_failed_when_its_retries_are_used_up_and_not_before(
    tmp_path: Path, failures: int, error: str | None, status: Status | None
) -> None:
    ledger, one = Ledger(tmp_path), cell()
    told: list[Any] = []
    display: Any = SimpleNamespace(ended=lambda cell_id, record: told.append((cell_id, record)))
    stop: Any = SimpleNamespace(reason=None, running={one.id}, request=told.append)
    trial = SimpleNamespace(config={"id": one.id}, num_failures=failures, get_error=lambda: error)
    Watcher(display, ledger, stop, {one.id: one}, retries=2).on_trial_error(1, [], trial)
    record = ledger.get(one.id)
    assert (record and record.status) == status
    assert told == [(one.id, record)]
    assert not stop.running
