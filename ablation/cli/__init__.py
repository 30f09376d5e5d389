"""The command line. Commands are thin and import what they need when they run, so that `--help` answers at once."""

import gc
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ablation import durable
from ablation.cli.check_loss import check_loss
from ablation.cli.collect import collect
from ablation.cli.common import CELL_HELP, Overrides, SweepFile, SweepFolder, find_cell, open_ledger
from ablation.cli.compare import compare
from ablation.cli.data import app as data
from ablation.cli.doctor import doctor
from ablation.cli.logs import logs
from ablation.cli.numerics import numerics
from ablation.cli.plan import plan
from ablation.cli.status import counted, status
from ablation.cli.views import leave_views, views
from ablation.errors import DONE, INTERRUPTED, SOME_FAILED, STORAGE_ERRNOS, USAGE, UserError
from ablation.user_loss import importable_from

if TYPE_CHECKING:
    from ablation.ledger import Ledger

app = typer.Typer(
    name="ablation",
    help="How does a contrastive learner's accuracy depend on its batch size, and which loss depends on it least?",
    epilog="Exit codes: 0 all cells done, 1 some failed, 2 usage, 3 interrupted and resumable.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Address = Annotated[str | None, typer.Option(metavar="ADDR", help="A running Ray cluster; else one is started here.")]
RetryStatus = Literal["failed", "diverged", "oom", "timeout", "all"]
Retry = Annotated[RetryStatus | None, typer.Option(help="Run cells that ended this way again.")]
MaxConcurrent = Annotated[int | None, typer.Option(min=1, metavar="N", help="Run at most N cells at once.")]


def main() -> None:
    """The entry point: a user's mistake is one clear message and exit code 2, never a traceback."""
    gc.set_threshold(50_000, 100, 100)  # plans and records are many small objects, with nothing to collect in them
    importable_from(Path.cwd())  # for losses of the user's own
    try:
        app()
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
    except OSError as error:
        if error.errno not in STORAGE_ERRNOS:
            raise
        print(f"{error.filename or 'storage'}: {error.strerror}; mend it, then run the same command", file=sys.stderr)
        sys.exit(INTERRUPTED)


@app.command()
def init(file: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep file to write.")]) -> None:
    """Write a commented sweep file to start from."""
    from ablation import sweep

    try:
        with file.open("x") as target:
            target.write(sweep.template())
    except FileExistsError:
        raise UserError(f"{file}: exists already; choose another name") from None
    except OSError as error:
        raise UserError(f"{file}: can't be written ({error.strerror})") from error
    print(f"wrote {file}; next: ablation plan {file}")


app.command()(plan)
app.add_typer(data, name="data")


@app.command()
def run(
    file: SweepFile,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where sweep folders lie.")] = Path("results"),
    overrides: Overrides = None,
    retry: Retry = None,
    address: Address = None,
    max_concurrent: MaxConcurrent = None,
) -> None:
    """Run a sweep, or what is left of it, and write its report."""
    from ablation import sweep
    from ablation.ledger import Ledger

    asked = sweep.load(file, overrides or [])
    ledger = Ledger(results / asked.name)
    ledger.create()
    with ledger.locked():
        durable.write(ledger.sweep_file, asked.resolved_text().encode())
        sys.exit(_execute(ledger, retry, address, max_concurrent))


@app.command()
def resume(
    folder: SweepFolder, retry: Retry = None, address: Address = None, max_concurrent: MaxConcurrent = None
) -> None:
    """Go on with the sweep in DIR, from the copy of the sweep file that lies there."""
    ledger = open_ledger(folder)
    ledger.create()
    with ledger.locked():
        sys.exit(_execute(ledger, retry, address, max_concurrent))


app.command()(status)
app.command()(logs)
app.command("gc")(collect)
app.command()(doctor)
app.command()(compare)
app.command()(views)
app.command("check-loss")(check_loss)
app.command()(numerics)


@app.command()
def report(folder: SweepFolder) -> None:
    """Write the report of the sweep in DIR, finished or not."""
    ledger = open_ledger(folder)
    print(_report(ledger))


@app.command()
def trial(
    file: SweepFile,
    cell: Annotated[str, typer.Option(metavar="CELL", help=f"{CELL_HELP[0].upper()}{CELL_HELP[1:]}.")],
    overrides: Overrides = None,
) -> None:
    """Run one cell in this process, without Ray and apart from any results, and print its record: for debugging."""
    import torch

    from ablation import plan as plans
    from ablation.cli.progress import names, progress_line, rate
    from ablation.environment import default_device
    from ablation.ledger import Ledger
    from ablation.pretrain.data import load
    from ablation.pretrain.execution import Execution
    from ablation.trial import Trial

    planned = plans.read(file, overrides or [])
    chosen_id = find_cell(cell, planned)
    chosen = next(cell for cell in planned.runs() if cell.id == chosen_id)
    print(f"{names(planned)[chosen.id]}: {chosen.id}; {rate(chosen)}", file=sys.stderr)
    torch.set_num_threads(planned.resources.cpus_per_trial)
    execution, device = Execution.of(planned.resources), default_device()
    execution.check(device)
    images = load(chosen.dataset, planned.resources.root(), download=planned.resources.download)
    with tempfile.TemporaryDirectory(prefix="ablation-trial-") as folder:
        record = Trial(
            chosen,
            images,
            Ledger(Path(folder)),
            device=device,
            execution=execution,
            time_limit=planned.resources.time_limit,
            progress=lambda p: print(progress_line(p), file=sys.stderr),
        ).run()
    assert record is not None  # nobody asks it to stop
    print(record.model_dump_json(indent=1))
    sys.exit(DONE if record.outcome else SOME_FAILED)


def _execute(ledger: "Ledger", retry: RetryStatus | None, address: str | None, max_concurrent: int | None) -> int:
    """Runs what the sweep in the ledger's folder lacks, reports, and gives the exit code."""
    from rich.console import Console

    from ablation.cli.progress import SweepDisplay
    from ablation.plan import read
    from ablation.plan_text import duration
    from ablation.record import Status

    start = time.monotonic()
    plan = read(ledger.sweep_file, [])
    plan.save(ledger.plan_file)
    for warning in plan.warnings:
        print(f"warning: {warning}")
    wanted = [cell.id for cell in plan.runs()]
    if retry:
        statuses = {Status(retry)} if retry != "all" else set(Status) - {Status.DONE}
        print(f"{ledger.retire(statuses, wanted)} cells taken back to run again")
    before = ledger.records()
    missing = sum(cell_id not in before for cell_id in wanted)
    print(f"{plan.name}: {len(wanted)} cells, {missing} to run; results in {ledger.folder}", flush=True)
    reason = None
    if missing:
        from ablation import schedule

        with SweepDisplay(plan, before, Console()) as display:
            reason = schedule.run(plan, ledger, display, address=address, max_concurrent=max_concurrent)
    records = ledger.records()
    for line in ledger.quarantined:
        print(line, file=sys.stderr)
    states = Counter(records[cell_id].status.value if cell_id in records else "todo" for cell_id in wanted)
    print(f"{counted(states)} after {duration(time.monotonic() - start)}")
    if missing and not states["todo"]:  # who interrupts does not want to wait for a picture
        leave_views(plan, ledger)
    try:
        print(f"report: {_report(ledger)}")
    except UserError as error:  # a full disk must not hide how the sweep can go on
        print(error, file=sys.stderr)
    if states["todo"]:
        again = " --retry failed" if states["failed"] else ""
        print(f"{reason or 'interrupted'}; go on with: ablation resume {ledger.folder}{again}")
        return INTERRUPTED
    return DONE if states.keys() == {"done"} else SOME_FAILED


def _report(ledger: "Ledger") -> Path:
    from ablation import report as reports
    from ablation.plan import Plan

    return reports.write(Plan.load(ledger.plan_file), ledger.records(), ledger.folder, ledger.history)
