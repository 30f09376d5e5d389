"""Recipe: what one cell of a sweep is told, and what that resolves to.

A sweep file gives a recipe in pieces: `base`, one value of each axis, the defaults. A piece is a `Point`: its leaves
(``learning_rate.base``, ``optimizer.momentum``) with their values and where each of them stands, so that pieces merge
by dictionary union and a mistake is reported in the line that made it. The models below declare the leaves, their
bounds and their defaults; components (dataset, loss, encoder, optimizer) are declared by the catalog.

The defaults here are what users get who say nothing; they may change, unlike those of `catalog` and `cell`.
"""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from ablation import catalog, user_loss
from ablation.catalog import Scalar
from ablation.cell import Cell, Component, Evaluation, LearningRate, Pretraining, Probe, Projection, Views
from ablation.errors import UserError
from ablation.located import BAD, Document, KeyPath, nearest, shown, suggestion

Count = Annotated[int, Field(ge=1, le=10**12)]
Positive = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]


class Warmup(NamedTuple):
    """The length of the warm-up: an amount of a unit."""

    amount: float
    unit: Literal["share", "steps", "epochs"]

    def __str__(self) -> str:
        return number(self.amount) if self.unit == "share" else f"{number(self.amount)} {self.unit}"


def _warmup(value: Any) -> Warmup:
    if _is_number(value) and 0 <= value < 1:
        return Warmup(float(value), "share")
    if isinstance(value, dict) and len(value) == 1:
        unit, amount = next(iter(value.items()))
        whole = isinstance(amount, int) if unit == "steps" else unit == "epochs"
        if whole and _is_number(amount) and amount >= 0:
            return Warmup(float(amount), unit)
    raise ValueError("should be a share of the steps from 0 to below 1, or {steps: ...}, or {epochs: ...}")


def _crop_scale(value: Any) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) and 0 < value[0] <= value[1] <= 1:
        return float(value[0]), float(value[1])
    raise ValueError("should be a pair of shares of the image's area, such as [0.2, 1.0], with 0 < low <= high <= 1")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Block(BaseModel):
    """A group of leaves."""


class ProjectionBlock(_Block):
    """The projection head's widths."""

    hidden: Count = 128
    out: Count = 128


class BudgetBlock(_Block):
    """How long a cell trains: exactly one of the three."""

    samples: Count | None = None
    epochs: Positive | None = None
    steps: Count | None = None


class LearningRateBlock(_Block):
    """The rate `base`, scaled to the batch size by `rule`."""

    base: Positive
    rule: Literal["none", "linear", "sqrt"] = "none"
    reference_batch: Count = 256
    warmup: Annotated[Warmup, PlainValidator(_warmup)] = Warmup(0.1, "share")
    schedule: Literal["cosine", "constant"] = "cosine"


class ViewsBlock(_Block):
    """SimCLR's augmentation; the defaults are its settings for CIFAR-10 (arXiv:2002.05709, appendix B.9)."""

    crop_scale: Annotated[tuple[float, float], PlainValidator(_crop_scale)] = (0.08, 1.0)
    flip: bool = True
    jitter: Annotated[float, Field(ge=0, le=2.5)] = 0.5  # hue turns by .2 s, at most half the circle
    grayscale: Share = 0.2
    blur: Share = 0.0


class ProbeBlock(_Block):
    """The linear classifier on the frozen features; all but `solver` is SGD's, by default as FlatCLR's code has it."""

    solver: Literal["lbfgs", "sgd"] = "lbfgs"
    epochs: Count = 100
    batch_size: Count = 4096
    learning_rate: Positive = 1.6
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0, le=1e6)] = 0.0


class Recipe(_Block):
    """The leaves that are no component."""

    batch_size: Annotated[int, Field(ge=2)]  # one image alone has no negatives
    seed: Annotated[int, Field(ge=0)]
    temperature: Positive = 0.1
    loss_dtype: Literal["float16", "bfloat16", "float32", "float64"] = "float32"
    gradient_scaling: bool = False
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    negatives: Count | Literal["all"] = "all"
    norm_batch: Count | Literal["all"] = "all"
    learning_curve: Literal["even", "log"] = "even"
    projection: ProjectionBlock = ProjectionBlock()
    budget: BudgetBlock
    learning_rate: LearningRateBlock
    views: ViewsBlock = ViewsBlock()
    probe: ProbeBlock = ProbeBlock()


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, _Block):
            yield from _leaves(info.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, info


LEAVES: Mapping[str, FieldInfo] = dict(_leaves(Recipe))
BLOCKS: Mapping[str, tuple[str, ...]] = {
    block: tuple(leaf.removeprefix(f"{block}.") for leaf in LEAVES if leaf.startswith(f"{block}."))
    for block in ("projection", "budget", "learning_rate", "views", "probe")
}
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    kind: tuple(dict.fromkeys(parameter for item in group.values() for parameter in item.parameters))
    for kind, group in catalog.COMPONENTS.items()
}  # of any component of a kind
FIELDS = (*catalog.COMPONENTS, *(leaf for leaf in LEAVES if "." not in leaf), *BLOCKS)
KEYS = frozenset(
    [*FIELDS, *LEAVES, *(f"{kind}.{inner}" for kind, inners in _PARAMETERS.items() for inner in ("name", *inners))]
)  # everything that can be an axis
PAIR = "views.crop_scale"  # the one leaf whose single value is a list
REQUIRED = ("dataset.name", "loss.name", "encoder.name", "batch_size", "seed", "learning_rate.base")
_BUDGETS = tuple(f"budget.{unit}" for unit in BLOCKS["budget"])


class Setting(NamedTuple):
    """A leaf's value and where it stands; `BAD` where a problem is reported already."""

    value: Any
    path: KeyPath


Point = Mapping[str, Setting]  # leaf -> setting

FOUND = "found dataset"  # a leaf that no file can give: the component that an image folder comes to

DEFAULTS: Point = {
    "optimizer.name": Setting("sgd", ()),
    "temperature_control.name": Setting("fixed", ()),
    **{leaf: Setting(info.default, ()) for leaf, info in LEAVES.items() if not info.is_required()},
}


# Reading: a key and its value become leaves.


def read(document: Document, key: str, value: Any, path: KeyPath) -> Point:
    """The leaves under `key`, a member of `KEYS`; what is wrong with them is reported and stands as `BAD`."""
    if key in catalog.COMPONENTS:
        if isinstance(value, str):
            name, colon, folder = value.partition(":")
            if key == "dataset" and name == catalog.IMAGE_FOLDER and colon:
                return {"dataset.name": Setting(name, path), "dataset.path": Setting(folder, path)}
            return read(document, f"{key}.name", value, path)
        return _mapping(document, key, value, path, ("name", *_known_parameters(key, value), "label"))
    if key in BLOCKS:
        return _mapping(document, key, value, path, BLOCKS[key])
    return {key: Setting(_leaf(document, key, value, path), path)}


def described(kind: str, name: str) -> catalog.Described:
    """What the catalog, or the source of a user's loss, says of a component.

    Raises:
        UserError: there is no such component.
    """
    group = catalog.COMPONENTS[kind]
    return group[name] if name in group else _user_loss(name)


@cache
def _user_loss(name: str) -> catalog.Loss:
    return user_loss.find(name).described


def _known_parameters(kind: str, value: Any) -> tuple[str, ...]:
    """The parameters that a component of this kind may have; those of a user's loss if `value` names one."""
    name = value.get("name") if isinstance(value, dict) else None
    if kind == "loss" and isinstance(name, str) and name not in catalog.LOSSES and user_loss.is_user_loss(name):
        try:
            return tuple(parameter for parameter in _user_loss(name).parameters if parameter != "version")
        except UserError:
            pass  # said where the name stands
    return _PARAMETERS[kind]


def unknown(document: Document, key: str, path: KeyPath) -> Point:
    """Reports a key that is not in `KEYS`; what it was probably meant to be counts as given."""
    family = sorted(known for known in KEYS if known.startswith(key.partition(".")[0] + "."))
    # warmup is in learning_rate.warmup, batch begins batch_size
    longer = (known for known in sorted(KEYS) if known.endswith(f".{key}") or known.startswith(f"{key}_"))
    near = next(longer, None) or nearest(key, sorted(KEYS))
    known = ", ".join(family if "." in key and family else FIELDS)
    document.report(path, "unknown key; " + (f"did you mean {near}?" if near else f"known: {known}"))
    return _bad(near, path) if near else {}


def _bad(key: str, path: KeyPath) -> Point:
    """`key` as given, with nothing to read from it."""
    if key in catalog.COMPONENTS:
        return {f"{key}.name": Setting(BAD, path)}
    inner = [f"{key}.{leaf}" for leaf in BLOCKS.get(key, ())]
    return {leaf: Setting(BAD, path) for leaf in inner or [key]}


def _mapping(document: Document, key: str, value: Any, path: KeyPath, known: tuple[str, ...]) -> Point:
    if not isinstance(value, dict):
        if value is not BAD:
            kind = "a name, or a mapping with a name and parameters" if key in catalog.COMPONENTS else "a mapping"
            document.report(path, f"should be {kind} ({', '.join(known)}), not {shown(value)}")
        return _bad(key, path)
    leaves: dict[str, Setting] = {}
    for inner, item in value.items():
        if inner in known:
            leaves.update(read(document, f"{key}.{inner}", item, (*path, inner)))
        else:
            document.report((*path, inner), f"unknown key; {suggestion(inner, known)}")
            near = nearest(inner, known)
            leaves.update(_bad(f"{key}.{inner if near is None or near in value else near}", (*path, inner)))
    if not leaves:
        document.report(path, f"is empty; known keys: {', '.join(known)}")
        return _bad(key, path)
    return leaves


def _leaf(document: Document, key: str, value: Any, path: KeyPath) -> Any:
    if value is BAD or (isinstance(value, list | dict) and holds_bad(value)):
        return BAD
    kind, _, inner = key.partition(".")
    if kind not in catalog.COMPONENTS:
        try:
            return _adapter(key).validate_python(value)
        except ValidationError as error:
            document.report(path, f"{message(error.errors()[0])}, not {shown(value)}")
            return BAD
    judge = {"name": _wrong_name, "label": _wrong_label}.get(inner)
    if judge and (wrong := judge(value, kind)):
        document.report(path, wrong)
        return BAD
    return value  # a parameter: judged when the component's name is known


def _wrong_name(value: Any, kind: str) -> str | None:
    if value in list(catalog.COMPONENTS[kind]):
        return None
    if kind == "loss" and isinstance(value, str) and user_loss.is_user_loss(value):
        try:
            _user_loss(value)
        except UserError as error:
            return str(error)
        return None
    return f"unknown {kind} {shown(value)}; {suggestion(str(value), catalog.COMPONENTS[kind])}"


def _wrong_label(value: Any, kind: str) -> str | None:
    if not isinstance(value, str) or value != " ".join(value.split()) or not 0 < len(value) <= 60 or "=" in value:
        return f"a label should be one line of text, at most 60 characters without '=', not {shown(value)}"
    return f"is the name of a {kind}; choose another label" if value in catalog.COMPONENTS[kind] else None


def holds_bad(value: Any) -> bool:
    """Whether a problem of the value, or of something in it, is reported already."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is BAD or any(map(holds_bad, inner))


@cache
def _adapter(leaf: str) -> TypeAdapter[Any]:
    info = LEAVES[leaf]
    annotation: Any = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    return TypeAdapter(annotation, config=ConfigDict(strict=True, allow_inf_nan=False))


_MESSAGES = {
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number, written without point or exponent",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "string_type": "should be a text",
    "dict_type": "should be a mapping",
    "model_type": "should be a mapping",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "greater_than": "should be above {gt:g}",
    "greater_than_equal": "should be at least {ge:g}",
    "less_than": "should be below {lt:g}",
    "less_than_equal": "should be at most {le:g}",
    "literal_error": "should be {expected}",
    "too_short": "should not be empty",
    "string_too_short": "should not be empty",
    "too_long": "should have at most {max_length} items",
    "value_error": "{error}",
}  # pydantic's type of error -> what would be right


def message(error: Any) -> str:
    """What one of pydantic's errors asks for, as the end of a sentence."""
    template = _MESSAGES.get(error["type"])
    return template.format(**error.get("ctx", {})) if template else error["msg"].removeprefix("Input ")


# Checking: what leaves mean together.


def check(document: Document, point: Point, home: KeyPath) -> None:
    """Reports what is wrong between the leaves of a whole recipe, as far as they can be read.

    Problems stand where their values do; what is missing stands at `home`, the place to give it.
    """
    for leaf in REQUIRED:
        if leaf not in point:
            key = leaf.removesuffix(".name")
            advice = "write seed: 3 in grid (seeds 0, 1, 2)" if key == "seed" else "give it in base, or a list in grid"
            document.report(home, f"is missing; {advice}", key)
    for kind in catalog.COMPONENTS:
        _check_component(document, point, kind)
    _check_budget(document, point, home)
    _check_batch(document, point)
    _check_temperature(document, point)
    _check_probe(document, point)


def _check_component(document: Document, point: Point, kind: str) -> None:
    for leaf, wrong in _wrong_parameters(point, kind):
        document.report(point[leaf].path, wrong)


def _wrong_parameters(point: Point, kind: str) -> Iterator[tuple[str, str]]:
    name = _value(point, f"{kind}.name")
    if name is None:
        return
    parameters = {key: p for key, p in described(kind, name).parameters.items() if key != "version"}
    for leaf, setting in point.items():
        owner, _, inner = leaf.partition(".")
        if owner != kind or inner in ("name", "label") or setting.value is BAD:
            continue
        if inner not in parameters:
            takes = f"its parameters: {', '.join(parameters)}" if parameters else "it has no parameters"
            yield leaf, f"{name} takes no {inner}; {takes}"
        elif wrong := parameters[inner].check(setting.value):
            yield leaf, f"{wrong}, not {shown(setting.value)}"


def readable(point: Point, kind: str) -> bool:
    """Whether the point has a component of this kind and nothing is wrong with it."""
    leaves = [setting for leaf, setting in point.items() if leaf.startswith(f"{kind}.")]
    return bool(leaves) and all(s.value is not BAD for s in leaves) and not [*_wrong_parameters(point, kind)]


def _check_budget(document: Document, point: Point, home: KeyPath) -> None:
    given = [leaf for leaf in _BUDGETS if point[leaf].value is not None]
    readable = all(point[leaf].value is not BAD for leaf in given)
    if not given:
        document.report(home, "is missing; give one of samples, epochs or steps, such as {epochs: 100}", "budget")
    if len(given) > 1 and readable:
        units = " and ".join(leaf.removeprefix("budget.") for leaf in given)
        document.report(point[given[1]].path, f"should be one of samples, epochs or steps, not {units}", "budget")
    dataset, batch = _dataset(point), _value(point, "batch_size")
    if dataset is None or batch is None:
        return
    images = dataset.pretraining_images
    if batch > images:
        name = text(point, "dataset") if FOUND in point else _value(point, "dataset.name")
        path = point["batch_size"].path
        document.report(path, f"{batch} is larger than {name}, which has {images} images for pretraining")
    elif len(given) == 1 and readable and (warmup := _value(point, "learning_rate.warmup")):
        steps = count_steps(point, batch, images)
        warmup_steps = count_warmup(warmup, steps, batch, images)
        if warmup_steps >= steps:
            path = point["learning_rate.warmup"].path
            document.report(path, f"{warmup_steps} steps of warm-up leave none of {steps} at batch size {batch}")


def _dataset(point: Point) -> catalog.Dataset | None:
    """What is known of the point's dataset; None where that can't be read."""
    if FOUND in point:
        return catalog.dataset(point[FOUND].value)
    name = _value(point, "dataset.name")
    return None if name is None or name == catalog.IMAGE_FOLDER else catalog.DATASETS[name]


def _check_batch(document: Document, point: Point) -> None:
    """What is drawn from a batch, and what it is divided into."""
    batch, loss = _value(point, "batch_size"), _value(point, "loss.name")
    negatives, norm_batch = _value(point, "negatives"), _value(point, "norm_batch")
    if isinstance(negatives, int):
        path = point["negatives"].path
        if batch is not None and negatives > 2 * batch - 2:
            document.report(path, f"{negatives} is more than the {2 * batch - 2} that batch size {batch} has")
        if loss is not None and not cast("catalog.Loss", described("loss", loss)).contrastive:
            document.report(path, f"{loss} has no negatives to draw from; write all")
    if isinstance(norm_batch, int) and batch is not None and batch % norm_batch:
        path = point["norm_batch"].path
        document.report(path, f"should divide the batch size, and {norm_batch} does not divide {batch}")


def _check_temperature(document: Document, point: Point) -> None:
    """A controlled temperature begins within its range."""
    if not readable(point, "temperature_control"):
        return
    low, high = (value_at(point, f"temperature_control.{end}") for end in ("minimum", "maximum"))
    initial = _value(point, "temperature")
    if low is not None and initial is not None and not low <= initial <= high:
        path = point["temperature"].path or point["temperature_control.name"].path
        document.report(path, f"temperature {number(initial)} is outside its range, {number(low)} to {number(high)}")


def _check_probe(document: Document, point: Point) -> None:
    """Only SGD has something to set."""
    if _value(point, "probe.solver") == "lbfgs":
        for leaf in BLOCKS["probe"][1:]:
            if path := point[f"probe.{leaf}"].path:
                document.report(path, f"lbfgs takes no {leaf}; give it beside solver: sgd, or remove it")


def _value(point: Point, leaf: str) -> Any:
    """The leaf's value; None where there is none to reason with."""
    setting = point.get(leaf)
    return None if setting is None or setting.value is BAD else setting.value


# Resolving: leaves become a cell.


def count_steps(point: Point, batch_size: int, images: int) -> int:
    """Updates that the budget allows, rounded up; `images` are those of one epoch."""
    samples, epochs, steps = (point[leaf].value for leaf in _BUDGETS)
    if steps is not None:
        return int(steps)
    wanted = Fraction(samples) if samples is not None else Fraction(str(epochs)) * images  # as written, in decimals
    return math.ceil(wanted / batch_size)


def count_warmup(warmup: Warmup, steps: int, batch_size: int, images: int) -> int:
    """Updates of the warm-up, to the nearest whole one."""
    unit = {"share": Fraction(steps), "steps": Fraction(1), "epochs": Fraction(images, batch_size)}[warmup.unit]
    return round(Fraction(str(warmup.amount)) * unit)


def peak_rate(base: float, rule: str, batch_size: int, reference_batch: int) -> float:
    """The peak rate: `base` itself, or by SimCLR's linear or square-root rule (arXiv:2002.05709, appendix B.1)."""
    ratio = batch_size / reference_batch
    return base * {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[rule]


def rate_text(point: Point) -> str:
    """How the peak rate comes about, such as ``0.3 x sqrt(8/256)``."""
    base, rule, batch_size, reference = (
        point[leaf].value
        for leaf in ("learning_rate.base", "learning_rate.rule", "batch_size", "learning_rate.reference_batch")
    )
    ratio = f"{batch_size}/{reference}"
    return number(base) + {"none": "", "linear": f" x {ratio}", "sqrt": f" x sqrt({ratio})"}[rule]


def resolve(point: Point) -> Cell:
    """The cell that a whole, checked recipe describes."""
    leaf = {key: setting.value for key, setting in point.items()}
    batch_size = leaf["batch_size"]
    dataset = leaf[FOUND] if FOUND in point else component(point, "dataset")
    images = catalog.dataset(dataset).pretraining_images
    steps = count_steps(point, batch_size, images)
    rate, probe = ({key: leaf[f"{block}.{key}"] for key in BLOCKS[block]} for block in ("learning_rate", "probe"))
    return Cell(
        dataset=dataset,
        encoder=component(point, "encoder"),
        seed=leaf["seed"],
        pretraining=Pretraining(
            loss=component(point, "loss"),
            batch_size=batch_size,
            steps=steps,
            temperature=leaf["temperature"],
            projection=Projection(**{key: leaf[f"projection.{key}"] for key in BLOCKS["projection"]}),
            optimizer=component(point, "optimizer"),
            learning_rate=LearningRate(
                peak=peak_rate(rate["base"], rate["rule"], batch_size, rate["reference_batch"]),
                warmup_steps=count_warmup(rate["warmup"], steps, batch_size, images),
                schedule=rate["schedule"],
            ),
            views=Views(**{key: leaf[f"views.{key}"] for key in BLOCKS["views"]}),
            temperature_control=component(point, "temperature_control"),
            loss_dtype=leaf["loss_dtype"],
            gradient_scaling=leaf["gradient_scaling"],
            precision=leaf["precision"],
            negatives=None if leaf["negatives"] == "all" else leaf["negatives"],
            norm_batch=None if leaf["norm_batch"] in ("all", batch_size) else leaf["norm_batch"],
            learning_curve=leaf["learning_curve"],
        ),
        evaluation=Evaluation(probe=None if probe["solver"] == "lbfgs" else Probe(**probe)),
    )


def covers(key: str, leaf: str) -> bool:
    """Whether `leaf` is `key` or within it."""
    return leaf == key or leaf.startswith(f"{key}.")


def value_at(point: Point, leaf: str) -> Any:
    """The leaf's value, a component's parameter at its default included; None where the point has no such leaf."""
    if leaf in point:
        return point[leaf].value
    kind, _, inner = leaf.partition(".")
    name = _value(point, f"{kind}.name") if kind in catalog.COMPONENTS else None
    parameters = described(kind, name).parameters if name else {}
    return parameters[inner].default if inner in parameters else None


def component(point: Point, kind: str) -> Component:
    """The component of a kind as the sweep asks for it, with all its parameters."""
    prefix = f"{kind}."
    given = {leaf.removeprefix(prefix): s.value for leaf, s in point.items() if leaf.startswith(prefix)}
    return _component(kind, given["name"], tuple((k, v) for k, v in given.items() if k not in ("name", "label")))


@cache
def _component(kind: str, name: str, given: tuple[tuple[str, Scalar], ...]) -> Component:
    values = dict(given)
    return Component(
        name=name,
        parameters={
            key: type(parameter.default)(values.get(key, parameter.default))
            for key, parameter in described(kind, name).parameters.items()
        },
    )


# Showing: what tables and figures call a value.

ABSENT = "-"  # a parameter that this cell's component lacks, a unit that is not its budget's


def text(point: Point, key: str) -> Scalar:
    """The value at `key` of a whole recipe, as shown; different values give different texts, labels aside.

    A component is its label, or its name and the parameters that are not at their default, such as
    ``sgd momentum=0.5``; a block shows the leaves that are not at theirs.
    """
    if key in catalog.COMPONENTS:
        if label := _value(point, f"{key}.label"):
            return cast("str", label)
        shown_one = component(point, key)
        known = described(key, shown_one.name).parameters
        changed = (f"{k}={number(v)}" for k, v in shown_one.parameters.items() if v != known[k].default)
        return " ".join([shown_one.name, *changed])
    if key in BLOCKS:
        leaves = ((leaf, point[f"{key}.{leaf}"].value, DEFAULTS.get(f"{key}.{leaf}")) for leaf in BLOCKS[key])
        changed = (f"{leaf}={number(v)}" for leaf, v, default in leaves if default is None or v != default.value)
        return " ".join(changed) or "default"
    kind, _, inner = key.partition(".")
    if kind in catalog.COMPONENTS and inner != "name":
        return component(point, kind).parameters.get(inner, ABSENT)
    value = point[key].value
    if value is None:
        return ABSENT
    return value if isinstance(value, bool | int | float | str) else number(value)


def number(value: Any) -> str:
    """A value in as few characters as keep it distinct."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Warmup):
        return str(value)
    if isinstance(value, tuple):
        return "-".join(map(number, value))
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)
