"""Cells that share a GPU by measured memory, on a cluster that says it has one."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ablation.cost import measured
from ablation.cost.measured import Measurement, Measurements, normal_form
from ablation.plan import read
from tests.faults.harness import Sweep

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

GB = 10**9
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "num_gpus": 1, "include_dashboard": False})
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with (
        (tmp_path / "cluster.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def spans(sweep: Sweep) -> dict[int, list[tuple[float, float]]]:
    """Batch size -> when each of its cells began and ended; the log has whole seconds."""
    found: dict[int, list[tuple[float, float]]] = {}
    for cell_id, record in sweep.records().items():
        if record.cell.pretraining:
            began = datetime.fromisoformat(sweep.ledger.log_file(cell_id).read_text().split()[0]).timestamp() + 1
            ended = (sweep.ledger.folder / "records" / f"{cell_id}.json").stat().st_mtime
            found.setdefault(record.cell.pretraining.batch_size, []).append((began, ended))
    return found


def test_two_cells_of_half_the_memory_run_at_once_and_one_that_needs_it_all_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    home = tmp_path / "home"
    monkeypatch.setattr(measured, "cache_folder", lambda: home / ".cache" / "ablation")
    sweep = Sweep(tmp_path)
    sweep.sweep["grid"]["batch_size"] = [8, 16]
    sweep.sweep["base"]["budget"] = {"steps": 100}
    sweep.write()
    plan = read(sweep.file)
    peaks = {8: 9 * GB, 16: 20 * GB}
    found = []
    for normal in (normal_form(planned.cell) for planned in plan.cells):
        assert normal.pretraining is not None
        peak = peaks[normal.pretraining.batch_size]
        found.append(Measurement(cell=normal, device="GPU", gpus=1, gpu_memory=24 * GB, step=0.01, peak=peak))
    Measurements().joined(found, plan.resources).save()
    arguments = ("run", str(sweep.file), "--results", str(tmp_path / "results"), "--address", address)
    code, output = sweep.run(*arguments, HOME=str(home))
    assert code == 0, output
    half, whole = (spans(sweep)[size] for size in (8, 16))
    assert any(one[0] < other[1] and other[0] < one[1] for i, one in enumerate(half) for other in half[i + 1 :])
    others = [*half, *whole]
    assert all(one is other or one[0] >= other[1] or other[0] >= one[1] for one in whole for other in others)
