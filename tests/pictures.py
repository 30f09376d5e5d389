"""Small image folders to test with."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Array = np.ndarray[Any, np.dtype[np.uint8]]


def noise(seed: int, width: int = 12, height: int = 10) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def encoded(image: Image.Image, form: str = "PNG", **how: Any) -> bytes:
    stream = BytesIO()
    image.save(stream, form, **how)
    return stream.getvalue()


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def fill(folder: Path, classes: Iterable[str] = ("cat", "dog"), count: int = 12, *, seed: int = 0) -> Path:
    """`count` PNG files for each class, all different."""
    for label, name in enumerate(classes):
        for number in range(count):
            put(folder / name / f"{number}.png", encoded(noise(seed + 1000 * label + number)))
    return folder


def divided(folder: Path, classes: Iterable[str] = ("cat", "dog"), test: str = "test") -> Path:
    """12 images a class in `train` and 4 in `test`."""
    classes = tuple(classes)
    fill(folder / "train", classes, 12)
    fill(folder / test, classes, 4, seed=500)
    return folder
