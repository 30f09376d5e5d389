"""Image files become pixels: RGB, upright, the central square at the sweep's size."""

import hashlib
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from PIL.Image import Resampling, Transpose

from ablation.errors import UserError
from ablation.host import usable_cpus
from ablation.image_folder.cache import Contents
from ablation.image_folder.scan import File, Scan, shown_name

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # of Pillow's many, some of which run other programs
MAX_BYTES = 1 << 28  # of a file
AHEAD = 16  # images decoded ahead for each thread; Pillow decodes and scales outside of the interpreter's lock

_ORIENTATION = 0x0112  # EXIF's tag
_UPRIGHT = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}  # EXIF's orientation -> what undoes it


class BadImageError(Exception):
    """A file that is no image, or none that can be decoded faithfully; the message says why."""


Decoded = tuple[NDArray[np.uint8], frozenset[str]]  # pixels (3, size, size), and what decoding had to do, in words


def decode_all(scan: Scan, digests: Mapping[str, str], fingerprint: str, size: int, target: Path) -> Contents:
    """Writes the pixels of all images of a folder to `target`, in the order of their names, and says what they are.

    Raises:
        UserError: a file can't be read any more, or changed since `digests` were taken.
        OSError: `target` can't be written.
    """
    good: list[File] = []
    bad: list[tuple[str, str]] = []
    conversions: Counter[str] = Counter()
    digest = hashlib.sha256()
    pool = ThreadPoolExecutor(usable_cpus())
    try:
        with warnings.catch_warnings(), target.open("xb") as out:
            warnings.simplefilter("ignore")  # Pillow's: what matters of them is counted or refused here
            decode_one = partial(_decode_file, folder=scan.folder, digests=digests, size=size)
            for file, found in _in_order(pool, decode_one, scan.files):
                if isinstance(found, BadImageError):
                    bad.append((shown_name(file.name), str(found)))
                    continue
                pixels, words = found
                good.append(file)
                conversions.update(words)
                digest.update(pixels.tobytes())
                out.write(pixels.tobytes())
            out.flush()
            os.fsync(out.fileno())
    finally:
        pool.shutdown(cancel_futures=True)
    classes = sorted({file.label for file in good}, key=os.fsencode)
    place = {label: i for i, label in enumerate(classes)}
    return Contents(
        fingerprint=fingerprint,
        image_size=size,
        classes=list(map(shown_name, classes)),
        labels=[place[file.label] for file in good],
        test=[file.test for file in good] if scan.parts else None,
        bad=bad,
        conversions=dict(sorted(conversions.items())),
        pixels=digest.hexdigest(),
        decoder=f"Pillow {PIL.__version__}",
    )


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[File], Decoded | BadImageError], files: Iterable[File]
) -> Iterator[tuple[File, Decoded | BadImageError]]:
    """Each file with what became of it, in order; only so many are decoded ahead of the one that is written."""
    waiting: deque[tuple[File, Future[Decoded | BadImageError]]] = deque()
    for file in files:
        waiting.append((file, pool.submit(work, file)))
        if len(waiting) >= AHEAD * usable_cpus():
            first, found = waiting.popleft()
            yield first, found.result()
    for file, found in waiting:
        yield file, found.result()


def _decode_file(file: File, folder: Path, digests: Mapping[str, str], size: int) -> Decoded | BadImageError:
    if file.state[0] > MAX_BYTES:
        return BadImageError(f"a file of more than {MAX_BYTES >> 20} MiB")
    try:
        content = (folder / file.name).read_bytes()
    except OSError as error:
        raise UserError(f"{shown_name(str(folder / file.name))} can't be read ({error.strerror})") from error
    if hashlib.sha256(content).hexdigest() != digests[file.name]:
        raise UserError(f"{shown_name(str(folder / file.name))} changed while it was read; run again")
    try:
        return decode(content, size)
    except BadImageError as error:
        return error


def decode(content: bytes, size: int) -> Decoded:
    """A file's content as pixels and what had to be done to it.

    The largest central square is scaled to `size` (bilinear, antialiased): what torchvision's Resize and CenterCrop
    do, at once. Transparent pixels lie on white, 16 bits become 8 by rounding, of several frames the first counts.

    Raises:
        BadImageError: it can't be decoded.
    """
    if not content:
        raise BadImageError("an empty file")
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            _refuse_bomb(image)
            image.load()
            return _pixels(image, size)
    except (BadImageError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise BadImageError("too many pixels") from error
    except UnidentifiedImageError as error:
        raise BadImageError("no image of a known format") from error
    except Exception as error:  # a decoder meets hostile bytes: whatever it raises, the file is bad
        reason = str(error).splitlines() or [type(error).__name__]
        raise BadImageError(shown_name(reason[0])) from error


def _refuse_bomb(image: Image.Image) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        raise BadImageError(f"too many pixels: {image.width:,} x {image.height:,}")


def _pixels(image: Image.Image, size: int) -> Decoded:
    square, done = _eight_bits(image)
    if getattr(image, "is_animated", False):
        done.add("animated (first frame)")
    side = min(square.size)
    if side < size:
        done.add("enlarged")
    left, top = (square.width - side) / 2, (square.height - side) / 2
    square = square.resize((size, size), Resampling.BILINEAR, box=(left, top, left + side, top + side))
    if (turn := _UPRIGHT.get(_orientation(image))) is not None:
        done.add("turned by EXIF")
        square = square.transpose(turn)
    if square.mode == "RGBA":
        white = Image.new("RGBA", square.size, "white")
        square = Image.alpha_composite(white, square)
    return np.asarray(square.convert("RGB")).transpose(2, 0, 1), frozenset(done)


def _eight_bits(image: Image.Image) -> tuple[Image.Image, set[str]]:
    """The image in mode L, RGB or RGBA, and what that took."""
    if image.mode.startswith("I"):
        return _from_16_bits(image), {"16-bit", "grey"}
    if image.mode == "F":
        raise BadImageError("floating-point pixels, whose range is not known")
    words = {"1": "grey", "L": "grey", "LA": "grey", "P": "palette", "PA": "palette"}
    done = set() if image.mode in ("RGB", "RGBA") else {words.get(image.mode, image.mode)}
    if image.has_transparency_data:
        return image.convert("RGBA"), done | {"transparent"}
    return image.convert("L" if "grey" in done else "RGB"), done


def _from_16_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if image.mode == "I" and image.format not in ("PNG", "PPM"):  # these two hold 16 bits in it
        raise BadImageError("32-bit pixels, whose range is not known")
    return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))


def _orientation(image: Image.Image) -> int:
    """EXIF's orientation, after loading: TIFF's is undone by then. Damaged EXIF has none."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - a parser meets hostile bytes, and the pixels are fine
        return 1
