"""A table in the formats that files have: Markdown, LaTeX (booktabs), CSV. Whatever its text, it stays text."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "-": "{-}",
    "\u2212": "$-$", "\u00b1": r"$\pm$", "\u2013": "--", "\u00d7": r"$\times$", "\u2026": r"\dots{}",
    "\u25cf": r"$\bullet$", "\u25d0": r"$\odot$", "\u2715": r"$\times$", "\u25cb": r"$\circ$",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A table's field: plain text, escaped by whoever writes it."""

    text: str
    bold: bool = False
    muted: bool = False  # incomplete
    link: str | None = None  # a path relative to the page


@dataclass(frozen=True)
class Table:
    """A table as the page shows it."""

    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    numeric_from: int  # the first column whose entries stand right-aligned


def to_markdown(table: Table) -> str:
    """The table in GitHub's Markdown."""
    rule = [":---" if column < table.numeric_from else "---:" for column in range(len(table.header))]
    lines = [
        [escape(name) for name in table.header],
        rule,
        *([_markdown_entry(entry) for entry in row] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_text(table: Table) -> str:
    """The table in columns of spaces."""
    lines = [[" ".join(text.split()) for text in row] for row in _texts(table)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]
    sides = ["<" if column < table.numeric_from else ">" for column in range(len(table.header))]
    sides[-1] = "<"  # the last is often a remark
    return "\n".join(
        "  ".join(f"{text:{side}{width}}" for text, side, width in zip(line, sides, widths, strict=True)).rstrip()
        for line in lines
    )


def to_latex(table: Table, caption: str, label: str) -> str:
    r"""The table as a floating LaTeX table; its preamble needs ``\\usepackage{booktabs}`` and nothing else."""
    columns = "".join("l" if column < table.numeric_from else "r" for column in range(len(table.header)))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(caption)}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        rf"{' & '.join(map(latex, table.header))} \\",
        r"\midrule",
        *(rf"{' & '.join(map(_latex_entry, row))} \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """Text that LaTeX sets as it is, on one line; letters beyond Latin need an engine that knows them."""
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def escape(text: str) -> str:
    """Text that Markdown shows as it is: on one line, with no markup, no HTML, no mathematics and no link."""
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", line)


def to_csv(rows: Sequence[Row]) -> str:
    """Tidy rows as CSV; the header is the union of their keys, in order."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _texts(table: Table) -> list[Sequence[str]]:
    return [table.header, *([entry.text for entry in row] for row in table.rows)]


def _latex_entry(entry: Entry) -> str:
    text = latex(entry.text)
    return rf"\textbf{{{text}}}" if entry.bold and text else text


def _markdown_entry(entry: Entry) -> str:
    text = escape(entry.text)
    text = f"[{text}]({entry.link})" if entry.link else text
    return f"**{text}**" if entry.bold and text else text
