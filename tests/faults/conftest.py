"""The sweep that nobody disturbed, to compare the others with."""

import pytest

from tests.faults.harness import Sweep


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    sweep = Sweep(tmp_path_factory.mktemp("undisturbed"))
    code, output = sweep.run()
    assert code == 0, output
    return sweep
