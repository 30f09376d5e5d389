"""`ablation status`: what a sweep has, what it would run and why, and whether somebody is running it."""

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablation.cli.common import CELL_HELP, MOST_ROWS, SweepFolder, current_plan, find_cell, open_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ablation.cell import Cell
    from ablation.ledger import Ledger
    from ablation.plan import Plan
    from ablation.record import Record

AsIf = Annotated[
    Path | None,
    typer.Option("--sweep", metavar="FILE", help="As if DIR had this sweep file: what an edit would run."),
]
Explain = Annotated[str | None, typer.Option("--explain", metavar="CELL", help=f"Say why it would run: {CELL_HELP}.")]


def status(folder: SweepFolder, explain: Explain = None, sweep: AsIf = None) -> None:
    """Show which cells of the sweep in DIR are done, failed or still to run, and why they would run."""
    from ablation import plan as plans

    ledger = open_ledger(folder)
    plan = plans.read(sweep) if sweep else current_plan(ledger)
    for line in _overview(ledger, plan) if explain is None else _explained(explain, ledger, plan, ledger.records()):
        print(line)
    for line in dict.fromkeys(ledger.quarantined):
        print(line, file=sys.stderr)


def _overview(ledger: "Ledger", plan: "Plan") -> "Iterator[str]":
    from ablation.cli.progress import names, result
    from ablation.explain import reasons

    cells = {cell.id: cell for cell in plan.runs()}
    statuses: dict[str, str] = {}
    failed: dict[str, Record] = {}
    for record in ledger.each():
        statuses[record.id] = record.status.value
        if record.outcome is None:
            failed[record.id] = record
    todo = [cell for cell_id, cell in cells.items() if cell_id not in statuses]
    yield f"{ledger.folder}: {counted(Counter(statuses.get(cell_id, 'todo') for cell_id in cells))}"
    if owner := ledger.owner():
        yield f"running now: {owner}"
    if todo:
        yield f"{len(todo):,} to run: {'; '.join(reasons(todo, (record.cell for record in ledger.each())))}"
    if others := len(statuses.keys() - cells.keys()):
        yield f"{others:,} more records are of cells that the sweep no longer has: kept, and left out of the report"
    shown = [cell_id for cell_id in cells if cell_id in failed] + [cell.id for cell in todo]
    called = names(plan) if shown else {}
    for cell_id in shown[:MOST_ROWS]:
        yield f"  {cell_id}  {called[cell_id]}: {result(failed[cell_id]) if cell_id in failed else 'todo'}"
    if len(shown) > MOST_ROWS:
        yield f"  ... and {len(shown) - MOST_ROWS:,} more"


def _explained(wanted: str, ledger: "Ledger", plan: "Plan", records: "Mapping[str, Record]") -> "Iterator[str]":
    from ablation.cli.progress import names, result

    cell_id = find_cell(wanted, plan, records)
    name = names(plan).get(cell_id, "no longer in the sweep")
    if record := records.get(cell_id):
        yield f"{cell_id} ({name}): would not run; it has a record"
        yield f"  {result(record)}"
        yield f"  begun {_times(record.attempts)}; ended {record.finished} on {record.environment.host}"
        return
    yield f"{cell_id} ({name}): would run; it has no record"
    yield from _reason(next(cell for cell in plan.runs() if cell.id == cell_id), ledger, records)


def _reason(cell: "Cell", ledger: "Ledger", records: "Mapping[str, Record]") -> "Iterator[str]":
    from ablation.explain import differences, fields, nearest

    if begun := list(_begun(cell, ledger)):
        yield from begun
        return
    near = nearest(cell, (record.cell for record in records.values()))
    if near is None:
        yield f"  never run, and {'no cell' if cell.pretraining else 'no random-init baseline'} has a record yet"
        return
    changes = differences(fields(near), fields(cell))
    yield f"  never run; the nearest cell with a record is {near.id}, and what differs from it"
    yield from (f"    {change}" for change in changes)
    if any(record.pretraining_key == cell.pretraining_key and record.outcome for record in records.values()):
        yield "  only its evaluation would run: the encoder is trained"


def _begun(cell: "Cell", ledger: "Ledger") -> "Iterator[str]":
    if taken_back := len(list(ledger.folder.glob(f"retried/{cell.id}-*.json"))):
        yield f"  ended {_times(taken_back)}, and was taken back with --retry"
    if list(ledger.work(cell.pretraining_key).glob("*/*")):
        yield "  begun already: it goes on from its newest checkpoint"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def counted(states: "Counter[str]") -> str:
    """How many cells are in which state, in words."""
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
