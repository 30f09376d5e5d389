"""Sweep: a YAML file that declares a grid of cells, read whole or refused with every mistake in it at once.

    grid      axes: key -> list of values; the cells are their product. `seed: 3` counts: seeds 0, 1, 2.
    base      what all cells share
    include   cells beside the grid, completed from `base`; exclude   cells of the grid to leave out
    resources, report, name, question

A key is a field of the recipe (`ablation.recipe`), dotted to reach inside one. A plain key gives the whole value, a
dotted one a single leaf of it; what overlaps is an error.
"""

import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from ablation import catalog, located, places, recipe
from ablation.catalog import Scalar
from ablation.cell import Frozen
from ablation.errors import UserError
from ablation.image_folder.prepare import Prepared, prepare
from ablation.located import BAD, Document, KeyPath, Problem, nearest, shown, suggestion
from ablation.recipe import DEFAULTS, KEYS, Point, Setting, covers

MAX_CELLS = 100_000
STANDARD_AXES = ("dataset", "loss", "batch_size", "seed")  # every cell shows them, in a grid or not


class SweepErrors(UserError):  # noqa: N818, all of them at once
    """All that is wrong with a sweep file, one line each: ``FILE:LINE: key: what is wrong; what would be right``."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


def _name(value: str) -> str:
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", value):
        return value
    raise ValueError(
        "should be fit for a folder's name: at most 64 of a-z, 0-9, '.', '_', '-', the first a letter or digit"
    )


def _gpus(value: object) -> object:
    share = re.fullmatch(r"1/([1-9]\d{0,2})", value) if isinstance(value, str) else None
    number = 1 / int(share[1]) if share else value
    if number == "auto":
        return number
    if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
        raise ValueError("should be auto, 0, a number of whole GPUs, or a share of one such as 0.5 or 1/3")
    if number == int(number):
        return float(number)
    if number > 1:
        whole = int(number)
        raise ValueError(f"should be whole GPUs or a share of one: {whole} or {whole + 1}")
    trials = int(1 / number + 0.02)  # 0.33 is meant to be a third
    if trials * number < 0.98:
        raise ValueError(f"should be a share that fills a GPU: 1/{trials} or 1/{trials + 1}")
    return number


def _compile(value: object) -> object:
    if isinstance(value, bool) or value == "auto":
        return value
    raise ValueError("should be true, false or auto")


def _micro_batch(value: object) -> object:
    if value in ("all", "auto") or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise ValueError("should be all, auto or a number of images")


def _seconds(value: object) -> object:
    units = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    text = "" if isinstance(value, bool) else str(value)
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([smhd]?)", text)
    if match and (seconds := float(match[1]) * units[match[2]]) > 0:
        return seconds
    raise ValueError("should be a time such as 90s, 30m, 2h or 1d")


def _margin(value: object) -> object:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 0.5):
        return value
    raise ValueError("should be a share of the test images above 0 and below 0.5, such as 0.01 for one point")


class Resources(Frozen):
    """What a trial may use. Nothing here changes a result by more than rounding, so nothing here enters an id."""

    model_config = ConfigDict(strict=True)

    cpus_per_trial: int = Field(default=1, ge=1)
    gpus_per_trial: Annotated[float | Literal["auto"], BeforeValidator(_gpus)] = (
        "auto"  # one where there are GPUs, else 0
    )
    compile: Annotated[bool | Literal["auto"], BeforeValidator(_compile)] = False  # see `pretrain.execution`
    micro_batch: Annotated[int | Literal["all", "auto"], BeforeValidator(_micro_batch)] = "all"
    """Images whose activations are kept at a time; those of the others are computed again for the backward pass."""
    time_limit: Annotated[float | None, BeforeValidator(_seconds)] = None  # seconds of one cell, over all its attempts
    max_retries: int = Field(default=3, ge=0)  # of a crashed trial
    data_root: str | None = Field(default=None, min_length=1)  # where dataset files lie
    download: bool = True  # fetch missing dataset files into data_root

    def root(self) -> Path:
        """Where dataset files lie: data_root, else $ABLATION_DATA, else ~/.cache/ablation."""
        return Path(self.data_root or os.environ.get("ABLATION_DATA") or places.cache_folder()).expanduser()


class ReportOptions(Frozen):
    """The `report` block of a sweep file."""

    model_config = ConfigDict(strict=True)

    title: str | None = None
    notes: list[str] = Field(default_factory=list)  # sentences that the report repeats
    metric: Literal["linear_top1", "linear_top5", "knn_top1"] = "linear_top1"  # what answer, figures and tests speak of
    equivalence_margin: Annotated[float | None, BeforeValidator(_margin)] = None
    """The share of test images, in (0, 0.5), below which a difference of accuracies doesn't matter; None: no test."""
    published: bool = False  # published accuracies behind the first figure
    reference_batch: int | None = None  # the batch size that the others are compared with; None: the largest
    comparisons: list[Annotated[tuple[str, str], Field(strict=False)]] = Field(default_factory=list)
    """Pairs of losses (a, b) as the cells' settings show them, read as a - b."""


class _Layout(Frozen):
    """The top level of a sweep file."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str, AfterValidator(_name)]  # names the results' folder
    question: str | None = None
    grid: dict[str, Any] = Field(min_length=1)
    base: dict[str, Any] = Field(default_factory=dict)
    include: list[dict[str, Any]] = Field(default_factory=list)
    exclude: list[dict[str, Any]] = Field(default_factory=list)
    resources: Resources = Resources()
    report: ReportOptions = ReportOptions()


_BLOCKS: Mapping[KeyPath, type[BaseModel]] = {(): _Layout, ("resources",): Resources, ("report",): ReportOptions}


@dataclass(frozen=True)
class Sweep:
    """A sweep file without a mistake, and the recipe of every cell it asks for."""

    name: str
    question: str | None
    resources: Resources
    report: ReportOptions
    axes: tuple[str, ...]  # as settings show them, in the order of the file
    points: tuple[Point, ...]  # whole recipes, in the order of the file, not yet free of repeats
    warnings: tuple[str, ...]
    document: Document  # with the overrides applied
    edits: tuple[tuple[KeyPath, Any], ...]  # the overrides: where they went

    def resolved_text(self) -> str:
        """The file with its overrides applied: read again, without any, it gives the same sweep. Keeps comments."""
        if not self.edits:
            return self.document.text
        commented = YAML()
        commented.composer.warn_double_anchors = False
        commented.preserve_quotes = True
        commented.width = 10**6
        data = commented.load(self.document.text)
        for path, value in self.edits:
            _assign(data, path, commented.load(json.dumps(value, ensure_ascii=False)))  # JSON is YAML on one line
        text = _dump(commented, data)
        if located.parse(text, "").data == self.document.data:
            return text
        return _dump(YAML(), self.document.data)  # an alias: the edit reached its other places


def _dump(yaml: YAML, data: Any) -> str:
    stream = StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def template() -> str:
    """A commented sweep file to start from."""
    return files("ablation").joinpath("template.yaml").read_text(encoding="utf-8")


def load(path: Path, overrides: Sequence[str] = ()) -> Sweep:
    """Reads a sweep file and applies `overrides`, each ``KEY=VALUE`` with a YAML value.

    Raises:
        SweepErrors: the file or an override has mistakes; all of them are in `problems`.
    """
    document = located.read(path)
    if document.data is None:
        document.report((), "is empty; `ablation init FILE` writes a file to start from")
    elif document.data is not BAD and not isinstance(document.data, dict):
        document.report((), f"should be a mapping with the keys {', '.join(_Layout.model_fields)}")
    if not isinstance(document.data, dict):
        raise SweepErrors(document.problems)
    edits = _override(document, overrides)
    layout = _read_layout(document)
    axes, points, warnings = _expand(document, layout.resources.root() if layout else None)
    _check_report(document, points)
    _check_micro_batch(document, points)
    if document.problems or layout is None:
        raise SweepErrors(document.problems)
    return Sweep(
        name=layout.name,
        question=layout.question,
        resources=layout.resources,
        report=layout.report,
        axes=axes,
        points=tuple(points),
        warnings=tuple(warnings),
        document=document,
        edits=tuple(edits),
    )


# The top level.


def _read_layout(document: Document) -> _Layout | None:
    try:
        return _Layout.model_validate(document.data)
    except ValidationError as error:
        errors = error.errors()
    misspelt: set[KeyPath] = set()
    for wrong in errors:
        if wrong["type"] == "extra_forbidden":
            misspelt.add(_report_unknown(document, wrong["loc"]))
    for wrong in errors:
        path = wrong["loc"]
        if wrong["type"] == "missing" and isinstance(path[-1], int):
            document.report(path[:-1], "should be a pair [a, b]")
        elif wrong["type"] == "missing" and path not in misspelt:
            document.report(path[:-1], "is missing", key=located.dotted(path))
        elif wrong["type"] not in ("missing", "extra_forbidden") and not recipe.holds_bad(wrong["input"]):
            document.report(path, f"{recipe.message(wrong)}, not {shown(wrong['input'])}")
    return None


def _report_unknown(document: Document, path: KeyPath) -> KeyPath:
    """Reports a key that is not of its block; returns the path that was probably meant."""
    *home, key = path
    known = _BLOCKS[tuple(home)].model_fields
    if not home and key in KEYS:
        document.report(path, "stands at the top level; move it into base, or into grid as a list")
    else:
        document.report(path, f"unknown key; {suggestion(str(key), known)}")
    return (*home, nearest(str(key), known) or key)


# Overrides.


def _override(document: Document, overrides: Sequence[str]) -> list[tuple[KeyPath, Any]]:
    edits = []
    for override in overrides:
        key, equals, text = override.partition("=")
        source = f"--set {key}"
        value = located.parse(text, source)
        path = _target(document.data, key) if equals else None
        if not equals:
            document.add(Problem(source, None, "", "has no value; write --set KEY=VALUE"))
        elif path is None:
            near = nearest(key, [*_Layout.model_fields, *sorted(KEYS)])
            hint = f"did you mean {near}?" if near else f"known: {', '.join((*_Layout.model_fields, *recipe.FIELDS))}"
            document.add(Problem(source, None, "", f"unknown key; {hint}"))
        elif isinstance(parent := _parent(document.data, path), dict):
            if path[0] == "grid" and path[1:] and value.data is not BAD and _is_single(str(path[1]), value.data):
                value.data = [value.data]
            _assign(parent, path[-1:], value.data)
            document.put(path, value)
            edits.append((path, value.data))
    return edits


def _target(data: Mapping[str, Any], key: str) -> KeyPath | None:
    """Where an override's value goes; None where the key is unknown."""
    section, _, inner = key.partition(".")
    if section in ("grid", "base") and inner in KEYS:
        return (section, inner) if section == "grid" else ("base", *_within_base(data, inner))
    if section in _Layout.model_fields:
        block = _BLOCKS.get((section,))
        known = not inner or (block is not None and inner in block.model_fields)
        return tuple(key.split(".")) if known else None
    grid = data.get("grid")
    if key == "seed" or (isinstance(grid, dict) and key in grid):
        return "grid", key
    return ("base", *_within_base(data, key)) if key in KEYS else None


def _within_base(data: Mapping[str, Any], key: str) -> KeyPath:
    """Where `base` has the key, or should get it: inside a mapping that is there, else as it is."""
    base = data.get("base")
    group, _, inner = key.partition(".")
    there = base.get(group) if isinstance(base, dict) else None
    if inner and isinstance(there, dict):
        return group, inner
    return (group,) if inner == "name" and isinstance(there, str) else (key,)


def _parent(data: Any, path: KeyPath) -> Any:
    """The mapping that holds the path's last key, made where it is missing."""
    for key in path[:-1]:
        data = data.setdefault(key, {}) if isinstance(data, dict) else None
    return data


def _assign(data: MutableMapping[Any, Any], path: KeyPath, value: Any) -> None:
    """Sets the value at `path`, in place of every dotted key within it."""
    parent = _parent(data, path)
    for key in [key for key in parent if key != path[-1] and covers(str(path[-1]), key)]:
        del parent[key]
    parent[path[-1]] = value


# From the file's sections to whole recipes.

_Axes = Mapping[str, Sequence[Point]]  # key -> the leaves that each of its values gives


def _expand(document: Document, root: Path | None) -> tuple[tuple[str, ...], list[Point], list[str]]:
    """The axes, the recipes of all cells, and what is worth a warning; problems are reported.

    `root` is where dataset files lie; None where the file does not say so readably: then no image folder is opened.
    """
    sections = {key: document.data.get(key, {}) for key in ("grid", "base")}
    base, misspelt_base = _read_base(document, sections["base"])
    grid, misspelt = _read_axes(document, sections["grid"], ("grid",))
    _check_overlap(document, base, grid)
    includes = [(path, *_read_axes(document, section, path)) for path, section in _items(document, "include")]
    names = dict.fromkeys([*grid, *(key for _, axes, _ in includes for key in axes)])
    shown_axes = tuple(dict.fromkeys(_shown_axis(name, names) for name in names))
    size = sum(math.prod(map(len, axes.values())) for axes in (grid, *(axes for _, axes, _ in includes)))
    points: list[Point] = []
    warnings: list[str] = []
    if size > MAX_CELLS:
        document.report(("grid",), f"asks for {size:,} cells; at most {MAX_CELLS:,} are accepted")
    elif all(isinstance(section, dict) for section in sections.values()) and sections["grid"]:
        whole = {**DEFAULTS, **misspelt_base, **base}
        points = _product({**whole, **misspelt}, grid)
        points, warnings = _exclude(document, points, _items(document, "exclude"))
        homes: list[KeyPath] = [("base",)] * len(points)
        for path, axes, misspelt_here in includes:
            kept = {leaf: s for leaf, s in whole.items() if not any(covers(key, leaf) for key in axes)}
            added = _product({**DEFAULTS, **kept, **misspelt_here}, axes)
            points += added
            homes += [path] * len(added)
        if root is not None:
            points, notes = _with_folders(document, points, root)
            warnings += notes
        for point, home in zip(points, homes, strict=True):
            recipe.check(document, point, home)
        _check_labels(document, points)
    return shown_axes, points, warnings


def _product(whole: Point, axes: _Axes) -> list[Point]:
    return [
        dict(itertools.chain(whole.items(), *(piece.items() for piece in pieces)))
        for pieces in itertools.product(*axes.values())
    ]


def _items(document: Document, key: str) -> Iterable[tuple[KeyPath, dict[str, Any]]]:
    """The mappings of a list section, with their paths."""
    section = document.data.get(key)
    for i, item in enumerate(section if isinstance(section, list) else ()):
        if item == {}:
            document.report((key, i), "names no key")
        elif isinstance(item, dict):
            yield (key, i), item


def _read_base(document: Document, section: Any) -> tuple[Point, Point]:
    """The leaves that `base` gives, and those that misspelt keys of it were probably meant to give."""
    leaves: dict[str, Setting] = {}
    misspelt: dict[str, Setting] = {}
    for key, value in section.items() if isinstance(section, dict) else ():
        path = ("base", key)
        if key == "seed":
            document.report(path, "one seed shows no spread; write seed: 3 (seeds 0, 1, 2) or seed: [7] in grid")
            misspelt[key] = Setting(BAD, path)
        elif key not in KEYS:
            misspelt.update(recipe.unknown(document, key, path))
        else:
            piece = recipe.read(document, key, value, path)
            for leaf in piece.keys() & leaves.keys():
                document.report(
                    piece[leaf].path, f"gives {leaf} again, after {located.dotted(leaves[leaf].path)}; keep one"
                )
            leaves.update(piece)
    return leaves, misspelt


def _read_axes(document: Document, section: Any, home: KeyPath) -> tuple[dict[str, list[Point]], Point]:
    """The axes of `grid` or of an item of `include`, and the leaves of misspelt keys as in `_read_base`."""
    axes: dict[str, list[Point]] = {}
    misspelt: dict[str, Setting] = {}
    for key, value in section.items() if isinstance(section, dict) else ():
        path = (*home, key)
        if key not in KEYS:
            misspelt.update(recipe.unknown(document, key, path))
            continue
        for other in axes:
            if covers(other, key) or covers(key, other):
                document.report(path, f"overlaps with {other}; keep one")
        if key == "seed" and isinstance(value, int) and not isinstance(value, bool):
            axes[key] = _count_seeds(document, value, path)
        else:
            axes[key] = _read_values(document, key, value, path, listed=home == ("grid",))
    return axes, misspelt


def _count_seeds(document: Document, count: int, path: KeyPath) -> list[Point]:
    if 1 <= count <= MAX_CELLS:
        return [{"seed": Setting(seed, path)} for seed in range(count)]
    document.report(
        path, f"should count 1 to {MAX_CELLS:,} seeds, not {count}; write [{count}] for one seed of that number"
    )
    return [{"seed": Setting(BAD, path)}]


def _read_values(document: Document, key: str, value: Any, path: KeyPath, *, listed: bool) -> list[Point]:
    """The values of an axis; `listed`: they have to stand in a list."""
    if value is BAD or _is_single(key, value):
        if listed and value is not BAD:
            item = value if isinstance(value, str) else shown(value)
            document.report(path, f"should be a list of values; write [{item}], or move it to base")
        return [recipe.read(document, key, value, path)]
    if not value:
        document.report(path, "lists no value; give at least one")
        return [recipe.read(document, key, BAD, path)]
    pieces = [recipe.read(document, key, item, (*path, i)) for i, item in enumerate(value)]
    seen = set()
    for i, piece in enumerate(pieces):
        values = repr([(leaf, setting.value) for leaf, setting in sorted(piece.items())])
        if values in seen and not recipe.holds_bad([setting.value for setting in piece.values()]):
            document.report((*path, i), f"{shown(value[i])} stands twice in this list; remove one")
        seen.add(values)
    return pieces


def _is_single(key: str, value: Any) -> bool:
    """Whether `value` is one value of an axis, not a list of them; the one field that is a list itself lists lists."""
    if not isinstance(value, list):
        return key != "seed" or isinstance(value, bool) or not isinstance(value, int)
    return key == recipe.PAIR and bool(value) and not any(isinstance(item, list) for item in value)


def _check_overlap(document: Document, base: Point, grid: _Axes) -> None:
    for leaf, setting in base.items():
        for axis in grid:
            if covers(axis, leaf):
                key = setting.path[1]
                path = setting.path[:2] if covers(axis, str(key)) else setting.path
                document.report(path, f"is also an axis of grid ({axis}); keep one")


def _shown_axis(name: str, names: Iterable[str]) -> str:
    """The axis that shows `name`: an axis or standard axis that holds it, or itself."""
    return min((axis for axis in (*names, *STANDARD_AXES) if covers(axis, name)), key=len)


# Image folders.


def _with_folders(document: Document, points: Iterable[Point], root: Path) -> tuple[list[Point], list[str]]:
    """The points, those of image folders with what these came to, and what is worth a warning of the folders."""
    found: dict[tuple[Scalar, ...], Prepared | None] = {}
    whole: list[Point] = []
    notes: list[str] = []
    for point in points:
        if recipe.value_at(point, "dataset.name") != catalog.IMAGE_FOLDER or not recipe.readable(point, "dataset"):
            whole.append(point)
            continue
        named = point.get("dataset.path", point["dataset.name"])
        asked = recipe.component(point, "dataset").parameters
        key = tuple(asked.values())
        if key not in found:
            found[key] = prepared = _prepared(document, asked, root, named.path)
            notes += [f"{recipe.text(point, 'dataset')}: {note}" for note in (prepared.notes if prepared else ())]
        prepared = found[key]
        whole.append({**point, recipe.FOUND: Setting(prepared.dataset, named.path)} if prepared else point)
    return whole, notes


def _prepared(document: Document, asked: Mapping[str, Any], root: Path, path: KeyPath) -> Prepared | None:
    try:
        return prepare(root=root, **asked)
    except UserError as error:
        document.report(path, str(error))
        return None


# Exclusion.


def _exclude(
    document: Document, points: list[Point], excludes: Iterable[tuple[KeyPath, Mapping[str, Any]]]
) -> tuple[list[Point], list[str]]:
    """The points that no item of `exclude` matches, and a warning for each item that matches none."""
    labels = {
        kind: {point[label].value for point in points if (label := f"{kind}.label") in point}
        for kind in catalog.COMPONENTS
    }
    warnings = []
    dropped: set[int] = set()
    for path, section in excludes:
        wanted = _read_exclude(document, section, path, labels)
        if wanted is None:
            continue
        matches = {i for i, point in enumerate(points) if all(_matches(point, pieces) for pieces in wanted)}
        if not matches:
            place = document.place(path)
            where = place if isinstance(place, str) else f"line {place}"
            warnings.append(f"{located.dotted(path)} ({where}) matches no cell of the grid")
        dropped |= matches
    if points and len(dropped) == len(points):
        document.report(("exclude",), "drops every cell of the grid")
    return [point for i, point in enumerate(points) if i not in dropped], warnings


def _read_exclude(
    document: Document, section: Mapping[str, Any], home: KeyPath, labels: Mapping[str, set[str]]
) -> list[list[Point]] | None:
    """For each key of an item of `exclude` the values that it matches; None where they can't be read."""
    wanted = []
    for key, value in section.items():
        path = (*home, key)
        if key not in KEYS:
            recipe.unknown(document, key, path)
            return None
        if key == "seed" and not isinstance(value, list) and value is not BAD:
            document.report(path, f"could be a count or a seed; write [{shown(value)}] for the seed")
            return None
        items = [value] if value is BAD or _is_single(key, value) else value
        pieces: list[Point] = []
        for i, item in enumerate(items):
            if isinstance(item, str) and item in labels.get(key, ()):
                pieces.append({f"{key}.label": Setting(item, path)})
            else:
                pieces.append(recipe.read(document, key, item, path if items is not value else (*path, i)))
        if not pieces:
            document.report(path, "lists no value; give at least one")
        wanted.append(pieces)
    settings = [setting.value for pieces in wanted for piece in pieces for setting in piece.values()]
    return None if recipe.holds_bad(settings) or not all(wanted) else wanted


def _matches(point: Point, pieces: Iterable[Point]) -> bool:
    return any(all(recipe.value_at(point, leaf) == s.value for leaf, s in piece.items()) for piece in pieces)


# What cells and report ask of each other.


def _check_labels(document: Document, points: Iterable[Point]) -> None:
    """Reports a label that two different components of one kind have."""
    for kind in catalog.COMPONENTS:
        label = f"{kind}.label"
        first: dict[str, dict[str, Any]] = {}
        for point in points:
            if label in point and point[label].value is not BAD:
                leaves = {leaf: s.value for leaf, s in point.items() if covers(kind, leaf)}
                if first.setdefault(point[label].value, leaves) != leaves:
                    document.report(point[label].path, f"labels another {kind} already; labels are unique")


def _check_report(document: Document, points: Sequence[Point]) -> None:
    """Reports batch sizes and losses of the report that no cell has, as far as the cells can be read."""
    report = document.data.get("report")
    if not points or not isinstance(report, dict):
        return
    reference, comparisons = report.get("reference_batch"), report.get("comparisons")
    sizes = {recipe.value_at(point, "batch_size") for point in points}
    if type(reference) is int and None not in sizes and BAD not in sizes and reference not in sizes:
        listed = ", ".join(map(str, sorted(sizes)))
        document.report(("report", "reference_batch"), f"{reference} is no batch size of this sweep; it has {listed}")
    if isinstance(comparisons, list) and all(recipe.readable(point, "loss") for point in points):
        losses = list(dict.fromkeys(str(recipe.text(point, "loss")) for point in points))
        for i, pair in enumerate(comparisons):
            _check_comparison(document, pair, ("report", "comparisons", i), losses)


def _check_micro_batch(document: Document, points: Sequence[Point]) -> None:
    """Reports a micro-batch that batch norm would span."""
    resources = document.data.get("resources")
    images = resources.get("micro_batch") if isinstance(resources, dict) else None
    if type(images) is not int or images < 1:
        return
    pairs = {tuple(recipe.value_at(point, key) for key in ("batch_size", "norm_batch")) for point in points}
    groups = [batch if group == "all" else group for batch, group in pairs]
    if widest := max((group for group in groups if type(group) is int and group > images), default=None):
        message = f"batch norm spans {widest} images, more than {images}; set norm_batch to at most {images}"
        document.report(("resources", "micro_batch"), message)


def _check_comparison(document: Document, pair: Any, path: KeyPath, losses: Sequence[str]) -> None:
    if not isinstance(pair, list) or not all(isinstance(loss, str) for loss in pair) or len(pair) != 2:
        return  # said already
    for i, loss in enumerate(pair):
        if loss not in losses:
            document.report((*path, i), f"{shown(loss)} is no loss of this sweep; {suggestion(loss, losses)}")
    if pair[0] == pair[1]:
        document.report(path, f"compares {shown(pair[0])} with itself")
    elif pair in document.data["report"]["comparisons"][: int(path[-1])]:
        document.report(path, "stands twice; remove one")
