"""Measures what a plan's cells cost, on this machine and in processes of their own."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pydantic import ValidationError

from ablation.cost.measured import Measurement, normal_form
from ablation.cost.probe import Order
from ablation.environment import default_device
from ablation.host import usable_cpus
from ablation.plan import Plan
from ablation.pretrain.execution import Execution

TIMEOUT = 900.0  # seconds for one measurement
KILLED = -9  # exit code of a process that the system ended, as it does where memory is short


def measure(plan: Plan, tell: Callable[[Measurement], None]) -> list[Measurement]:
    """What each kind of cell of the plan costs; `tell` hears of each as soon as it is known.

    On CPUs as many are measured at once as a sweep runs, since they slow each other down; on a GPU one at a time.
    """
    kinds = {normal.id: normal for normal in (normal_form(planned.cell) for planned in plan.cells)}
    threads, gpu = plan.resources.cpus_per_trial, plan.resources.gpus_per_trial != 0
    # by auto, long runs are compiled, which makes them faster: what is measured is the most that they take
    execution = Execution.of(plan.resources).model_copy(update={"compile": plan.resources.compile is True})
    orders = [Order(cell=cell, threads=threads, gpu=gpu, execution=execution) for cell in kinds.values()]
    orders.sort(key=lambda order: order.cell.relative_cost, reverse=True)
    on_cpu = not gpu or default_device().type == "cpu"
    found = []
    with ThreadPoolExecutor(max(1, usable_cpus() // threads) if on_cpu else 1) as pool:
        for one in pool.map(partial(_measured, timeout=TIMEOUT), orders):
            tell(one)
            found.append(one)
    return found


def _measured(order: Order, timeout: float) -> Measurement:
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "ablation.cost.probe"],
            input=order.model_dump_json(),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        return Measurement.model_validate_json(ended.stdout)
    except subprocess.TimeoutExpired:
        failure = f"not measured within {timeout:g} s"
    except ValidationError:
        lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        failure = "out of memory" if ended.returncode == KILLED else lines[-1]
    return Measurement(cell=order.cell, device="", failure=failure)
