"""Decoded folders: the pixels of every image in one file, beside what is known of them, under the folder's fingerprint.

A decoded folder appears whole, by a rename, or not at all, so that several processes may make the same one at once.
"""

import logging
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ablation import durable
from ablation.catalog import IMAGE_FOLDER, held_out
from ablation.cell import Component, Frozen
from ablation.errors import UserError
from ablation.image_folder.fingerprint import SETTLED, file_digest
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


class Facts(Frozen):
    """What was computed from the pixels of a decoded folder."""

    mean: tuple[float, ...]  # of each channel over the training part, in [0, 1]
    std: tuple[float, ...]
    checksum: str  # see `ablation.pretrain.data.Images`


class _Kept(Frozen):
    """Facts, and the file that they are of."""

    state: tuple[int, int, int, int]
    facts: Facts


def facts(pixels: Path) -> Facts | None:
    """What `keep` was given for a file of pixels that has not changed since."""
    try:
        file = pixels.with_name("facts.json")
        kept = _Kept.model_validate_json(durable.unseal(file.read_bytes()))
        if kept.state != _state(pixels):
            return None
    except (OSError, ValueError, durable.DamagedError):
        return None
    with suppress(OSError):
        os.utime(file)  # says when the folder was last used
    return kept.facts


def keep(pixels: Path, found: Facts) -> None:
    """Spares later loads the reading of all pixels, where it can be written and they are not brand new."""
    state = _state(pixels)
    if time.time_ns() - max(state[1:3]) > SETTLED:
        with suppress(OSError):
            kept = _Kept(state=state, facts=found)
            durable.write(pixels.with_name("facts.json"), durable.seal(kept.model_dump_json().encode()))


def _state(file: Path) -> tuple[int, int, int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def cached(fingerprint: str, image_size: int, root: Path) -> Contents | None:
    """What `decoded` left below `root` or in the cache folder; None where there is nothing, or nothing whole."""
    folders = (_folder(place, fingerprint, image_size) for place in places(root))
    return next((contents for folder in folders if (contents := read(folder))), None)


def decoded(scan: Scan, digests: Mapping[str, str], fingerprint: str, image_size: int, root: Path) -> Contents:
    """Decodes every image of a folder, leaves the pixels below `root` (else the cache folder), and says what they are.

    Raises:
        UserError: a file changed meanwhile, or nothing can be written.
    """
    from ablation.image_folder.decode import decode_all  # noqa: PLC0415 - a plan from the cache needs no Pillow

    needed = len(scan.files) * CHANNELS * image_size**2
    with staging(places(root)) as stage:
        free = shutil.disk_usage(stage).free
        if needed > free:
            raise UserError(
                f"its {len(scan.files):,} images take {_size(needed)} when decoded to {image_size} x {image_size}, and "
                f"{stage.parent} has {_size(free)} free; choose another data_root or a smaller image_size"
            )
        text = "%s: decoding %s images, once, to %s in %s"
        logging.getLogger(__name__).warning(
            text, scan.folder, f"{len(scan.files):,}", _size(needed), stage.parent / "image_folders"
        )
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
    """What a cell's image folder holds, and the file of its pixels: read whole, unless `facts` knows it.

    Raises:
        UserError: it is not there, damaged, or was decoded to something else than what the cell says.
    """
    assert dataset.name == IMAGE_FOLDER
    fingerprint, image_size = str(dataset.parameters["fingerprint"]), int(dataset.parameters["image_size"])
    for place in places(root):
        folder = _folder(place, fingerprint, image_size)
        if contents := read(folder):
            if facts(folder / "pixels") is None and file_digest(folder / "pixels") != contents.pixels:
                raise UserError(f"{folder} is damaged: remove it and run again")
            if contents.dataset() != dataset:
                raise UserError(f"{folder} is not what was planned; plan the sweep again")
            return contents, folder / "pixels"
    searched = " or ".join(str(_folder(place, fingerprint, image_size)) for place in places(root))
    raise UserError(f"the decoded images of {IMAGE_FOLDER} are not in {searched}; plan the sweep again")


def _size(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e8 else f"{count / 1e6:.3g} MB"


def places(root: Path) -> tuple[Path, ...]:
    """The folders below which decoded ones lie."""
    return tuple(dict.fromkeys((root, cache_folder())))


def _folder(place: Path, fingerprint: str, image_size: int) -> Path:
    return place / "image_folders" / f"{fingerprint}-{image_size}"


def read(folder: Path) -> Contents | None:
    """What a decoded folder holds; None where it is not whole."""
    try:
        contents = Contents.model_validate_json(durable.unseal((folder / "contents.json").read_bytes()))
        whole = len(contents.labels) * CHANNELS * contents.image_size**2
        return contents if (folder / "pixels").stat().st_size == whole else None
    except (OSError, ValueError, durable.DamagedError):
        return None


def _install(made: Path, target: Path, stage: Path) -> None:
    """Renames `made` to `target`, unless another process was faster; what is damaged there goes away with `stage`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if read(target) is None:
        with suppress(FileNotFoundError):
            target.rename(stage / "damaged")
    try:
        made.rename(target)
    except OSError:
        if read(target) is None:
            raise
    durable.sync(target.parent)
