"""Many trials in one reused worker: its memory must stay flat, and each record equal that of a fresh process.

    python -m tests.faults.reuse [TRIALS] [FIGURE]

Prints the worker's memory after each trial, draws it, and compares every record with the same cell run alone.
"""

import sys
import tempfile
import time
from pathlib import Path

from matplotlib.figure import Figure

from ablation.record import Record
from tests.faults.harness import Sweep, workers


def main() -> int:
    """Runs the trials, draws, compares."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    figure = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("reuse.png")
    with tempfile.TemporaryDirectory(prefix="reuse-") as folder:
        sweep = Sweep(Path(folder))
        sweep.sweep["grid"] |= {"seed": trials // 2}
        sweep.sweep["base"]["budget"] = {"steps": 60}
        memory = measure(sweep)
        draw(memory, figure)
        growth = memory[-1] - memory[len(memory) // 5]
        print(f"{len(memory)} trials: {memory[0]:.0f} MiB after the first, {memory[-1]:.0f} after the last; ", end="")
        print(f"{growth:+.1f} MiB since a fifth of them")
        different = [cell_id for cell_id, record in sweep.records().items() if alone(sweep, cell_id) != shared(record)]
        print(f"{len(sweep.records())} records, {len(different)} differ from a fresh process's")
        return 1 if different or growth > memory[-1] / 10 else 0  # the allocator keeps a part of what it was given back


def measure(sweep: Sweep) -> list[float]:
    """MiB of the worker's private memory, at every new record."""
    process = sweep.start("run", str(sweep.file), "--results", str(sweep.folder / "results"), "--max-concurrent", "1")
    memory: list[float] = []
    records = sweep.ledger.folder / "records"
    while process.poll() is None:
        count = len(list(records.glob("[!.]*.json")))
        if count > len(memory):
            sizes = [worker.memory_full_info().uss for worker in workers(process) if worker.is_running()]
            memory.append(max(sizes, default=0) / 2**20)
        time.sleep(0.05)
    return [size for size in memory if size]


def alone(sweep: Sweep, cell_id: str) -> object:
    """What `ablation trial` says of the cell in a process of its own."""
    code, output = sweep.run("trial", str(sweep.file), "--cell", cell_id)
    assert code == 0, output
    return shared(Record.model_validate_json(output[output.index("{") :]))


def shared(record: Record) -> object:
    return record.deterministic()


def draw(memory: list[float], path: Path) -> None:
    """The memory after each trial."""
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot(
        xlabel="trials done in the worker", ylabel="private memory (MiB)", ylim=(0, 1.2 * max(memory))
    )
    axes.plot(range(1, len(memory) + 1), memory, color="#0072B2")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
