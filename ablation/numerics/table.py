"""Findings as text, Markdown and CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ablation.numerics.rounding import Finding
from ablation.record import TracePoint

HEADER = ("source", "temperature", "B", "log10 xi", "loss", "dtype", "value", "at the positive", "at z")
_NUMERIC_FROM = 6


def text(findings: Iterable[Finding]) -> str:
    """Aligned columns; the errors stand on the right."""
    rows = [list(HEADER), *map(_entries, findings)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            f"{entry:>{w}}" if i >= _NUMERIC_FROM else f"{entry:<{w}}"
            for i, (entry, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def markdown(findings: Iterable[Finding]) -> str:
    """A Markdown table."""
    rule = [":---" if column < _NUMERIC_FROM else "---:" for column in range(len(HEADER))]
    lines = ([entry.replace("|", "\\|") for entry in row] for row in map(_entries, findings))
    return "".join(f"| {' | '.join(line)} |\n" for line in (HEADER, rule, *lines))


def findings_csv(findings: Iterable[Finding]) -> str:
    """All digits; an empty field where there is nothing to compare."""
    return _csv(
        [
            {
                "source": f.source,
                "temperature": f.temperature,
                "batch_size": f.batch_size,
                "log10_xi": f.log10_xi,
                "loss": f.loss,
                "dtype": f.dtype,
                "value": f.errors.value,
                "positive": f.errors.positive,
                "rows": f.errors.rows,
            }
            for f in findings
        ]
    )


def along_csv(points: Iterable[tuple[str, TracePoint]]) -> str:
    """What the diagnosed updates of training met, an update a row."""
    rows = []
    for source, point in points:
        assert point.diagnostics is not None
        found = point.diagnostics.model_dump(exclude={"log10_xi"})
        rows.append({"source": source, "step": point.step, "samples": point.samples, **found})
    return _csv(rows)


def _entries(finding: Finding) -> Sequence[str]:
    found = finding.errors
    return (
        finding.source,
        f"{finding.temperature:g}",
        str(finding.batch_size),
        f"{finding.log10_xi:.1f}",
        finding.loss,
        finding.dtype,
        *map(_error, (found.value, found.positive, found.rows)),
    )


def _error(error: float | None) -> str:
    return "-" if error is None else "0" if error == 0 else f"{error:.0e}"


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
