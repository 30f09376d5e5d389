"""`ablation check-loss`: whether a loss can be compared with others."""

import sys
from typing import Annotated

import typer

from ablation.errors import DONE, SOME_FAILED


def check_loss(
    loss: Annotated[str, typer.Argument(metavar="LOSS", help="As in a sweep: my_module:my_loss, or a known name.")],
) -> None:
    """Check that a loss can be compared with others, such as one of your own, before a sweep uses it."""
    from ablation.losses.conformance import check, passed

    findings = check(loss)
    for finding in findings:
        print(finding)
    sys.exit(DONE if passed(findings) else SOME_FAILED)
