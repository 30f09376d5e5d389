"""A sweep of 48 quickstart-size cells: its time beside that of its cells over the slots, and when the first one trains.

    python -m tests.benchmarks.bench_sweep [CELLS] [SAMPLES]        by default 48 cells of 64,000 images; 10 minutes

Aims: at most 1.08 of the cells' own seconds over the slots, and a first step within 15 s of the command. A cell's own
seconds are those from the beginning of its trial to its record, as its log and the record's file say.
"""

import json
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import psutil

from ablation import schedule
from ablation.host import usable_cpus
from ablation.ledger import Ledger
from ablation.plan import read
from ablation.record import Record
from ablation.trial import Progress

QUICKSTART = Path(__file__).parents[2] / "sweeps" / "quickstart.yaml"


class Clock:
    """A display that notes when the first cell has made a step."""

    first: float | None = None

    def began(self, cell_id: str) -> None: ...

    def progress(self, cell_id: str, progress: Progress) -> None:
        self.first = self.first or time.time()

    def ended(self, cell_id: str, record: Record | None) -> None: ...

    def stopping(self, reason: str) -> None: ...


def own_seconds(ledger: Ledger) -> float:
    """Of all cells."""
    total = 0.0
    for record in ledger.records():
        began = datetime.fromisoformat(ledger.log_file(record).read_text().split()[0]).timestamp()
        total += (
            (ledger.folder / "records" / f"{record}.json").stat().st_mtime - began - 0.5
        )  # the log has whole seconds
    return total


def main() -> None:
    """Prints the figures."""
    cells, samples = (int(text) for text in (*sys.argv[1:3], *("48", "64000")[len(sys.argv) - 1 :]))
    start = psutil.Process().create_time()
    with tempfile.TemporaryDirectory(prefix="bench-sweep-") as folder:
        seeds = [f"grid.seed={cells // 6}", f"budget.samples={samples}"]
        plan = read(QUICKSTART, seeds)
        ledger, clock = Ledger(Path(folder) / "sweep"), Clock()
        ledger.create()
        with ledger.locked():
            schedule.run(plan, ledger, clock)
        ended = time.time()
        assert clock.first is not None
        slots = usable_cpus()
        figures = {
            "cells": len(ledger.records()),
            "slots": slots,
            "first step": round(clock.first - start, 1),
            "sweep": round(ended - start, 1),
            "cells' own": round(own_seconds(ledger), 1),
            "ratio": round((ended - start) * slots / own_seconds(ledger), 3),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
