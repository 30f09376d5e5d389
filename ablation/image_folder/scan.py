"""Which images a folder has: torchvision's ImageFolder layout, read with suspicion.

A folder with `train` and `test` (or `val`) has its two parts there, each with a subfolder a class. Any other folder
has a subfolder a class itself. Within a class images may lie at any depth. Hidden files and folders, files without an
image's extension and everything outside a class are stray: counted, never read.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ablation.errors import UserError

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
MAX_ENTRIES = 2_000_000  # files and folders; beyond, the folder is probably not the one that was meant
LISTED = 20  # names that a message lists; the rest is counted


@dataclass(frozen=True)
class File:
    """An image by its extension; what is in it is not known yet."""

    name: str  # below the folder, with slashes, such as train/cat/1.png
    label: str  # its class
    test: bool  # whether it lies in the test part
    state: tuple[int, int, int]  # size in bytes, times of the last change of content and of inode in ns


@dataclass(frozen=True)
class Scan:
    """The images of a folder, and what else lies there."""

    folder: Path  # absolute, without links
    files: tuple[File, ...]  # by name
    parts: tuple[str, ...]  # (train, test), (train, val), or none where the folder is one part
    stray: tuple[str, ...]
    empty: tuple[str, ...]  # folders of a class, without an image


def scan(folder: Path) -> Scan:
    """Looks through a folder without opening any of its files.

    Raises:
        UserError: it is no folder, can't be read, is absurdly large, or has links to folders or out of itself.
    """
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL
        raise UserError(f"there is no folder {shown_name(str(folder))}") from error
    if not root.is_dir():
        raise UserError(f"{shown_name(str(folder))} is not a folder")
    walk = _Walk(root)
    parts = _parts(walk)
    walk.check()
    found: list[File] = []
    empty: list[str] = []
    for part in parts or ("",):
        for label in walk.folders(part):
            name = f"{part}/{label}" if part else label
            images = [File(image, label, bool(parts) and part != parts[0], at) for image, at in walk.images(name)]
            found += images
            empty += [] if images else [name]
    walk.check()
    files = tuple(sorted(found, key=lambda file: os.fsencode(file.name)))
    return Scan(root, files, parts, tuple(walk.stray), tuple(empty))


def _parts(walk: "_Walk") -> tuple[str, ...]:
    """The folders that divide the images into train and test; without them, the whole folder is one part."""
    test = next((name for name in ("test", "val") if (walk.root / name).is_dir()), None)
    if test is None or not (walk.root / "train").is_dir():
        return ()
    parts = ("train", test)
    walk.stray += [name for name in walk.names("") if name not in parts]
    walk.refused += [name for name in parts if (walk.root / name).is_symlink()]
    return parts


@dataclass
class _Walk:
    """A walk below `root`, with what it met on its way."""

    root: Path
    stray: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # links
    entries: int = 0

    def check(self) -> None:
        """Refuses the links that were met."""
        if self.refused:
            raise UserError(
                f"has {len(self.refused):,} links to folders, out of the folder or to nowhere, which are not followed: "
                f"{listed(self.refused)}; put the files themselves in their place"
            )

    def folders(self, inside: str) -> list[str]:
        """The names of the folders in a folder; everything else there is stray or refused."""
        return [entry.name for entry in self._listed(inside) if self._is_folder(entry, _joined(inside, entry.name))]

    def images(self, inside: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """Name and state of every image below a folder; everything else there is stray or refused."""
        deeper = [inside]
        while deeper:
            here = deeper.pop()
            for entry in self._listed(here):
                name = _joined(here, entry.name)
                if not entry.name.startswith(".") and entry.name.lower().endswith(EXTENSIONS):
                    yield from self._image(entry, name)
                elif self._is_folder(entry, name):
                    deeper.append(name)

    def names(self, inside: str) -> list[str]:
        """Everything in a folder, by name."""
        return [entry.name for entry in self._listed(inside)]

    def _is_folder(self, entry: "os.DirEntry[str]", name: str) -> bool:
        if entry.is_dir() and not entry.name.startswith("."):
            if not entry.is_symlink():
                return True
            self.refused.append(name)
        else:
            self.stray.append(name)
        return False

    def _image(self, entry: "os.DirEntry[str]", name: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
        try:
            status = entry.stat()
            inside = not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(self.root)
        except OSError:  # a link to nowhere, or to itself
            inside = False
        if not inside:
            self.refused.append(name)
        elif not stat.S_ISREG(status.st_mode):  # to open a pipe would wait forever
            (self.refused if entry.is_symlink() else self.stray).append(name)
        else:
            yield name, (status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def _listed(self, inside: str) -> list["os.DirEntry[str]"]:
        try:
            with os.scandir(self.root / inside) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            raise UserError(f"{shown_name(str(self.root / inside))} can't be read ({error.strerror})") from error
        self.entries += len(entries)
        if self.entries > MAX_ENTRIES:
            raise UserError(f"{shown_name(str(self.root))} holds more than {MAX_ENTRIES:,} files; is it the right one?")
        return entries


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def listed(names: Sequence[str]) -> str:
    """The first names, fit for a message, and how many more there are."""
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(map(shown_name, names[:LISTED])) + more


def shown_name(name: str) -> str:
    """A file's name as text that can be printed: one line, no control characters, no undecodable bytes."""
    return name if name.isprintable() else ascii(name)
