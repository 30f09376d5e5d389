"""`ablation views`: what the loss sees of the images."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablation.cli.common import Overrides, SweepFile
from ablation.errors import UserError

if TYPE_CHECKING:
    from ablation.ledger import Ledger
    from ablation.plan import Plan

Picture = Annotated[Path, typer.Option(metavar="PNG", help="The picture to write.")]


def views(file: SweepFile, out: Picture = Path("views.png"), overrides: Overrides = None) -> None:
    """Draw training images beside the augmented pairs that a sweep makes of them."""
    from ablation import gallery
    from ablation.plan import read

    gallery.write(read(file, overrides or []), out)
    print(out)


def leave_views(plan: "Plan", ledger: "Ledger") -> None:
    """Leaves the picture for the report; a sweep that ran is worth reporting without it."""
    from ablation import gallery
    from ablation.report.sections import VIEWS

    try:
        gallery.write(plan, ledger.folder / VIEWS)
    except UserError as error:
        print(f"no picture of the views: {error}", file=sys.stderr)
