"""Image folders in a sweep: short and long form, mistakes where they stand, ids by content, and cells that train."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ablation import catalog, plan, plan_text
from ablation.cell import Cell, Component
from ablation.errors import UserError
from ablation.image_folder import cache
from ablation.ledger import Ledger
from ablation.plan import Plan
from ablation.pretrain import data
from ablation.pretrain.data import Images
from ablation.record import Record, Status
from ablation.report.build import build
from ablation.report.provenance import provenance
from ablation.sweep import SweepErrors
from ablation.trial import Trial
from tests.cells import cell
from tests.image_folder.test_prepare import HOSTILE, ODD, spoil
from tests.pictures import divided, encoded, fill, noise, put


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.delenv("ABLATION_DATA", raising=False)


def write(tmp_path: Path, dataset: Any, **base: Any) -> Path:
    sweep = {
        "name": "t",
        "grid": {"loss": ["infonce", "flatnce"], "batch_size": [4], "dataset": dataset, "seed": 2},
        "base": {
            "encoder": {"name": "resnet8", "width": 4},
            "projection": {"hidden": 16, "out": 16},
            "budget": {"epochs": 2},
            "learning_rate": {"base": 0.3},
            **base,
        },
        "resources": {"data_root": str(tmp_path / "root")},
    }
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(sweep, indent=1))
    return file


def read(tmp_path: Path, *dataset: Any, **base: Any) -> Plan:
    return plan.read(write(tmp_path, list(dataset), **base))


def ids(planned: Plan) -> list[str]:
    return [run.id for run in planned.runs()]


def test_the_short_form_is_the_long_form_at_32_pixels(tmp_path: Path) -> None:
    folder = str(divided(tmp_path / "folder"))
    short = read(tmp_path, f"image_folder:{folder}")
    assert short == read(tmp_path, {"name": "image_folder", "path": folder})
    assert short == read(tmp_path, {"name": "image_folder", "path": folder, "image_size": 32, "on_bad_image": "fail"})
    assert ids(short) != ids(read(tmp_path, {"name": "image_folder", "path": folder, "image_size": 16}))
    assert short.cells[0].settings["dataset"] == f"image_folder path={folder}"
    assert catalog.dataset(short.cells[0].cell.dataset).image_size == 32


def test_a_cell_says_what_the_folder_holds_and_not_where(tmp_path: Path) -> None:
    planned = read(tmp_path, f"image_folder:{divided(tmp_path / 'folder')}")
    of = planned.cells[0].cell
    assert set(of.dataset.parameters) == {"fingerprint", "image_size", "classes", "images", "test_images", "skipped"}
    assert str(tmp_path) not in of.model_dump_json()
    assert of.pretraining is not None
    assert of.pretraining.steps == 10  # 2 epochs of 24 - 5 images
    assert of.relative_cost > 0


def test_ids_follow_the_content(tmp_path: Path) -> None:
    folder = divided(tmp_path / "folder")
    before = ids(read(tmp_path, f"image_folder:{folder}"))
    folder = folder.rename(tmp_path / "moved")
    assert ids(read(tmp_path, {"name": "image_folder", "path": str(folder), "label": "Pets"})) == before
    put(folder / "notes.txt", b"")
    assert ids(read(tmp_path, f"image_folder:{folder}")) == before
    put(folder / "test" / "cat" / "new.png", encoded(noise(1)))
    assert not set(ids(read(tmp_path, f"image_folder:{folder}"))) & set(before)


def test_the_plan_shows_the_folder_and_what_is_odd_about_it(tmp_path: Path) -> None:
    folder = spoil(divided(tmp_path / "folder"), {**ODD, **HOSTILE})
    entry = {"name": "image_folder", "path": str(folder), "image_size": 16, "on_bad_image": "skip", "label": "Pets"}
    planned = read(tmp_path, entry, "digits")
    text = " ".join(plan_text.describe(planned).split())
    assert "data: Pets: 2 classes, 23 + 6 + 10 images (pretraining, validation, test) of 16 x 16 x 3" in text
    assert "data: digits: 10 classes, 1,150 + 287 + 360 images (pretraining, validation, test) of 8 x 8 x 1" in text
    assert "encoder: resnet8 on Pets begins with a 3 x 3 convolution, stride 1" in text
    assert "Pets: 4 of 43 images left out, which can't be decoded: test/dog/float.tiff (floating-point" in text
    assert "Pets: images converted: 1 16-bit, 1 CMYK" in text
    report = build(planned, {})
    assert any("Pets: 4 of 43 images left out" in note for note in report.notes)
    assert {panel.classes for panel in report.grid.baselines} == {2, 10}


def test_a_loaded_plan_needs_no_folder(tmp_path: Path) -> None:
    planned = read(tmp_path, f"image_folder:{divided(tmp_path / 'folder')}")
    planned.save(tmp_path / "plan.json")
    (tmp_path / "folder").rename(tmp_path / "gone")
    assert Plan.load(tmp_path / "plan.json") == planned


def problems(tmp_path: Path, *dataset: Any, **base: Any) -> list[str]:
    with pytest.raises(SweepErrors) as caught:
        read(tmp_path, *dataset, **base)
    start = str(tmp_path / "s.yaml")
    return [str(problem).removeprefix(start) for problem in caught.value.problems]


def test_mistakes_are_reported_where_they_stand(tmp_path: Path) -> None:
    folder = str(spoil(divided(tmp_path / "folder"), HOSTILE))
    (bad,) = problems(tmp_path, "digits", f"image_folder:{folder}")
    assert bad.startswith(":13: grid.dataset[1]: 4 of 36 images can't be decoded; mend or remove them, or")
    wrong = [
        f"image_folder:{tmp_path}/nothing",
        {"name": "image_folder"},
        {"name": "image_folder", "path": folder, "image_size": 2},
        {"name": "image_folder", "path": folder, "on_bad_image": "drop"},
        {"name": "image_folder", "path": 3},
        {"name": "image_folder", "path": folder, "fingerprint": "00"},
        {"name": "digits", "image_size": 16},
    ]
    found = [line.partition("grid.")[2] for line in problems(tmp_path, *wrong)]
    assert found == [
        f"dataset[0]: there is no folder {tmp_path}/nothing",
        "dataset[1].name: needs a folder; write image_folder:PATH, or {name: image_folder, path: PATH}",
        "dataset[2].image_size: should be at least 4 and at most 1024, not 2",
        "dataset[3].on_bad_image: should be fail or skip, not 'drop'",
        "dataset[4].path: should be a text, not 3",
        "dataset[5].fingerprint: unknown key; known: name, path, image_size, on_bad_image, label",
        "dataset[6].image_size: digits takes no image_size; it has no parameters",
    ]


def test_a_name_alone_names_no_folder(tmp_path: Path) -> None:
    for dataset in ("image_folder", "image_folder:"):
        (problem,) = problems(tmp_path, dataset)
        assert problem.startswith(":12: grid.dataset[0]: needs a folder; write image_folder:PATH")


def test_a_batch_larger_than_the_folder_is_refused_with_both_numbers(tmp_path: Path) -> None:
    file = write(tmp_path, [f"image_folder:{divided(tmp_path / 'folder')}"])
    plan.read(file, ["batch_size=19"])
    with pytest.raises(SweepErrors, match=r"20 is larger than image_folder path=.*folder, which has 19 images for pre"):
        plan.read(file, ["batch_size=20"])


def test_nothing_is_decoded_for_a_file_that_does_not_say_where_to(tmp_path: Path) -> None:
    file = write(tmp_path, [f"image_folder:{divided(tmp_path / 'folder')}"])
    file.write_text(file.read_text().replace('"data_root"', '"dataroot"'))
    with pytest.raises(SweepErrors, match="did you mean data_root"):
        plan.read(file)
    assert not (tmp_path / "home").exists()


def test_folders_may_be_excluded_and_be_axes(tmp_path: Path) -> None:
    folders = [divided(tmp_path / name) for name in "ab"]
    put(folders[1] / "train" / "cat" / "one.png", encoded(noise(1)))
    entries = [f"image_folder:{folder}" for folder in folders]
    file = write(tmp_path, entries)
    assert len(set(ids(plan.read(file)))) == 8 + 4
    kept = plan.read(file, [f"exclude=[{{dataset: '{entries[0]}'}}]"])
    assert {planned.settings["dataset"] for planned in kept.cells} == {f"image_folder path={folders[1]}"}
    sizes = write(tmp_path, ["digits"])
    sizes.write_text(
        sizes.read_text()
        .replace('"dataset": [', '"dataset.image_size": [8, 16], "dataset.on_bad_image": [')
        .replace('"digits"', '"fail"')
        .replace('"encoder"', f'"dataset.name": "image_folder", "dataset.path": "{folders[0]}", "encoder"')
    )
    assert len(set(ids(plan.read(sizes)))) == 8 + 4


def test_a_plan_from_the_cache_loads_neither_torch_nor_pillow(tmp_path: Path) -> None:
    file = write(tmp_path, [f"image_folder:{divided(tmp_path / 'folder')}"])
    code = (
        "import sys; from ablation import plan; from pathlib import Path; "
        f"print(plan.read(Path({str(file)!r})).cells[0].cell.id); "
        "print(*sorted({'torch', 'torchvision', 'sklearn', 'PIL', 'numpy'} & set(sys.modules)))"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    )
    assert first[0] == second[0]
    assert first[1].split() == ["PIL", "numpy"]
    assert second[1:] == [""]


# Loading


def load(tmp_path: Path, dataset: Component) -> Images:
    return data.load(dataset, tmp_path / "root", download=False)


def planned_dataset(tmp_path: Path, folder: Path, **more: Any) -> Component:
    return read(tmp_path, {"name": "image_folder", "path": str(folder), "image_size": 8, **more}).cells[0].cell.dataset


def test_a_divided_folder_is_loaded_with_its_own_test_part(tmp_path: Path) -> None:
    dataset = planned_dataset(tmp_path, divided(tmp_path / "folder"))
    images, facts = load(tmp_path, dataset), catalog.dataset(dataset)
    assert images.train_images.shape == (facts.pretraining_images, 3, 8, 8)
    assert images.validation_images.shape == (facts.validation_images, 3, 8, 8)
    assert images.test_images.shape == (facts.test_images, 3, 8, 8)
    assert images.test_labels.tolist() == [0] * 4 + [1] * 4
    assert np.bincount(np.concatenate((images.train_labels, images.validation_labels))).tolist() == [12, 12]
    training = np.concatenate((images.train_images, images.validation_images)) / 255
    np.testing.assert_allclose(images.mean, training.mean((0, 2, 3)))
    np.testing.assert_allclose(images.std, training.std((0, 2, 3)))
    assert load(tmp_path, dataset).checksum == images.checksum


def test_a_folder_of_one_part_is_divided_by_class(tmp_path: Path) -> None:
    dataset = planned_dataset(tmp_path, fill(tmp_path / "folder", ("a", "b", "c"), 20))
    images = load(tmp_path, dataset)
    assert np.bincount(images.test_labels).tolist() == [4, 4, 4]
    rows = np.concatenate((images.train_images, images.validation_images, images.test_images)).reshape(60, -1)
    assert len(np.unique(rows, axis=0)) == 60


def test_pixels_are_read_whole_once_until_their_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SETTLED", 0)
    dataset = planned_dataset(tmp_path, divided(tmp_path / "folder"))
    first = load(tmp_path, dataset)
    read: list[Path] = []
    monkeypatch.setattr(cache, "file_digest", read.append)
    again = load(tmp_path, dataset)
    assert read == []
    assert (again.checksum, again.mean, again.std) == (first.checksum, first.mean, first.std)
    (pixels,) = (tmp_path / "root").glob("image_folders/*/pixels")
    pixels.write_bytes(bytes(pixels.stat().st_size))
    with pytest.raises(UserError, match="is damaged"):
        load(tmp_path, dataset)
    assert read == [pixels]


def test_a_constant_channel_can_be_normalised(tmp_path: Path) -> None:
    for number in range(24):
        put(
            tmp_path / "folder" / "ab"[number % 2] / f"{number}.png",
            encoded(noise(0, 8, 8).convert("L").point(lambda _: 9)),
        )
    images = load(tmp_path, planned_dataset(tmp_path, tmp_path / "folder"))
    np.testing.assert_allclose(images.mean, [9 / 255] * 3)
    assert images.std == (1 / 255,) * 3


def trained(of: Cell, images: Images, folder: Path) -> Record:
    ledger = Ledger(folder)
    ledger.create()
    record = Trial(of, images, ledger, device=torch.device("cpu")).run()
    assert record is not None
    return record


def test_cells_of_a_folder_train_and_are_evaluated(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for label, color in enumerate(("red", "lime", "blue")):
        for number in range(20):
            image = noise(100 * label + number, 12, 16)
            image.paste(color, (2, 2, 10, 14))
            put(folder / color / f"{number}.png", encoded(image))
    planned = read(tmp_path, {"name": "image_folder", "path": str(folder), "image_size": 12}, views={"jitter": 0})
    images = load(tmp_path, planned.cells[0].cell.dataset)
    records = {run.id: trained(run, images, tmp_path / "one") for run in planned.runs()}
    assert {record.status for record in records.values()} == {Status.DONE}
    assert {record.data_checksum for record in records.values()} == {images.checksum}
    assert all(record.outcome and record.outcome.metrics["linear_top1"] > 0.9 for record in records.values())
    first = planned.cells[0].cell
    moved = folder.rename(tmp_path / "moved")
    again = read(tmp_path, {"name": "image_folder", "path": str(moved), "image_size": 12}, views={"jitter": 0})
    assert again.cells[0].cell == first
    repeated = trained(first, load(tmp_path, again.cells[0].cell.dataset), tmp_path / "other")
    assert repeated.deterministic() == records[first.id].deterministic()
    assert {summary.panel.classes for summary in build(planned, records).accuracy} == {3}
    assert [fact.name for fact in provenance(records.values()) if "checksum" in fact.name] == [
        f"Data checksum, image_folder {str(first.dataset.parameters['fingerprint'])[:8]} at 12"
    ]


def test_other_datasets_keep_their_facts() -> None:
    for name, known in catalog.DATASETS.items():
        if name != catalog.IMAGE_FOLDER:
            assert catalog.dataset(Component(name=name)) is known
    assert [catalog.DATASETS[name].validation_images for name in ("digits", "mnist", "cifar10")] == [287, 6000, 5000]
    assert cell().relative_cost > 0
