"""`ablation gc`: gives back the disk space that a sweep no longer needs."""

import sys
from typing import Annotated

import typer

from ablation.cli.common import SweepFolder, open_ledger

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]


def collect(folder: SweepFolder, dry_run: DryRun = False) -> None:  # noqa: FBT002 - typer's way to say flag
    """Remove what the sweep in DIR no longer needs: checkpoints that nothing goes on from, leftovers of killed runs.

    Records, histories, encoders and quarantine stay.
    """
    from rich.filesize import decimal

    from ablation.cleanup import leftovers

    ledger = open_ledger(folder)
    freed = 0
    with ledger.locked():
        for leftover in leftovers(ledger):
            size = leftover.bytes
            try:
                if not dry_run:
                    leftover.remove()
            except OSError as error:
                print(f"{leftover.path}: can't be removed ({error.strerror})", file=sys.stderr)
                continue
            freed += size
            shown = (
                leftover.path.relative_to(ledger.folder)
                if leftover.path.is_relative_to(ledger.folder)
                else leftover.path
            )
            print(f"{shown}: {leftover.why}; {decimal(size)}")
    print(f"{'would free' if dry_run else 'freed'} {decimal(freed)}")
    for line in ledger.quarantined:
        print(line, file=sys.stderr)
