"""Whether sweeps work here from end to end, and whether an interrupted cell ends as it would have without."""

import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ablation.doctor.finding import Finding, Place, Verdict, fix, note, ok
from ablation.ledger import Ledger
from ablation.plan import read
from ablation.record import Record

SWEEP: dict[str, Any] = {
    "name": "doctor",
    "grid": {"loss": ["infonce"], "batch_size": [16], "dataset": ["digits"], "seed": 1},
    "base": {
        "encoder": {"name": "resnet8", "width": 4},
        "projection": {"hidden": 16, "out": 16},
        "temperature": 0.1,
        "optimizer": "sgd",
        "learning_rate": {"base": 0.1},
    },
}
SMOKE_STEPS, RESUME_STEPS = 20, 600
TRIES = 3  # to kill a cell before it ends


def smoke(_: Place) -> Iterator[Finding]:
    """`ablation run` on a sweep of one cell, up to the report."""
    start = time.monotonic()
    with _sweep_file(SMOKE_STEPS) as file:
        command = [sys.executable, "-m", "ablation", "run", str(file), "--results", str(file.parent / "results")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        written = (file.parent / "results" / "doctor" / "report" / "index.md").is_file()
    if ended.returncode == 0 and written:
        yield ok("smoke sweep", f"one cell and its report took {time.monotonic() - start:.0f} s")
    else:
        said = " | ".join((ended.stderr.strip() or ended.stdout.strip()).splitlines()[-3:])
        yield fix("smoke sweep", f"exit code {ended.returncode}: {said}")


def resume(_: Place) -> Iterator[Finding]:
    """A cell, killed at a random moment and resumed, beside the same cell undisturbed; on the CPU and the GPU."""
    import torch

    yield _resumed("cpu")
    if torch.accelerator.is_available():
        found = _resumed(str(torch.accelerator.current_accelerator()))
        alike = found.verdict is Verdict.OK
        yield found if alike else note(found.name, f"{found.text}; only CPUs are promised to be equal to the bit")


def _resumed(device: str) -> Finding:
    name = f"resume on {device}"
    with _sweep_file(RESUME_STEPS) as file:
        cell_id = read(file).cells[0].cell.id
        whole = Ledger(file.parent / "whole")
        _work(file, whole, device).wait()
        record = whole.get(cell_id)
        if record is None or record.outcome is None:
            return fix(name, f"no result of an undisturbed cell: {record.failure if record else 'its process died'}")
        seconds = record.timings["pretraining"]
        for attempt in range(TRIES):
            cut = Ledger(file.parent / f"cut-{attempt}")
            after = _kill(file, cut, device, seconds / 2**attempt)
            if cut.get(cell_id) is None:  # else it had ended before
                break
        _work(file, cut, device).wait()
        if (again := cut.get(cell_id)) is None:
            return fix(name, f"killed after {after:.1f} s, the cell did not go on")
        differing = _differences(whole, record, cut, again)
    if differing:
        return fix(name, f"killed after {after:.1f} s, the cell ended with other {', '.join(differing)}")
    return ok(name, f"killed {after:.1f} s into {seconds:.1f} s, a cell went on to the same record, to the bit")


def _kill(file: Path, ledger: Ledger, device: str, longest: float) -> float:
    """Kills a process that works on the cell, at a random moment after its first checkpoint; says after how long."""
    process = _work(file, ledger, device)
    while process.poll() is None and not list(ledger.folder.glob("work/*/*/checkpoint.pt")):
        time.sleep(0.01)
    start = time.monotonic()
    time.sleep(longest * secrets.randbelow(1000) / 1000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return time.monotonic() - start


def _work(file: Path, ledger: Ledger, device: str) -> "subprocess.Popen[bytes]":
    ledger.create()
    command = [sys.executable, "-m", "ablation.doctor.worker", str(file), str(ledger.folder), device]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603


def _differences(whole: Ledger, record: Record, cut: Ledger, again: Record) -> list[str]:
    """The names of what should be equal to the bit and is not."""
    one, other = record.deterministic(), again.deterministic()
    one.update(one.pop("outcome") or {})
    other.update(other.pop("outcome") or {})
    names = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    ways = [
        history.deterministic() if history else None for history in (whole.history(record.id), cut.history(again.id))
    ]
    return sorted(names) if ways[0] == ways[1] else ["history", *sorted(names)]


@contextmanager
def _sweep_file(steps: int) -> Iterator[Path]:
    """The sweep, in a temporary folder of its own; JSON is YAML."""
    sweep = {**SWEEP, "base": {**SWEEP["base"], "budget": {"steps": steps}}}
    with tempfile.TemporaryDirectory(prefix="ablation-doctor-") as folder:
        file = Path(folder) / "sweep.yaml"
        file.write_text(json.dumps(sweep), encoding="utf-8")
        yield file
