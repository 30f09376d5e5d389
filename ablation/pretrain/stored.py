"""Images that stay in their file: read where they are needed, shared by all trials of a node through the page cache."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Rows = NDArray[np.int64]

CHUNK = 256  # images that are read at once where all of them are


class Stored:
    """Some images of a file of pixels, as an array (N, C, S, S) of uint8 that is not in memory.

    A slice, or `take`, is a view; an array of indices reads those images, and `numpy.asarray` all of them. Sent to
    another process it is a path and the numbers of rows, so the file must be there as well.
    """

    def __init__(self, file: Path, shape: tuple[int, ...], rows: Rows) -> None:
        """`shape`: of the whole file; `rows`: which of its images these are."""
        self._file, self._whole, self._rows = file, shape, rows
        self._pixels: Pixels | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Stored, (self._file, self._whole, self._rows)  # without the map, which would travel as its content

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, C, S, S)."""
        return (len(self._rows), *self._whole[1:])

    @property
    def nbytes(self) -> int:
        """Bytes of these images."""
        return int(np.prod(self.shape))

    @overload
    def __getitem__(self, key: slice) -> "Stored": ...
    @overload
    def __getitem__(self, key: Rows) -> Pixels: ...
    def __getitem__(self, key: "slice | Rows") -> "Stored | Pixels":
        return self.take(key) if isinstance(key, slice) else self._read(self._rows[key])

    def take(self, rows: "slice | Rows", axis: int = 0) -> "Stored":
        """A view of some of the images."""
        assert axis == 0
        return Stored(self._file, self._whole, self._rows[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001 - numpy's
        pixels = self._read(self._rows)
        return pixels if dtype is None else pixels.astype(dtype)

    def _read(self, rows: Rows) -> Pixels:
        if self._pixels is None:
            self._pixels = np.memmap(self._file, np.uint8, "r", shape=self._whole)
        return np.asarray(self._pixels[rows])


def chunks(images: "Pixels | Stored") -> Iterator[Pixels]:
    """All images, in parts that fit into memory."""
    for start in range(0, len(images), CHUNK):
        yield np.asarray(images[start : start + CHUNK])
