"""`ablation numerics`: what rounding does to losses."""

from pathlib import Path
from typing import Annotated

import typer

from ablation import durable
from ablation.errors import UserError


def numerics(
    loss: Annotated[list[str], typer.Option(help="A loss; may be given again.")] = [  # noqa: B006 - typer copies it
        "infonce_textbook",
        "infonce",
        "flatnce",
    ],
    dtype: Annotated[list[str] | None, typer.Option(help="Default: all four.")] = None,
    batch: Annotated[list[int] | None, typer.Option(min=2, help="Default: 2 to 256, or the cell's own.")] = None,
    temperature: Annotated[list[float] | None, typer.Option(help="Default: 0.1 and 0.07, or the cell's own.")] = None,
    alignment: Annotated[list[float] | None, typer.Option(min=-1, max=1, help="Cosine of two views.")] = None,
    spread: Annotated[float, typer.Option(min=0.01, max=1, help="Deviation of the cosine of two images.")] = 0.15,
    batches: Annotated[int, typer.Option(min=1, help="Batches that each number is the median of.")] = 16,
    source: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="A sweep: its trained cells.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write CSV, Markdown and a figure here.")] = None,
) -> None:
    """Show what rounding does to losses, on synthetic embeddings or on those of trained cells."""
    from ablation import catalog
    from ablation.numerics import figure, measure, rounding, synthetic, table, trained

    dtypes = dtype or list(rounding.DTYPES)
    for kind, given, known in (("loss", loss, list(catalog.LOSSES)), ("dtype", dtypes, list(rounding.DTYPES))):
        if unknown := next((name for name in given if name not in known), None):
            raise UserError(f"--{kind} {unknown}: unknown; known: {', '.join(known)}")
    if wrong := [t for t in temperature or () if not t > 0]:
        raise UserError(f"--temperature {wrong[0]:g}: should be above 0")
    if source:
        cases = trained.cases(source, batch or (), temperature or (), batches=batches)
    else:
        cases = synthetic.cases(
            batch or [2, 8, 32, 256], temperature or [0.1, 0.07], alignment or [0.8, 0.98], spread, batches
        )
    findings = list(measure(cases, loss, dtypes))
    print(table.text(findings))
    if out:
        out.mkdir(parents=True, exist_ok=True)
        durable.write(out / "numerics.csv", table.findings_csv(findings).encode())
        durable.write(out / "numerics.md", table.markdown(findings).encode())
        figure.save(findings, out / "numerics")
        if source:
            durable.write(out / "along-training.csv", table.along_csv(trained.along_training(source)).encode())
        print(f"wrote {out}/numerics.csv, .md, .png and .svg")
