"""Which cell runs next: no slot stays idle while a cell fits into it."""

import heapq
from collections.abc import Mapping

from ablation.cost.room import Place, Request, Room


class Queue:
    """Cells that wait, the widest first and of equals the longest, for the room that they need.

    The widest come first, since later no GPU would be empty for them; the longest, since the sweep would else end with
    them running alone.
    """

    def __init__(
        self, requests: Mapping[str, Request], costs: Mapping[str, float], room: Room, most: int | None = None
    ) -> None:
        """Both mappings are by cell; `costs` are in any unit. `most` run at once."""
        order = sorted(requests, key=lambda cell: (requests[cell].gpus, requests[cell].cpus, costs[cell]), reverse=True)
        self._waiting: dict[Request, list[str]] = {
            requests[cell]: [] for cell in order
        }  # each with the next at its end
        for cell in reversed(order):
            self._waiting[requests[cell]].append(cell)
        self._room = room
        self._most = most
        self._places: dict[str, Place] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def take(self) -> str | None:
        """The next cell, which now holds its place; None where none fits."""
        if self._most is not None and len(self._places) >= self._most:
            return None
        for request, cells in self._waiting.items():
            if cells and (place := self._room.take(request)):
                self._places[cells[-1]] = place
                return cells.pop()
        return None

    def ended(self, cell: str) -> None:
        """The cell's place is free again."""
        if place := self._places.pop(cell, None):
            self._room.give_back(place)


def makespan(queue: Queue, costs: Mapping[str, float]) -> float:
    """How long the queue takes, in the unit of `costs`, if each cell takes what it costs."""
    now, running = 0.0, list[tuple[float, str]]()
    while True:
        while cell := queue.take():
            heapq.heappush(running, (now + costs[cell], cell))
        if not running:
            return now
        now, ended = heapq.heappop(running)
        queue.ended(ended)
