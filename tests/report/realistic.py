"""Records and histories that look as those of real runs do, for pictures and pages at full size: nothing is trained."""

import math
from collections.abc import Callable

import numpy as np

from ablation import catalog
from ablation.cell import Cell
from ablation.plan import Plan
from ablation.pretrain.loop import TRACE_POINTS, evaluations, spaced
from ablation.record import CurvePoint, Diagnostics, History, Record, TracePoint
from tests.report.synthetic import by_id, record_of

RANDOM = {"digits": 0.82, "fashion_mnist": 0.70, "cifar10": 0.41}  # linear accuracy of an untrained encoder
BEST = {"digits": 0.97, "fashion_mnist": 0.815, "cifar10": 0.62}
LOST_AT_8 = {"infonce": 0.012, "flatnce": 0.030, "dcl": 0.026}  # below the best, half as much at each doubling


def records_and_histories(plan: Plan) -> tuple[dict[str, Record], Callable[[str], History | None]]:
    """What the plan's cells and their random encoders could have come to, by cell id."""
    cells = [*(planned.cell for planned in plan.cells), *plan.baselines()]
    records = by_id(_record(cell) for cell in cells)
    found = {cell.id: _history(cell) for cell in cells if cell.pretraining}
    return records, found.get


def _accuracy(cell: Cell) -> float:
    """Of one seed: what the seed brings to all losses and batch sizes, what it brings to this run, test images."""
    rng, name = np.random.default_rng(int(cell.id, 16)), cell.dataset.name
    mean = RANDOM[name]
    if cell.pretraining:
        mean = BEST[name] - LOST_AT_8.get(cell.pretraining.loss.name, 0.02) * 8 / cell.pretraining.batch_size
    shared = np.random.default_rng(cell.seed).normal(0, 0.004)
    images = catalog.DATASETS[name].test_images
    return float(rng.binomial(images, min(mean + shared + rng.normal(0, 0.003), 1.0)) / images)


def _record(cell: Cell) -> Record:
    rng, run = np.random.default_rng([int(cell.id, 16), 1]), cell.pretraining
    record = record_of(cell, _accuracy(cell))
    if run is None:
        return record
    seconds = run.steps * (0.004 + 0.0004 * run.batch_size) * rng.uniform(0.95, 1.1)
    memory = int(600e6 + 2e6 * run.batch_size + rng.integers(10**6))
    return record.model_copy(
        update={"timings": {"pretraining": seconds, "evaluation": 9.0}, "peak_memory_bytes": memory}
    )


def _history(cell: Cell) -> History:
    run = cell.pretraining
    assert run is not None
    rng = np.random.default_rng([int(cell.id, 16), 2])
    start, end = 0.9 * RANDOM[cell.dataset.name], 0.98 * _accuracy(cell)
    curve = []
    for step in sorted(evaluations(run)):
        gained = 1 - math.exp(-4 * (step / run.steps) ** 0.6)
        value = min(start + (end - start) * gained + rng.normal(0, 0.004), 1.0)
        curve.append(CurvePoint(step=step, samples=step * run.batch_size, knn_top1=value))
    logged = sorted(spaced(run.steps, TRACE_POINTS) | {1})
    return History(trace=[_point(run.batch_size, run.steps, step, rng) for step in logged], curve=curve)


def _point(batch: int, steps: int, step: int, rng: np.random.Generator) -> TracePoint:
    share, candidates = step / steps, 2 * batch - 1
    p_pos = float(np.clip((0.05 + 0.75 * share**0.5) * (8 / batch) ** 0.25 + rng.normal(0, 0.02), 0.001, 0.999))
    loss = -math.log(p_pos) + 0.1
    bound = math.log(candidates) - loss
    log10_xi = math.log10(1 / p_pos - 1)
    diagnostics = Diagnostics(
        temperature=0.1,
        log10_xi_mean=log10_xi,
        log10_xi=tuple(log10_xi + offset for offset in (-1.6, -0.7, 0.0, 0.7, 1.6)),
        xi_below_1e3=float(np.clip(0.3 * share * 8 / batch + rng.normal(0, 0.01), 0, 1)),
        xi_below_1e7=0.0,
        ess=float(np.clip(0.7 - 0.4 * share + rng.normal(0, 0.02), 0, 1)),
        mi_bound=bound,
        mi_closeness=bound / math.log(candidates),
        alignment=0.4 - 0.2 * share,
        uniformity=-1 - 1.5 * share,
        effective_rank=10 + 15 * share,
        gradient_norm=0.5 * (8 / batch) ** 0.5 * (1.2 - share),
        rounding_error=float(1e-6 * (8 / batch) * math.exp(rng.normal(0, 0.3))),
    )
    rate = 0.3 * 0.5 * (1 + math.cos(math.pi * share))
    return TracePoint(
        step=step, samples=step * batch, loss=loss, learning_rate=rate, p_pos=p_pos, seconds=step / 100,
        diagnostics=diagnostics,
    )  # fmt: skip
