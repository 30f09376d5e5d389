"""Two sweeps compared, cell by cell: what differs between them, and whether the second is better.

Cells are matched by what both sweeps show of them (dataset, loss, batch size, further axes), apart from axes on which
each sweep has a single value of its own: those are what is compared. Within a match, runs are paired by seed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NoReturn

from ablation.catalog import Scalar
from ablation.cell import Cell
from ablation.errors import UserError
from ablation.plan import Plan
from ablation.record import Record, Status
from ablation.report import stats
from ablation.report.formats import Entry, Table
from ablation.report.provenance import dataset_of
from ablation.report.stats import Paired
from ablation.report.wording import DASH, PLUS_MINUS, interval, p_value, percent, points

Key = tuple[tuple[str, Scalar], ...]  # (axis, value) of a cell but for its seed

_NO_PAIR = Paired(None, None, None, None)
_SHOWN_VALUES = 3  # of a differing field


class Verdict(StrEnum):
    """What became of a cell between the first sweep and the second."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "~"  # within the margin, or the same in every pair
    UNRESOLVED = "?"
    NEWLY_FAILED = "!"  # it has a result in the first sweep and an error in the second
    INCOMPARABLE = "x"


LEGEND = "better, worse, ~ equivalent, ? not resolved, ! newly failed, x not comparable"


@dataclass(frozen=True)
class Side:
    """One sweep: its plan, and its records by id."""

    name: str
    plan: Plan
    records: Mapping[str, Record]


@dataclass(frozen=True)
class Match:
    """A cell of both sweeps, or of one."""

    key: Key
    paired: Paired  # second minus first
    verdict: Verdict
    reason: str = ""  # why it is not comparable, or what failed
    p_holm: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The outcome, in the order of the first sweep."""

    first: str
    second: str
    metric: str
    margin: float | None
    differences: Mapping[str, tuple[str, str]]  # field of the cells -> its values in either sweep, where they differ
    matches: Sequence[Match]


def compare(first: Side, second: Side, margin: float | None = None) -> Comparison:
    """Compare the second sweep with the first. `margin` overrides those of the sweeps' report blocks.

    Raises:
        UserError: they were judged differently, or cells can't be matched one to one.
    """
    _refuse_mixed(first, second)
    metric = second.plan.report.metric
    margins = (margin, second.plan.report.equivalence_margin, first.plan.report.equivalence_margin)
    margin = next((value for value in margins if value is not None), None)
    compared = _compared_axes(first.plan, second.plan)
    left, right = _groups(first, compared), _groups(second, compared)
    matches = [_match(key, left.get(key), right.get(key), metric) for key in dict.fromkeys([*left, *right])]
    pairs = [(a, b) for key in left.keys() & right.keys() for a, b in _by_seed(left[key], right[key])]
    return Comparison(
        first.name, second.name, metric, margin, _differences([(a.cell, b.cell) for a, b in pairs]),
        _judged(matches, margin),
    )  # fmt: skip


def table(comparison: Comparison) -> Table:
    """One row a match."""
    axes = list(dict.fromkeys(axis for match in comparison.matches for axis, _ in match.key))
    header = ["", *axes, "first", "second", "difference", "pairs", "p (Holm)", "why"]
    rows = []
    for match in comparison.matches:
        settings, found, means = dict(match.key), match.paired.estimate, match.paired.means
        numbers = [DASH, DASH, DASH, "0"]
        if found and means:
            numbers = [percent(means[1], 2), percent(means[0], 2), points(found.mean, 2), str(found.n)]
            numbers[2] += f" ({interval(found, 2)})" if found.half_width is not None else ""
        texts = [*(str(settings.get(axis, DASH)) for axis in axes), *numbers, p_value(match.p_holm), match.reason]
        rows.append([Entry(match.verdict), *map(Entry, texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def lead(comparison: Comparison) -> list[str]:
    """What is compared, in sentences."""
    counts = [(v, sum(match.verdict is v for match in comparison.matches)) for v in Verdict]
    margin = f"margin {PLUS_MINUS}{100 * comparison.margin:g} points" if comparison.margin else "no margin declared"
    differ = [f"{field}: {a} against {b}" for field, (a, b) in comparison.differences.items()]
    sides = f"{comparison.second} against {comparison.first}"
    return [
        f"{sides}: {comparison.metric}, second minus first, paired by seed; {margin}.",
        f"They differ in {'; '.join(differ)}." if differ else "Their matched cells are the same, field by field.",
        ", ".join(f"{number} {verdict}" for verdict, number in counts if number) + f" ({LEGEND}).",
    ]


def data(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain data for JSON; accuracies in [0, 1]."""
    return {
        "first": comparison.first,
        "second": comparison.second,
        "metric": comparison.metric,
        "margin": comparison.margin,
        "differences": {field: list(values) for field, values in comparison.differences.items()},
        "cells": [
            {
                "settings": dict(match.key),
                "verdict": match.verdict.name.lower(),
                "reason": match.reason,
                "n": found.n if found else 0,
                "first": means and means[1],
                "second": means and means[0],
                "difference": found and found.mean,
                "low": found and found.low,
                "high": found and found.high,
                "p": match.paired.p,
                "p_holm": match.p_holm,
            }
            for match in comparison.matches
            for found, means in [(match.paired.estimate, match.paired.means)]
        ],
    }


@dataclass(frozen=True)
class _Run:
    cell: Cell
    record: Record | None


def _refuse_mixed(first: Side, second: Side) -> None:
    """Numbers of different protocols, metrics or data are different quantities."""
    if first.plan.report.metric != second.plan.report.metric:
        raise UserError(
            f"the sweeps speak of different metrics: {first.plan.report.metric} in {first.name}, "
            f"{second.plan.report.metric} in {second.name}; set report.metric of one to that of the other"
        )
    one, other = (
        dict.fromkeys(planned.cell.evaluation.text for planned in side.plan.cells) for side in (first, second)
    )
    if one != other:  # where both have the same several, they are an axis and never meet
        _refuse("evaluation protocols", [(text, first.name) for text in one] + [(text, second.name) for text in other])
    checksums: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for side in (first, second):
        planned = {planned.cell.id for planned in side.plan.cells}
        for record in side.records.values():
            if record.id in planned and record.data_checksum:
                checksums[dataset_of(record)].append((record.data_checksum[:12], side.name))
    for name, found in checksums.items():
        if len({checksum for checksum, _ in found}) > 1:
            _refuse(f"data of {name}", found)


def _refuse(what: str, found: Iterable[tuple[str, str]]) -> NoReturn:
    """Names each value and the sweeps that have it; `found` are pairs of them."""
    sweeps: dict[str, dict[str, None]] = defaultdict(dict)
    for value, sweep in found:
        sweeps[value][sweep] = None
    listed = "; ".join(f"{value} in {', '.join(names)}" for value, names in sweeps.items())
    raise UserError(f"not comparable: different {what}: {listed}; run one of the sweeps again")


def _compared_axes(first: Plan, second: Plan) -> set[str]:
    """The axes on which each sweep has one value, a different one."""
    values: list[dict[str, set[Scalar]]] = []
    for plan in (first, second):
        seen: defaultdict[str, set[Scalar]] = defaultdict(set)
        for planned in plan.cells:
            for axis, value in planned.settings.items():
                seen[axis].add(value)
        values.append(seen)
    shared = values[0].keys() & values[1].keys()
    return {axis for axis in shared if all(len(v[axis]) == 1 for v in values) and values[0][axis] != values[1][axis]}


def _groups(side: Side, compared: Iterable[str]) -> dict[Key, list[_Run]]:
    """What both sweeps show of a cell -> its runs, one a seed."""
    left_out = {*compared, "seed"}
    groups: dict[Key, list[_Run]] = defaultdict(list)
    for planned in side.plan.cells:
        key = tuple((axis, value) for axis, value in planned.settings.items() if axis not in left_out)
        groups[key].append(_Run(planned.cell, side.records.get(planned.cell.id)))
    return dict(groups)


def _match(key: Key, left: list[_Run] | None, right: list[_Run] | None, metric: str) -> Match:
    if left is None or right is None:
        return Match(key, _NO_PAIR, Verdict.INCOMPARABLE, f"only in the {'second' if left is None else 'first'}")
    pairs = _by_seed(left, right)
    if not pairs:
        return Match(key, _NO_PAIR, Verdict.INCOMPARABLE, "no seed in common")
    failed = [b.record for a, b in pairs if _score(a, metric) is not None and b.record and not b.record.outcome]
    paired = stats.paired(_scores([b for _, b in pairs], metric), _scores([a for a, _ in pairs], metric))
    if failed:
        kinds = dict.fromkeys(f"{record.status} (seed {record.cell.seed})" for record in failed)
        return Match(key, paired, Verdict.NEWLY_FAILED, ", ".join(kinds))
    if paired.estimate is None:
        without = [name for name, runs in (("first", left), ("second", right)) if not _scores(runs, metric)]
        reason = f"no result in the {' and the '.join(without)}" if without else "no seed with both results"
        return Match(key, paired, Verdict.INCOMPARABLE, reason)
    return Match(key, paired, Verdict.UNRESOLVED)


def _by_seed(left: Sequence[_Run], right: Sequence[_Run]) -> list[tuple[_Run, _Run]]:
    others = {run.cell.seed: run for run in right}
    return [(run, others[run.cell.seed]) for run in left if run.cell.seed in others]


def _score(run: _Run, metric: str) -> float | None:
    done = run.record is not None and run.record.status is Status.DONE
    return run.record.outcome.metrics.get(metric) if done and run.record and run.record.outcome else None


def _scores(runs: Sequence[_Run], metric: str) -> dict[int, float]:
    return {run.cell.seed: score for run in runs if (score := _score(run, metric)) is not None}


def _judged(matches: Sequence[Match], margin: float | None) -> list[Match]:
    """The tested matches as one family under Holm's correction."""
    p_holm = stats.holm([match.paired.p for match in matches])
    tests = [stats.equivalence(m.paired.estimate, margin) if m.paired.estimate and margin else None for m in matches]
    return [
        replace(match, p_holm=p, verdict=_verdict(match, p, q))
        for match, p, q in zip(matches, p_holm, stats.holm(tests), strict=True)
    ]


def _verdict(match: Match, p_holm: float | None, p_equivalence: float | None) -> Verdict:
    found = match.paired.estimate
    if match.verdict is not Verdict.UNRESOLVED or found is None:
        return match.verdict
    if (found.n > 1 and found.sd == 0 and found.mean == 0) or (
        p_equivalence is not None and p_equivalence < stats.ALPHA
    ):
        return Verdict.EQUIVALENT
    if p_holm is None or p_holm >= stats.ALPHA:
        return Verdict.UNRESOLVED
    return Verdict.BETTER if found.mean > 0 else Verdict.WORSE


def _differences(pairs: Sequence[tuple[Cell, Cell]]) -> dict[str, tuple[str, str]]:
    """The fields in which paired cells differ, with the values they have."""
    seen: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for a, b in pairs:
        left, right = _flat(a.model_dump(mode="json")), _flat(b.model_dump(mode="json"))
        for field in dict.fromkeys([*left, *right]):
            if left.get(field) != right.get(field):
                values = seen.setdefault(field, ({}, {}))
                values[0][str(left.get(field, "none"))] = None
                values[1][str(right.get(field, "none"))] = None
    return {field: (_shown(a), _shown(b)) for field, (a, b) in seen.items()}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _flat(inner, f"{prefix}.{key}" if prefix and prefix != "pretraining" else key)
    return found


def _shown(values: Iterable[str]) -> str:
    known = list(values)
    more = f", and {len(known) - _SHOWN_VALUES} more" if len(known) > _SHOWN_VALUES else ""
    return f"{', '.join(known[:_SHOWN_VALUES])}{more}"
