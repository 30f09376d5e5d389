"""`ablation logs`: what the attempts at one cell said of themselves."""

from typing import Annotated

import typer

from ablation.cli.common import CELL_HELP, SweepFolder, current_plan, find_cell, open_ledger
from ablation.errors import UserError

LoggedCell = Annotated[str, typer.Argument(metavar="CELL", help=f"{CELL_HELP[0].upper()}{CELL_HELP[1:]}.")]


def logs(folder: SweepFolder, cell: LoggedCell) -> None:
    """Print the log of one cell of the sweep in DIR, and the error that it ended with, if it did."""
    from ablation.cli.progress import result

    ledger = open_ledger(folder)
    plan = current_plan(ledger)
    try:
        cell_id = find_cell(cell, plan)
    except UserError:
        cell_id = find_cell(cell, plan, ledger.records())  # of a cell that the sweep no longer has
    path = ledger.log_file(cell_id)
    try:
        text = path.read_text(encoding="utf-8", errors="backslashreplace").rstrip()
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise UserError(f"{path}: can't be read ({error.strerror})") from error
    record = ledger.get(cell_id)
    print(text or f"{cell_id}: no log; {'it has a record' if record else 'it has not begun'}")
    if record and record.failure:
        print(result(record))
        if record.failure.traceback.strip() not in text:
            print(record.failure.traceback.rstrip())
