"""Where trials fit and which runs next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablation.cost.queue import Queue, makespan
from ablation.cost.room import Request, Room

CPU = Request(1.0, 0.0)


@pytest.mark.parametrize(
    ("nodes", "request_", "most"),
    [
        ([(4, 0)], Request(1, 0), 4),
        ([(4, 0)], Request(3, 0), 1),
        ([(4, 0), (2, 0)], Request(2, 0), 3),
        ([(4, 0)], Request(1, 0.5), 0),
        ([(8, 1)], Request(1, 1 / 3), 3),
        ([(2, 1)], Request(1, 1 / 3), 2),
        ([(8, 2)], Request(1, 0.33), 6),
        ([(8, 2)], Request(1, 2), 1),
        ([(8, 1), (8, 1)], Request(1, 2), 0),  # no trial spans two nodes
    ],
)
def test_how_many_trials_fit(nodes: list[tuple[float, int]], request_: Request, most: int) -> None:
    room = Room(nodes)
    assert room.most(request_) == most
    assert room.most(request_) == most  # asking takes nothing


def test_shares_fill_a_gpu_that_is_in_use_before_they_break_up_an_empty_one() -> None:
    room = Room([(8, 2)])
    room.take(Request(1, 0.5))
    room.take(Request(1, 0.5))
    assert room.take(Request(1, 1)) is not None


def taken(queue: Queue) -> list[str]:
    found = []
    while cell := queue.take():
        found.append(cell)
    return found


def test_the_longest_come_first_and_equals_in_the_order_of_the_plan() -> None:
    costs = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 3.0}
    queue = Queue(dict.fromkeys(costs, CPU), costs, Room([(4, 0)]))
    assert taken(queue) == ["b", "d", "c", "a"]
    assert len(queue) == 0


def test_a_narrow_cell_takes_what_a_wide_one_leaves() -> None:
    requests = {"half": Request(1, 0.5), "whole": Request(1, 1), "third": Request(1, 1 / 3)}
    queue = Queue(requests, {"half": 1.0, "whole": 9.0, "third": 9.0}, Room([(8, 1)]))
    assert taken(queue) == ["whole"]
    queue.ended("whole")
    assert taken(queue) == ["half", "third"]


def test_no_more_at_once_than_asked_for() -> None:
    queue = Queue(dict.fromkeys("abc", CPU), dict.fromkeys("abc", 1.0), Room([(8, 0)]), most=2)
    assert len(taken(queue)) == 2
    queue.ended("a")
    queue.ended("a")  # a second word of it changes nothing
    assert taken(queue) == ["c"]


@given(
    st.lists(st.tuples(st.sampled_from([1.0, 0.5, 0.25, 1 / 3]), st.floats(0.1, 10.0)), min_size=1, max_size=30),
    st.integers(1, 3),
)
def test_no_slot_is_idle_while_a_cell_fits(cells: list[tuple[float, float]], gpus: int) -> None:
    requests = {str(i): Request(1.0, share) for i, (share, _) in enumerate(cells)}
    costs = {str(i): seconds for i, (_, seconds) in enumerate(cells)}
    room = Room([(64.0, gpus)])
    queue = Queue(requests, costs, room)
    running: list[str] = []
    waiting = set(requests)
    while waiting or running:
        now = taken(queue)
        running += now
        waiting -= set(now)
        assert all(room.take(requests[cell]) is None for cell in waiting)
        queue.ended(running.pop(0))
    assert len(queue) == 0
    assert room.most(Request(1.0, 1.0)) == gpus  # everything was given back


def test_makespan_is_that_of_longest_first() -> None:
    costs = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 3.0, "e": 3.0}
    assert makespan(Queue(dict.fromkeys(costs, CPU), costs, Room([(2, 0)])), costs) == 10.0
    assert makespan(Queue(dict.fromkeys(costs, CPU), costs, Room([(1, 0)])), costs) == 18.0


def test_a_hundred_thousand_cells_are_queued_without_delay() -> None:
    costs = {str(i): float(i % 97) for i in range(100_000)}
    queue = Queue(dict.fromkeys(costs, CPU), costs, Room([(64, 0)]))
    assert makespan(queue, costs) >= sum(costs.values()) / 64
