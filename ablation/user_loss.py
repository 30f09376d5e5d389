"""Losses that users bring, by `my_module:my_loss` or by the name of an entry point of the group `ablation.losses`.

A loss is described by reading its source, never by importing it: a sweep is planned without torch, and a plan runs
nobody's code. Its version, the hash of its file unless the file declares one, is part of every cell's id.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from ablation.catalog import Loss, Parameter
from ablation.errors import UserError

GROUP = "ablation.losses"
VERSION = "VERSION"  # a text at a module's top level that stands for its source in ids
_GIVEN = ("self", "z", "temperature", "labels")  # what is not a parameter of the loss


@dataclass(frozen=True)
class UserLoss:
    """Where a user's loss is, and what a sweep may say of it. Its parameter `version` is set by the code alone."""

    module: str
    attribute: str
    described: Loss


def is_user_loss(name: str) -> bool:
    """Whether `name` has the form of a user's loss, or is that of an entry point."""
    return ":" in name or bool(metadata.entry_points(group=GROUP, name=name))


def find(name: str) -> UserLoss:
    """The loss under that name, as its source describes it.

    Raises:
        UserError: there is no such module or no such function or class in it, or it can't be read.
    """
    points = metadata.entry_points(group=GROUP, name=name)
    module, _, attribute = (next(iter(points)).value if points else name).partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise UserError(f"{name}: should be my_module:my_loss, a function or a class of a module")
    path = _source(module)
    if path is None:
        raise UserError(f"{name}: there is no module {module} in this folder or on Python's path")
    try:
        text = path.read_bytes()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{name}: {path} can't be read: {error}") from error
    definition = next((node for node in _definitions(tree) if node.name == attribute), None)
    if definition is None:
        raise UserError(f"{name}: {path} defines no function or class {attribute} at its top level")
    version = _declared_version(tree) or f"sha256:{hashlib.sha256(text).hexdigest()[:16]}"
    described = Loss(
        title=name,
        summary=(ast.get_docstring(definition) or "").partition("\n")[0],
        source=str(path),
        parameters={"version": Parameter(version), **dict(_parameters(name, definition))},
        contrastive=isinstance(definition, ast.ClassDef) and "ContrastiveLoss" in map(_last_name, definition.bases),
    )
    return UserLoss(module, attribute, described)


def _source(module: str) -> Path | None:
    """The module's file, found as an import would find it, without importing what stands above it."""
    parts = module.split(".")
    folders = None
    for end in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:end]), folders)
        if spec is None:
            return None
        folders = spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


_Definition = ast.FunctionDef | ast.ClassDef


def _definitions(tree: ast.Module) -> Iterator[_Definition]:
    yield from (node for node in tree.body if isinstance(node, _Definition))


def _declared_version(tree: ast.Module) -> str | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [_last_name(target) for target in node.targets] == [VERSION]:
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            return value if isinstance(value, str) else None
    return None


def _parameters(name: str, definition: _Definition) -> Iterator[tuple[str, Parameter]]:
    """The parameters after what the training gives, with their defaults: a function's own, or those of `__init__`."""
    function = definition
    if isinstance(definition, ast.ClassDef):
        inits = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        if not inits:
            return
        function = inits[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(
        (*positional, *arguments.kwonlyargs), (*defaults, *arguments.kw_defaults), strict=True
    ):
        if argument.arg not in _GIVEN:
            yield argument.arg, Parameter(_literal(name, argument.arg, default))


def _literal(name: str, argument: str, default: ast.expr | None) -> bool | int | float | str:
    try:
        value = None if default is None else ast.literal_eval(default)
    except ValueError:
        value = None
    if argument == "version" or not isinstance(value, bool | int | float | str):
        raise UserError(
            f"{name}: its parameter {argument} should have a default that is a number, a text, True or False"
            if argument != "version"
            else f"{name}: a parameter can't be called version"
        )
    return value


def _last_name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def importable_from(folder: Path) -> None:
    """Lets modules of `folder` be found, after all others."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
