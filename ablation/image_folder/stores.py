"""The decoded folders that lie on this machine: listed, and found to be removed."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ablation.image_folder import cache
from ablation.image_folder.cache import Contents


@dataclass(frozen=True)
class Store:
    """A decoded folder."""

    folder: Path
    contents: Contents | None  # None where it is damaged
    bytes: int
    unused: float  # seconds since it was last loaded or made

    @property
    def name(self) -> str:
        """What commands call it: the fingerprint's beginning and the size."""
        return f"{self.folder.name[:8]}-{self.folder.name.rpartition('-')[2]}"


def stores(root: Path) -> Iterator[Store]:
    """All decoded folders below a data root and in the cache folder."""
    for place in cache.places(root):
        for pixels in sorted(place.glob("image_folders/*-*/pixels")):
            used = max(file.stat().st_mtime for file in pixels.parent.iterdir())
            size = sum(file.stat().st_size for file in pixels.parent.iterdir())
            yield Store(pixels.parent, cache.read(pixels.parent), size, time.time() - used)
