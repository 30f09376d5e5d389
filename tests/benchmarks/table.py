"""The whole table of speed: what was measured, against what, the aim, and min/median/max of the ratios; as Markdown.

    python -m tests.benchmarks.table [CHECKOUT]     CHECKOUT: of an earlier commit, for the steps of small batches

Rivals that aren't installed are skipped, and named. All but the rows "by the clock" are ratios of processor time, so
that a machine that others use as well says nearly the same. Takes half an hour on two quiet cores.
"""

import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

import psutil
import torch

from ablation.environment import describe, keep_freed_memory
from tests.benchmarks import bench_commits, bench_losses, bench_step, bench_trial, bench_views
from tests.benchmarks.bench_views import Speed


def row(what: str, against: str, aim: float | None, ratios: Sequence[float]) -> str:
    """A line of the table."""
    found = sorted(ratios)
    verdict = "" if aim is None else " yes" if median(found) >= aim else " no"
    numbers = " / ".join(f"{ratio:.2f}" for ratio in (found[0], median(found), found[-1]))
    return f"| {what} | {against} | {aim or ''} | {numbers} |{verdict} |"


def two_rows(
    what: str, against: str, aim: float, compare: Callable[[], Iterable[tuple[Speed, Speed]]]
) -> Iterator[str]:
    """Of processor time with one thread, and by the clock with as many threads as the rival has workers."""
    yield row(what, against, aim, [one.processor / other.processor for one, other in compare()])
    torch.set_num_threads(bench_views.WORKERS)
    ratios = [one.wall / other.wall for one, other in compare()]
    torch.set_num_threads(1)
    yield row(what, f"{against}, by the clock, {bench_views.WORKERS} threads", aim, ratios)


def views() -> Iterator[str]:
    """The batched views against others' pipelines."""
    for rival, aim in (("torchvision", 15), ("lightly", 15), ("kornia", 8)):
        if bench_views.installed(rival):
            compared = partial(bench_views.compare, bench_views.RECIPES[0], rival)
            yield from two_rows("views, 32 x 32 x 3, B 256", rival, aim, compared)


def losses() -> Iterator[str]:
    """The loss kernel against dense forms."""
    aims = {512: (1, 4), 2048: (1.5, 8), 8192: (2, None)}
    for images, pair in aims.items():
        forms = (bench_losses.dense_cross_entropy, bench_losses.mask_and_gather)
        for form, aim in zip(forms, pair, strict=True):
            if aim is not None:
                runs = bench_losses.compare(images, form)
                yield row(f"loss, B {images:,}", form.__name__, aim, [theirs / ours for ours, theirs in runs])


def steps() -> Iterator[str]:
    """The whole step against the bare one."""
    for case in bench_step.CASES:
        for batch_size, aim in ((8, 0.9), (64, 0.95), (512, 0.97)):
            pairs = bench_step.compare(case, batch_size)
            what = f"step, {case[0]}, {case[2]} px, B {batch_size}"
            yield row(what, "bare step", aim, [ours / bare for ours, bare in pairs])


def commits() -> Iterator[str]:
    """Steps of small batches against those of another checkout."""
    if len(sys.argv) < 2:
        print("SKIPPED: no other checkout is named", flush=True)
        return
    for title, width, size in bench_commits.CASES:
        for kind in (bench_commits.PLAIN, bench_commits.COMPILED):
            pairs = bench_commits.compare(kind, Path(sys.argv[1]).resolve(), width, size, 8)
            what = f"step, {title}, {size} px, B 8, {kind[2:]}"
            yield row(what, "earlier commit", 1.4, [here / there for here, there in pairs])


def trials() -> Iterator[str]:
    """Training end to end against a plain script."""
    if bench_views.installed("lightly"):
        for batch_size in (64, 256):
            what, against = f"training, resnet8, 32 px, B {batch_size}", "script of lightly's parts"
            yield from two_rows(what, against, 2, partial(bench_trial.compare, batch_size))


PARTS: tuple[Callable[[], Iterator[str]], ...] = (views, losses, commits, trials, steps)


def main() -> None:
    """Prints the table, a line when it is known."""
    torch.set_num_threads(1)
    keep_freed_memory()
    here = describe(torch.device("cpu"))
    load = psutil.getloadavg()[0]
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {here.processor}, {psutil.cpu_count()} cores, load {load:.0f}, "
        f"{platform.system()}, Python {here.python}, torch {here.torch}; one thread\n\n"
        "| what | against | aim | min / median / max | met |\n|---|---|---|---|---|",
        flush=True,
    )
    for part in PARTS:
        for line in part():
            print(line, flush=True)


if __name__ == "__main__":
    main()
