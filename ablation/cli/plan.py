"""`ablation plan`: what a sweep file would run, and what that costs on this machine."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ablation.cli.common import Overrides, SweepFile
from ablation.errors import UserError

if TYPE_CHECKING:
    from ablation.cost.measured import Measurements
    from ablation.plan import Plan

Measure = Annotated[
    bool, typer.Option("--measure", help="Time a few steps of each kind of cell here; later plans and runs use it.")
]


def plan(file: SweepFile, overrides: Overrides = None, measure: Measure = False) -> None:  # noqa: FBT002 - typer's flag
    """Show what a sweep file would run, and every mistake in it, before any compute."""
    from ablation import plan_text
    from ablation.cost.measured import Measurements
    from ablation.plan import read

    planned = read(file, overrides or [])
    print(plan_text.describe(planned, _measured(planned) if measure else Measurements.load()))


def _measured(planned: "Plan") -> "Measurements":
    """What was known and what is measured now, kept for later."""
    from ablation import plan_text
    from ablation.cost.measure import measure
    from ablation.cost.measured import Measurement, Measurements

    def tell(one: Measurement) -> None:
        found = one.failure or f"{1000 * one.step:.3g} ms a step"
        print(f"measured {plan_text.kind_text(one.cell)}: {found}", file=sys.stderr, flush=True)

    measurements = Measurements.load().joined(measure(planned, tell), planned.resources)
    try:
        measurements.save()
    except OSError as error:
        raise UserError(f"measurements can't be kept in {error.filename} ({error.strerror})") from error
    return measurements
