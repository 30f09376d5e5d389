"""A page as data: sections of blocks of plain text, written as HTML or Markdown by a template that escapes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import jinja2
from markupsafe import Markup

from ablation.report import formats
from ablation.report.formats import Table

MOST_PRINTED_ROWS = 60  # of a table that a reader has to open: longer ones stay closed on paper


@dataclass(frozen=True)
class Text:
    """A paragraph, or an item of a list; `lead` stands before it in bold, `below` in a list of its own under it."""

    kind: ClassVar = "text"
    text: str
    lead: str = ""
    warning: bool = False
    below: Sequence[str] = ()


@dataclass(frozen=True)
class Items:
    """A list."""

    kind: ClassVar = "items"
    items: Sequence[Text]


@dataclass(frozen=True)
class Sheet:
    """A table; with a name it also lies in files beside the page."""

    kind: ClassVar = "sheet"
    table: Table
    caption: str
    name: str = ""


@dataclass(frozen=True)
class Plot:
    """A figure; its files lie in figures/."""

    kind: ClassVar = "plot"
    name: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Image:
    """A PNG beside the page."""

    kind: ClassVar = "image"
    path: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Code:
    """Text as it is."""

    kind: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class Links:
    """Files beside the page."""

    kind: ClassVar = "links"
    lead: str
    paths: Sequence[str]


@dataclass(frozen=True)
class Fold:
    """Blocks that a reader opens."""

    kind: ClassVar = "fold"
    summary: str
    blocks: Sequence["Block"]

    @property
    def long(self) -> bool:
        """Whether it would fill pages of paper."""
        return any(isinstance(block, Sheet) and len(block.table.rows) > MOST_PRINTED_ROWS for block in self.blocks)


Block = Text | Items | Sheet | Plot | Image | Code | Links | Fold


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `id` is its anchor."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A whole page."""

    title: str
    question: str | None
    progress: str
    sections: Sequence[Section] = field(default_factory=list)

    def sheets(self) -> list[Sheet]:
        """Every named table, in order."""
        return [
            block
            for section in self.sections
            for block in _flat(section.blocks)
            if isinstance(block, Sheet) and block.name
        ]


def markdown(document: Document) -> str:
    """The page in GitHub's Markdown; links are relative to its folder."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ablation.report"),
        autoescape=False,  # noqa: S701 - Markdown, not HTML: what is text goes through `text`
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(text=formats.escape, table=formats.to_markdown, fenced=_fenced)
    return re.sub(r"\n{3,}", "\n\n", environment.get_template("index.md.j2").render(page=document))


def html(
    document: Document, drawings: Mapping[str, str], images: Mapping[str, str], palette: Mapping[str, tuple[str, str]]
) -> str:
    """The page as one file that asks for no other.

    Args:
        document: what it says.
        drawings: name of a `Plot` -> its SVG, as `inline_svg` leaves it.
        images: path of an `Image` -> its PNG as a data URI.
        palette: variable of the style sheet -> its colour on a light and on a dark page.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ablation.report"),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    safe = {name: Markup(svg) for name, svg in drawings.items()}  # noqa: S704 - made by matplotlib, comments removed
    return environment.get_template("index.html.j2").render(
        page=document, drawings=safe, images=images, palette=palette
    )


def _flat(blocks: Sequence[Block]) -> list[Block]:
    return [inner for block in blocks for inner in (_flat(block.blocks) if isinstance(block, Fold) else [block])]


def _fenced(text: str) -> str:
    """A code block with a fence longer than any that the text has."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"
