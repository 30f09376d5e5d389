"""Ids: what they depend on, and that they never change by themselves."""

from typing import Any

import pytest
from pydantic import ValidationError

from ablation.cell import Cell, Component, LearningRate, Pretraining, Probe, Projection, Views
from tests.cells import cell, pretraining

CHANGES: list[dict[str, Any]] = [
    {"loss": Component(name="flatnce")},
    {"batch_size": 17},
    {"steps": 13},
    {"temperature": 0.2},
    {"projection": Projection(hidden=16, out=17)},
    {"optimizer": Component(name="sgd", parameters={"momentum": 0.5})},
    {"optimizer": Component(name="adam")},
    {"learning_rate": LearningRate(peak=0.2, warmup_steps=2, schedule="cosine")},
    {"learning_rate": LearningRate(peak=0.1, warmup_steps=3, schedule="cosine")},
    {"learning_rate": LearningRate(peak=0.1, warmup_steps=2, schedule="constant")},
    {"views": Views(crop_scale=(0.3, 1.0), flip=False, jitter=0.5, grayscale=0.0, blur=0.0)},
    {"views": Views(crop_scale=(0.2, 1.0), flip=True, jitter=0.5, grayscale=0.0, blur=0.0)},
    {"temperature_control": Component(name="learned")},
    {"temperature_control": Component(name="learned", parameters={"minimum": 0.01})},
    {"loss_dtype": "float16"},
    {"gradient_scaling": True},
    {"precision": "float64"},
    {"negatives": 6},
    {"norm_batch": 8},
    {"learning_curve": "log"},
]


def test_ids_are_those_of_the_first_release() -> None:
    """A changed default or field order would rename every record there is; if this fails, mend the change."""
    assert cell().pretraining_key == "851071ba4be16546"
    assert cell().id == "18b2951343cffa3a"
    assert cell().baseline().id == "1e41d961b22acace"


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_field_of_the_pretraining_changes_both_ids(change: dict[str, Any]) -> None:
    assert cell(**change).pretraining_key != cell().pretraining_key
    assert cell(**change).id != cell().id


def test_changes_name_every_field() -> None:
    assert {key for change in CHANGES for key in change} == set(Pretraining.model_fields)


def test_seed_dataset_and_encoder_change_both_ids() -> None:
    others = [
        cell(seed=1),
        cell().model_validate({**cell().model_dump(), "dataset": {"name": "mnist"}}),
        cell().model_validate({**cell().model_dump(), "encoder": {"name": "resnet18"}}),
        cell().baseline(),
    ]
    assert len({other.pretraining_key for other in others} | {cell().pretraining_key}) == 5
    assert len({other.id for other in others} | {cell().id}) == 5


def test_another_protocol_version_keeps_the_pretraining() -> None:
    other = Cell.model_validate({**cell().model_dump(), "evaluation": {"version": 2}})
    assert other.pretraining_key == cell().pretraining_key
    assert other.id != cell().id


SGD = {"solver": "sgd", "epochs": 100, "batch_size": 4096, "learning_rate": 1.6, "momentum": 0.9, "weight_decay": 0.0}


def test_another_probe_is_another_evaluation_of_the_same_pretraining() -> None:
    def probed(probe: dict[str, Any] | None) -> Cell:
        return Cell.model_validate({**cell().model_dump(), "evaluation": {"probe": probe}})

    changes = {"epochs": 90, "batch_size": 256, "learning_rate": 0.1, "momentum": 0.0, "weight_decay": 1e-6}
    probes = [SGD, *({**SGD, key: value} for key, value in changes.items())]
    assert {"solver", *changes} == set(SGD) == set(Probe.model_fields)
    assert probed(None).id == cell().id
    assert len({cell().id, *(probed(probe).id for probe in probes)}) == 1 + len(probes)
    assert {probed(probe).pretraining_key for probe in probes} == {cell().pretraining_key}
    assert probed(SGD).id == "d825d2c0e6459db5"
    assert probed(SGD).baseline().id not in (cell().baseline().id, probed(SGD).id)


def test_a_parameter_at_its_permanent_default_is_left_out() -> None:
    spelled = Component(name="sgd", parameters={"momentum": 0.9, "nesterov": False, "weight_decay": 1e-5})
    short = Component(name="sgd", parameters={"weight_decay": 1e-5})
    assert cell(optimizer=spelled).id == cell(optimizer=short).id


def test_a_field_of_a_later_release_at_its_permanent_default_is_left_out() -> None:
    spelled: dict[str, Any] = {
        "temperature_control": Component(name="fixed"),
        "loss_dtype": "float32",
        "gradient_scaling": False,
    }
    assert cell(**spelled, precision="float32", negatives=None, norm_batch=None, learning_curve="even").id == cell().id


def test_a_baseline_depends_on_encoder_dataset_and_seed_only() -> None:
    assert cell(batch_size=64, temperature=0.5).baseline().id == cell().baseline().id
    assert cell(seed=1).baseline().id != cell().baseline().id
    first = cell()
    assert first.id != first.baseline().id  # also when the first id was computed before


def test_json_round_trip_keeps_the_id() -> None:
    assert Cell.model_validate_json(cell().model_dump_json()).id == cell().id


@pytest.mark.parametrize("bad", [{"temperature": float("nan")}, {"temperature": float("inf")}, {"unknown": 1}])
def test_not_a_number_and_unknown_fields_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        pretraining(**bad)
