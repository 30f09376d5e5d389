"""Python runs this at the start of every process that has its folder on PYTHONPATH: it breaks trials to order.

ABLATION_FAULT is ``kind@step`` or ``kind@step:once-file``: at that update of every cell, or of the first that makes the
file, the named thing happens. So faults reach the worker processes of a real sweep without hooks in the product.
"""

import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

TARGET = "ablation.pretrain.loop"


def strike(kind: str) -> None:
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "oom":
        raise MemoryError("no memory left")
    if kind == "error":
        raise ValueError(f"broken by order in process {os.getpid()}")
    if kind == "sleep":
        time.sleep(3600)


def patch(module: ModuleType, fault: str) -> None:
    kind, _, rest = fault.partition("@")
    step, _, once = rest.partition(":")
    advance = module.Training.advance

    def broken(self: Any) -> None:
        advance(self)
        if self.step == int(step):
            if once:
                try:
                    Path(once).touch(exist_ok=False)
                except FileExistsError:
                    return
            strike(kind)

    module.Training.advance = broken


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module, os.environ["ABLATION_FAULT"])

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if os.environ.get("ABLATION_FAULT"):
    sys.meta_path.insert(0, Finder())
