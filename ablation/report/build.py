"""Report: every number of the page, computed before anything is drawn or worded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablation.plan import Plan
from ablation.record import Record
from ablation.report import stats
from ablation.report.aggregate import Grid, Panel, Run, aggregate, by_seed, count_statuses
from ablation.report.stats import Estimate, Paired

METRIC = "linear_top1"  # what the answer, the figure and the tests speak of
SECOND_METRIC = "knn_top1"  # shown beside it as a check


@dataclass(frozen=True)
class Summary:
    """One cell of Table 1: a loss at a batch size, or the random encoder (loss and batch size None)."""

    panel: Panel
    loss: str | None
    batch_size: int | None
    planned: int  # runs, one a seed
    statuses: Counter[str]  # of these runs
    scores: Mapping[int, float]  # seed -> accuracy in [0, 1]
    estimate: Estimate | None
    near_best: bool  # not separable from the best loss at this batch size

    @property
    def complete(self) -> bool:
        """Whether every planned run has an accuracy."""
        return len(self.scores) == self.planned


@dataclass(frozen=True)
class Effect:
    """A mean difference of accuracies, paired by seed, tested against zero within its family."""

    panel: Panel
    losses: tuple[str, ...]  # (a, b), read as a - b; or the one loss whose penalty this is
    batch_size: int
    planned: int  # pairs that the plan asks for
    paired: Paired
    family: int = 1  # number of tests that `p_holm` corrects for
    p_holm: float | None = None

    @property
    def estimate(self) -> Estimate | None:
        """The difference in [-1, 1]; None without a complete pair."""
        return self.paired.estimate

    @property
    def resolved(self) -> bool:
        """Whether the family-wise test finds a difference."""
        return self.p_holm is not None and self.p_holm < stats.ALPHA

    @property
    def resolvable(self) -> float | None:
        """The smallest difference that this many pairs, with this spread, find with 80 % power within the family."""
        found = self.estimate
        return stats.resolvable(found.n, self._alpha) * found.sd if found and found.sd else None

    @property
    def pairs_needed(self) -> int | None:
        """Pairs that would find a difference like the one seen with 80 % power; None for too many, or unknown."""
        found = self.estimate
        return stats.pairs_needed(abs(found.mean) / found.sd, self._alpha) if found and found.sd else None

    @property
    def _alpha(self) -> float:
        return stats.ALPHA / self.family  # Holm's first and hardest step


@dataclass(frozen=True)
class Report:
    """The numbers of a report, in the order in which the page shows them."""

    plan: Plan
    grid: Grid
    references: Mapping[Panel, int]  # the batch size that the others of a panel are compared with
    comparisons: Sequence[tuple[str, str]]
    accuracy: Sequence[Summary]  # of `METRIC`
    accuracy_knn: Sequence[Summary]  # of `SECOND_METRIC`
    interactions: Sequence[Effect]  # penalty of a - penalty of b: the primary family
    penalties: Sequence[Effect]  # accuracy at the reference batch - accuracy at the batch, of one loss
    differences: Sequence[Effect]  # accuracy of a - accuracy of b at one batch size
    notes: Sequence[str]


def build(plan: Plan, records: Mapping[str, Record]) -> Report:
    """Compute a report from a plan and whatever records there are, by id."""
    grid = aggregate(plan, records)
    comparisons = _comparisons(plan, grid)
    references = _references(plan, grid)
    return Report(
        plan=plan,
        grid=grid,
        references=references,
        comparisons=comparisons,
        accuracy=_summaries(grid, METRIC),
        accuracy_knn=_summaries(grid, SECOND_METRIC),
        interactions=_corrected(_interactions(grid, references, comparisons)),
        penalties=_corrected(_penalties(grid, references)),
        differences=_corrected(_differences(grid, comparisons)),
        notes=_notes(plan, grid, references),
    )


def _comparisons(plan: Plan, grid: Grid) -> list[tuple[str, str]]:
    """The declared pairs of known losses; without any declared, every later loss against the first."""
    declared = [(a, b) for a, b in plan.report.comparisons if {a, b} <= set(grid.losses) and a != b]
    return declared if plan.report.comparisons else [(loss, grid.losses[0]) for loss in grid.losses[1:]]


def _references(plan: Plan, grid: Grid) -> dict[Panel, int]:
    """The declared reference batch where a panel has it; without a declared one, the panel's largest."""
    asked = plan.report.reference_batch
    sizes = {panel: grid.batch_sizes(panel) for panel in grid.panels}
    return {panel: asked or max(known) for panel, known in sizes.items() if asked is None or asked in known}


def _summaries(grid: Grid, metric: str) -> list[Summary]:
    rows = []
    for panel in grid.panels:
        for batch_size in grid.batch_sizes(panel):
            scores = {loss: grid.scores(panel, loss, batch_size, metric) for loss in grid.losses}
            best = stats.near_best(scores)
            rows += [
                _summary(panel, loss, batch_size, grid.groups[panel, loss, batch_size], metric, near_best=loss in best)
                for loss in grid.losses
                if (panel, loss, batch_size) in grid.groups
            ]
        rows.append(_summary(panel, None, None, grid.baselines[panel], metric, near_best=False))
    return rows


def _summary(
    panel: Panel, loss: str | None, batch_size: int | None, runs: Sequence[Run], metric: str, *, near_best: bool
) -> Summary:
    scores = by_seed(runs, metric)
    estimate = stats.estimate(list(scores.values()))
    return Summary(panel, loss, batch_size, len(runs), count_statuses(runs), scores, estimate, near_best)


def _differences(grid: Grid, comparisons: Sequence[tuple[str, str]]) -> list[Effect]:
    return [
        Effect(
            panel, (a, b), batch, _planned_pairs(grid, panel, (a, b), (batch,)),
            stats.paired(_accuracy(grid, panel, a, batch), _accuracy(grid, panel, b, batch)),
        )
        for panel in grid.panels
        for a, b in comparisons
        for batch in grid.batch_sizes(panel)
        if _planned_pairs(grid, panel, (a, b), (batch,))
    ]  # fmt: skip


def _penalties(grid: Grid, references: Mapping[Panel, int]) -> list[Effect]:
    return [
        Effect(
            panel, (loss,), batch, _planned_pairs(grid, panel, (loss,), (batch, reference)),
            stats.paired(_accuracy(grid, panel, loss, reference), _accuracy(grid, panel, loss, batch)),
        )
        for panel, reference in references.items()
        for loss in grid.losses
        for batch in grid.batch_sizes(panel)
        if batch != reference and _planned_pairs(grid, panel, (loss,), (batch, reference))
    ]  # fmt: skip


def _interactions(grid: Grid, references: Mapping[Panel, int], comparisons: Sequence[tuple[str, str]]) -> list[Effect]:
    return [
        Effect(
            panel, (a, b), batch, _planned_pairs(grid, panel, (a, b), (batch, reference)),
            stats.paired(_penalty(grid, panel, a, batch, reference), _penalty(grid, panel, b, batch, reference)),
        )
        for panel, reference in references.items()
        for a, b in comparisons
        for batch in grid.batch_sizes(panel)
        if batch != reference and _planned_pairs(grid, panel, (a, b), (batch, reference))
    ]  # fmt: skip


def _planned_pairs(grid: Grid, panel: Panel, losses: Sequence[str], batch_sizes: Sequence[int]) -> int:
    """How many seeds the plan gives to every one of these losses at every one of these batch sizes."""
    groups = [grid.groups.get((panel, loss, size), ()) for loss in losses for size in batch_sizes]
    return len(set.intersection(*({run.cell.seed for run in runs} for runs in groups)))


def _accuracy(grid: Grid, panel: Panel, loss: str, batch_size: int) -> dict[int, float]:
    return grid.scores(panel, loss, batch_size, METRIC)


def _penalty(grid: Grid, panel: Panel, loss: str, batch_size: int, reference: int) -> dict[int, float]:
    """Seed -> accuracy at the reference batch - accuracy at the batch, over the seeds that have both."""
    large, small = _accuracy(grid, panel, loss, reference), _accuracy(grid, panel, loss, batch_size)
    return {seed: large[seed] - small[seed] for seed in large.keys() & small.keys()}


def _corrected(effects: Sequence[Effect]) -> list[Effect]:
    """The effects as one family under Holm's correction."""
    adjusted = stats.holm([effect.paired.p for effect in effects])
    return [
        replace(effect, family=len(effects), p_holm=p_holm) for effect, p_holm in zip(effects, adjusted, strict=True)
    ]


def _notes(plan: Plan, grid: Grid, references: Mapping[Panel, int]) -> list[str]:
    """What a reader should know before trusting the tables, in sentences."""
    notes = list(plan.warnings)
    if grid.unplanned:
        notes.append(f"{grid.unplanned} of the records in the ledger belong to no cell of this plan and are left out.")
    notes += [
        f"The comparison of {a} with {b} is left out: it needs two different losses of the plan."
        for a, b in plan.report.comparisons
        if a == b or not {a, b} <= set(grid.losses)
    ]
    notes += [
        f"{panel.title}: the reference batch {plan.report.reference_batch} is not among its batch sizes, "
        "so that no small-batch penalty is computed."
        for panel in grid.panels
        if panel not in references
    ]
    return notes
