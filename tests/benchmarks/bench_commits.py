"""The training step of this checkout against another's, such as one of an earlier commit, as a ratio of samples/s.

    python -m tests.benchmarks.bench_commits CHECKOUT [B ...]          batch sizes, by default 8

Steps are run plain, and compiled on the side of this checkout. Each checkout's run in a process of their own; the two
take turns, and a ratio is of neighbouring runs. Shown: min/median/max of 9, of the processor time of one thread.
Without CHECKOUT it says so and ends.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

RUNS = 9
IMAGES_A_RUN = 2048
PLAIN, COMPILED = "--plain", "--compiled"  # kinds of steps
HERE = Path(__file__).parents[2]
CASES = (("resnet8 of width 8", 8, 8), ("resnet8 of width 16", 16, 28))  # title, width, pixels a side


def serve(kind: str, checkout: Path, width: int, size: int, batch_size: int) -> None:
    """Trains on for every line of the input, and answers with the seconds."""
    sys.path.insert(0, str(checkout))
    import torch

    from ablation import environment
    from ablation.cell import Component
    from tests.benchmarks import bench_step

    torch.set_num_threads(1)
    getattr(environment, "keep_freed_memory", lambda: None)()  # as a trial does, where the checkout knows it
    encoder = Component(name="resnet8", parameters={"width": width})
    options: dict[str, Any] = {}
    if kind == COMPILED:
        from ablation.pretrain.execution import Execution

        options["execution"] = Execution(compile=True)
    work: Any = bench_step.training(encoder, size, 1, batch_size, **options)
    for _ in sys.stdin:
        start = time.thread_time()
        for _ in range(IMAGES_A_RUN // batch_size):
            work.advance()
        print(time.thread_time() - start, flush=True)


def server(kind: str, checkout: Path, width: int, size: int, batch_size: int) -> "subprocess.Popen[str]":
    """A process that serves."""
    command = [sys.executable, __file__, kind, str(checkout), str(width), str(size), str(batch_size)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout
    )


def seconds(process: "subprocess.Popen[str]") -> float:
    """Of one run of a serving process."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compare(kind: str, checkout: Path, width: int, size: int, batch_size: int) -> list[tuple[float, float]]:
    """(samples/s here, of steps of that kind, samples/s there), run after run."""
    case = (width, size, batch_size)
    with server(kind, HERE, *case) as here, server(PLAIN, checkout, *case) as there:
        for process in (here, there):
            seconds(process)
        pairs = [(IMAGES_A_RUN / seconds(here), IMAGES_A_RUN / seconds(there)) for _ in range(RUNS)]
        for process in (here, there):
            process.communicate()
    return pairs


def main() -> None:
    """Prints a line per encoder and batch size."""
    if len(sys.argv) < 2:
        print("SKIPPED: no other checkout is named")
        return
    for title, width, size in CASES:
        for batch_size in map(int, sys.argv[2:] or ("8",)):
            for kind in (PLAIN, COMPILED):
                pairs = compare(kind, Path(sys.argv[1]).resolve(), width, size, batch_size)
                ratios = [here / there for here, there in pairs]
                print(
                    f"{title}, {size} px  B {batch_size:4}  {kind[2:]:8}  "
                    f"{median(here for here, _ in pairs):8,.0f} samples/s  "
                    f"{min(ratios):.2f}/{median(ratios):.2f}/{max(ratios):.2f} times the other checkout's",
                    flush=True,
                )


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in (PLAIN, COMPILED):
        serve(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
    else:
        main()
