"""Why a cell would run: which of its fields sets it apart from every cell that has a record."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ablation.cell import Cell
from ablation.recipe import ABSENT, number

FOLLOWING = ("steps", "learning_rate.peak", "learning_rate.warmup_steps")  # these resolve from budget, rule and batch
MOST_VALUES = 10  # that are listed of a field

Fields = dict[str, Any]


def fields(cell: Cell) -> Fields:
    """Every field that can change the cell's result, under its name in a sweep file where it has one there."""
    data = cell.model_dump()
    data.update(data.pop("pretraining") or {})
    data["probe"] = data["evaluation"].pop("probe")
    return dict(_leaves(data, ""))


def _leaves(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if not isinstance(value, dict):
            yield prefix + key, value
        elif value.keys() == {"name", "parameters"}:
            yield prefix + key, value["name"]
            yield from _leaves(value["parameters"], f"{prefix}{key}.")
        else:
            yield from _leaves(value, f"{prefix}{key}.")


def differences(old: Fields, new: Fields) -> list[str]:
    """Where two cells differ, a text each such as ``temperature: 0.1 -> 0.2``; what follows from others comes last."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    names.sort(key=lambda name: name in FOLLOWING)
    return [f"{name}: {_change(old.get(name), new.get(name))}" for name in names]


def _change(old: Any, new: Any) -> str:
    if isinstance(old, float) and isinstance(new, float) and f"{old:.6g}" != f"{new:.6g}":
        return f"{old:.6g} -> {new:.6g}"
    return f"{_text(old)} -> {_text(new)}"


def _text(value: Any) -> str:
    return ABSENT if value is None else number(value)


def nearest(cell: Cell, recorded: Iterable[Cell]) -> Cell | None:
    """The recorded cell with the fewest differing fields; a baseline is compared with baselines alone."""
    wanted = fields(cell)
    candidates = [(fields(other), other) for other in recorded if (other.pretraining is None) == (not cell.pretraining)]
    return min(candidates, key=lambda candidate: _distance(wanted, candidate[0]), default=(None, None))[1]


def _distance(one: Fields, other: Fields) -> tuple[int, int]:
    names = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    return sum(name not in FOLLOWING for name in names), len(names)


def reasons(todo: Sequence[Cell], recorded: Iterable[Cell]) -> list[str]:
    """Why these cells would run, all together, such as ``8 with new seed 3, 4``; what is new stands in no record."""
    known: dict[str, set[Any]] = defaultdict(set)
    for cell in recorded:
        for name, value in fields(cell).items():
            known[name].add(value)
    groups: dict[tuple[str, ...], list[Fields]] = defaultdict(list)
    for cell in todo:
        here = fields(cell)
        new = [name for name, value in here.items() if known and value not in known[name]]
        groups[tuple([name for name in new if name not in FOLLOWING] or new)].append(here)
    return [_reason(names, cells) for names, cells in groups.items()]


def _reason(names: Sequence[str], cells: Sequence[Fields]) -> str:
    if not names:
        return f"{len(cells):,} never run"
    listed = ", ".join(f"{name} {_listed(dict.fromkeys(cell[name] for cell in cells))}" for name in names)
    return f"{len(cells):,} with new {listed}"


def _listed(values: Iterable[Any]) -> str:
    texts = [_text(value) for value in values]
    more = f" and {len(texts) - MOST_VALUES:,} more" if len(texts) > MOST_VALUES else ""
    return ", ".join(texts[:MOST_VALUES]) + more
