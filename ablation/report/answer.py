"""The answer in sentences: one statement per dataset and comparison, worded from the numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from ablation.record import Status
from ablation.report.aggregate import TODO, Panel, count_statuses
from ablation.report.build import Effect, Report, Verdict
from ablation.report.paths import Diagnostic
from ablation.report.stats import Estimate
from ablation.report.wording import count, decimals, interval, listing, p_value, percent, points

SMALL_XI = 1e-3  # anchors below it are in the regime where rounding could swamp the gradient
MOST_NAMED = 3  # comparisons without a verdict that an overview names
STATED_SHARE = 0.1  # of the anchors; with fewer in it the regime was not reached
_STATED = f"{100 * STATED_SHARE:g} %"


@dataclass(frozen=True)
class Statement:
    """What is said, sentence by sentence, and what of."""

    lead: str
    findings: Sequence[str]


def statements(report: Report) -> list[Statement]:
    """Every panel's statements: on each comparison, or on each loss alone where there is nothing to compare."""
    alone: list[tuple[str, ...]] = [(loss,) for loss in report.grid.losses]
    subjects: Sequence[tuple[str, ...]] = report.comparisons or alone
    found = []
    for panel in report.grid.panels:
        pending = []
        for losses in subjects:
            names = " and ".join(report.grid.loss_titles[loss] for loss in losses)
            findings = _findings(report, panel, losses)
            if findings:
                found.append(Statement(f"{panel.title}: {names}.", findings))
            else:
                pending.append(names)
        if pending:
            text = f"no seed has the results that a statement needs on {'; '.join(pending)}."
            found.append(Statement(f"{panel.title}, open:", [text]))
    return [*found, Statement("Budget:", [_budgets(report)])]


def overview(report: Report) -> list[Statement]:
    """A statement a panel, for many comparisons: their verdicts at the smallest batch size that has any."""
    drops = ("Accuracy lost", report.interactions if report.comparisons else report.penalties)
    found = []
    for panel in report.grid.panels:
        texts = []
        for what, effects in (drops, ("Accuracy", report.differences)):
            own = [effect for effect in effects if effect.panel == panel and effect.estimate]
            if own:
                smallest = min(effect.batch_size for effect in own)
                told = [effect for effect in own if effect.batch_size == smallest]
                texts.append(f"{what} at batch {smallest}: {_tally(report, told)}.")
        found.append(Statement(f"{panel.title}:", texts or ["no comparison has a pair yet."]))
    return [*found, Statement("Budget:", [_budgets(report)])]


def _tally(report: Report, effects: Sequence[Effect]) -> str:
    """Verdict: which effects have it; with numbers where a difference is resolved."""
    groups: dict[str, list[str]] = {}
    for effect in effects:
        found, name = effect.estimate, report.grid.subject(effect.losses)
        assert found
        if effect.verdict in (Verdict.HIGHER, Verdict.LOWER):
            places = decimals(effect.panel.test_images)
            name += f" ({points(found.mean, places)}, {interval(found, places)})"
        groups.setdefault(_WORDS[effect.verdict], []).append(name)
    if len(open_ones := groups.get("not resolved", [])) > MOST_NAMED:
        groups["not resolved"] = [f"{len(open_ones)} comparisons"]
    return "; ".join(f"{word}: {', '.join(groups[word])}" for word in dict.fromkeys(_WORDS.values()) if word in groups)


_WORDS = {
    Verdict.HIGHER: "higher", Verdict.LOWER: "lower", Verdict.EQUIVALENT: "equivalent",
    Verdict.UNRESOLVED: "not resolved", Verdict.UNTESTED: "not resolved",
}  # fmt: skip


def premises(report: Report) -> list[Statement]:
    """Per dataset: whether runs came into the regime that the rounding claim for small batches speaks of.

    The claim is about anchors with xi << 1. Where their share was not logged, the mean p_pos bounds it: one with xi
    below `SMALL_XI` has a p_pos = 1 / (1 + xi) of nearly 1, any other at least 0, so that it is at most
    mean p_pos x (1 + SMALL_XI).
    """
    found = []
    for panel in report.grid.panels:
        logged = [d for d in report.paths.diagnostics if d.panel == panel and d.name == "xi_below_1e3"]
        bounds = [d for d in report.paths.diagnostics if d.panel == panel and d.name == "p_pos"]
        if logged or bounds:
            text = _premise(report, logged) if logged else _bounded_premise(report, bounds)
            found.append(Statement(f"The rounding claim, {panel.title}:", [text]))
    return found


def _premise(report: Report, logged: Sequence[Diagnostic]) -> str:
    """From the share of anchors with a small xi."""
    share, where = _most(report, logged)
    reached = sorted({known.batch_size for known in logged if known.estimate.mean >= STATED_SHARE})
    if reached:
        rest = {known.batch_size for known in logged} - set(reached)
        text = (
            f"regime reached at batch {listing(reached)}. There at least {_STATED} of the anchors of a loss had xi "
            f"below {SMALL_XI:g} at the end of training, most with {where}: {100 * share:.3g} %."
        )
        return f"{text} Elsewhere no difference speaks for or against the claim." if rest else text
    return (
        f"regime not reached. At the end of training at most {100 * share:.3g} % of the anchors had xi below "
        f"{SMALL_XI:g} ({where}): fewer than {_STATED}, so that no difference here speaks for or against the claim."
    )


def _bounded_premise(report: Report, bounds: Sequence[Diagnostic]) -> str:
    """From the mean p_pos, which can only rule the regime out."""
    value, where = _most(report, bounds)
    share = min(1.0, value * (1 + SMALL_XI))
    seen = (
        f"At the end of training at most {100 * share:.3g} % of the anchors can have had xi below {SMALL_XI:g} (the "
        f"largest mean p_pos is {value:.3g}, of {where})"
    )
    if share < STATED_SHARE:
        return (
            f"regime not reached. {seen}: fewer than {_STATED}, so that no difference here speaks for or against the "
            "claim."
        )
    return f"not decided by p_pos alone. {seen}: {_STATED} would have to be, and a mean can't tell."


def _most(report: Report, known: Sequence[Diagnostic]) -> tuple[float, str]:
    """The largest mean, and where it is."""
    most = max(known, key=lambda diagnostic: diagnostic.estimate.mean)
    return most.estimate.mean, f"{report.grid.loss_titles[most.loss]} at batch {most.batch_size}"


def _findings(report: Report, panel: Panel, losses: tuple[str, ...]) -> list[str]:
    """On the drop from the reference batch and on the difference at one batch size; empty without any result."""
    drops = _of(report.interactions if len(losses) == 2 else report.penalties, panel, losses)
    differences = _of(report.differences, panel, losses)
    if not drops and not differences:
        return ["The plan has nothing to compare here: see Table 1 for the accuracies."]
    drop = next((effect for effect in drops if effect.estimate), None)
    known = [effect for effect in differences if effect.estimate and (not drop or effect.batch_size == drop.batch_size)]
    found = []
    if drop:
        found.append(f"{_drop(report, drop)} {_scope(drops, drop)}")
    elif drops and known:
        found.append(f"No seed has all the results that a drop from batch {report.references[panel]} is computed from.")
    if known:
        found.append(f"{_difference(report, known[0])} {_scope(differences, known[0])}")
    if found and (lost := _lost(report, panel, losses)):
        found.append(f"Left out of the pairs, since these runs ended without a result: {lost}.")
    return [text.strip() for text in found]


def _lost(report: Report, panel: Panel, losses: Sequence[str]) -> str:
    """The runs of these losses that ended without a result: leaving them out can flatter a loss."""
    parts = []
    for (where, loss, batch_size), runs in report.grid.groups.items():
        ended = count_statuses(run for run in runs if run.status not in (Status.DONE, TODO))
        if ended and where == panel and loss in losses:
            what = listing(f"{number} {status}" for status, number in ended.items())
            parts.append(f"{report.grid.loss_titles[loss]} at batch {batch_size}, {what} of {len(runs)}")
    return "; ".join(parts)


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
        body = f"{names[0]} {_changes(found.mean, places)} points of accuracy {way}"
    else:
        if effect.resolved:
            word = "less" if found.mean < 0 else "more"
            a, b = (points(value, places, sign=False) for value in means)
            body = f"{names[0]} loses {word} accuracy than {names[1]} {way}: {a} against {b} points"
        else:
            a, b = (_changes(value, places) for value in means)
            body = f"{way} {names[0]} {a} and {names[1]} {b} points of accuracy"
        body += f", a difference of {mean} points"
    return _sentence(effect, found, body)


def _changes(lost: float, places: int) -> str:
    """Such as ``loses 1.2``, or ``gains 0.3`` where less than nothing is lost."""
    return f"{'gains' if lost < 0 else 'loses'} {points(abs(lost), places, sign=False)}"


def _difference(report: Report, effect: Effect) -> str:
    """On the accuracies of two losses at one batch size."""
    found, means = effect.estimate, effect.paired.means
    if found is None or means is None:
        return ""
    places = decimals(effect.panel.test_images)
    a, b = (report.grid.loss_titles[loss] for loss in effect.losses)
    at_a, at_b = (f"{percent(mean, places)} %" for mean in means)
    difference = points(found.mean, places)
    body = f"at batch {effect.batch_size} {a} reaches {at_a} and {b} {at_b}, a difference of {difference} points"
    return _sentence(effect, found, body)


def _sentence(effect: Effect, found: Estimate, body: str) -> str:
    """The body with its evidence, under a verdict; and what more seeds would bring where it is not resolved."""
    places = decimals(effect.panel.test_images)
    if found.half_width is None:
        return f"Not resolved with 1 seed: {body} (one pair has no interval)."
    seeds = count(found.n, "seed")
    if found.sd == 0:
        equal = "no difference" if found.mean == 0 else "the same difference"
        if effect.equivalent:
            return f"Equivalent in {seeds}: {body} (no difference in any pair)."
        return f"Not resolved with {seeds}: {body} ({equal} in all {found.n} pairs: no variance, no test)."
    evidence = (
        f"(95 % interval {interval(found, places)}; {count(found.n, 'pair')}; "
        f"Holm-adjusted p {p_value(effect.p_holm, relation=True)})"
    )
    if effect.equivalent and effect.margin is not None:
        edge = points(effect.margin, places, sign=False)
        return (
            f"Equivalent within {edge} points: {body} {evidence[:-1]}; "
            f"equivalence p {p_value(effect.p_equivalence, relation=True)})."
        )
    if effect.resolved:
        return f"{body[0].upper()}{body[1:]} {evidence}."
    return f"Not resolved with {seeds}: {body} {evidence}. {_power(effect, found, places)}"


def _power(effect: Effect, found: Estimate, places: int) -> str:
    """What the seeds there are can resolve, and how many would resolve the difference seen."""
    resolvable = effect.resolvable
    if resolvable is None:
        return ""
    reach = f"{points(resolvable, places, sign=False)} points" if resolvable < 1 else "no difference at all"
    would = []
    seen = points(abs(found.mean), places, sign=False)
    if float(seen):
        would.append(f"{_seeds(effect.pairs_needed)} would resolve {seen} points")
    if effect.margin is not None:
        verb = "" if would else "would resolve "
        edge = points(effect.margin, places, sign=False)
        would.append(f"{_seeds(effect.pairs_for_margin)} {verb}the margin of {edge}")
    more = f"; {', '.join(would)}" if would else ""
    return f"With this spread {found.n} seeds resolve {reach}{more}."


def _seeds(needed: int | None) -> str:
    return f"about {needed:,}" if needed else "more than 1,000"


def _scope(effects: Sequence[Effect], told: Effect) -> str:
    """The verdict at the other batch sizes, and where there is no pair at all."""
    words = {Verdict.HIGHER: "resolved, above zero", Verdict.LOWER: "resolved, below zero"}
    sizes: dict[str, list[int]] = {}
    for effect in effects:
        if effect.estimate and effect is not told:
            word = words.get(effect.verdict, _WORDS[effect.verdict])
            sizes.setdefault(word, []).append(effect.batch_size)
    parts = []
    if sizes:
        verdicts = "; ".join(f"{word} at batch {listing(where)}" for word, where in sizes.items())
        parts.append(f"Elsewhere: {verdicts}.")
    missing = [effect.batch_size for effect in effects if effect.estimate is None]
    if missing:
        parts.append(f"There is no complete pair at batch {listing(missing)}.")
    return " ".join(parts)


def _budgets(report: Report) -> str:
    """The budget of all panels, or of each where they differ."""
    found: dict[str, list[str]] = {}
    for panel in report.grid.panels:
        found.setdefault(_budget(report, panel), []).append(panel.title)
    if len(found) == 1:
        return f"{next(iter(found))}."
    return f"{'; '.join(f'{budget} ({listing(titles)})' for budget, titles in found.items())}."


def _budget(report: Report, panel: Panel) -> str:
    """What a run of the panel was trained for: samples where all are equal, else steps, else the range of samples."""
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
