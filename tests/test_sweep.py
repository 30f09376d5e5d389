"""Sweep files: every mistake at once with its line, and what the parts of a file mean together."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ablation import plan, recipe, sweep
from ablation.catalog import LOSSES
from ablation.errors import UserError
from ablation.plan import Plan
from ablation.sweep import Sweep, SweepErrors
from tests.cells import SGD
from tests.fuzzing import fuzz

VALID = """\
name: trial-1
question: Does it read?
grid:
  loss: [infonce, flatnce]
  batch_size: [8, 32]
  dataset: [digits]
  seed: 2
base:
  encoder: resnet8
  temperature: 0.1
  budget: {samples: 64_000}
  optimizer: {name: sgd, momentum: 0.9}
  learning_rate: {base: 0.3, rule: sqrt}
  views: {crop_scale: [0.2, 1.0], flip: false}
resources: {time_limit: 2h}
report: {reference_batch: 32, comparisons: [[flatnce, infonce]]}
"""


def load(tmp_path: Path, text: str, *overrides: str) -> Sweep:
    file = tmp_path / "s.yaml"
    file.write_text(text, encoding="utf-8", newline="")
    return sweep.load(file, overrides)


def refused(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(SweepErrors) as caught:
        load(tmp_path, text, *overrides)
    assert isinstance(caught.value, UserError)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def values(loaded: Sweep, key: str) -> list[Any]:
    return [recipe.value_at(point, key) for point in loaded.points]


def changed(old: str, new: str) -> str:
    assert VALID.count(old) == 1
    return VALID.replace(old, new)


# One mistake, one message.

MISTAKES = [
    # the top level
    ("name: trial-1", "name: ../out", 1, "name: should be fit for a folder's name"),
    ("name: trial-1", "name: Trial", 1, "name: should be fit for a folder's name"),
    ("name: trial-1", f"name: {'a' * 65}", 1, "name: should be fit for a folder's name"),
    ("name: trial-1", "name: 3", 1, "name: should be a text, not 3"),
    ("name: trial-1\n", "", 1, "name: is missing"),
    ("name: trial-1", "nmae: trial-1", 1, "nmae: unknown key; did you mean name?"),
    ("question:", "answer: 3\nquestion:", 2, "answer: unknown key; known: name, question, grid"),
    ("question:", "temperature: 1\nquestion:", 2, "temperature: stands at the top level; move it into base"),
    ("question: Does it read?", "question: [a]", 2, 'question: should be a text, not ["a"]'),
    ("resources:", "base: {}\nresources:", 15, "base: stands twice; the first is in line 8"),
    ("resources:", "include: {loss: dcl}\nresources:", 15, "include: should be a list"),
    ("resources:", "include: [3]\nresources:", 15, "include[0]: should be a mapping, not 3"),
    ("resources:", "include: [{}]\nresources:", 15, "include[0]: names no key"),
    # grid
    ("dataset: [digits]", "dataset: digits", 6, "grid.dataset: should be a list of values; write [digits]"),
    ("batch_size: [8, 32]", "batch_size: []", 5, "grid.batch_size: lists no value"),
    ("batch_size: [8, 32]", "batchsize: [8, 32]", 5, "grid.batchsize: unknown key; did you mean batch_size?"),
    ("batch_size: [8, 32]", "batch_size: [8, 32, 8]", 5, "grid.batch_size[2]: 8 stands twice in this list"),
    ("batch_size: [8, 32]", "batch_size: [8, 32, 8.0]", 5, "grid.batch_size[2]: should be a whole number"),
    ("batch_size: [8, 32]", "batch_size: [8, 32, 1]", 5, "grid.batch_size[2]: should be at least 2, not 1"),
    ("batch_size: [8, 32]", "batch_size: [8, 32, '64']", 5, "grid.batch_size[2]: should be a whole number, not '64'"),
    ("batch_size: [8, 32]", "batch_size: [8, 32, true]", 5, "grid.batch_size[2]: should be a whole number, not true"),
    ("batch_size: [8, 32]", "batch_size: [8, 32,\n    4096]", 6, "4096 is larger than digits, which has 1150 images"),
    ("[infonce, flatnce]", "[infonce, flatnec]", 4, "grid.loss[1]: unknown loss 'flatnec'; did you mean flatnce?"),
    ("[infonce, flatnce]", "[infonce, {nam: dcl}]", 4, "grid.loss[1].nam: unknown key; did you mean name?"),
    ("[infonce, flatnce]", "[infonce, flatnce, {name: infonce, tau: 1}]", 4, "grid.loss[2].tau: unknown key"),
    ("[infonce, flatnce]", "[infonce, flatnce, {name: dcl, label: flatnce}]", 4, "label: is the name of a loss"),
    ("[infonce, flatnce]", "[infonce, flatnce, {name: dcl, label: a=b}]", 4, "label: a label should be one line"),
    ("[infonce, flatnce]", "[infonce, flatnce, 3]", 4, "grid.loss[2]: should be a name, or a mapping with a name"),
    ("[infonce, flatnce]", "[infonce, flatnce, {}]", 4, "grid.loss[2]: is empty"),
    ("dataset: [digits]", "dataset: [imagenet]", 6, "grid.dataset[0]: unknown dataset 'imagenet'"),
    ("seed: 2", "seed: 0", 7, "grid.seed: should count 1 to 100,000 seeds, not 0; write [0]"),
    ("seed: 2", "seed: [-1]", 7, "grid.seed[0]: should be at least 0"),
    ("  seed: 2\n", "", 7, "seed: is missing; write seed: 3 in grid"),
    ("seed: 2", "seed: 99999", 3, "grid: asks for 399,996 cells; at most 100,000"),
    ("seed: 2", "seed: 2\n  optimizer.momentum: [0.0]", 13, "momentum: is also an axis of grid (optimizer.momentum)"),
    ("seed: 2", "seed: 2\n  views: [{jitter: 0.1}]", 15, "base.views: is also an axis of grid (views); keep one"),
    ("seed: 2", "seed: 2\n  temperature: [0.1]", 11, "base.temperature: is also an axis of grid"),
    ("seed: 2", "seed: 2\n  projection.out: [8]\n  projection: [{out: 9}]", 9, "overlaps with projection.out"),
    ("seed: 2", "seed: 2\n  momentum: [0.1]", 8, "grid.momentum: unknown key; did you mean optimizer.momentum?"),
    # base
    ("encoder: resnet8", "encoder: resnet8\n  seed: 3", 10, "base.seed: one seed shows no spread; write seed: 3"),
    ("encoder: resnet8", "encoder: {name: resnet8, width: 0}", 9, "width: should be at least 1 and at most 1024"),
    ("encoder: resnet8", "encoder: {name: resnet18, width: 8}", 9, "resnet18 takes no width; it has no parameters"),
    ("  encoder: resnet8\n", "", 8, "encoder: is missing; give it in base"),
    ("temperature: 0.1", "temperature: 0", 10, "base.temperature: should be above 0, not 0"),
    ("temperature: 0.1", "temperature: .nan", 10, "base.temperature: should be finite"),
    ("temperature: 0.1", "temperature:", 10, "base.temperature: should be a number, not null"),
    ("temperature: 0.1", "temperatur: 0.1", 10, "base.temperatur: unknown key; did you mean temperature?"),
    ("temperature: 0.1", "foo: 0.1", 10, "base.foo: unknown key; known: dataset, loss, encoder"),
    ("{samples: 64_000}", "{samples: 1, steps: 3}", 11, "should be one of samples, epochs or steps, not samples"),
    ("{samples: 64_000}", "{smples: 1}", 11, "base.budget.smples: unknown key; did you mean samples?"),
    ("{samples: 64_000}", "{samples: 1e3}", 11, "base.budget.samples: should be a whole number"),
    ("{samples: 64_000}", "{samples: }", 8, "budget: is missing; give one of samples, epochs or steps"),
    ("{samples: 64_000}", "100", 11, "base.budget: should be a mapping (samples, epochs, steps), not 100"),
    ("  budget: {samples: 64_000}\n", "", 8, "budget: is missing"),
    ("name: sgd,", "name: adam,", 12, "momentum: adam takes no momentum; its parameters:"),
    ("momentum: 0.9", "momentum: 1.0", 12, "momentum: should be at least 0 and below 1, not 1"),
    ("{name: sgd, momentum: 0.9}", "{name: sgd, momentum: high}", 12, "momentum: should be a number, not 'high'"),
    ("{base: 0.3, rule: sqrt}", "{rule: sqrt}", 8, "learning_rate.base: is missing; give it in base"),
    ("rule: sqrt", "rule: root", 13, "learning_rate.rule: should be 'none', 'linear' or 'sqrt'"),
    ("{base: 0.3, rule: sqrt}", "{base: 0.3, warmup: 1}", 13, "learning_rate.warmup: should be a share of the steps"),
    ("rule: sqrt", "warmup: {steps: 2000}", 13, "2000 steps of warm-up leave none of 2000 at"),
    ("{base: 0.3, rule: sqrt}", "0.3", 13, "base.learning_rate: should be a mapping (base, rule,"),
    ("base: 0.3,", "base: 0.3, base: 0.2,", 13, "base.learning_rate.base: stands twice"),
    ("  views:", "  learning_rate.base: 1\n  views:", 14, "gives learning_rate.base again, after base.learning_rate"),
    ("[0.2, 1.0]", "[1.0, 0.2]", 14, "views.crop_scale: should be a pair of shares"),
    ("[0.2, 1.0]", "0.2", 14, "views.crop_scale: should be a pair of shares"),
    ("flip: false", "flip: no", 14, "views.flip: should be true or false, not 'no'"),
    ("flip: false", "blur: 1.5", 14, "views.blur: should be at most 1"),
    ("temperature: 0.1", "loss_dtype: half", 10, "base.loss_dtype: should be 'float16', 'bfloat16', 'float32' or"),
    ("temperature: 0.1", "precision: float16", 10, "base.precision: should be 'float32', 'float64' or 'bfloat16'"),
    ("temperature: 0.1", "gradient_scaling: 2", 10, "base.gradient_scaling: should be true or false, not 2"),
    ("temperature: 0.1", "negatives: 15", 10, "base.negatives: 15 is more than the 14 that batch size 8 has"),
    ("temperature: 0.1", "negatives: 0", 10, "base.negatives: should be at least 1, not 0"),
    ("[infonce, flatnce]", "[infonce, flatnce, barlow]\n  negatives: [4]", 5, "barlow has no negatives to draw from"),
    ("temperature: 0.1", "norm_batch: 16", 10, "should divide the batch size, and 16 does not divide 8"),
    ("temperature: 0.1", "temperature_control: learnt", 10, "unknown temperature_control 'learnt'; did you mean"),
    ("temperature: 0.1", "temperature_control: {name: fixed, target: 1}", 10, "fixed takes no target; it has no"),
    ("temperature: 0.1", "temperature_control: {name: ess, target: 2}", 10, "should be above 0 and at most 1, not 2"),
    ("temperature: 0.1", "temperature: 2\n  temperature_control: learned", 10, "2 is outside its range, 0.05 to 1"),
    ("temperature: 0.1", "temperature_control: {name: ess, minimum: .2}", 10, "0.1 is outside its range, 0.2 to 1"),
    ("temperature: 0.1", "probe: sgd", 10, "base.probe: should be a mapping (solver, epochs, batch_size"),
    ("temperature: 0.1", "probe: {solver: adam}", 10, "base.probe.solver: should be 'lbfgs' or 'sgd', not 'adam'"),
    ("temperature: 0.1", "probe: {epochs: 9}", 10, "base.probe.epochs: lbfgs takes no epochs; give it beside"),
    ("temperature: 0.1", "probe: {solver: sgd, lr: 1}", 10, "base.probe.lr: unknown key; known: solver, epochs"),
    ("temperature: 0.1", "probe: {solver: sgd, epochs: 0}", 10, "base.probe.epochs: should be at least 1, not 0"),
    ("temperature: 0.1", "probe: {solver: sgd, momentum: 1}", 10, "base.probe.momentum: should be below 1, not 1"),
    ("temperature: 0.1", "probe: {solver: sgd, learning_rate: 0}", 10, "learning_rate: should be above 0, not 0"),
    ("temperature: 0.1", "probe: {solver: sgd, batch_size: 1.5}", 10, "batch_size: should be a whole number"),
    ("temperature: 0.1", "probe: {solver: sgd, weight_decay: -1}", 10, "weight_decay: should be at least 0, not -1"),
    # include and exclude
    ("resources:", "include: [{loss: dcl, batch_size: 8, dataset: digits}]\nresources:", 15, "seed: is missing"),
    ("resources:", "include: [{los: dcl, batch_size: 8, dataset: digits, seed: 1}]\nresources:", 15, "loss?"),
    ("resources:", "exclude: [{loss: dclx}]\nresources:", 15, "unknown loss 'dclx'; did you mean dcl?"),
    ("resources:", "exclude: [{batch: 8}]\nresources:", 15, "exclude[0].batch: unknown key; did you mean batch_size?"),
    ("resources:", "exclude: [{seed: 1}]\nresources:", 15, "exclude[0].seed: could be a count or a seed; write [1]"),
    ("resources:", "exclude: [{loss: []}]\nresources:", 15, "exclude[0].loss: lists no value"),
    ("resources:", "exclude: [{dataset: digits}]\nresources:", 15, "exclude: drops every cell of the grid"),
    # resources and report
    ("time_limit: 2h", "time_limit: 2 hours", 15, "resources.time_limit: should be a time such as 90s, 30m, 2h or 1d"),
    ("time_limit: 2h", "time_limit: 0s", 15, "resources.time_limit: should be a time"),
    ("time_limit: 2h", "timelimit: 2h", 15, "resources.timelimit: unknown key; did you mean time_limit?"),
    ("time_limit: 2h", "gpus_per_trial: 1.5", 15, "gpus_per_trial: should be whole GPUs or a share of one: 1 or 2"),
    ("time_limit: 2h", "gpus_per_trial: 0.3", 15, "gpus_per_trial: should be a share that fills a GPU: 1/3 or 1/4"),
    ("time_limit: 2h", "gpus_per_trial: all", 15, "gpus_per_trial: should be auto, 0, a number of whole GPUs"),
    ("time_limit: 2h", "cpus_per_trial: 0", 15, "resources.cpus_per_trial: should be at least 1, not 0"),
    ("time_limit: 2h", "compile: yes please", 15, "resources.compile: should be true, false or auto"),
    ("time_limit: 2h", "compile: 1", 15, "resources.compile: should be true, false or auto, not 1"),
    ("time_limit: 2h", "micro_batch: 0", 15, "resources.micro_batch: should be all, auto or a number of images"),
    ("time_limit: 2h", "micro_batch: half", 15, "resources.micro_batch: should be all, auto or a number of images"),
    ("time_limit: 2h", "micro_batch: 8", 15, "batch norm spans 32 images, more than 8; set norm_batch to at most 8"),
    ("time_limit: 2h", "download: 'False'", 15, "resources.download: should be true or false, not 'False'"),
    ("time_limit: 2h", "data_root: ''", 15, "resources.data_root: should not be empty"),
    ("reference_batch: 32", "reference_batch: 64", 16, "64 is no batch size of this sweep; it has 8, 32"),
    ("[[flatnce, infonce]]", "[[flatnce, infonc]]", 16, "[0][1]: 'infonc' is no loss of this sweep; did"),
    ("[[flatnce, infonce]]", "[[flatnce, flatnce]]", 16, "report.comparisons[0]: compares 'flatnce' with itself"),
    ("[[flatnce, infonce]]", "[[flatnce]]", 16, "report.comparisons[0]: should be a pair [a, b]"),
    ("[[flatnce, infonce]]", "[flatnce, infonce]", 16, "report.comparisons[0]: should be a list, not 'flatnce'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message"), MISTAKES)
def test_one_mistake_gives_one_message_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    lines = refused(tmp_path, changed(old, new))
    assert lines[0].startswith(f"s.yaml:{line}: ")
    assert message in lines[0]
    both_items = {"[flatnce, infonce]", "{name: sgd, momentum: 0.9}"}
    assert len(lines) == (2 if new in both_items else 1), lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml:1: is empty; `ablation init FILE` writes a file to start from"),
        ("# nothing\n", "s.yaml:1: is empty"),
        ("- a\n", "s.yaml:1: should be a mapping with the keys name, question, grid"),
        ("just words", "s.yaml:1: should be a mapping"),
        ("a: [1\nb: 2", "s.yaml:2: is not YAML"),
        ("grid: {}\nname: a", "s.yaml:1: grid: should not be empty"),
        ("name: a\ngrid: 3", "s.yaml:2: grid: should be a mapping, not 3"),
        ("name: a", "s.yaml:1: grid: is missing"),
        ("name: a\ngird: {seed: 3}", "s.yaml:2: gird: unknown key; did you mean grid?"),
    ],
)
def test_a_file_that_is_no_sweep(tmp_path: Path, text: str, message: str) -> None:
    (line,) = refused(tmp_path, text)
    assert line.startswith(message)


def test_a_missing_file_a_folder_and_other_bytes(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"name: a\nquestion: caf\xe9\n")
    for path, message in [
        (tmp_path / "no", "cannot be read"),
        (tmp_path, "is a folder, not a file"),
        (tmp_path / "latin", ":2: "),
    ]:
        with pytest.raises(SweepErrors, match=message):
            sweep.load(path)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = VALID
    for old, new in [
        ("name: trial-1", "name: a/b"),
        ("flatnce]\n", "flatnec]\n"),
        ("[8, 32]", "[8, 5000]"),
        ("temperature: 0.1", "temprature: 0.1"),
        ("rule: sqrt", "rule: cube"),
        ("2h", "2 hours"),
    ]:
        text = text.replace(old, new)
    lines = refused(tmp_path, text)
    assert [line.split(" ")[0] for line in lines] == [f"s.yaml:{n}:" for n in (1, 4, 5, 10, 13, 15, 16)]
    assert "32 is no batch size" in lines[-1]  # what the report refers to is gone as well


# What the parts mean.


def test_the_grid_is_a_product_in_the_order_of_the_file(tmp_path: Path) -> None:
    loaded = load(tmp_path, VALID)
    assert values(loaded, "loss.name") == ["infonce"] * 4 + ["flatnce"] * 4
    assert values(loaded, "batch_size") == [8, 8, 32, 32] * 2
    assert values(loaded, "seed") == [0, 1] * 4
    assert loaded.axes == ("loss", "batch_size", "dataset", "seed")


def test_a_seed_counts_and_a_list_names(tmp_path: Path) -> None:
    assert set(values(load(tmp_path, changed("seed: 2", "seed: 3")), "seed")) == {0, 1, 2}
    assert set(values(load(tmp_path, changed("seed: 2", "seed: [3]")), "seed")) == {3}


def test_a_dotted_axis_reaches_into_base(tmp_path: Path) -> None:
    text = changed("seed: 2", "seed: [0]\n  learning_rate.base: [0.1, 1]").replace(
        "{base: 0.3, rule: sqrt}", "{rule: linear}"
    )
    loaded = load(tmp_path, text)
    assert set(values(loaded, "learning_rate.base")) == {0.1, 1.0}
    assert set(values(loaded, "learning_rate.rule")) == {"linear"}


def test_a_plain_axis_gives_the_whole_value(tmp_path: Path) -> None:
    text = changed("seed: 2", "seed: [0]\n  optimizer: [lars, {name: sgd, momentum: 0.5}]")
    loaded = load(tmp_path, text.replace("  optimizer: {name: sgd, momentum: 0.9}\n", ""))
    assert {(recipe.text(p, "optimizer"), recipe.value_at(p, "optimizer.momentum")) for p in loaded.points} == {
        ("lars", 0.9),
        ("sgd momentum=0.5", 0.5),
    }


def test_dotted_keys_in_base_and_defaults(tmp_path: Path) -> None:
    loaded = load(tmp_path, changed("{base: 0.3, rule: sqrt}", "{rule: sqrt}\n  learning_rate.base: 3").replace(
        "  optimizer: {name: sgd, momentum: 0.9}\n", ""
    ))  # fmt: skip
    (point, *_) = loaded.points
    assert point["learning_rate.base"].value == 3.0
    assert point["learning_rate.reference_batch"].value == 256
    assert point["views.jitter"].value == 0.5
    assert recipe.text(point, "optimizer") == "sgd"


def test_include_completes_from_base_and_lists_make_a_product(tmp_path: Path) -> None:
    item = "{loss: dcl, batch_size: [4, 8], dataset: digits, seed: 2, optimizer: adam, views.flip: true}"
    loaded = load(tmp_path, VALID + f"include: [{item}]\n")
    added = loaded.points[8:]
    assert [(p["batch_size"].value, p["seed"].value) for p in added] == [(4, 0), (4, 1), (8, 0), (8, 1)]
    assert {recipe.text(p, "optimizer") for p in added} == {"adam"}
    assert {(p["views.flip"].value, p["views.crop_scale"].value) for p in added} == {(True, (0.2, 1.0))}
    assert loaded.axes == ("loss", "batch_size", "dataset", "seed", "optimizer", "views.flip")


def test_include_accepts_the_one_field_that_is_a_list(tmp_path: Path) -> None:
    item = "{loss: dcl, batch_size: 8, dataset: digits, seed: 1, views.crop_scale: %s}"
    for value, count in [("[0.1, 1]", 1), ("[[0.1, 1], [0.5, 1]]", 2)]:
        loaded = load(tmp_path, VALID + f"include: [{item % value}]\n")
        assert [p["views.crop_scale"].value for p in loaded.points[8:]] == [(0.1, 1.0), (0.5, 1.0)][:count]


@pytest.mark.parametrize(
    ("item", "left"),
    [
        ("{loss: flatnce, batch_size: 8}", 6),
        ("{loss: flatnce, seed: [0]}", 6),
        ("{batch_size: [8, 16]}", 4),
        ("{optimizer: {name: sgd, weight_decay: 0}, seed: [0]}", 4),  # a parameter that is at its default
        ("{learning_rate: {rule: sqrt}, seed: [0, 2]}", 4),
        ("{temperature: 0.1, loss.name: infonce, seed: [1]}", 6),
        ("{views.crop_scale: [0.2, 1.0], loss: [dcl, infonce], batch_size: 8}", 6),
    ],
)
def test_exclude_drops_what_matches_all_keys(tmp_path: Path, item: str, left: int) -> None:
    loaded = load(tmp_path, VALID + f"exclude: [{item}]\n")
    assert len(loaded.points) == left
    assert not loaded.warnings


def test_every_item_of_exclude_counts(tmp_path: Path) -> None:
    loaded = load(tmp_path, VALID + "exclude: [{loss: flatnce, batch_size: 8}, {loss: infonce, seed: [0]}]\n")
    assert len(loaded.points) == 8 - 2 - 2


def test_exclude_matches_labels_and_spares_include(tmp_path: Path) -> None:
    text = changed("[infonce, flatnce]", "[infonce, {name: flatnce, label: flat}]").replace(
        "[flatnce, inf", "[flat, inf"
    )
    loaded = load(tmp_path, text + "exclude: [{loss: flat, batch_size: 8}]\n")
    assert [recipe.text(p, "loss") for p in loaded.points] == ["infonce"] * 4 + ["flat"] * 2
    item = "{loss: dcl, batch_size: 8, dataset: digits, seed: 1}"
    loaded = load(tmp_path, VALID + f"exclude: [{{batch_size: 8}}]\ninclude: [{item}]\n")
    assert values(loaded, "batch_size") == [32] * 4 + [8]


def test_exclude_without_effect_is_a_warning(tmp_path: Path) -> None:
    loaded = load(tmp_path, VALID + "exclude:\n  - {seed: [0]}\n  - {loss: dcl}\n")
    assert loaded.warnings == ("exclude[1] (line 19) matches no cell of the grid",)


def test_an_excluded_cell_may_be_impossible(tmp_path: Path) -> None:
    text = changed("[digits]", "[digits, mnist]").replace("[8, 32]", "[8, 32, 4096]")
    assert len(load(tmp_path, text + "exclude: [{dataset: digits, batch_size: 4096}]\n").points) == 20


def test_labels_are_unique(tmp_path: Path) -> None:
    text = changed("[infonce, flatnce]", "[{name: dcl, label: x},\n {name: flatnce, label: x}]").replace(
        "[flatnce, inf", "[x, inf"
    )
    lines = refused(tmp_path, text)
    assert "s.yaml:5: grid.loss[1].label: labels another loss already" in lines[0]


def test_the_report_speaks_in_labels(tmp_path: Path) -> None:
    text = changed("[infonce, flatnce]", "[infonce, {name: flatnce, label: flat}]")
    assert "'flatnce' is no loss of this sweep" in refused(tmp_path, text)[0]
    assert load(tmp_path, text.replace("[flatnce, inf", "[flat, inf")).report.comparisons == [("flat", "infonce")]


@pytest.mark.parametrize(
    ("value", "read"),
    [("auto", "auto"), ("0", 0.0), ("2", 2.0), ("0.5", 0.5), ("1/3", 1 / 3), ("0.33", 0.33), ("0.25", 0.25)],
)
def test_shares_of_a_gpu(tmp_path: Path, value: str, read: object) -> None:
    assert load(tmp_path, VALID, f"resources.gpus_per_trial={value}").resources.gpus_per_trial == read


@pytest.mark.parametrize(
    ("value", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5 d", 129600), ("45", 45), ("~", None)]
)
def test_time_limits(tmp_path: Path, value: str, seconds: float | None) -> None:
    assert load(tmp_path, VALID, f"resources.time_limit={value}").resources.time_limit == seconds


@pytest.mark.parametrize(
    ("micro_batch", "norm_batch"), [("4", "4"), ("8", "4"), ("32", "all"), ("auto", "all"), ("all", "all")]
)
def test_a_micro_batch_that_batch_norm_does_not_span(tmp_path: Path, micro_batch: str, norm_batch: str) -> None:
    sweep = load(tmp_path, VALID, f"resources.micro_batch={micro_batch}", f"base.norm_batch={norm_batch}")
    assert str(sweep.resources.micro_batch) == micro_batch


def test_where_dataset_files_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("ABLATION_DATA", raising=False)
    assert load(tmp_path, VALID).resources.root() == Path("/home/me/.cache/ablation")
    monkeypatch.setenv("ABLATION_DATA", "/data")
    assert load(tmp_path, VALID).resources.root() == Path("/data")
    assert load(tmp_path, VALID, "resources.data_root=~/x").resources.root() == Path("/home/me/x")


# Overrides.


@pytest.mark.parametrize(
    ("override", "key", "expected"),
    [
        ("temperature=0.5", "temperature", {0.5}),
        ("batch_size=32", "batch_size", {32}),  # an axis: the scalar is its one value
        ("batch_size=[16, 32]", "batch_size", {16, 32}),
        ("seed=1", "seed", {0}),
        ("seed=[7]", "seed", {7}),
        ("grid.seed=[7]", "seed", {7}),
        ("learning_rate.base=1", "learning_rate.base", {1.0}),
        ("base.learning_rate.base=1", "learning_rate.base", {1.0}),
        ("learning_rate={base: 1}", "learning_rate.rule", {"none"}),  # the whole value is replaced
        ("budget={steps: 900}", "budget.samples", {None}),
        ("optimizer.momentum=0", "optimizer.momentum", {0}),
        ("optimizer=adam", "optimizer.name", {"adam"}),
        ("views.crop_scale=[0.5, 1]", "views.crop_scale", {(0.5, 1.0)}),
        ("grid.views.blur=[0.1, 0.2]", "views.blur", {0.1, 0.2}),
        ("encoder.name=resnet18", "encoder.name", {"resnet18"}),
        ("encoder.width=32", "encoder.width", {32}),
        ("exclude=[{batch_size: 8}]", "batch_size", {32}),
    ],
)
def test_an_override_reaches_its_place_and_the_resolved_text(
    tmp_path: Path, override: str, key: str, expected: set[Any]
) -> None:
    loaded = load(tmp_path, VALID, override)
    assert set(values(loaded, key)) == expected
    again = load(tmp_path, loaded.resolved_text())
    assert not again.edits
    assert plan.build(again) == plan.build(loaded)


def test_an_override_of_a_whole_value_replaces_dotted_keys_too(tmp_path: Path) -> None:
    text = changed("{base: 0.3, rule: sqrt}", "{rule: sqrt}\n  learning_rate.base: 0.3")
    loaded = load(tmp_path, text, "learning_rate={base: 0.1}")
    assert set(values(loaded, "learning_rate.base")) == {0.1}
    assert plan.build(load(tmp_path, loaded.resolved_text())) == plan.build(loaded)


def test_overrides_apply_in_order_to_every_section(tmp_path: Path) -> None:
    loaded = load(tmp_path, VALID, "name=b", "question=~", "temperature=2", "temperature=3", "report.title='T: x'")
    assert (loaded.name, loaded.question, loaded.report.title) == ("b", None, "T: x")
    assert set(values(loaded, "temperature")) == {3.0}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("temperature", "--set temperature: has no value; write --set KEY=VALUE"),
        ("temprature=1", "--set temprature: unknown key; did you mean temperature?"),
        ("foo=1", "--set foo: unknown key; known: name, question"),
        ("grid.foo=[1]", "--set grid.foo: unknown key"),
        ("resources.gpus=1", "--set resources.gpus: unknown key; did you mean resources"),
        ("name.x=1", "--set name.x: unknown key"),
        ("=1", "--set : unknown key"),
        ("temperature=hot", "--set temperature: base.temperature: should be a number, not 'hot'"),
        ("batch_size=[8, 1]", "--set batch_size: grid.batch_size[1]: should be at least 2"),
        ("loss=[flatnec]", "--set loss: grid.loss[0]: unknown loss 'flatnec'; did you mean flatnce?"),
        ("views={flip: [1}", "--set views: is not YAML"),
        ("views.flip=", "--set views.flip: base.views.flip: should be true or false, not null"),
        ("optimizer.name=adam", "s.yaml:12: base.optimizer.momentum: adam takes no momentum"),
        ("report.reference_batch=4", "--set report.reference_batch: report.reference_batch: 4 is no batch size"),
        ("resources={cpus: 3}", "--set resources: resources.cpus: unknown key"),
    ],
)
def test_a_wrong_override_is_named(tmp_path: Path, override: str, message: str) -> None:
    (line, *more) = refused(tmp_path, VALID, override)
    assert line.startswith(message)
    assert all("is no loss of this sweep" in other for other in more)


def test_overrides_of_a_broken_file_do_not_hide_its_mistakes(tmp_path: Path) -> None:
    text = VALID.replace("base:\n", "base: 3\nbaze:\n")
    assert [line.split(" ")[0] for line in refused(tmp_path, text, "temperature=3")] == ["s.yaml:8:", "s.yaml:9:"]


def test_the_resolved_text_is_the_file_itself_or_keeps_its_comments(tmp_path: Path) -> None:
    text = "# why\n" + changed("seed: 2", "seed: 2  # two will do")
    assert load(tmp_path, text).resolved_text() == text
    edited = load(tmp_path, text, "temperature=0.5").resolved_text()
    assert edited == text.replace("temperature: 0.1", "temperature: 0.5")


def test_the_resolved_text_of_a_file_with_aliases(tmp_path: Path) -> None:
    text = changed("optimizer: {name", "optimizer: &o {name") + (
        "include: [{loss: dcl, batch_size: 8, dataset: digits, seed: 1, optimizer: *o, temperature: 0.7}]\n"
    )
    loaded = load(tmp_path, text, "optimizer.momentum=0.5")
    assert [recipe.value_at(p, "optimizer.momentum") for p in loaded.points] == [0.5] * 8 + [0.9]
    assert plan.build(load(tmp_path, loaded.resolved_text())) == plan.build(loaded)


def test_the_template_is_a_sweep_and_explains_every_key(tmp_path: Path) -> None:
    text = sweep.template()
    loaded = load(tmp_path, text)
    assert len(loaded.points) == 18
    uncommented = (
        text.replace("# include:", "include:").replace("# exclude:", "exclude:").replace("  # title", "  title")
    )
    uncommented = uncommented.replace("#   - {", "  - {").replace("  # data_root", "  data_root")
    full = load(tmp_path, uncommented)
    assert len(full.points) == 18 - 1 + 6
    for key in (
        *sweep._Layout.model_fields,
        *recipe.FIELDS,
        *(leaf for block in recipe.BLOCKS.values() for leaf in block),
    ):
        assert f"{key}:" in text, key
    for key in (*sweep.Resources.model_fields, *sweep.ReportOptions.model_fields):
        assert f"{key}:" in text, key
    assert all(name in text for name in LOSSES)


def test_the_axes_of_precision_and_batch_reach_the_cells(tmp_path: Path) -> None:
    edits = [
        "loss=[{name: epsilon, eps: 0.1, label: eps .1}]", "batch_size=[8]", "seed=[0]", "loss_dtype=float16",
        "gradient_scaling=true", "precision=bfloat16", "learning_curve=log", "grid.negatives=[all, 3]",
        "grid.norm_batch=[4, 8]", "temperature_control={name: ess, target: 0.25}", "report={}",
    ]  # fmt: skip
    planned = plan.build(load(tmp_path, VALID, *edits)).cells
    runs = [cell.cell.pretraining for cell in planned]
    assert [(r.negatives, r.norm_batch) for r in runs if r] == [(None, 4), (None, None), (3, 4), (3, None)]
    assert [cell.settings["negatives"] for cell in planned] == ["all", "all", 3, 3]
    assert planned[0].settings["loss"] == "eps .1"
    assert runs[0]
    assert runs[0].loss.parameters == {"eps": 0.1}
    assert (runs[0].loss_dtype, runs[0].gradient_scaling, runs[0].precision) == ("float16", True, "bfloat16")
    assert runs[0].learning_curve == "log"
    control = {"target": 0.25, "rate": 0.01, "minimum": 0.05, "maximum": 1.0}
    assert (runs[0].temperature_control.name, runs[0].temperature_control.parameters) == ("ess", control)


def test_the_probe_reaches_the_evaluation_and_leaves_the_pretraining(tmp_path: Path) -> None:
    edits = ["loss=[infonce]", "batch_size=[8]", "seed=[0]", "report={}"]
    (usual,) = plan.build(load(tmp_path, VALID, *edits)).cells
    planned = plan.build(load(tmp_path, VALID, *edits, "grid.probe=[{solver: sgd}, {solver: sgd, epochs: 7}]")).cells
    assert usual.cell.evaluation.probe is None
    assert [cell.cell.evaluation.probe for cell in planned] == [SGD, SGD.model_copy(update={"epochs": 7})]
    assert [cell.settings["probe"] for cell in planned] == ["solver=sgd", "solver=sgd epochs=7"]
    assert {cell.cell.pretraining_key for cell in planned} == {usual.cell.pretraining_key}
    dotted = plan.build(load(tmp_path, VALID, *edits, "base.probe.solver=sgd", "grid.probe.epochs=[100, 7]")).cells
    assert [cell.cell.id for cell in dotted] == [cell.cell.id for cell in planned]


# Nothing but a plan or all errors.

fields = st.sampled_from(
    [
        *recipe.FIELDS,
        "temperature_control.target",
        "learning_rate.base",
        "optimizer.name",
        "views.crop_scale",
        "tau",
        "seed",
    ]
)
scalars = st.sampled_from(
    ["infonce", "dcl", "digits", "resnet8", "sgd", "adam", "x", "", 0, 1, 2, 8, -1, 0.1, 1e308, 2**62, True, None]
)  # fmt: skip
mappings = st.dictionaries(
    st.sampled_from(["name", "label", "base", "rule", "steps", "samples", "momentum", "flip", "warmup", "x"]),
    scalars,
    max_size=3,
)
anything = scalars | mappings | st.lists(scalars | mappings, max_size=3)
sections = st.dictionaries(fields, anything, max_size=6)


@st.composite
def sweeps(draw: st.DrawFn) -> dict[str, Any]:
    """A valid sweep with random parts replaced, added and taken away."""
    data: dict[str, Any] = YAML(typ="safe", pure=True).load(VALID)
    for section in draw(st.sets(st.sampled_from(["grid", "base"]))):
        data[section] = {**data[section], **draw(sections)}
        for key in draw(st.sets(st.sampled_from(sorted(data[section])), max_size=1)):
            del data[section][key]
    for section in draw(st.sets(st.sampled_from(["include", "exclude"]))):
        data[section] = draw(st.lists(sections, max_size=2) | anything)
    for section in draw(st.sets(st.sampled_from(["resources", "report", "name", "grid"]), max_size=1)):
        data[section] = draw(anything)
    return data


def plan_or_errors(path: Path, *overrides: str) -> Plan | None:
    """The plan; None where there are errors, each told once. Any other exception fails the test."""
    try:
        return plan.read(path, overrides)
    except SweepErrors as errors:
        problems = errors.problems
    assert problems
    assert len(set(problems)) == len(problems)
    for problem in problems:
        assert problem.message
        assert problem.file.startswith("--set ") if problem.line is None else problem.line >= 1
    return None


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweeps") / "s.yaml"


@fuzz
@given(data=sweeps())
def test_any_structure_gives_a_plan_or_errors(scratch: Path, data: dict[str, Any]) -> None:
    with scratch.open("w", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump(data, file)
    plan_or_errors(scratch)


@fuzz
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_give_errors(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    assert plan_or_errors(scratch) is None


@fuzz
@given(
    position=st.integers(0, len(VALID)),
    length=st.integers(0, 12),
    text=st.text("abc:-[]{}&*!'\"#, \n\t019.", max_size=8),
)
def test_any_edit_of_the_text_gives_a_plan_or_errors(scratch: Path, position: int, length: int, text: str) -> None:
    scratch.write_text(VALID[:position] + text + VALID[position + length :], encoding="utf-8", newline="")
    plan_or_errors(scratch)


@fuzz
@given(key=fields | st.sampled_from(["grid", "base", "include", "report", "grid.seed", "name", ""]), value=anything)
def test_any_override_gives_a_plan_or_errors(scratch: Path, key: str, value: object) -> None:
    scratch.write_text(VALID, encoding="utf-8")
    found = plan_or_errors(scratch, f"{key}={json.dumps(value)}")
    if found:
        text = sweep.load(scratch, [f"{key}={json.dumps(value)}"]).resolved_text()
        scratch.write_text(text, encoding="utf-8")
        assert plan.read(scratch) == found
