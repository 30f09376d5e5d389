"""From a folder of images to the facts that a plan needs, with the decoded pixels left in the cache."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ablation.catalog import IMAGE_FOLDER
from ablation.cell import Component
from ablation.errors import UserError
from ablation.image_folder import cache
from ablation.image_folder.cache import Contents
from ablation.image_folder.fingerprint import digests, fingerprint
from ablation.image_folder.scan import EXTENSIONS, LISTED, Scan, listed, scan, shown_name
from ablation.places import cache_folder

LEAST = 5  # images of each class for training: enough for a stratified validation split
LEAST_WHOLE = 10  # where the test split is taken off them, too


@dataclass(frozen=True)
class Prepared:
    """A folder as a cell holds it, and what is worth knowing of it, a line each."""

    dataset: Component
    notes: tuple[str, ...]


def prepare(path: str, image_size: int, on_bad_image: str, root: Path) -> Prepared:
    """Finds, fingerprints and checks a folder of images; decodes it where no earlier call has.

    Args:
        path: the folder; a relative one begins in `root`.
        image_size: pixels a side that the images are decoded to.
        on_bad_image: what becomes of files that can't be decoded: `fail` refuses the folder, `skip` leaves them out.
        root: where dataset files lie, the cache of decoded folders among them.

    Raises:
        UserError: the folder can't be a dataset, or has bad images and may not.
    """
    found = scan(_locate(path, root))
    known = digests(found, _index(found.folder))
    name = fingerprint(known)
    contents = cache.cached(name, image_size, root) or cache.decoded(found, known, name, image_size, root)
    if contents.bad and on_bad_image == "fail":
        raise UserError(_bad_images(contents))
    if wrong := _too_few(contents, found):
        raise UserError(wrong)
    return Prepared(contents.dataset(), tuple(_notes(contents, found, known)))


def _locate(path: str, root: Path) -> Path:
    if not path:
        raise UserError(f"needs a folder; write {IMAGE_FOLDER}:PATH, or {{name: {IMAGE_FOLDER}, path: PATH}}")
    try:
        given = Path(path).expanduser()
    except RuntimeError as error:  # ~stranger
        raise UserError(f"{shown_name(path)}: {error}") from error
    if given.is_absolute():
        return given
    if ".." in given.parts:
        raise UserError(f"{shown_name(path)} leads out of {root}, where a relative path begins; give an absolute one")
    if not (root / given).exists():
        raise UserError(f"there is no {shown_name(path)} in {root}, where a relative path begins; give an absolute one")
    return root / given


def _index(folder: Path) -> Path:
    """Where the digests of this folder's files are kept: by its place, so on this machine."""
    name = hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:16]
    return cache_folder() / "image_folders" / "index" / f"{name}.json"


def _bad_images(contents: Contents) -> str:
    count = len(contents.bad) + len(contents.labels)
    shown = "".join(f"\n  {name}: {reason}" for name, reason in contents.bad[:LISTED])
    more = f"\n  and {len(contents.bad) - LISTED:,} more" if len(contents.bad) > LISTED else ""
    advice = "mend or remove them, or leave them out with on_bad_image: skip"
    return f"{len(contents.bad):,} of {count:,} images can't be decoded; {advice}:{shown}{more}"


def _too_few(contents: Contents, found: Scan) -> str | None:
    """What a dataset has to have and this one lacks."""
    classes = contents.classes
    if len(classes) < 2:
        have = f"one class with images ({classes[0]})" if classes else "no images"
        layout = f"the layout is PATH/train/CLASS/* and PATH/test/CLASS/*, or PATH/CLASS/* ({', '.join(EXTENSIONS)})"
        return f"has {have}, and at least 2 are needed; {layout}"
    least = LEAST if found.parts else LEAST_WHOLE
    counts = _counts(contents, test=False)
    few = tuple(f"{name} {counts[label]}" for label, name in enumerate(classes) if counts[label] < least)
    if few:
        return f"has too few images for training; each class needs {least}: {listed(few)}"
    return f"has no images in {found.parts[1]}/" if found.parts and not _counts(contents, test=True) else None


def _counts(contents: Contents, *, test: bool) -> Counter[int]:
    """Label -> images of the training or the test part; all are of the training part where nothing divides them."""
    parts = contents.test or [False] * len(contents.labels)
    return Counter(label for label, part in zip(contents.labels, parts, strict=True) if part is test)


def _notes(contents: Contents, found: Scan, known: Mapping[str, str]) -> Iterator[str]:
    """What was done to the folder's images, and what in it looks like a mistake."""
    total = len(contents.labels)
    if contents.conversions:
        yield "images converted: " + ", ".join(f"{n:,} {words}" for words, n in contents.conversions.items())
    if contents.conversions.get("grey") == total:
        yield "all images are grey, so jitter changes brightness and contrast only, and grayscale does nothing"
    if contents.bad:
        shown = tuple(f"{name} ({reason})" for name, reason in contents.bad)
        yield f"{len(shown):,} of {total + len(shown):,} images left out, which can't be decoded: {listed(shown)}"
    if found.stray:
        yield f"{len(found.stray):,} stray files and folders ignored: {listed(found.stray)}"
    if found.empty:
        yield f"class folders without an image: {listed(found.empty)}"
    if found.parts:
        tested = _counts(contents, test=True)
        if missing := tuple(name for label, name in enumerate(contents.classes) if not tested[label]):
            yield f"classes without an image in {found.parts[1]}/: {listed(missing)}"
        seen = {known[file.name] for file in found.files if not file.test}
        if twice := tuple(file.name for file in found.files if file.test and known[file.name] in seen):
            yield f"{len(twice):,} images of {found.parts[1]}/ are in train/ too: {listed(twice)}"
