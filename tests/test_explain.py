"""Why a cell would run: the fields that set it apart."""

from hypothesis import given
from hypothesis import strategies as st

from ablation.cell import Cell, Component, Evaluation, LearningRate
from ablation.explain import differences, fields, nearest, reasons
from tests.cells import SGD, cell


def test_fields_have_the_names_of_a_sweep_file() -> None:
    found = fields(cell())
    assert found["loss"] == "infonce"
    assert found["optimizer.momentum"] == 0.9
    assert found["encoder.width"] == 4
    assert found["views.crop_scale"] == (0.2, 1.0)
    assert fields(cell().model_copy(update={"evaluation": Evaluation(probe=SGD)}))["probe.solver"] == "sgd"
    assert "loss" not in fields(cell().baseline())


def test_every_field_of_a_cell_is_one() -> None:
    kept = cell()
    changed = [
        cell(seed=1),
        *(cell(**{name: 3}) for name in ("batch_size", "steps")),
        cell(loss=Component(name="dcl")),
        cell(optimizer=Component(name="adam")),
        cell().model_copy(update={"encoder": Component(name="resnet18")}),
        cell().model_copy(update={"evaluation": Evaluation(version=2)}),
        cell().model_copy(update={"evaluation": Evaluation(probe=SGD)}),
    ]
    assert all(differences(fields(kept), fields(other)) for other in changed)


def test_differences_read_from_old_to_new() -> None:
    old, new = cell(loss=Component(name="dcl")), cell(optimizer=Component(name="adam", parameters={"beta1": 0.9}))
    assert differences(fields(old), fields(new)) == [
        "loss: dcl -> infonce",
        "optimizer: sgd -> adam",
        "optimizer.momentum: 0.9 -> -",
        "optimizer.nesterov: false -> -",
        "optimizer.weight_decay: 1e-05 -> -",
        "optimizer.beta1: - -> 0.9",
    ]


def test_the_nearest_cell_has_the_fewest_differences_of_which_resolved_ones_weigh_least() -> None:
    rate = LearningRate(peak=9.0, warmup_steps=0, schedule="cosine")
    other_rate, other_seed = cell(learning_rate=rate, steps=99), cell(seed=1)
    assert nearest(cell(), [other_seed, other_rate]) == other_rate
    assert nearest(cell(), [cell().baseline()]) is None
    assert nearest(cell().baseline(), [cell(), cell(seed=3).baseline()]) == cell(seed=3).baseline()


def test_reasons_group_cells_by_what_is_new_in_them() -> None:
    recorded = [cell(seed, batch_size=batch) for seed in range(2) for batch in (8, 16)]
    todo = [cell(seed, batch_size=batch) for seed in range(3) for batch in (8, 16, 32)]
    todo = [new for new in todo if new not in recorded]
    assert reasons(todo, recorded) == [
        "2 with new batch_size 32",
        "2 with new seed 2",
        "1 with new seed 2, batch_size 32",
    ]
    assert reasons(todo, []) == ["5 never run"]
    assert reasons([cell(0, batch_size=16)], [cell(0, batch_size=8), cell(1, batch_size=16)]) == ["1 never run"]


def test_long_lists_are_counted() -> None:
    (text,) = reasons([cell(seed) for seed in range(1, 41)], [cell(0)])
    assert text == "40 with new seed 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 30 more"


@given(st.lists(st.integers(0, 5), min_size=1, unique=True), st.lists(st.integers(0, 5), unique=True))
def test_every_cell_has_its_reason(todo: list[int], recorded: list[int]) -> None:
    cells: list[Cell] = [cell(seed) for seed in todo if seed not in recorded]
    texts = reasons(cells, [cell(seed) for seed in recorded])
    assert sum(int(text.split()[0]) for text in texts) == len(cells)
