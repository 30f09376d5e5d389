"""The report's main tables, as formatted entries: coverage, accuracy, paired effects, failures, provenance."""

from collections.abc import Callable, Collection, Sequence

from ablation.record import Status
from ablation.report.aggregate import TODO, Grid, Panel
from ablation.report.build import Effect, Report, Summary
from ablation.report.formats import Entry, Table
from ablation.report.provenance import Fact
from ablation.report.stats import sampling_sd
from ablation.report.wording import DASH, MINUS, PLUS_MINUS, decimals, interval, p_value, percent, points

RANDOM_ENCODER = "random encoder"
CHANCE = "chance"


def coverage(report: Report) -> Table:
    """Loss x batch size: how many runs are done, and what became of the others."""
    return _by_batch_size(report.grid, report.accuracy, lambda summary: Entry(_progress(summary)))


def runs(report: Report) -> Table:
    """Every planned run with its status and accuracy, linked to its record."""
    header = [*panel_header(report.grid), "loss", "batch size", "seed", "status", "accuracy", "record"]
    rows = []
    for run in report.grid.runs:
        score, places = run.score(report.metric), decimals(run.panel.test_images)
        texts = [
            report.grid.loss_titles[str(run.settings["loss"])], str(run.settings["batch_size"]), str(run.cell.seed),
            run.status, DASH if score is None else percent(score, places),
        ]  # fmt: skip
        link = f"../records/{run.record.id}.json" if run.record else None
        rows.append([*panel_entries(run.panel), *map(Entry, texts), Entry(run.cell.id, link=link)])
    return Table(header, rows, numeric_from=len(header))


def accuracy(grid: Grid, summaries: Sequence[Summary]) -> Table:
    """Loss x batch size: mean +- half-width (n) in percent, with the random encoder and chance beneath."""
    return _by_batch_size(grid, summaries, _accuracy_entry, chance=True)


def effects(report: Report, found: Sequence[Effect], *, names: tuple[str, str], correlation: bool = False) -> Table:
    """Paired effects, one a row; `names` says what the two sides of the pair are."""
    axes = panel_header(report.grid)
    extra = ["correlation"] if correlation else []
    tests = ["p", "p (Holm)", "p (sign flip)", *(["p (equivalent)"] if report.plan.report.equivalence_margin else [])]
    numbers = [*names, "difference", "95 % interval", "verdict", "pairs", *extra, *tests]
    header = [*axes, "loss", "batch size", *numbers]
    rows = [
        [*panel_entries(effect.panel), *_effect_entries(report, effect, correlation=correlation)] for effect in found
    ]
    return Table(header, rows, numeric_from=len(axes) + 1)


def curve_data(report: Report) -> Table:
    """What Figure 1 shows, one mean a row, with the two errors that a mean has."""
    axes = panel_header(report.grid)
    header = [*axes, "loss", "batch size", "n", "mean", "95 % interval", "sd of seeds", "sd of test sampling"]
    rows = []
    for summary in report.accuracy:
        places, found = decimals(summary.panel.test_images), summary.estimate
        numbers = [DASH] * 4
        if found:
            ends = (
                DASH
                if found.low is None or found.high is None
                else f"{percent(found.low, places)} to {percent(found.high, places)}"
            )
            spread = DASH if found.sd is None else percent(found.sd, places)
            sampling = percent(sampling_sd(found.mean, summary.panel.test_images), places)
            numbers = [percent(found.mean, places), ends, spread, sampling]
        batch = DASH if summary.batch_size is None else str(summary.batch_size)
        texts = [_loss_title(report, summary), batch, f"{len(summary.scores)}/{summary.planned}", *numbers]
        rows.append([*panel_entries(summary.panel), *map(Entry, texts)])
    return Table(header, rows, numeric_from=len(axes) + 1)


def failures(report: Report, logs: Collection[str] = ()) -> Table:
    """Every run that ended without a result, linked to its record and, where `logs` has its id, to its log."""
    header = [*panel_header(report.grid), "loss", "batch size", "seed", "status", "last step", "error", "record", "log"]
    rows = []
    for run in report.grid.failures():
        if run.record is None or run.record.failure is None:
            continue
        failure = run.record.failure
        planned = run.cell.pretraining is not None
        loss = report.grid.loss_titles[str(run.settings["loss"])] if planned else RANDOM_ENCODER
        where = [loss, str(run.settings["batch_size"]) if planned else DASH, str(run.cell.seed), run.status]
        step = "none" if failure.step is None else f"{failure.step:,}"
        error = Entry(_shortened(f"{failure.kind}: {failure.message}", 200))
        link = Entry(run.record.id, link=f"../records/{run.record.id}.json")
        log = Entry("log", link=f"../logs/{run.record.id}.log") if run.record.id in logs else Entry(DASH)
        rows.append([*panel_entries(run.panel), *map(Entry, [*where, step]), error, link, log])
    return Table(header, rows, numeric_from=len(header))


def provenance(facts: Sequence[Fact]) -> Table:
    """Fact, value, number of records."""
    rows = [
        [Entry(fact.name if first else ""), Entry(value), Entry(str(number), bold=fact.mixed)]
        for fact in facts
        for first, (value, number) in zip(
            [True, *[False] * len(fact.values)], sorted(fact.values.items()), strict=False
        )
    ]
    return Table(["", "value", "records"], rows, numeric_from=2)


def _by_batch_size(
    grid: Grid, summaries: Sequence[Summary], entry: Callable[[Summary], Entry], *, chance: bool = False
) -> Table:
    sizes = grid.batch_sizes()
    found = {(summary.panel, summary.loss, summary.batch_size): summary for summary in summaries}
    rows = []
    for panel in grid.panels:
        for loss in grid.losses:
            cells = [found.get((panel, loss, size)) for size in sizes]
            if any(cells):
                entries = [entry(cell) if cell else Entry("") for cell in cells]
                rows.append([*panel_entries(panel), Entry(grid.loss_titles[loss]), *entries])
        beneath = [(RANDOM_ENCODER, entry(found[panel, None, None]))]
        if chance:
            beneath.append((CHANCE, Entry(percent(panel.chance, decimals(panel.test_images)))))
        rows += [[*panel_entries(panel), Entry(name), *[value] * len(sizes)] for name, value in beneath]
    header = [*panel_header(grid), "loss", *(f"batch {size}" for size in sizes)]
    return Table(header, rows, numeric_from=len(header) - len(sizes))


def _progress(summary: Summary) -> str:
    """Such as ``● 5/5``, ``◐ 3/5, diverged 1, todo 1``, ``✕ 0/5, oom 5`` or ``○ todo``."""
    done = summary.statuses[Status.DONE]
    others = [f"{status} {summary.statuses[status]}" for status in [*Status, TODO] if summary.statuses[status]]
    others = [text for text in others if not text.startswith(Status.DONE)]
    if summary.statuses[TODO] == summary.planned:
        return "\u25cb todo"
    glyph = "\u25cf" if done == summary.planned else "\u25d0" if done else "\u2715"
    return ", ".join([f"{glyph} {done}/{summary.planned}", *others])


def _accuracy_entry(summary: Summary) -> Entry:
    found, places = summary.estimate, decimals(summary.panel.test_images)
    n = str(summary.planned) if summary.complete else f"{len(summary.scores)}/{summary.planned}"
    if found is None:
        return Entry(f"{DASH} ({n})", muted=True)
    half_width = "" if found.half_width is None else f" {PLUS_MINUS} {percent(found.half_width, places)}"
    return Entry(f"{percent(found.mean, places)}{half_width} ({n})", bold=summary.near_best, muted=not summary.complete)


def _effect_entries(report: Report, effect: Effect, *, correlation: bool) -> list[Entry]:
    places, found, means = decimals(effect.panel.test_images), effect.estimate, effect.paired.means
    numbers = [DASH] * 4
    if found and means:
        sides = [points(mean, places, sign=False) for mean in means]
        numbers = [*sides, points(found.mean, places), interval(found, places)]
    pairs = effect.planned if found and found.n == effect.planned else f"{found.n if found else 0}/{effect.planned}"
    r = effect.paired.correlation
    extra = [DASH if r is None else f"{r:.2f}".replace("-", MINUS)] if correlation else []
    verdict = Entry(effect.verdict, bold=effect.resolved or effect.equivalent)
    where = [report.grid.subject(effect.losses), str(effect.batch_size)]
    shown = [str(pairs), *extra, p_value(effect.paired.p)]
    tests = [Entry(p_value(effect.p_holm), bold=effect.resolved), Entry(p_value(effect.paired.sign_flip))]
    if report.plan.report.equivalence_margin:
        shown_bold = effect.equivalent and effect.p_equivalence is not None
        tests.append(Entry(p_value(effect.p_equivalence), bold=shown_bold))
    return [*map(Entry, where), *map(Entry, numbers), verdict, *map(Entry, shown), *tests]


def _loss_title(report: Report, summary: Summary) -> str:
    return RANDOM_ENCODER if summary.loss is None else report.grid.loss_titles[summary.loss]


def panel_header(grid: Grid) -> list[str]:
    """The columns that name a panel."""
    return ["dataset", *grid.axes]


def panel_entries(panel: Panel) -> list[Entry]:
    """The entries that name a panel."""
    return [Entry(panel.dataset_title), *(Entry(str(value)) for _, value in panel.variant)]


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}\u2026"
