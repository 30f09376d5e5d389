"""A cluster that is not ours: two nodes, of which one dies in the middle."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.harness import Sweep

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1)
print(cluster.address, node.all_processes["raylet"][0].process.pid, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The address, and the process that is the second node."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with (
        (tmp_path / "cluster.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        address, pid = process.stdout.readline().split()
        yield address, int(pid)
        process.stdin.close()


def test_a_node_that_dies_costs_nothing(undisturbed: Sweep, tmp_path: Path, cluster: tuple[str, int]) -> None:
    address, raylet = cluster
    sweep = Sweep(tmp_path)
    sweep.write()
    process = sweep.start("run", str(sweep.file), "--results", str(tmp_path / "results"), "--address", address)
    sweep.wait_for(lambda: list(sweep.ledger.folder.glob("records/*.json")))
    psutil.Process(raylet).kill()
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    assert sweep.deterministic() == undisturbed.deterministic()


def test_a_cluster_that_does_not_answer_is_a_users_error(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    code, output = sweep.run("run", str(sweep.file), "--results", str(tmp_path / "results"), "--address", "127.0.0.1:1")
    assert code == 2, output
    assert "can't reach a Ray cluster at 127.0.0.1:1" in output
    assert "Traceback" not in output
