"""`ablation compare`: two sweeps, cell by cell."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ablation.cli.common import current_plan, open_ledger


class Form(StrEnum):
    """How a comparison is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


First = Annotated[Path, typer.Argument(metavar="DIR_A", help="A sweep's folder.")]
Second = Annotated[Path, typer.Argument(metavar="DIR_B", help="Another sweep's folder, judged against DIR_A.")]
Margin = Annotated[
    float | None, typer.Option(min=0, max=0.5, help="Differences below it don't matter, such as 0.01 for one point.")
]


def compare(
    first: First,
    second: Second,
    margin: Margin = None,
    form: Annotated[Form, typer.Option("--format", help="How to print it.")] = Form.TEXT,
) -> None:
    """Compare two sweeps, cell by cell: is DIR_B better or worse than DIR_A, equivalent, newly failed, or neither?"""
    from ablation.report import compare as comparing
    from ablation.report import formats

    sides = []
    for folder in (first, second):
        ledger = open_ledger(folder)
        sides.append(comparing.Side(str(folder), current_plan(ledger), ledger.records()))
    found = comparing.compare(sides[0], sides[1], margin)
    if form is Form.JSON:
        print(json.dumps(comparing.data(found), indent=1))
    elif form is Form.MARKDOWN:
        print("\n\n".join([*map(formats.escape, comparing.lead(found)), formats.to_markdown(comparing.table(found))]))
    else:
        print("\n".join([*comparing.lead(found), "", formats.to_text(comparing.table(found))]))
