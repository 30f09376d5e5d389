"""What cells cost: measured, kept, and turned into a plan's hours and shares of GPUs."""

import sys
from pathlib import Path
from typing import Any

import pytest

from ablation import catalog, plan_text
from ablation.cell import Cell, Component, Evaluation, LearningRate, Probe
from ablation.cost import estimate, measured, probe
from ablation.cost.estimate import STARTUP, Costs, Estimate, share
from ablation.cost.measure import measure
from ablation.cost.measured import Measurement, Measurements, normal_form
from ablation.cost.probe import Order
from ablation.plan import Plan, Resources, read
from tests.cells import cell

GB = 10**9
SWEEP = """\
name: costs
grid: {loss: [infonce, flatnce], batch_size: [8, 16], dataset: [digits], seed: 2}
base:
  encoder: {name: resnet8, width: 4}
  temperature: 0.1
  budget: {steps: 1000}
  optimizer: {name: sgd, momentum: 0.9}
  learning_rate: {base: 0.3, rule: sqrt}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measured, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return read(tmp_path / "sweep.yaml")


def known(plan: Plan, **changes: object) -> Measurements:
    """A step takes a millisecond for each image of its batch, an evaluation a second, a run's curve two."""
    found = []
    for planned in plan.cells:
        normal = normal_form(planned.cell)
        assert normal.pretraining is not None
        given = {"step": normal.pretraining.batch_size / 1000, "evaluation": 1.0, "curve": 2.0, "peak": GB, **changes}
        found.append(Measurement.model_validate({"cell": normal, "device": "test", **given}))
    return Measurements().joined(found, plan.resources)


# What stands for what.


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": Component(name="flatnce")},
        {"steps": 99},
        {"temperature": 0.5},
        {"learning_rate": LearningRate(peak=3.0, warmup_steps=0, schedule="constant")},
        {"optimizer": Component(name="sgd", parameters={"momentum": 0.0, "nesterov": False, "weight_decay": 0.1})},
    ],
)
def test_what_costs_nothing_is_measured_once(changes: dict[str, Any]) -> None:
    assert normal_form(cell(**changes)).id == normal_form(cell(seed=4)).id


@pytest.mark.parametrize(
    "changes",
    [{"batch_size": 32}, {"precision": "float64"}, {"loss_dtype": "float64"}, {"norm_batch": 4}, {"negatives": 3}],
)
def test_what_costs_is_measured_apart(changes: dict[str, Any]) -> None:
    assert normal_form(cell(**changes)).id != normal_form(cell()).id


def test_the_classifier_costs() -> None:
    solver = Probe(solver="sgd", epochs=1, batch_size=64, learning_rate=0.1, momentum=0.9, weight_decay=0.0)
    judged = cell().model_copy(update={"evaluation": Evaluation(probe=solver)})
    assert normal_form(judged).id != normal_form(cell()).id
    assert normal_form(judged).evaluation.probe == solver


# The probe.


def test_a_few_real_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "LONG_ENOUGH", 0.05)
    found = probe.measure(Order(cell=normal_form(cell()), threads=1, gpu=False))
    assert found.failure is None
    assert 0 < found.step < 60
    assert found.evaluation > 0
    assert found.curve > 0
    assert found.peak > 50 * 10**6  # a process with torch
    assert found.gpus == 0


def test_a_batch_beyond_the_memory_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def training(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(probe, "Training", training)
    found = probe.measure(Order(cell=normal_form(cell()), threads=1, gpu=False))
    assert found.failure == "out of memory"


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("kill -9 $$", "out of memory"),
        ("echo 'ImportError: no torch' >&2; exit 1", "ImportError: no torch"),
        ("exit 7", "exit code 7"),
    ],
)
def test_a_process_that_dies_is_a_row_and_no_crash(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, failure: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    told: list[Measurement] = []
    found = measure(plan, told.append)
    assert [one.failure for one in found] == [failure] * 2
    assert told == found
    text = " ".join(plan_text.describe(plan, Measurements().joined(found, plan.resources)).split())
    assert f"time: not known; resnet8, 8 x 8, batch size 8: {failure}; resnet8, 8 x 8, batch size 16: {failure}" in text


@pytest.mark.slow
def test_each_kind_is_measured_once_in_a_process_of_its_own(plan: Plan) -> None:
    found = measure(plan, lambda _: None)
    assert [one.failure for one in found] == [None, None]
    assert Estimate(plan, Costs(plan.resources, Measurements().joined(found, plan.resources))).total


# What is kept.


def test_measurements_are_kept_and_joined(plan: Plan) -> None:
    first, second = known(plan), known(plan, step=9.0)
    first.save()
    assert Measurements.load() == first
    first.joined(second.found.values(), plan.resources).save()
    assert Measurements.load() == second


def test_a_damaged_file_counts_as_none(plan: Plan, cache: Path) -> None:
    known(plan).save()
    (file,) = cache.rglob("*.json")
    file.write_bytes(file.read_bytes()[:-2])
    assert Measurements.load() == Measurements()


def test_other_resources_need_other_measurements(plan: Plan) -> None:
    found = known(plan)
    assert found.of(plan.cells[0].cell, Resources(cpus_per_trial=2)) is None
    assert found.of(plan.cells[0].cell, Resources(gpus_per_trial=0)) is None
    assert found.of(plan.cells[0].cell, Resources(compile=True)) is None
    assert found.of(plan.cells[0].cell, Resources(micro_batch=8)) is None
    assert found.of(plan.cells[0].cell, Resources(compile="auto")) is not None


# Estimates.


def test_seconds_of_cells_and_of_the_sweep(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "usable_cpus", lambda: 2)
    costs = Costs(plan.resources, known(plan))
    assert costs.seconds(plan.cells[0].cell) == pytest.approx(1000 * 0.008 + 2 + 1)
    assert costs.seconds(plan.baselines()[0]) == 1.0
    found = Estimate(plan, costs)
    assert found.at_once == 2
    assert found.total == pytest.approx(STARTUP + 2 * 19 + 2 * 11 + 1)  # on each of two CPUs
    text = plan_text.describe(plan, known(plan))
    assert "time: about 71 s on this machine, 2 at once, by measured steps; the longest cell 19 s" in text
    (row,) = [line for line in text.splitlines() if line.startswith("resnet8, 8 x 8, batch size 16 ")]
    assert row.split()[-10:] == ["16", "4", "16", "ms", "1,000", "1", "GB", "19", "s", "0"]


def test_an_encoder_that_several_cells_judge_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "usable_cpus", lambda: 1)
    both = SWEEP.replace("seed: 2}", "seed: 2, probe.solver: [lbfgs, sgd]}")
    (tmp_path / "sweep.yaml").write_text(both)
    plan = read(tmp_path / "sweep.yaml")
    assert len(plan.cells) == 16
    found = Estimate(plan, Costs(plan.resources, known(plan)))
    assert sorted(found.seconds.values() if found.seconds else ()) == [1.0] * 12 + [11.0] * 4 + [19.0] * 4


def test_a_plan_says_that_nothing_is_measured(plan: Plan) -> None:
    assert "time: not measured on this machine; `ablation plan --measure FILE` does it" in plan_text.describe(plan)


def test_costs_in_relation_are_measured_ones_only_if_all_are(plan: Plan) -> None:
    cells = plan.runs()
    assert Costs(plan.resources, known(plan)).relative(cells)[cells[0].id] == 11.0
    other = cell(batch_size=64)
    costs = Costs(plan.resources, known(plan)).relative([*cells, other])
    assert costs[other.id] == other.relative_cost


# GPUs.


def of_peak(peak: int, gpu_memory: int, gpus: int = 1) -> Measurement:
    return Measurement(cell=normal_form(cell()), device="GPU", gpus=gpus, gpu_memory=gpu_memory, step=0.1, peak=peak)


@pytest.mark.parametrize(
    ("peak", "memory", "trials"),
    [
        (int(1.8 * GB), 24 * GB, 8),  # of 21.6 usable; 2.6 with the context
        (int(2.1 * GB), 24 * GB, 7),
        (9 * GB, 24 * GB, 2),
        (12 * GB, 24 * GB, 1),
        (30 * GB, 24 * GB, 1),  # too large: it gets the whole GPU, and its record says oom
        (10**6, 80 * GB, 8),  # more would wait for each other
    ],
)
def test_the_share_of_a_gpu_leaves_head_room(peak: int, memory: int, trials: int) -> None:
    assert share(of_peak(peak, memory)) == 1 / trials


def test_every_trial_has_its_own_copy_of_the_dataset_on_the_gpu() -> None:
    data = catalog.DATASETS["cifar10"]
    images = 60_000 * 3 * 32 * 32
    assert images == (data.images + data.test_images) * data.channels * data.image_size**2
    digits = of_peak(int(2.2 * GB), 24 * GB)
    assert share(digits) == 1 / 7
    cifar = Cell(**{**dict(digits.cell), "dataset": Component(name="cifar10")})
    assert share(digits.model_copy(update={"cell": cifar})) == 1 / 6


def test_auto_packs_by_memory_and_a_number_is_a_number(plan: Plan) -> None:
    packed = known(plan, gpus=2, gpu_memory=24 * GB, peak=9 * GB)
    first = plan.cells[0].cell
    assert Costs(Resources(), packed).request(first, gpus=True) == (1.0, 0.5)
    assert Costs(Resources(), packed).request(first, gpus=False) == (1.0, 0.0)
    assert Costs(Resources(), Measurements()).request(first, gpus=True) == (1.0, 1.0)
    assert Costs(Resources(gpus_per_trial=0.25), packed).request(first, gpus=False) == (1.0, 0.25)
    lines = plan_text.describe(plan, packed).splitlines()
    (row,) = [line for line in lines if "batch size 8 " in line and "resnet8" in line]
    assert row.endswith(" 1/2")
