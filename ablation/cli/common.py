"""What several commands share: their arguments, and how they find a sweep's folder and a cell in it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablation.errors import UserError

if TYPE_CHECKING:
    from ablation.ledger import Ledger
    from ablation.plan import Plan

SweepFile = Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file.")]
SweepFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A sweep's folder, such as results/NAME.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the sweep file; may be given again."),
]
CELL_HELP = "a cell's number in `ablation plan` from 1, or its id, or how the id begins"
MOST_ROWS = 40  # of a list; the rest is counted


def open_ledger(folder: Path) -> "Ledger":
    """The ledger of an existing sweep's folder."""
    from ablation.ledger import Ledger

    ledger = Ledger(folder)
    if not ledger.sweep_file.is_file():
        raise UserError(f"{folder}: no sweep.yaml here; DIR is a sweep's own folder, such as results/NAME")
    return ledger


def current_plan(ledger: "Ledger") -> "Plan":
    """The plan that `ablation resume` would follow: the saved one, or anew where the sweep file changed since."""
    from ablation import plan

    try:
        saved = ledger.plan_file.stat().st_mtime_ns >= ledger.sweep_file.stat().st_mtime_ns
    except OSError:
        saved = False
    return plan.Plan.load(ledger.plan_file) if saved else plan.read(ledger.sweep_file)


def find_cell(wanted: str, plan: "Plan", others: Iterable[str] = ()) -> str:
    """The id of the cell that a user means, among those of the plan and the ids `others`.

    Raises:
        UserError: there is none, or more than one.
    """
    if wanted.isascii() and wanted.isdecimal() and 1 <= int(wanted) <= len(plan.cells):
        return plan.cells[int(wanted) - 1].cell.id
    known = dict.fromkeys([*(cell.id for cell in plan.runs()), *others])
    matches = [cell_id for cell_id in known if wanted and cell_id.startswith(wanted.lower())]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(matches[:5]) + (", ..." if len(matches) > 5 else "")
        raise UserError(f"cell {wanted}: {len(matches)} ids begin so: {listed}; give more of it")
    raise UserError(
        f"cell {wanted}: this sweep has cells 1 to {len(plan.cells)}, and the ids that `ablation plan` lists"
    )
