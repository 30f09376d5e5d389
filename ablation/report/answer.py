"""The answer in sentences: one statement per dataset and comparison, worded from the numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from ablation.report.aggregate import Panel
from ablation.report.build import Effect, Report
from ablation.report.stats import Estimate
from ablation.report.wording import count, decimals, interval, listing, p_value, percent, points


@dataclass(frozen=True)
class Statement:
    """A sentence or two, and what they are about."""

    lead: str
    text: str


def statements(report: Report) -> list[Statement]:
    """Every panel's statements: on each comparison, or on each loss alone where there is nothing to compare."""
    found = []
    for panel in report.grid.panels:
        for losses in report.comparisons or [(loss,) for loss in report.grid.losses]:
            names = " and ".join(report.grid.loss_titles[loss] for loss in losses)
            found.append(Statement(f"{panel.title}, {names}.", _statement(report, panel, losses)))
    return found


def _statement(report: Report, panel: Panel, losses: tuple[str, ...]) -> str:
    drops = _of(report.interactions if len(losses) == 2 else report.penalties, panel, losses)
    differences = _of(report.differences, panel, losses)
    effects = drops or differences
    if not effects:
        return "The plan has nothing to compare here: see Table 1 for the accuracies."
    known = [effect for effect in effects if effect.estimate]
    if not known:
        return f"No complete pair of runs yet: {effects[0].planned} are planned at each batch size."
    effect = known[0]
    parts = [_drop(report, effect) if drops else _difference(report, effect)]
    if drops:
        parts += [_difference(report, at) for at in differences if at.batch_size == effect.batch_size and at.estimate]
    return " ".join(part for part in [*parts, _scope(effects)] if part)


def _of(effects: Sequence[Effect], panel: Panel, losses: tuple[str, ...]) -> list[Effect]:
    """A panel's effects of these losses, smallest batch first."""
    return [effect for effect in effects if effect.panel == panel and effect.losses == losses]


def _drop(report: Report, effect: Effect) -> str:
    """On the accuracy lost between the reference batch and another one, by one loss or by two."""
    found, means = effect.estimate, effect.paired.means
    if found is None or means is None:
        return ""
    names = [report.grid.loss_titles[loss] for loss in effect.losses]
    way = f"from batch {report.references[effect.panel]} to batch {effect.batch_size}"
    places = decimals(effect.panel.test_images)
    mean = points(found.mean, places)
    if len(names) == 1:
        body = f"{names[0]} loses {points(found.mean, places, sign=False)} points of accuracy {way}"
    else:
        a, b = (points(value, places, sign=False) for value in means)
        if effect.resolved:
            word = "less" if found.mean < 0 else "more"
            body = f"{names[0]} loses {word} accuracy than {names[1]} {way}: {a} against {b} points"
        else:
            body = f"{way} {names[0]} loses {a} and {names[1]} {b} points of accuracy"
        body += f", a difference of {mean} points"
    return _sentence(report, effect, found, body)


def _difference(report: Report, effect: Effect) -> str:
    """On the accuracies of two losses at one batch size."""
    found, means = effect.estimate, effect.paired.means
    if found is None or means is None:
        return ""
    places = decimals(effect.panel.test_images)
    reached = [
        f"{report.grid.loss_titles[loss]} reaches {percent(mean, places)} %"
        for loss, mean in zip(effect.losses, means, strict=True)
    ]
    body = f"at batch {effect.batch_size} {' and '.join(reached)}, a difference of {points(found.mean, places)} points"
    return _sentence(report, effect, found, body)


def _sentence(report: Report, effect: Effect, found: Estimate, body: str) -> str:
    """The body with its evidence, under a verdict; and what more seeds would bring where it is not resolved."""
    budget = _budget(report, effect.panel)
    places = decimals(effect.panel.test_images)
    if found.half_width is None:
        return f"Not resolved with 1 seed: {body} (one pair has no interval; {budget})."
    seeds = count(found.n, "seed")
    if found.sd == 0:
        same = "the same" if abs(found.mean) < 1e-9 else f"exactly {points(found.mean, places)} points"
        return f"Not resolved with {seeds}: {body} ({same} in all {found.n} pairs: no variance, no test; {budget})."
    evidence = (
        f"(95 % interval {interval(found, places)}; {count(found.n, 'pair')}; "
        f"Holm-adjusted p {p_value(effect.p_holm, relation=True)}; {budget})"
    )
    if effect.resolved:
        return f"{body[0].upper()}{body[1:]} {evidence}."
    return f"Not resolved with {seeds}: {body} {evidence}. {_power(effect, found, places)}"


def _power(effect: Effect, found: Estimate, places: int) -> str:
    """What the seeds there are can resolve, and how many would resolve the difference seen."""
    if effect.resolvable is None:
        return ""
    needed = effect.pairs_needed
    many = f"about {needed:,}" if needed else "more than 1,000"
    seen = points(abs(found.mean), places, sign=False)
    reach = points(effect.resolvable, places, sign=False)
    return f"With this spread {found.n} seeds resolve {reach} points; {many} would resolve {seen} points."


def _scope(effects: Sequence[Effect]) -> str:
    """At which batch sizes there is a difference, where there are several, and where there is no pair at all."""
    parts = []
    if len(effects) > 1:
        resolved = [effect.batch_size for effect in effects if effect.resolved]
        batches = listing(effect.batch_size for effect in effects)
        parts.append(f"Of batch {batches}, it is resolved at {listing(resolved) if resolved else 'none'}.")
    missing = [effect.batch_size for effect in effects if effect.estimate is None]
    if missing:
        parts.append(f"There is no complete pair at batch {listing(missing)}.")
    return " ".join(parts)


def _budget(report: Report, panel: Panel) -> str:
    """What every run of the panel was trained for: samples where they are equal, else steps, else the range of samples."""
    cells = [
        (planned.samples, planned.cell.pretraining.steps, planned.cell.pretraining.batch_size)
        for planned, run in zip(report.plan.cells, report.grid.runs, strict=True)
        if run.panel == panel and planned.cell.pretraining
    ]
    if not cells:
        return "no pretraining"
    samples, steps, batches = (sorted(column) for column in zip(*cells, strict=True))
    if samples[0] == samples[-1]:
        return f"{samples[0]:,} samples a run"
    if steps[0] == steps[-1]:
        return f"{count(steps[0], 'step')} a run"
    if samples[-1] - samples[0] < batches[-1]:  # equal samples, rounded up to whole steps
        return f"about {samples[0]:,} samples a run"
    return f"{samples[0]:,} to {samples[-1]:,} samples a run"
