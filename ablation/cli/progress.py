"""What a user sees of a running sweep: a live table on a terminal, one line per finished cell elsewhere."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ablation.cell import Cell
from ablation.cost.estimate import Costs
from ablation.plan import Plan
from ablation.plan_text import duration
from ablation.record import Record, Status

if TYPE_CHECKING:
    from ablation.trial import Progress  # imports torch, which `--help` must not wait for


def names(plan: Plan) -> dict[str, str]:
    """Cell id -> the axis values that tell the cell from the others, baselines included."""
    axes = {"loss", "batch_size", *plan.axes}
    shown: dict[str, str] = {}
    for planned in plan.cells:
        settings = {key: value for key, value in planned.settings.items() if key in axes}
        shown[planned.cell.id] = " ".join(
            str(value) if key in {"loss", "dataset"} else f"{key}={value}" for key, value in settings.items()
        )
    for planned in plan.cells:
        bare = planned.cell.baseline()
        shown[bare.id] = f"random-init {bare.encoder.name} {planned.settings['dataset']} seed={bare.seed}"
    return shown


def rate(cell: Cell) -> str:
    """The resolved learning rate, in words; empty for the baseline."""
    return f"peak learning rate {cell.pretraining.learning_rate.peak:.4g}" if cell.pretraining else ""


def progress_line(progress: "Progress") -> str:
    """Where a running cell is."""
    return (
        f"step {progress.step:,}/{progress.steps:,}  loss {progress.loss:.4f}  "
        f"{progress.samples_per_second:,.0f} samples/s"
    )


def result(record: Record) -> str:
    """How a cell ended, in a few words."""
    if record.outcome:
        accuracies = ", ".join(f"{name} {value:.4f}" for name, value in record.outcome.metrics.items())
        samples, seconds = record.outcome.samples, record.timings.get("pretraining", 0.0)
        speed = f", {samples / seconds:,.0f} samples/s" if seconds else ""
        return f"{accuracies} ({sum(record.timings.values()):.1f} s{speed})"
    assert record.failure is not None
    at = "" if record.failure.step is None else f" after step {record.failure.step}"
    lines = record.failure.message.strip().splitlines() or [""]
    return f"{record.status}{at}: {record.failure.kind}: {lines[-1]}"


class SweepDisplay:
    """Shows a sweep's progress; a context manager. `before` are the records that were there at the start."""

    def __init__(self, plan: Plan, before: Mapping[str, Record], console: Console) -> None:
        self._console = console
        self._names = names(plan)
        self._cells = {cell.id: cell for cell in plan.runs()}
        self._statuses = {i: before[i].status for i in self._cells if i in before}
        self._left = Costs.load(plan.resources).relative(c for i, c in self._cells.items() if i not in before)
        self._all = sum(self._left.values())
        self._running: dict[str, Progress | None] = {}
        self._start = time.monotonic()
        self._stopping = False
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=2, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def began(self, cell_id: str) -> None:
        """See `ablation.schedule.Display`."""
        self._running[cell_id] = None

    def progress(self, cell_id: str, progress: "Progress") -> None:
        """See `ablation.schedule.Display`."""
        self._running[cell_id] = progress

    def ended(self, cell_id: str, record: Record | None) -> None:
        """See `ablation.schedule.Display`."""
        self._running.pop(cell_id, None)
        if record is None:
            return
        self._statuses[cell_id] = record.status
        self._left.pop(cell_id, None)
        note = rate(record.cell)
        count = f"[{len(self._statuses)}/{len(self._cells)}]"
        line = f"{count} {self._names[cell_id]}: {result(record)}{'; ' + note if note else ''}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def stopping(self, reason: str) -> None:
        """See `ablation.schedule.Display`."""
        self._stopping = True
        self._console.print(reason, markup=False, highlight=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        done = sum(status is Status.DONE for status in self._statuses.values())
        failed = len(self._statuses) - done
        waiting = len(self._cells) - len(self._statuses) - len(self._running)
        head = f"{done} done, {len(self._running)} running, {waiting} waiting, {failed} failed"
        table = Table("cell", "step", "", "loss", "samples/s", box=None, pad_edge=False, header_style="dim")
        for cell_id, progress in self._running.items():
            name = self._names[cell_id]
            if progress is None:
                table.add_row(name, "", "", "", "")
                continue
            table.add_row(
                name,
                f"{progress.step:,}/{progress.steps:,}",
                ProgressBar(total=progress.steps, completed=progress.step, width=16),
                f"{progress.loss:.4f}",
                f"{progress.samples_per_second:,.0f}",
            )
        return Group(f"{head}{' (stopping)' if self._stopping else ''}; {self._eta()}", table)

    def _eta(self) -> str:
        running = ((self._left.get(i, 0.0), p.step / p.steps) for i, p in self._running.items() if p)
        left = sum(self._left.values()) - sum(cost * share for cost, share in running)
        share_done = 1 - left / self._all if self._all else 1.0
        elapsed = time.monotonic() - self._start
        if share_done < 0.01:
            return "estimating the time left"
        return f"about {duration(elapsed * (1 - share_done) / share_done)} left"
