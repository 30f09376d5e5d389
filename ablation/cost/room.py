"""Where trials fit: CPUs and shares of GPUs, node by node, with the ones in use taken off."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

ROUNDING = 1e-6  # three thirds are one


class Request(NamedTuple):
    """What one trial takes: CPUs, and whole GPUs or a share of one."""

    cpus: float
    gpus: float


@dataclass
class Node:
    """A machine with so many CPUs free, and such a share of each of its GPUs."""

    cpus: float
    gpus: list[float]

    def seats(self, request: Request) -> list[int] | None:
        """The GPUs that the request would get, the fullest first that have room; None where it does not fit."""
        if self.cpus < request.cpus - ROUNDING:
            return None
        each = min(1.0, request.gpus)
        having = sorted((free, gpu) for gpu, free in enumerate(self.gpus) if each and free >= each - ROUNDING)
        count = round(request.gpus / each) if each else 0
        return [gpu for _, gpu in having[:count]] if len(having) >= count else None


@dataclass(frozen=True)
class Place:
    """What a running trial holds."""

    node: Node
    gpus: list[int]
    request: Request


class Room:
    """The nodes of a cluster. `take` and `give_back` keep count of what trials hold."""

    def __init__(self, nodes: Iterable[tuple[float, int]]) -> None:
        """`nodes`: the CPUs and GPUs of each."""
        self.nodes = [Node(cpus, [1.0] * gpus) for cpus, gpus in nodes]

    def take(self, request: Request) -> Place | None:
        """A place for a trial, on the first node that has one; None where no node has."""
        for node in self.nodes:
            if (gpus := node.seats(request)) is not None:
                self._add(Place(node, gpus, request), -1)
                return Place(node, gpus, request)
        return None

    def give_back(self, place: Place) -> None:
        """The trial has ended."""
        self._add(place, +1)

    def most(self, request: Request) -> int:
        """How many such trials an empty room like this holds at once."""
        places = []
        while place := self.take(request):
            places.append(place)
        for place in places:
            self.give_back(place)
        return len(places)

    @staticmethod
    def _add(place: Place, sign: int) -> None:
        place.node.cpus += sign * place.request.cpus
        for gpu in place.gpus:
            place.node.gpus[gpu] += sign * min(1.0, place.request.gpus)
