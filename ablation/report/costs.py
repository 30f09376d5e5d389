"""What accuracy costs: seconds, throughput and memory of pretraining, and which settings nothing beats in both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablation.report import stats
from ablation.report.aggregate import Grid, Panel
from ablation.report.stats import Estimate


@dataclass(frozen=True)
class Cost:
    """A loss at a batch size: means over its finished runs."""

    panel: Panel
    loss: str
    batch_size: int
    accuracy: Estimate
    seconds: Estimate  # of pretraining
    samples_per_second: Estimate
    peak_memory: Estimate | None  # bytes
    on_frontier: bool = False  # no other of its panel is both at least as accurate and at least as fast


def costs(grid: Grid, metric: str) -> list[Cost]:
    """The costs of every loss at every batch size that has timed results, in the order of the plan."""
    found = [cost for key in grid.groups if (cost := _cost(grid, key, metric))]
    rivals = {panel: [cost for cost in found if cost.panel == panel] for panel in grid.panels}
    return [replace(cost, on_frontier=not any(_beats(other, cost) for other in rivals[cost.panel])) for cost in found]


def machines(grid: Grid) -> Mapping[tuple[str, int], int]:
    """(device name, threads) -> finished runs: times of several machines don't compare."""
    environments = [run.record.environment for run in grid.runs if run.record and run.record.outcome]
    counts: dict[tuple[str, int], int] = {}
    for environment in environments:
        key = (environment.device_name, environment.threads)
        counts[key] = counts.get(key, 0) + 1
    return counts


def frontier(found: Sequence[Cost]) -> list[Cost]:
    """Those on the frontier, fastest first."""
    return sorted((cost for cost in found if cost.on_frontier), key=lambda cost: cost.seconds.mean)


def _cost(grid: Grid, key: tuple[Panel, str, int], metric: str) -> Cost | None:
    timed = [
        (outcome.metrics[metric], seconds, outcome.samples / seconds, run.record.peak_memory_bytes)
        for run in grid.groups[key]
        if run.record
        and (outcome := run.record.outcome)
        and metric in outcome.metrics
        and (seconds := run.record.timings.get("pretraining", 0.0)) > 0
    ]
    if not timed:
        return None
    accuracies, times, rates, memories = zip(*timed, strict=True)
    accuracy, time, rate = stats.estimate(accuracies), stats.estimate(times), stats.estimate(rates)
    assert accuracy
    assert time
    assert rate
    memory = stats.estimate([float(size) for size in memories if size is not None])
    return Cost(*key, accuracy, time, rate, memory)


def _beats(other: Cost, cost: Cost) -> bool:
    faster = cost.seconds.mean - other.seconds.mean
    better = other.accuracy.mean - cost.accuracy.mean
    return faster >= 0 and better >= 0 and (faster > 0 or better > 0)
