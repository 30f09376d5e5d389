"""`ablation data`: datasets made ready before a sweep, and the decoded image folders that lie on this machine."""

import shutil
import time
from pathlib import Path
from typing import Annotated

import typer

from ablation.errors import UserError

app = typer.Typer(
    help="Make datasets ready, and list or remove decoded image folders.", no_args_is_help=True, rich_markup_mode=None
)

Root = Annotated[
    Path | None,
    typer.Option("--data-root", metavar="DIR", help="Where dataset files lie; default $ABLATION_DATA, else the cache."),
]
Size = Annotated[int | None, typer.Option(min=4, max=1024, metavar="N", help="Pixels a side of decoded images.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out images that can't be decoded.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]


def _root(root: Path | None) -> Path:
    from ablation.plan import Resources

    return Resources(data_root=str(root) if root else None).root()


@app.command()
def prepare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A folder of images, or a dataset's name.")],
    size: Size = None,
    root: Root = None,
    skip_bad: SkipBad = False,  # noqa: FBT002 - typer's way to say flag
) -> None:
    """Decode a folder of images once, or fetch and check the files of a dataset, so that a sweep can begin at once."""
    from rich.filesize import decimal

    from ablation import catalog
    from ablation.image_folder.prepare import prepare as prepare_folder

    start, place = time.monotonic(), _root(root)
    if dataset in catalog.DATASETS and dataset != catalog.IMAGE_FOLDER:
        if size is not None:
            raise UserError(f"--size: the images of {dataset} have one size; it is for folders of images")
        _fetch(dataset, place)
        print(f"{dataset}: ready after {time.monotonic() - start:.0f} s")
        return
    pixels = size or int(catalog.DATASETS[catalog.IMAGE_FOLDER].parameters["image_size"].default)
    path = dataset.removeprefix(f"{catalog.IMAGE_FOLDER}:")
    absolute = str(Path(path).absolute()) if Path(path).exists() else path
    try:
        found = prepare_folder(absolute, pixels, "skip" if skip_bad else "fail", place)
    except UserError as error:
        raise UserError(f"{dataset}: {error}") from error
    for note in found.notes:
        print(f"note: {note}")
    facts = catalog.dataset(found.dataset)
    print(
        f"{absolute}: {facts.images + facts.test_images:,} images of {facts.classes:,} classes, "
        f"{decimal(facts.bytes)} at {pixels} x {pixels}; ready after {time.monotonic() - start:.0f} s"
    )
    bad = ", on_bad_image: skip" if skip_bad else ""
    print(f"in a sweep file: dataset: [{{name: image_folder, path: {absolute}, image_size: {pixels}{bad}}}]")


def _fetch(name: str, root: Path) -> None:
    from ablation.cell import Component
    from ablation.pretrain.data import load

    load(Component(name=name), root, download=True)


@app.command("list")
def list_(root: Root = None) -> None:
    """List the decoded image folders: name, images, size, and when each was last used."""
    from rich.filesize import decimal

    from ablation.image_folder.stores import stores

    total = 0
    for store in stores(_root(root)):
        total += store.bytes
        what = f"{len(store.contents.labels):,} images" if store.contents else "damaged"
        days = store.unused / 86400
        print(f"{store.name}: {what}, {decimal(store.bytes)}, last used {days:.0f} days ago; {store.folder}")
    print(f"{decimal(total)} in all; ablation data remove NAME frees them")


@app.command()
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="As `ablation data list` shows them, or all.")],
    root: Root = None,
    dry_run: DryRun = False,  # noqa: FBT002 - typer's way to say flag
) -> None:
    """Remove decoded image folders; the images themselves stay, and the next plan decodes them again."""
    from rich.filesize import decimal

    from ablation.image_folder.stores import stores

    found = list(stores(_root(root)))
    if unknown := set(names) - {"all"} - {store.name for store in found}:
        listed = ", ".join(store.name for store in found) or "none"
        raise UserError(f"there is no decoded folder {', '.join(sorted(unknown))}; there are: {listed}")
    freed = 0
    for store in found:
        if store.name in names or "all" in names:
            if not dry_run:
                shutil.rmtree(store.folder)
            freed += store.bytes
            print(f"{store.folder}: {decimal(store.bytes)}")
    print(f"{'would free' if dry_run else 'freed'} {decimal(freed)}")
