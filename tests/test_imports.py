"""The import arrows of docs/architecture.md: what may import what, and what stays light enough for a fast command line.

A part is a module or a folder directly under `ablation/`.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ablation"
HEAVY = ("ray", "torch", "torchvision", "timm")

ARROWS: dict[str, set[str]] = {
    "catalog": set(),
    "errors": set(),
    "durable": set(),
    "places": {"errors"},
    "located": {"durable"},
    "cell": {"catalog"},
    "user_loss": {"catalog", "errors"},
    "recipe": {"catalog", "cell", "errors", "located", "user_loss"},
    "host": set(),
    "image_folder": {"catalog", "cell", "durable", "errors", "host", "places"},
    "sweep": {"catalog", "cell", "errors", "image_folder", "located", "places", "recipe"},
    "plan": {"catalog", "cell", "durable", "errors", "recipe", "sweep"},
    "plan_text": {"catalog", "cell", "cost", "plan"},
    "record": {"cell"},
    "explain": {"cell", "recipe"},
    "ledger": {"cell", "durable", "errors", "record"},
    "report": {"catalog", "cell", "durable", "errors", "plan", "record"},
    "gallery": {"catalog", "cell", "durable", "errors", "plan", "pretrain"},
    "losses": {"catalog", "cell", "errors", "user_loss"},
    "pretrain": {"catalog", "cell", "durable", "errors", "host", "image_folder", "losses", "places", "record"},
    "evaluate": {"cell", "pretrain"},
    "environment": {"record"},
    "cleanup": {"durable", "ledger", "pretrain", "record"},
    "numerics": {"catalog", "cell", "errors", "ledger", "losses", "plan", "pretrain", "record"},
    "trial": {"cell", "durable", "environment", "errors", "evaluate", "ledger", "pretrain", "record"},
    "cost": {
        "catalog",
        "cell",
        "durable",
        "environment",
        "evaluate",
        "host",
        "places",
        "plan",
        "pretrain",
        "record",
        "trial",
    },
    "schedule": {
        "cell",
        "cleanup",
        "cost",
        "environment",
        "errors",
        "host",
        "ledger",
        "plan",
        "pretrain",
        "record",
        "trial",
    },
    "doctor": {
        "catalog",
        "cost",
        "durable",
        "environment",
        "errors",
        "host",
        "ledger",
        "plan",
        "pretrain",
        "record",
        "schedule",
        "trial",
    },
    "cli": {
        "catalog",
        "cell",
        "cleanup",
        "cost",
        "doctor",
        "durable",
        "environment",
        "errors",
        "explain",
        "gallery",
        "image_folder",
        "ledger",
        "losses",
        "numerics",
        "plan",
        "plan_text",
        "pretrain",
        "record",
        "report",
        "schedule",
        "sweep",
        "trial",
        "user_loss",
    },
    "__main__": {"cli"},
}  # part -> the parts that it may import

MAY_IMPORT_HEAVY = {
    "losses": {"torch"},
    "pretrain": {"torch", "torchvision", "timm"},
    "evaluate": {"torch"},
    "environment": {"torch"},
    "numerics": {"torch"},
    "trial": {"torch"},
    "cost": {"torch"},  # within its probe
    "schedule": {"ray", "torch"},
    "doctor": {"torch", "torchvision"},  # within its checks
    "cli": {"torch"},  # within the commands that train
}  # nothing else names them, not even within a function


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_names(path: Path) -> Iterator[str]:
    """Every module that the file imports anywhere, and every `module.name` of a from-import."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imports_of_parts() -> dict[str, set[str]]:
    """Part -> dotted names that its files import, over the whole package."""
    imports: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path != PACKAGE / "__init__.py":
            imports.setdefault(part_of(path), set()).update(imported_names(path))
    return imports


def test_every_part_has_its_place_in_the_table() -> None:
    assert set(imports_of_parts()) == set(ARROWS)


def test_the_table_has_no_circle() -> None:
    assert set(TopologicalSorter(ARROWS).static_order()) == set(ARROWS)


@pytest.mark.parametrize("part", ARROWS)
def test_imports_follow_the_arrows(part: str) -> None:
    names = (name.split(".") for name in imports_of_parts()[part])
    imported = {name[1] for name in names if name[0] == "ablation" and name[1:]}
    assert imported & set(ARROWS) - {part} <= ARROWS[part]


@pytest.mark.parametrize("part", ARROWS)
def test_heavy_libraries_are_named_only_where_they_belong(part: str) -> None:
    imported = {name.split(".")[0] for name in imports_of_parts()[part]}
    assert imported & set(HEAVY) <= MAY_IMPORT_HEAVY.get(part, set())


@pytest.mark.parametrize("part", ["plan_text", "ledger", "report", "cli"])
def test_light_parts_load_no_heavy_library(part: str) -> None:
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
        if part_of(path) == part
    ]
    code = f"import sys, {', '.join(modules)}; print(*sorted({set(HEAVY)} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    assert not loaded.stdout.split()
