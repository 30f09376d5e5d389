"""The prediction matrix: arms that differ in arithmetic, anchor weight or step size, and what each cause foresees.

Four causes could hold InfoNCE back at small batches (arXiv:2107.01152 names the first): its gradient drowns in rounding
error; anchors that are well apart lose their weight 1 - p_pos; all gradients together get small; or they underflow. An
arm is set against InfoNCE's textbook form in float32.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ablation.cell import Pretraining
from ablation.report import stats
from ablation.report.aggregate import Panel
from ablation.report.answer import STATED_SHARE
from ablation.report.build import Report
from ablation.report.formats import Entry, Table
from ablation.report.stats import Estimate
from ablation.report.tables import panel_entries, panel_header
from ablation.report.wording import DASH, decimals, interval, percent, points

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
    difference: Estimate | None  # of accuracies, arm - base, paired by seed; None for the base

    @property
    def seen(self) -> str:
        """``+``, ``-``, or ``?`` where the interval holds 0 or there is none."""
        found = self.difference
        if found is None or found.half_width is None or abs(found.mean) <= found.half_width:
            return "?"
        return "+" if found.mean > 0 else "-"


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


def results(report: Report) -> list[ArmResult]:
    """Every arm at every batch size that has the base and two arms beside it."""
    groups: dict[tuple[Panel, int], dict[str, str]] = {}
    for (panel, loss, batch_size), runs in report.grid.groups.items():
        run = runs[0].cell.pretraining
        if run and (arm := arm_of(run)):
            groups.setdefault((panel, batch_size), {})[loss] = arm
    found = []
    for (panel, batch_size), arms in groups.items():
        base = next((loss for loss, arm in arms.items() if arm == BASE), None)
        if base is not None and len(arms) > 2:
            found += [_result(report, panel, batch_size, loss, base, arm) for loss, arm in arms.items()]
    return found


def _result(report: Report, panel: Panel, batch_size: int, loss: str, base: str, arm: str) -> ArmResult:
    one, other = (report.grid.scores(panel, name, batch_size, report.metric) for name in (loss, base))
    measured = {
        found.name: found.estimate.mean
        for found in report.paths.diagnostics
        if (found.panel, found.batch_size, found.loss) == (panel, batch_size, loss)
    }
    return ArmResult(
        panel,
        batch_size,
        loss,
        arm,
        share=measured.get("xi_below_1e3"),
        rounding_error=measured.get("rounding_error"),
        difference=None if loss == base else stats.paired(one, other).estimate,
    )


def gate(found: Sequence[ArmResult]) -> str:
    """Whether the base came where the claim speaks: what the matrix may be read for, of one panel and batch size."""
    base = next(result for result in found if result.arm == BASE)
    where = f"{base.panel.title}, batch {base.batch_size}: "
    if base.share is None:
        return f"{where}the share of anchors with xi < 1e-3 was not logged: nothing follows for the rounding claim."
    stated = f"{100 * STATED_SHARE:g} %"
    seen = f"{percent(base.share, 1)} % of {base.loss}'s anchors had xi < 1e-3 at the end of training"
    if base.share < STATED_SHARE:
        return f"{where}regime not reached. {seen}, fewer than {stated}: this matrix neither supports nor refutes it."
    flat = [result for result in found if result.arm == "weight 1"]
    if not any(result.seen == "+" for result in flat):
        return f"{where}regime reached: {seen}. No loss of weight 1 is above the base for sure: no gap to explain."
    contradicted = [cause for cause in CAUSES if any(contradicts(result, cause) for result in found)]
    left = [cause for cause in CAUSES if cause not in contradicted]
    against, beside = (", ".join(causes) or "none" for causes in (contradicted, left))
    verdict = f"Contradicted as the only cause: {against}; not contradicted: {beside}."
    return f"{where}regime reached: {seen}. {verdict} An arm that is not resolved contradicts nothing."


def contradicts(result: ArmResult, cause: str) -> bool:
    """Whether the arm moved for sure, and not as the cause alone would have it."""
    return result.seen != "?" and result.seen != PREDICTED[result.arm][CAUSES.index(cause)]


def table(report: Report, found: Sequence[ArmResult]) -> Table:
    """An arm a row."""
    head = [*panel_header(report.grid), "batch size", "loss", "arm"]
    header = [*head, *CAUSES, "seen", "difference", "95 % interval", "xi < 1e-3 (%)", "rounding error"]
    return Table(header, [list(_row(result)) for result in found], numeric_from=len(head))


def _row(result: ArmResult) -> Iterator[Entry]:
    places = decimals(result.panel.test_images)
    difference = result.difference
    texts = [
        str(result.batch_size),
        result.loss,
        result.arm,
        *PREDICTED[result.arm],
        DASH if result.arm == BASE else result.seen,
        points(difference.mean, places) if difference else DASH,
        interval(difference, places) if difference and difference.half_width is not None else DASH,
        DASH if result.share is None else percent(result.share, 1),
        DASH if result.rounding_error is None else f"{result.rounding_error:.0e}",
    ]
    yield from panel_entries(result.panel)
    yield from map(Entry, texts)
