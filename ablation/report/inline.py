"""Figures as parts of a page: SVG without what only a file needs, its colours taken from the page's."""

import re

from ablation.report.figures import style

_ON_DARK = ("#4fa8dc", "#f0853a", "#2cc497", "#e09cc4", "#f0b429", "#7cc8f2", "#f2f2f2")
_SIZES_ON_DARK = ("#9f86ea", "#7d93e8", "#5fb0e0", "#4cc4c4", "#54d6a0", "#8fe070", "#e2e24a")

# Variable of the page -> its colour on white paper, as the figures' files have it, and on a dark page.
PALETTE = {
    "ink": (style.INK, "#e8e6e3"),
    "grey": (style.GREY, "#a3a09b"),
    "rule": (style.LIGHT, "#3a3d42"),
    "paper": (style.PAPER, "#16181c"),
    **{
        f"loss{position}": (light, dark)
        for position, (light, dark) in enumerate(zip(style.COLOURS, _ON_DARK, strict=True))
    },
    **{  # letters in a loss's colour
        f"label{position}": (style.darker(light), dark)
        for position, (light, dark) in enumerate(zip(style.COLOURS, _ON_DARK, strict=True))
    },
    **{
        f"size{position}": (light, dark)
        for position, (light, dark) in enumerate(zip(style.SIZES, _SIZES_ON_DARK, strict=True))
    },
}
_VARIABLES = {light.lower(): name for name, (light, _) in PALETTE.items()}


def inline_svg(svg: str, name: str) -> str:
    """An SVG file's text as an element of a page, hidden from assistive technology, which reads the figure's own words.

    Ids get the figure's name as a prefix, since a page has one space of ids. Colours become the page's variables, so
    that a dark page has a dark figure. Comments go: they hold labels.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r'<svg ([^>]*?)width="[^"]*" ', r"<svg \1", body, count=1)
    body = re.sub(r'<svg ([^>]*?)height="[^"]*" ', r"<svg \1", body, count=1)
    body = body.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
    for colour, variable in _VARIABLES.items():
        body = re.sub(rf"{colour}\b", f"var(--{variable})", body, flags=re.IGNORECASE)
    return body
