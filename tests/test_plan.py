"""Plans: what recipes resolve to, what cells are called, what is warned about, and what `ablation plan` prints."""

import json
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from ablation import plan, plan_text, recipe, sweep
from ablation.cell import Cell, Component, LearningRate, Pretraining, Projection, Views
from ablation.errors import UserError
from ablation.plan import Plan
from ablation.sweep import SweepErrors

TEXT = """\
name: t
grid:
  loss: [infonce]
  batch_size: [128]
  dataset: [digits]
  seed: 2
base:
  encoder: resnet8
  budget: {steps: 1000}
  learning_rate: {base: 0.3}
  views: {flip: false, jitter: 0, grayscale: 0}
"""
DIGITS = 1437 - 287  # images that pretraining sees


def build(tmp_path: Path, *overrides: str, text: str = TEXT) -> Plan:
    file = tmp_path / "s.yaml"
    file.write_text(text, encoding="utf-8")
    return plan.read(file, overrides)


def pretraining(tmp_path: Path, *overrides: str) -> Pretraining:
    run = build(tmp_path, *overrides).cells[0].cell.pretraining
    assert run is not None
    return run


def shown(planned: Plan, axis: str) -> list[Any]:
    return [cell.settings[axis] for cell in planned.cells]


# Resolution.


@pytest.mark.parametrize(
    ("budget", "batch", "steps"),
    [
        ("{steps: 1000}", 128, 1000),
        ("{samples: 64_000}", 128, 500),
        ("{samples: 64_001}", 128, 501),
        ("{samples: 1}", 128, 1),
        ("{epochs: 1}", 128, 9),  # 8.98
        ("{epochs: 10}", 115, 100),
        ("{epochs: 0.07}", 2, 41),  # 40.25
        ("{epochs: 0.14}", 7, 23),  # exactly, though 0.14 x 1150 / 7 is above 23 in floating point
    ],
)
def test_steps_of_a_budget(tmp_path: Path, budget: str, batch: int, steps: int) -> None:
    (planned, _) = build(tmp_path, f"budget={budget}", f"batch_size={batch}").cells
    assert planned.cell.pretraining is not None
    assert planned.cell.pretraining.steps == steps
    assert planned.samples == steps * batch
    assert planned.epochs == pytest.approx(steps * batch / DIGITS)


@given(samples=st.integers(1, 10**9), batch=st.integers(2, 10**5))
def test_a_budget_is_reached_and_by_less_than_a_batch(samples: int, batch: int) -> None:
    point = {**recipe.DEFAULTS, "budget.samples": recipe.Setting(samples, ())}
    steps = recipe.count_steps(point, batch, DIGITS)
    assert (steps - 1) * batch < samples <= steps * batch


@pytest.mark.parametrize(
    ("batch", "linear", "sqrt"),
    [(128, 0.15, 0.85), (256, 0.3, 1.20), (512, 0.6, 1.70), (1024, 1.2, 2.40), (2048, 2.4, 3.39), (4096, 4.8, 4.80),
     (8192, 9.6, 6.79)],
)  # fmt: skip
def test_peak_rates_are_simclr_s(batch: int, linear: float, sqrt: float) -> None:
    assert recipe.peak_rate(0.3, "linear", batch, 256) == pytest.approx(linear)
    assert recipe.peak_rate(1.2, "sqrt", batch, 256) == pytest.approx(sqrt, abs=0.005)
    assert recipe.peak_rate(1.2, "none", batch, 256) == 1.2


@pytest.mark.parametrize(
    ("warmup", "steps"),
    [("0", 0), ("0.1", 100), ("0.0006", 1), ("{steps: 7}", 7), ("{epochs: 10}", 90), ("{epochs: 0.5}", 4)],  # 89.8, 4.5
)
def test_steps_of_the_warm_up(tmp_path: Path, warmup: str, steps: int) -> None:
    assert pretraining(tmp_path, f"learning_rate.warmup={warmup}").learning_rate.warmup_steps == steps


def test_a_share_of_warm_up_is_rounded_to_the_nearest_step() -> None:
    for share, steps in [(0.1, 7), (0.3, 9), (0.29, 100), (0.5, 3)]:
        assert recipe.count_warmup(recipe.Warmup(share, "share"), steps, 8, DIGITS) == round(
            Fraction(str(share)) * steps
        )


def test_a_cell_holds_everything_in_resolved_form(tmp_path: Path) -> None:
    planned = build(
        tmp_path,
        "optimizer={name: sgd, momentum: 0}",
        "learning_rate={base: 1, rule: sqrt, reference_batch: 512}",
        "views.crop_scale=[1, 1]",
    )
    assert planned.cells[1].cell == Cell(
        dataset=Component(name="digits"),
        encoder=Component(name="resnet8", parameters={"width": 16}),
        seed=1,
        pretraining=Pretraining(
            loss=Component(name="infonce"),
            batch_size=128,
            steps=1000,
            temperature=0.1,
            projection=Projection(hidden=128, out=128),
            optimizer=Component(name="sgd", parameters={"momentum": 0.0, "nesterov": False, "weight_decay": 0.0}),
            learning_rate=LearningRate(peak=0.5, warmup_steps=100, schedule="cosine"),
            views=Views(crop_scale=(1.0, 1.0), flip=False, jitter=0.0, grayscale=0.0, blur=0.0),
        ),
    )
    assert planned.cells[0].rate == "1 x sqrt(128/512)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("optimizer={name: sgd, momentum: 0}", "optimizer={name: sgd, momentum: 0.0}"),
        ("optimizer=sgd", "optimizer={name: sgd, momentum: 0.9, weight_decay: 0}"),
        ("learning_rate={base: 0.3, rule: sqrt, reference_batch: 128}", "learning_rate={base: 0.3}"),
        ("budget={steps: 1000}", "budget={samples: 128_000}"),
        ("learning_rate={base: 0.3, warmup: 0.1}", "learning_rate={base: 0.3, warmup: {steps: 100}}"),
        ("loss={name: infonce, label: x}", "loss=infonce"),
        ("encoder={name: resnet8, width: 16}", "encoder=resnet8"),
        ("temperature=1", "temperature=1.0"),
        ("resources.time_limit=2h", "name=other"),
    ],
)
def test_recipes_of_one_computation_share_its_id(tmp_path: Path, one: str, other: str) -> None:
    assert [p.cell.id for p in build(tmp_path, one).cells] == [p.cell.id for p in build(tmp_path, other).cells]


# Settings and axes.


def test_standard_axes_come_first_and_the_others_follow(tmp_path: Path) -> None:
    planned = build(tmp_path, "grid.temperature=[0.1, 0.5]", "grid.views.blur=[0.5]")
    assert list(planned.cells[0].settings) == ["dataset", "loss", "batch_size", "seed", "temperature", "views.blur"]
    assert planned.axes == ["seed", "temperature"]


@pytest.mark.parametrize(
    ("axis", "values", "names"),
    [
        ("optimizer", "[sgd, {name: sgd, momentum: 0.5, nesterov: true}, {name: adam, label: Adam, eps: 1}]",
         ["sgd", "sgd momentum=0.5 nesterov=true", "Adam"]),
        ("optimizer.momentum", "[0, 0.5]", [0.0, 0.5]),
        ("encoder.name", "[resnet8, resnet18]", ["resnet8", "resnet18"]),
        ("projection", "[{hidden: 32}, {out: 64}]", ["hidden=32", "out=64"]),
        ("learning_rate", "[{base: 0.1}, {base: 0.3, rule: sqrt, warmup: {epochs: 1}}]",
         ["base=0.1", "base=0.3 rule=sqrt warmup=1 epochs"]),
        ("learning_rate.warmup", "[0, {steps: 10}]", ["0", "10 steps"]),
        ("views", "[{flip: false}, {crop_scale: [0.2, 1]}]", ["flip=false", "crop_scale=0.2-1"]),
        ("views.crop_scale", "[[0.2, 1], [0.123456789, 1]]", ["0.2-1", "0.123456789-1"]),
        ("budget", "[{steps: 600}, {epochs: 100}]", ["steps=600", "epochs=100"]),
        ("views.flip", "[false, true]", [False, True]),
    ],
)  # fmt: skip
def test_values_are_shown_short_and_distinct(tmp_path: Path, axis: str, values: str, names: list[Any]) -> None:
    base = {"encoder": "resnet8", "budget": {"steps": 1000}, "learning_rate": {"base": 0.3}}
    base = {key: value for key, value in base.items() if key != axis.removesuffix(".name")}
    planned = build(tmp_path, f"base={json.dumps(base)}", f"grid.{axis}={values}")
    assert list(dict.fromkeys(shown(planned, axis))) == names
    assert all(type(v) is type(n) for v, n in zip(dict.fromkeys(shown(planned, axis)), names, strict=True))


def test_an_axis_within_another_is_shown_by_it(tmp_path: Path) -> None:
    include = "include=[{loss: dcl, batch_size: 8, dataset: digits, seed: 1, optimizer: adam}]"
    planned = build(tmp_path, "grid.optimizer.momentum=[0.0, 0.5]", include)
    assert list(dict.fromkeys(shown(planned, "optimizer"))) == ["sgd momentum=0", "sgd momentum=0.5", "adam"]
    assert "optimizer.momentum" not in planned.cells[0].settings


def test_a_value_that_a_cell_lacks_is_shown_as_a_dash(tmp_path: Path) -> None:
    include = "include=[{loss: dcl, batch_size: 8, dataset: digits, seed: 1, optimizer.name: adam}]"
    assert shown(build(tmp_path, "grid.optimizer.momentum=[0.5]", include), "optimizer.momentum") == [0.5, 0.5, "-"]


def test_settings_of_two_cells_are_never_equal(tmp_path: Path) -> None:
    overrides = [
        "loss=[infonce, dcl, {name: flatnce, label: f}]", "batch_size=[8, 16]", "dataset=[digits, mnist]",
        "grid.temperature=[0.1, 0.1000001]", "grid.optimizer=[sgd, {name: sgd, momentum: 0.8}]",
        "include=[{loss: infonce, batch_size: 4, dataset: digits, seed: 1, projection: {out: 8}}]",
    ]  # fmt: skip
    planned = build(tmp_path, *overrides)
    assert len(planned.cells) == 3 * 2 * 2 * 2 * 2 * 2 + 1
    assert len({tuple(cell.settings.items()) for cell in planned.cells}) == len(planned.cells)
    assert len({cell.cell.id for cell in planned.cells}) == len(planned.cells)


def test_cells_that_come_to_one_computation_share_its_run_with_a_warning(tmp_path: Path) -> None:
    planned = build(tmp_path, "grid.learning_rate.rule=[none, linear]", "batch_size=[128, 256]")
    assert len(planned.cells) == 8
    assert len(planned.runs()) == 6 + len(planned.baselines())
    (warning,) = planned.warnings
    assert warning.startswith("2 cells share the run of another, such as learning_rate.rule=linear")
    assert "that of learning_rate.rule=none at dataset=digits loss=infonce" in warning


def test_an_include_without_effect_is_a_warning(tmp_path: Path) -> None:
    planned = build(tmp_path, "include=[{loss: infonce, batch_size: 128, dataset: digits, seed: 1}]")
    assert len(planned.cells) == 2
    assert planned.warnings == [
        "include repeats 1 cell that the sweep has already, such as dataset=digits loss=infonce batch_size=128 seed=0"
    ]


# Warnings.


@pytest.mark.parametrize(
    ("overrides", "warnings"),
    [
        ([], []),
        (["budget={steps: 499}"], ["under 500 steps (499 at batch size 128)"]),
        (["budget={samples: 20_000}", "batch_size=[8, 64, 128]"], ["(313 at batch size 64, 157 at batch size 128)"]),
        (["seed=1"], ["one seed only"]),
        (["include=[{loss: dcl, batch_size: 8, dataset: digits, seed: 1}]"], ["between 1 and 2 seeds a setting"]),
        (["views.flip=true"], ["digits: a mirrored image"]),
        (["views.jitter=0.5"], ["digits: images have one channel, so jitter"]),
        (["views.grayscale=0.5"], ["digits: images have one channel, so grayscale"]),
        (["views={}".replace("{}", "{flip: true, jitter: 1, grayscale: 1}"), "dataset=cifar10"], []),
        (["optimizer=lars", "learning_rate.warmup=0"], ["lars without warm-up"]),
        (["optimizer=lars"], []),
        (["base.probe.solver=sgd", "base.probe.batch_size=1150"], []),
        (["base.probe.solver=sgd"], ["digits: probe.batch_size 4,096 is above its 1,150 images: every update"]),
        (["exclude=[{seed: [5]}]"], ["exclude[0] (--set exclude) matches no cell of the grid"]),
    ],
)
def test_warnings_are_few_and_said_once(tmp_path: Path, overrides: list[str], warnings: list[str]) -> None:
    found = build(tmp_path, *overrides).warnings
    assert len(found) == len(warnings)
    assert all(expected in warning for expected, warning in zip(warnings, found, strict=True)), found


# Files.


def test_a_plan_is_saved_and_loaded(tmp_path: Path) -> None:
    planned = build(tmp_path, "resources.gpus_per_trial=1/3", "resources.time_limit=90s", "report.comparisons=[]")
    planned.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == planned
    assert Plan.load(tmp_path / "plan.json").cells[0].cell.id == planned.cells[0].cell.id


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        ("", "is no plan of this version"),
        ('{"name": "x"}', "is no plan of this version (question: Field required)"),
        ("SCHEMA 9", "has schema version 9, not 1"),
    ],
)
def test_a_file_that_is_no_plan(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        newer = build(tmp_path).model_dump_json().replace('"schema_version":1', '"schema_version":9')
        file.write_text(newer if content == "SCHEMA 9" else content, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        Plan.load(file)
    assert str(caught.value).startswith(f"{file}: {message}")


@pytest.mark.timeout(10)
def test_a_pipe_and_a_folder_are_no_plan(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in [(tmp_path / "pipe", "is a pipe, not a file"), (tmp_path, "is a folder, not a file")]:
        with pytest.raises(UserError, match=f"{path}: {message}; plan the sweep again"):
            Plan.load(path)


# What `ablation plan` prints.


def test_the_description_of_a_plan(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(sweep.template(), encoding="utf-8")
    text = plan_text.describe(plan.read(tmp_path / "s.yaml"))
    lines = text.splitlines()
    assert lines[:6] == [
        "my-sweep",
        "How do SimCLR and FlatCLR fare on digits from batch 8 to 128 at equal samples?",
        "",
        "18 cells (2 loss x 3 batch_size x 3 seed) and 3 random-init baselines",
        "seeds: 0, 1, 2",
        "resolves: effects of 3.3 sd of the paired difference (paired t-test, 5 % two-sided, 80 % power)",
    ]
    assert "encoder: resnet8 on digits begins with a 3 x 3 convolution, stride 1" in lines
    assert "digits            8      6  8,000   64,000   55.65      800  0.3 x sqrt(8/256) = 0.053" in lines
    assert "digits          128      6    500   64,000   55.65       50  0.3 x sqrt(128/256) = 0.212" in lines
    assert sum("loss=flatnce batch_size=32 seed=2" in line for line in lines) == 1
    assert lines[-2:] == [
        "warnings",
        "- digits: images have one channel, so jitter changes brightness and contrast only",
    ]


def test_a_probe_is_named_where_it_is_not_the_usual_one(tmp_path: Path) -> None:
    def probes(*overrides: str) -> list[str]:
        text = plan_text.describe(build(tmp_path, "dataset=cifar10", *overrides)).replace("\n  ", " ")
        return [line for line in text.splitlines() if line.startswith("probe: ")]

    official = (
        "probe: SGD on the features as they are, 100 epochs in batches of 4,096, learning rate 1.6 falling to 0 along "
        "a cosine, momentum 0.9, weight decay 0"
    )
    assert probes() == []
    assert probes("base.probe.solver=sgd") == [official]
    assert probes("grid.probe.solver=[lbfgs, sgd]") == ["probe: L-BFGS", official]


def test_a_description_fits_the_screen_and_long_tables_are_cut(tmp_path: Path) -> None:
    planned = build(
        tmp_path,
        f"question={'Why? ' * 60}",
        "seed=40",
        "batch_size=[2, 1150]",
        "dataset=[digits, fashion_mnist]",
        "learning_rate={base: 0.123456789, rule: sqrt}",
        "grid.optimizer=[{name: lars, momentum: 0.123456789, weight_decay: 1.0e-6, trust_coefficient: 0.0123456}]",
    )
    lines = plan_text.describe(planned).splitlines()
    assert max(map(len, lines)) <= plan_text.WIDTH
    assert "... and 120 more" in lines
    assert "seeds: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, ... (40 in all)" in lines


def test_the_summary_counts_disk(tmp_path: Path) -> None:
    summary = plan_text.summarise(build(tmp_path, "encoder={name: resnet8, width: 32}", "optimizer=adam"))
    encoder = 4 * 78_000 * 4  # bytes; twice the width is four times the weights
    assert summary.kept_bytes == 4 * (encoder + plan_text.RECORD_BYTES)
    assert summary.checkpoint_bytes == 2 * 3 * (encoder + 4 * (65 * 128 + 129 * 128))
    assert (summary.baselines, summary.seeds) == (2, [0, 1])
    probed = build(tmp_path, "encoder={name: resnet8, width: 32}", "optimizer=adam", "grid.probe.solver=[lbfgs, sgd]")
    kept = plan_text.summarise(probed).kept_bytes
    assert kept == 4 * encoder + 8 * plan_text.RECORD_BYTES  # two records of each encoder


def power(seeds: int, effect: float) -> float:
    """Of the two-sided paired t-test at 5 %, by integration over the estimated sd."""
    freedom = seeds - 1
    shift, critical = effect * math.sqrt(seeds), stats.t.ppf(0.975, freedom)

    def given_sd(sd: float) -> float:
        tails = stats.norm.sf(critical * sd - shift) + stats.norm.cdf(-critical * sd - shift)
        return float(tails * stats.chi.pdf(sd * math.sqrt(freedom), freedom) * math.sqrt(freedom))

    return float(integrate.quad(given_sd, 0, 20, points=[shift / critical, 1], limit=200)[0])


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 100])
def test_the_smallest_effect_is_found_with_80_percent_power(seeds: int) -> None:
    effect = plan_text.smallest_effect(seeds)
    assert effect is not None
    assert power(seeds, effect) == pytest.approx(0.8, abs=0.001 if seeds < 10 else 0.01)


def test_one_seed_resolves_nothing(tmp_path: Path) -> None:
    assert plan_text.smallest_effect(1) is None
    assert "resolves: nothing; one seed shows no spread" in plan_text.describe(build(tmp_path, "seed=1"))


@pytest.mark.parametrize(("size", "text"), [(999, "999 bytes"), (1_500_000, "1.5 MB"), (2e15, "2e+03 TB")])
def test_sizes(size: float, text: str) -> None:
    assert plan_text._size(size) == text


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "sweeps").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_sweep_of_the_repository_is_planned_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert f"#   ablation run sweeps/{path.name}" in text
    assert path.stem == "smoke" or ("# Cost:" in text and "# Expected:" in text) or "# Expected, by cause:" in text
    if path.stem == "paper-imagenet":  # whose images everybody has elsewhere
        with pytest.raises(SweepErrors, match="there is no imagenet in"):
            plan.read(path)
    else:
        assert plan.read(path).name == path.stem
