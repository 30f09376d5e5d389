"""The prediction matrix: arms that differ in arithmetic, anchor weight or step size, and what each cause foresees.

Four causes could hold InfoNCE back at small batches (arXiv:2107.01152 names the first): its gradient drowns in rounding
error; anchors that are well apart lose their weight 1 - p_pos; all gradients together get small; or they underflow. An
arm is set against InfoNCE's textbook form in float32.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ablation.cell import Pretraining
from ablation.report import stats
from ablation.report.aggregate import Panel
from ablation.report.answer import STATED_SHARE
from ablation.report.build import Report
from ablation.report.formats import Entry, Table
from ablation.report.stats import Estimate
from ablation.report.tables import panel_entries, panel_header
from ablation.report.wording import DASH, MINUS, PLUS_MINUS, decimals, interval, percent, points

MOST_COLUMNS = 6  # of what was seen, in the matrix
CAUSES = ("rounding", "anchor weight", "step size", "underflow")
BASE = "textbook float32"
PREDICTED: Mapping[str, str] = {  # arm -> for each cause better (+), worse (-) or no different (0) than the base
    BASE: "0000",
    "textbook float16": "-00-",
    "textbook float16, scaled": "-000",
    "textbook bfloat16": "-000",
    "textbook float64": "+000",
    "all in float64": "+000",
    "exact": "+000",
    "rescaled": "00+0",
    "epsilon": "+++0",
    "weight 1": "+++0",
}
_NAMES = {
    "infonce": "exact", "infonce_rescaled": "rescaled", "epsilon": "epsilon", "flatnce": "weight 1",
    "flatnce_log": "weight 1", "dcl": "weight 1",
}  # fmt: skip


@dataclass(frozen=True)
class ArmResult:
    """One arm at one batch size, beside the base."""

    panel: Panel
    batch_size: int
    loss: str  # as the sweep shows it
    arm: str  # a key of PREDICTED
    share: float | None  # of anchors with xi < 1e-3 at the end of training, mean over seeds
    rounding_error: float | None  # of the gradient at z, likewise
    accuracy: Estimate | None
    difference: Estimate | None  # of accuracies, arm - base, paired by seed; None for the base
    p: float | None  # of the paired t-test, Holm-adjusted over the arms of this panel and batch size

    @property
    def seen(self) -> str:
        """``+``, ``-``, or ``?`` where no difference is resolved."""
        if self.difference is None or self.p is None or self.p >= stats.ALPHA:
            return "?"
        return "+" if self.difference.mean > 0 else "-"


def arm_of(run: Pretraining) -> str | None:
    """Which arm a cell is; None for what is none of them."""
    single = (run.loss_dtype, run.precision) == ("float32", "float32")
    if run.loss.name == "infonce_textbook":
        if run.precision == run.loss_dtype == "float64":
            return "all in float64"
        scaled = ", scaled" if run.gradient_scaling else ""
        arm = f"textbook {run.loss_dtype}{scaled}"
        return arm if run.precision == "float32" and arm in PREDICTED else None
    return _NAMES.get(run.loss.name) if single and not run.gradient_scaling else None


Group = Sequence[ArmResult]  # of one panel and batch size


def groups(report: Report) -> list[Group]:
    """Every panel and batch size that has the base and two arms beside it, with all its arms."""
    known: dict[tuple[Panel, int], dict[str, str]] = {}
    for (panel, loss, batch_size), runs in report.grid.groups.items():
        run = runs[0].cell.pretraining
        if run and (arm := arm_of(run)):
            known.setdefault((panel, batch_size), {})[loss] = arm
    found: list[Group] = []
    for (panel, batch_size), arms in known.items():
        base = next((loss for loss, arm in arms.items() if arm == BASE), None)
        if base is not None and len(arms) > 2:
            results = [_result(report, panel, batch_size, loss, base, arm) for loss, arm in arms.items()]
            others = [result for result in results if result.arm != BASE]
            adjusted = iter(stats.holm([result.p for result in others]))
            found.append([replace(r, p=next(adjusted)) if r.arm != BASE else r for r in results])
    return found


def _result(report: Report, panel: Panel, batch_size: int, loss: str, base: str, arm: str) -> ArmResult:
    """One arm's numbers; its p is not yet adjusted."""
    one, other = (report.grid.scores(panel, name, batch_size, report.metric) for name in (loss, base))
    measured = {
        found.name: found.estimate.mean
        for found in report.paths.diagnostics
        if (found.panel, found.batch_size, found.loss) == (panel, batch_size, loss)
    }
    beside = stats.paired(one, other)
    return ArmResult(
        panel,
        batch_size,
        loss,
        arm,
        share=measured.get("xi_below_1e3"),
        rounding_error=measured.get("rounding_error"),
        accuracy=stats.estimate(list(one.values())),
        difference=None if loss == base else beside.estimate,
        p=None if loss == base else beside.p,
    )


def title(group: Group) -> str:
    """Where the group's arms ran."""
    return f"{group[0].panel.title}, batch {group[0].batch_size}"


def gate(group: Group) -> str:
    """Whether the base came where the claim speaks: what the matrix may be read for, of one panel and batch size."""
    base = next(result for result in group if result.arm == BASE)
    if base.accuracy is None:
        return f"{base.loss} has no result yet."
    if base.share is None:
        return "the share of anchors with xi < 1e-3 was not logged: nothing follows for the rounding claim."
    stated = f"{100 * STATED_SHARE:g} %"
    seen = f"{percent(base.share, 1)} % of {base.loss}'s anchors had xi < 1e-3 at the end of training"
    if base.share < STATED_SHARE:
        return f"regime not reached. {seen}, fewer than {stated}: the matrix neither supports nor refutes a cause."
    flat = [result for result in group if result.arm == "weight 1" and result.difference]
    if not any(result.seen == "+" for result in flat):
        return f"regime reached: {seen}. {_no_gap(flat)}"
    contradicted = [cause for cause in CAUSES if any(contradicts(result, cause) for result in group)]
    left = [cause for cause in CAUSES if cause not in contradicted]
    against, beside = (", ".join(causes) or "none" for causes in (contradicted, left))
    verdict = f"Contradicted as the only cause: {against}; not contradicted: {beside}."
    return f"regime reached: {seen}. {verdict}"


def _no_gap(flat: Sequence[ArmResult]) -> str:
    """Why there is nothing to explain: no loss of weight 1 is above the base for sure."""
    if not flat:
        return "No loss of weight 1 has a result beside it yet."
    if any(result.seen == "-" for result in flat):
        return "A loss of weight 1 is below it and none above: there is no gap to explain."
    beside = ", ".join(f"{result.loss} {_difference(result)}" for result in flat)
    return f"What sets the losses of weight 1 apart is not resolved ({beside} points): there is no gap to explain yet."


def _difference(result: ArmResult) -> str:
    """Such as ``+1.20 ± 0.40``."""
    found, places = result.difference, decimals(result.panel.test_images)
    if found is None:
        return DASH
    half = "" if found.half_width is None else f" {PLUS_MINUS} {percent(found.half_width, places)}"
    return f"{points(found.mean, places)}{half}"


def contradicts(result: ArmResult, cause: str) -> bool:
    """Whether the arm moved for sure, and not as the cause alone would have it."""
    return result.seen != "?" and result.seen != PREDICTED[result.arm][CAUSES.index(cause)]


def matrix(found: Sequence[Group]) -> Table | None:
    """An arm a row, a column for each cause and for each panel and batch size; None where these are too many."""
    if len(found) > MOST_COLUMNS:
        return None
    present = {result.arm for group in found for result in group}
    header = ["arm", *CAUSES, *(_column(found, group) for group in found)]
    rows = [
        [Entry(arm), *map(Entry, signs.replace("-", MINUS)), *(_seen(group, arm) for group in found)]
        for arm, signs in PREDICTED.items()
        if arm in present
    ]
    return Table(header, rows, numeric_from=1)


def _column(found: Sequence[Group], group: Group) -> str:
    """What sets the group apart from the others."""
    panel, batch_size = group[0].panel, group[0].batch_size
    parts = [str(value) for _, value in panel.variant]
    parts += [panel.dataset_title] if len({g[0].panel.dataset for g in found}) > 1 else []
    parts += [f"batch {batch_size}"] if len({g[0].batch_size for g in found}) > 1 or not parts else []
    return ", ".join(parts)


def _seen(group: Group, arm: str) -> Entry:
    """The difference of every loss that is this arm."""
    texts, sure = [], False
    for result in group:
        if result.arm != arm:
            continue
        if arm == BASE:
            places = decimals(result.panel.test_images)
            texts.append(f"{percent(result.accuracy.mean, places)} %" if result.accuracy else DASH)
        else:
            mark = "? " if result.difference and result.seen == "?" else ""
            texts.append(f"{mark}{_difference(result)}")
            sure = sure or result.seen != "?"
    return Entry("; ".join(texts), bold=sure)


def table(report: Report, found: Sequence[Group]) -> Table:
    """A row for every arm of every panel and batch size, with what was measured."""
    head = [*panel_header(report.grid), "batch size", "loss", "arm"]
    header = [*head, *CAUSES, "seen", "difference", "95 % interval", "xi < 1e-3 (%)", "rounding error"]
    return Table(header, [list(_row(result)) for group in found for result in group], numeric_from=len(head))


def _row(result: ArmResult) -> Iterator[Entry]:
    places = decimals(result.panel.test_images)
    difference = result.difference
    texts = [
        str(result.batch_size),
        result.loss,
        result.arm,
        *PREDICTED[result.arm].replace("-", MINUS),
        DASH if result.arm == BASE else result.seen.replace("-", MINUS),
        points(difference.mean, places) if difference else DASH,
        interval(difference, places) if difference and difference.half_width is not None else DASH,
        DASH if result.share is None else percent(result.share, 1),
        DASH if result.rounding_error is None else f"{result.rounding_error:.0e}",
    ]
    yield from panel_entries(result.panel)
    yield from map(Entry, texts)
