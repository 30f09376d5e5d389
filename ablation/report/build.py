"""Report: every number of the page, computed before anything is drawn or worded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ablation.plan import Plan
from ablation.record import Record
from ablation.report import costs, paths, published, responses, stats, trends
from ablation.report.aggregate import Grid, Panel, Run, aggregate, by_seed, count_statuses
from ablation.report.costs import Cost
from ablation.report.paths import Histories, Paths
from ablation.report.published import Series
from ablation.report.responses import Response
from ablation.report.stats import Estimate, Paired
from ablation.report.trends import Crossing, Plateau


class Verdict(StrEnum):
    """What a family-wise test and an equivalence test come to together."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "~ equivalent"  # within the margin, whether or not a difference is resolved
    UNRESOLVED = "? not resolved"
    UNTESTED = "? no pair yet"


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
    margin: float | None = None  # differences below it don't matter; None where the sweep declares none
    family: int = 1  # number of tests that `p_holm` and `p_equivalence` correct for, each by itself
    p_holm: float | None = None
    p_equivalence: float | None = None  # of two one-sided tests against the margin, Holm-adjusted

    @property
    def estimate(self) -> Estimate | None:
        """The difference in [-1, 1]; None without a complete pair."""
        return self.paired.estimate

    @property
    def resolved(self) -> bool:
        """Whether the family-wise test finds a difference."""
        return self.p_holm is not None and self.p_holm < stats.ALPHA

    @property
    def equivalent(self) -> bool:
        """Whether the family-wise test shows the difference to be within the margin, or no seed differs at all."""
        found = self.estimate
        same = found is not None and found.sd == 0 and found.mean == 0 and self.margin is not None
        return same or (self.p_equivalence is not None and self.p_equivalence < stats.ALPHA)

    @property
    def verdict(self) -> Verdict:
        """The outcome in a word."""
        if self.estimate is None:
            return Verdict.UNTESTED
        if self.equivalent:
            return Verdict.EQUIVALENT
        if not self.resolved:
            return Verdict.UNRESOLVED
        return Verdict.HIGHER if self.estimate.mean > 0 else Verdict.LOWER

    @property
    def pairs_for_margin(self) -> int | None:
        """Pairs that would find a difference of the margin with 80 % power; None for too many, or unknown."""
        found = self.estimate
        return stats.pairs_needed(self.margin / found.sd, self._alpha) if self.margin and found and found.sd else None

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
class Trend:
    """A loss over all its batch sizes."""

    panel: Panel
    loss: str
    slope: Estimate | None  # accuracy per doubling of the batch size
    plateau: Plateau | None  # None also where the sweep declares no margin


@dataclass(frozen=True)
class Crossover:
    """Where two losses' curves cross; without crossings, whose mean is higher throughout."""

    panel: Panel
    losses: tuple[str, str]
    crossings: Sequence[Crossing]
    shared: int  # batch sizes at which both have results


@dataclass(frozen=True)
class Report:
    """The numbers of a report, in the order in which the page shows them."""

    plan: Plan
    grid: Grid
    references: Mapping[Panel, int]  # the batch size that the others of a panel are compared with
    comparisons: Sequence[tuple[str, str]]
    metric: str  # what the answer, the figures and the tests speak of
    second_metric: str  # shown beside it as a check
    accuracy: Sequence[Summary]  # of `metric`
    second_accuracy: Sequence[Summary]  # of `second_metric`
    interactions: Sequence[Effect]  # penalty of a - penalty of b: the primary family
    penalties: Sequence[Effect]  # accuracy at the reference batch - accuracy at the batch, of one loss
    differences: Sequence[Effect]  # accuracy of a - accuracy of b at one batch size
    trends: Sequence[Trend]
    crossovers: Sequence[Crossover]
    responses: Sequence[Response]
    costs: Sequence[Cost]
    paths: Paths
    published: Sequence[Series]  # where the sweep asks for them
    notes: Sequence[str]


def no_history(_: str) -> None:
    """Histories where there are none."""


def build(plan: Plan, records: Mapping[str, Record], histories: Histories = no_history) -> Report:
    """Compute a report from a plan and whatever records and histories there are, by cell id."""
    grid = aggregate(plan, records)
    scores = _Scores(grid, plan.report.metric)
    comparisons = _comparisons(plan, grid)
    references = _references(plan, grid)
    margin = plan.report.equivalence_margin
    second = "linear_top1" if plan.report.metric == "knn_top1" else "knn_top1"
    return Report(
        plan=plan,
        grid=grid,
        references=references,
        comparisons=comparisons,
        metric=plan.report.metric,
        second_metric=second,
        accuracy=_summaries(grid, plan.report.metric),
        second_accuracy=_summaries(grid, second),
        interactions=_family(_interactions(scores, references, comparisons), margin),
        penalties=_family(_penalties(scores, references), margin),
        differences=_family(_differences(scores, comparisons), margin),
        trends=_trends(scores, margin),
        crossovers=_crossovers(scores, comparisons),
        responses=responses.responses(grid, plan.report.metric),
        costs=costs.costs(grid, plan.report.metric),
        paths=paths.gather(grid, histories, references, comparisons),
        published=_published(plan, grid),
        notes=_notes(plan, grid, references),
    )


@dataclass(frozen=True)
class _Scores:
    """A grid's accuracies in one metric."""

    grid: Grid
    metric: str

    def accuracy(self, panel: Panel, loss: str, batch_size: int) -> dict[int, float]:
        return self.grid.scores(panel, loss, batch_size, self.metric)

    def penalty(self, panel: Panel, loss: str, batch_size: int, reference: int) -> dict[int, float]:
        """Seed -> accuracy at the reference batch - accuracy at the batch, over the seeds that have both."""
        large, small = self.accuracy(panel, loss, reference), self.accuracy(panel, loss, batch_size)
        return {seed: large[seed] - small[seed] for seed in large.keys() & small.keys()}

    def curve(self, panel: Panel, loss: str) -> trends.Curve:
        return {size: self.accuracy(panel, loss, size) for size in self.grid.batch_sizes(panel)}


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


def _differences(scores: _Scores, comparisons: Sequence[tuple[str, str]]) -> list[Effect]:
    grid = scores.grid
    return [
        Effect(
            panel, (a, b), batch, _planned_pairs(grid, panel, (a, b), (batch,)),
            stats.paired(scores.accuracy(panel, a, batch), scores.accuracy(panel, b, batch)),
        )
        for panel in grid.panels
        for a, b in comparisons
        for batch in grid.batch_sizes(panel)
        if _planned_pairs(grid, panel, (a, b), (batch,))
    ]  # fmt: skip


def _penalties(scores: _Scores, references: Mapping[Panel, int]) -> list[Effect]:
    grid = scores.grid
    return [
        Effect(
            panel, (loss,), batch, _planned_pairs(grid, panel, (loss,), (batch, reference)),
            stats.paired(scores.accuracy(panel, loss, reference), scores.accuracy(panel, loss, batch)),
        )
        for panel, reference in references.items()
        for loss in grid.losses
        for batch in grid.batch_sizes(panel)
        if batch != reference and _planned_pairs(grid, panel, (loss,), (batch, reference))
    ]  # fmt: skip


def _interactions(
    scores: _Scores, references: Mapping[Panel, int], comparisons: Sequence[tuple[str, str]]
) -> list[Effect]:
    grid = scores.grid
    return [
        Effect(
            panel, (a, b), batch, _planned_pairs(grid, panel, (a, b), (batch, reference)),
            stats.paired(scores.penalty(panel, a, batch, reference), scores.penalty(panel, b, batch, reference)),
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


def _family(effects: Sequence[Effect], margin: float | None) -> list[Effect]:
    """The effects as one family under Holm's correction, of the tests for a difference and of those for none."""
    p_holm = stats.holm([effect.paired.p for effect in effects])
    equivalence = stats.holm([_p_equivalence(effect, margin) for effect in effects])
    return [
        replace(effect, margin=margin, family=len(effects), p_holm=p, p_equivalence=q)
        for effect, p, q in zip(effects, p_holm, equivalence, strict=True)
    ]


def _p_equivalence(effect: Effect, margin: float | None) -> float | None:
    return stats.equivalence(effect.estimate, margin) if effect.estimate and margin is not None else None


def _trends(scores: _Scores, margin: float | None) -> list[Trend]:
    found = []
    for panel in scores.grid.panels:
        for loss in dict.fromkeys(loss for where, loss, _ in scores.grid.groups if where == panel):
            curve = scores.curve(panel, loss)
            plateau = None if margin is None else trends.plateau(curve, margin)
            found.append(Trend(panel, loss, trends.slope(curve), plateau))
    return found


def _crossovers(scores: _Scores, comparisons: Sequence[tuple[str, str]]) -> list[Crossover]:
    found = []
    for panel in scores.grid.panels:
        for a, b in comparisons:
            left, right = scores.curve(panel, a), scores.curve(panel, b)
            shared = sum(bool(left[size].keys() & right[size].keys()) for size in left)
            found.append(Crossover(panel, (a, b), trends.crossings(left, right), shared))
    return found


def _published(plan: Plan, grid: Grid) -> list[Series]:
    if not plan.report.published:
        return []
    cells = [run.cell for run in grid.runs]
    losses = {cell.pretraining.loss.name for cell in cells if cell.pretraining}
    return published.series({cell.dataset.name for cell in cells}, losses, plan.report.metric)


def _notes(plan: Plan, grid: Grid, references: Mapping[Panel, int]) -> list[str]:
    """What a reader should know before trusting the tables, in sentences."""
    notes = [*plan.report.notes, *plan.warnings, *(f"{axis} {text}." for axis, text in grid.followers.items())]
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
