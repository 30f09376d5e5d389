"""The long soak: random kills of driver, workers and Ray's own processes over a sweep, then equality to the bit.

    python -m tests.faults.soak [KILLS] [SEED]

A sweep of 12 cells, every loss and every optimiser among them, runs once undisturbed and once under KILLS random
`kill -9`. Both must end in the same records. Exit code 1 where they do not, or where the sweep ended before the kills.
"""

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from ablation.catalog import LOSSES, OPTIMIZERS
from tests.faults.harness import SWEEP, Sweep, descendants, workers

STEPS = 4000  # of a cell: half a minute, so that all kills find work to disturb


def soaked() -> dict[str, object]:
    """Every loss under SGD, then the other optimisers under losses in turn: 12 cells or a few more."""
    losses = list(LOSSES)
    others = [name for name in OPTIMIZERS if name != "sgd"]
    include = [
        {
            "loss": losses[i % len(losses)],
            "batch_size": 8,
            "dataset": "digits",
            "seed": [i],
            "optimizer": {"name": others[i % len(others)], "weight_decay": 1e-4},
            "learning_rate": {"base": 0.01, "rule": "none", "warmup": 0.1, "schedule": "cosine"},
        }
        for i in range(max(len(others), 12 - len(losses)))
    ]
    base = {**SWEEP["base"], "budget": {"steps": STEPS}}
    return {**SWEEP, "grid": {**SWEEP["grid"], "loss": losses, "seed": 1}, "include": include, "base": base}


def victims(process: "subprocess.Popen[str]", kind: str) -> list[psutil.Process]:
    if kind == "driver":
        return [psutil.Process(process.pid)]
    if kind == "worker":
        return workers(process)
    return [child for child in descendants(process) if child.name() in {"raylet", "gcs_server"}]


def main() -> int:
    """Runs the soak and prints what happened."""
    kills, seed = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((1, 20), (2, 0)))
    draw = random.Random(seed)  # noqa: S311 - reproducible, not secret
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        calm, rough = Sweep(Path(folder) / "calm", soaked()), Sweep(Path(folder) / "rough", soaked())
        for sweep in (calm, rough):
            sweep.folder.mkdir()
        code, output = calm.run()
        print(f"undisturbed: exit {code}, {len(calm.records())} records", flush=True)
        assert code == 0, output
        codes: Counter[int] = Counter()
        while kills:
            process = rough.start()
            end = time.monotonic() + 15 + draw.uniform(0, 35)  # some cells get far, some not
            while process.poll() is None and kills:
                if time.monotonic() < end:
                    time.sleep(0.2)
                    continue
                end = time.monotonic() + draw.uniform(1, 20)
                kind = draw.choice(["driver", "worker", "worker", "ray"])
                hit = victims(process, kind)
                if hit:
                    draw.choice(hit).kill()
                    kills -= 1
                    print(f"kill -9 of a {kind} process; {len(rough.records())} records", flush=True)
            process.communicate()
            codes[process.returncode] += 1
            if not kills or process.returncode == 0:
                break
        code, output = rough.resume() if rough.ledger.sweep_file.exists() else rough.run()
        print(f"launches ended with {dict(codes)}, the last with {code}; {kills} kills unused")
        same = rough.deterministic() == calm.deterministic()
        print(f"{len(rough.records())} records, {'equal to the bit' if same else 'DIFFERENT'}")
        if not same:
            print(output)
        return 0 if same and code == 0 and not kills else 1


if __name__ == "__main__":
    sys.exit(main())
