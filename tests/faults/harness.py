"""Real sweeps in processes of their own, to be interrupted, killed and compared."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ablation.ledger import Ledger
from ablation.record import Record

SWEEP: dict[str, Any] = {
    "name": "sweep",
    "grid": {"loss": ["infonce", "flatnce"], "batch_size": [8], "dataset": ["digits"], "seed": 2},
    "base": {
        "encoder": {"name": "resnet8", "width": 4},
        "projection": {"hidden": 16, "out": 16},
        "budget": {"steps": 150},
        "optimizer": {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-5},
        "learning_rate": {"base": 0.3, "rule": "sqrt", "reference_batch": 256, "warmup": 0.1, "schedule": "cosine"},
        "views": {"crop_scale": [0.2, 1.0], "flip": False, "jitter": 0.5, "grayscale": 0.0, "blur": 0.0},
        "temperature": 0.1,
    },
}


@dataclass
class Sweep:
    """A sweep in `folder`; JSON is YAML, so the file is written as JSON."""

    folder: Path
    sweep: dict[str, Any] = field(default_factory=lambda: json.loads(json.dumps(SWEEP)))

    @property
    def file(self) -> Path:
        return self.folder / "sweep.yaml"

    def write(self) -> None:
        self.file.write_text(json.dumps(self.sweep, indent=1))

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "results" / "sweep")

    def start(self, *command: str, **environment: str) -> "subprocess.Popen[str]":
        """`ablation` with these arguments, or `run` on the sweep file, in a process group of its own."""
        self.write()
        arguments = command or ("run", str(self.file), "--results", str(self.folder / "results"))
        return subprocess.Popen(
            [sys.executable, "-m", "ablation", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, **environment},
        )

    def run(self, *command: str, **environment: str) -> tuple[int, str]:
        """Exit code and output of a run that nobody disturbs."""
        process = self.start(*command, **environment)
        output, _ = process.communicate(timeout=400)
        return process.returncode, output

    def resume(self) -> tuple[int, str]:
        return self.run("resume", str(self.ledger.folder))

    def records(self) -> dict[str, Record]:
        return self.ledger.records()

    def deterministic(self) -> dict[str, Any]:
        """What must be equal to the bit, whatever happened on the way."""
        ledger = self.ledger
        found = {}
        for cell_id, record in ledger.records().items():
            history = ledger.history(cell_id)
            assert history is not None
            found[cell_id] = (record.deterministic(), history.deterministic())
        return found

    def wait_for(self, condition: Any, timeout: float = 200.0) -> None:
        """Until `condition()` holds."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.05)

    def checkpoints(self) -> list[Path]:
        return list(self.ledger.folder.glob("work/*/*/checkpoint.pt"))


def fault(what: str) -> dict[str, str]:
    """The environment in which every trial breaks as `tests/faults/inject` describes."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent / "inject"), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "ABLATION_FAULT": what}


def descendants(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def workers(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Ray's worker processes that hold a trial; the agents of its raylet, without which that ends, are none."""
    names = {child: " ".join(child.cmdline()[:1]) for child in descendants(process)}
    return [child for child, name in names.items() if name.startswith("ray::") and not name.endswith("Agent")]


def kill(process: "subprocess.Popen[str]") -> None:
    """kill -9 of the driver alone, as the system's memory killer would; waits until nothing of it is left."""
    orphans = descendants(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    psutil.wait_procs(orphans, timeout=30)
    for orphan in orphans:
        if orphan.is_running():
            orphan.kill()
