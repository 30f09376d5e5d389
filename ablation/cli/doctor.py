"""`ablation doctor`: whether sweeps can run here, and what to do where they can't."""

import sys
from pathlib import Path
from typing import Annotated

import typer

ResultsFolder = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where sweep folders would lie.")]
Resume = Annotated[bool, typer.Option("--resume", help="Kill a cell, resume it, and compare; some minutes.")]


def doctor(results: ResultsFolder = Path("results"), resume: Resume = False) -> None:  # noqa: FBT002 - typer's flag
    """Check this machine: libraries, GPUs, memory, disk, datasets, and a sweep of one cell. About a minute."""
    from ablation.doctor import Place, Verdict, examine
    from ablation.plan import Resources

    wrong = 0
    for finding in examine(Place(results, Resources().root()), resume=resume):
        wrong += finding.verdict is Verdict.FIX
        print(f"{finding.verdict:<4}  {finding.name}: {finding.text}", flush=True)
    sys.exit(1 if wrong else 0)
