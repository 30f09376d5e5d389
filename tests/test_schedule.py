"""What runs beside what."""

from ablation.cell import Evaluation
from ablation.schedule import waves
from tests.cells import SGD, cell


def test_cells_of_one_encoder_wait_for_the_first_of_them() -> None:
    usual = [cell(seed) for seed in range(3)]
    probed = [one.model_copy(update={"evaluation": Evaluation(probe=SGD)}) for one in usual]
    assert waves([*usual, *probed]) == [usual, probed]
    assert waves([probed[1], *usual]) == [[probed[1], usual[0], usual[2]], [usual[1]]]
    assert waves(usual) == [usual]
