"""Seconds of commands that should answer at once, each in a process of its own.

    python -m tests.benchmarks.bench_commands        min/median/max of 3

Aims: `--help` 0.3 s, `plan` of 10,000 cells 3 s, `report` of 1,000 records 15 s.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from ablation.ledger import Ledger
from tests.faults.harness import SWEEP
from tests.report.synthetic import history_of, plan_of, records_of

RUNS = 3


def sweep_file(folder: Path, seeds: int) -> Path:
    """2 losses x 5 batch sizes x so many seeds."""
    file = folder / "sweep.yaml"
    grid = {"loss": ["infonce", "flatnce"], "batch_size": [8, 16, 32, 64, 128], "dataset": ["digits"], "seed": seeds}
    file.write_text(json.dumps({**SWEEP, "grid": grid}))
    return file


def ledger(folder: Path) -> Ledger:
    """1,000 records with their histories."""
    plan = plan_of(batch_sizes=(4, 8, 16, 32, 64), seeds=100)
    found = Ledger(folder / "sweep")
    found.create()
    sweep_file(found.folder, 100)
    plan.save(found.plan_file)
    records = records_of(plan, lambda _loss, b, s: 0.8 + b / 1000 + (s * 37 + b) % 100 / 2000)
    for record in list(records.values())[:1000]:
        found.put(record, history_of(record.id))
    return found


def timed(name: str, *arguments: str) -> None:
    """Runs the command and prints a line."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "ablation", *arguments], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    print(f"{name:30} {min(times):.2f}/{median(times):.2f}/{max(times):.2f} s", flush=True)


def main() -> None:
    """Prints a line for each command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        timed("--help", "--help")
        timed("plan of 10,000 cells", "plan", str(sweep_file(folder, 1000)))
        timed("report of 1,000 records", "report", str(ledger(folder).folder))


if __name__ == "__main__":
    main()
