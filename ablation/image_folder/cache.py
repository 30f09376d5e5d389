"""Decoded folders: the pixels of every image in one file, beside what is known of them, under the folder's fingerprint.

A decoded folder appears whole, by a rename, or not at all, so that several processes may make the same one at once.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ablation import durable
from ablation.catalog import IMAGE_FOLDER, held_out
from ablation.cell import Component, Frozen
from ablation.errors import UserError
from ablation.image_folder.fingerprint import file_digest
from ablation.image_folder.scan import Scan
from ablation.places import cache_folder, staging

CHANNELS = 3


class Contents(Frozen):
    """What a decoded folder holds: its pixels, uint8 (images, 3, size, size), lie beside it, in the order of names."""

    fingerprint: str
    image_size: int
    classes: list[str]
    labels: list[int]  # of each image, its place in `classes`
    test: list[bool] | None  # whether each image is of the test part; None where the folder is one part
    bad: list[tuple[str, str]]  # the files left out, with the reason
    conversions: dict[str, int]  # what decoding had to do, in words -> images
    pixels: str  # SHA-256, hex
    decoder: str  # with its version

    def dataset(self) -> Component:
        """The dataset as a cell holds it: its content and its numbers, and no word of where it lies."""
        test = held_out(len(self.labels), len(self.classes)) if self.test is None else sum(self.test)
        numbers = {
            "image_size": self.image_size,
            "classes": len(self.classes),
            "images": len(self.labels) - test,
            "test_images": test,
            "skipped": len(self.bad),
        }
        return Component(name=IMAGE_FOLDER, parameters={"fingerprint": self.fingerprint, **numbers})


def cached(fingerprint: str, image_size: int, root: Path) -> Contents | None:
    """What `decoded` left below `root` or in the cache folder; None where there is nothing, or nothing whole."""
    folders = (_folder(place, fingerprint, image_size) for place in _places(root))
    return next((contents for folder in folders if (contents := _read(folder))), None)


def decoded(scan: Scan, digests: Mapping[str, str], fingerprint: str, image_size: int, root: Path) -> Contents:
    """Decodes every image of a folder, leaves the pixels below `root` (else the cache folder), and says what they are.

    Raises:
        UserError: a file changed meanwhile, or nothing can be written.
    """
    from ablation.image_folder.decode import decode_all  # noqa: PLC0415 - a plan from the cache needs no Pillow

    logging.getLogger(__name__).warning("%s: decoding %s images, once", scan.folder, f"{len(scan.files):,}")
    with staging(_places(root)) as stage:
        made = stage / "made"
        try:
            made.mkdir()
            contents = decode_all(scan, digests, fingerprint, image_size, made / "pixels")
            durable.write(made / "contents.json", durable.seal(contents.model_dump_json().encode()))
            _install(made, _folder(stage.parent, fingerprint, image_size), stage)
        except OSError as error:
            raise UserError(f"its decoded images can't be written to {stage.parent} ({error.strerror})") from error
    return contents


def find(dataset: Component, root: Path) -> tuple[Contents, Path]:
    """What a cell's image folder holds, and the file of its pixels.

    Raises:
        UserError: it is not there, damaged, or was decoded to something else than what the cell says.
    """
    assert dataset.name == IMAGE_FOLDER
    fingerprint, image_size = str(dataset.parameters["fingerprint"]), int(dataset.parameters["image_size"])
    for place in _places(root):
        folder = _folder(place, fingerprint, image_size)
        if contents := _read(folder):
            if file_digest(folder / "pixels") != contents.pixels:
                raise UserError(f"{folder} is damaged: remove it and run again")
            if contents.dataset() != dataset:
                raise UserError(f"{folder} is not what was planned; plan the sweep again")
            return contents, folder / "pixels"
    places = " or ".join(str(_folder(place, fingerprint, image_size)) for place in _places(root))
    raise UserError(f"the decoded images of {IMAGE_FOLDER} are not in {places}; plan the sweep again")


def _places(root: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((root, cache_folder())))


def _folder(place: Path, fingerprint: str, image_size: int) -> Path:
    return place / "image_folders" / f"{fingerprint}-{image_size}"


def _read(folder: Path) -> Contents | None:
    try:
        contents = Contents.model_validate_json(durable.unseal((folder / "contents.json").read_bytes()))
        whole = len(contents.labels) * CHANNELS * contents.image_size**2
        return contents if (folder / "pixels").stat().st_size == whole else None
    except (OSError, ValueError, durable.DamagedError):
        return None


def _install(made: Path, target: Path, stage: Path) -> None:
    """Renames `made` to `target`, unless another process was faster; what is damaged there goes away with `stage`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if _read(target) is None:
        with suppress(FileNotFoundError):
            target.rename(stage / "damaged")
    try:
        made.rename(target)
    except OSError:
        if _read(target) is None:
            raise
    durable.sync(target.parent)
