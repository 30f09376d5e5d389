"""When a sweep pauses by itself: failures of one cause, and not the outcomes that a sweep is there to find."""

import pytest

from ablation.record import Failure, Record, Status
from ablation.schedule.breaker import Breaker
from tests.cells import ENVIRONMENT, cell, record


def ended(seed: int, status: Status = Status.FAILED, message: str = "no driver", host: str = "a") -> Record:
    failure = None if status is Status.DONE else Failure(kind="RuntimeError", message=message, step=None)
    return record(cell(seed), status, failure=failure, environment=ENVIRONMENT.model_copy(update={"host": host}))


def reasons(*records: Record) -> list[str | None]:
    breaker = Breaker()
    return [breaker.hears(each) for each in records]


def test_the_same_error_in_the_first_cells_pauses() -> None:
    heard = reasons(*(ended(seed, message=f"step {seed}: no driver at 0x{seed}f") for seed in range(4)))
    assert heard[:3] == [None] * 3
    assert heard[3] == "4 of the 4 cells that ended failed with the same error: RuntimeError: step #: no driver at #"


def test_a_few_successes_do_not_hide_a_common_cause() -> None:
    heard = reasons(ended(0, Status.DONE), *(ended(seed) for seed in range(1, 5)))
    assert heard[3] is None
    assert heard[4] is not None


def test_rare_failures_do_not_pause() -> None:
    every_third = [ended(seed, Status.FAILED if seed % 3 == 0 else Status.DONE) for seed in range(60)]
    assert not any(reasons(*every_third))


@pytest.mark.parametrize("status", [Status.DIVERGED, Status.OOM, Status.TIMEOUT])
def test_outcomes_that_a_sweep_looks_for_do_not_pause(status: Status) -> None:
    assert not any(reasons(*(ended(seed, status) for seed in range(20))))


def test_different_errors_do_not_pause_while_nothing_else_tells() -> None:
    assert not any(reasons(*(ended(seed, message="x" * (seed + 1)) for seed in range(8))))


def test_a_node_that_fails_everything_pauses_while_others_work() -> None:
    mixed = [e for i in range(4) for e in (ended(10 + i, Status.DONE, host="b"), ended(i, message="x" * i, host="a"))]
    heard = reasons(*mixed)
    assert heard[:-1] == [None] * 7
    assert heard[-1] is not None
    assert "all 4 cells on the node a failed" in heard[-1]
