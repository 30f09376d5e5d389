"""A picture of what the loss sees: training images, and the two views that a sweep's augmentation makes of each."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ablation import catalog, durable
from ablation.cell import Component, Views
from ablation.errors import UserError
from ablation.plan import Plan
from ablation.pretrain.data import load, shared
from ablation.pretrain.views import apply, draw

MOST_RECIPES = 6  # augmentations that one picture shows
_ROWS = ("image", "view 1", "view 2")

Row = NDArray[np.float32]  # images (count, S, S, C), in [0, 1]


def write(plan: Plan, path: Path, count: int = 10) -> None:
    """Write a PNG with `count` images, each above its two views of step 1 and seed 0, for every augmentation.

    Raises:
        UserError: a dataset can't be read, or `path` can't be written to.
    """
    recipes = _recipes(plan)
    blocks = [_pairs(dataset, views, plan, count) for dataset, views in recipes]
    titles = [_title(dataset, views) for dataset, views in recipes]
    try:
        durable.write(path, _png(titles, blocks))
    except OSError as error:
        raise UserError(f"{path}: can't be written ({error.strerror})") from error


def _recipes(plan: Plan) -> list[tuple[Component, Views]]:
    """The distinct augmentations of the plan, in its order."""
    cells = [planned.cell for planned in plan.cells]
    found = {
        (cell.dataset.model_dump_json(), cell.pretraining.views.model_dump_json()): (
            cell.dataset,
            cell.pretraining.views,
        )
        for cell in cells
        if cell.pretraining
    }
    return list(found.values())[:MOST_RECIPES]


def _pairs(dataset: Component, views: Views, plan: Plan, count: int) -> list[Row]:
    """Images, first views and second views; the first image of each class before a second one of any."""
    data = load(dataset, plan.resources.root(), download=plan.resources.download)
    labels = data.train_labels
    turn = np.zeros(len(labels), dtype=int)  # how many of an image's class come before it
    for label in np.unique(labels):
        turn[labels == label] = np.arange(np.sum(labels == label))
    chosen = np.lexsort((labels, turn))[:count]
    images = np.ascontiguousarray(data.train_images[chosen])
    size, channels = images.shape[-1], images.shape[1]
    parameters = draw(views, seed=0, step=1, batch_size=len(images), image_size=size, channels=channels)
    pairs = apply(shared(images), parameters).numpy()
    rows = [images.astype(np.float32) / 255, pairs[: len(images)], pairs[len(images) :]]
    return [row.transpose(0, 2, 3, 1) for row in rows]


def _title(dataset: Component, views: Views) -> str:
    low, high = views.crop_scale
    flip = "flip" if views.flip else "no flip"
    return (
        f"{catalog.dataset(dataset).title}: crop {low:g} to {high:g}, {flip}, jitter {views.jitter:g}, "
        f"grayscale {views.grayscale:g}, blur {views.blur:g}"
    )


def _png(titles: Sequence[str], blocks: Sequence[Sequence[Row]]) -> bytes:
    columns = max(len(block[0]) for block in blocks)
    with rc_context({"font.family": "DejaVu Sans", "text.parse_math": False}):
        figure = Figure(figsize=(0.8 * columns + 0.8, 2.9 * len(blocks)), layout="constrained")
        for part, title, block in zip(
            figure.subfigures(len(blocks), 1, squeeze=False).flat, titles, blocks, strict=True
        ):
            part.suptitle(title, fontsize=9, x=0.01, ha="left")
            grid = part.subplots(len(_ROWS), columns, squeeze=False)
            for axes_row, row, name in zip(grid, block, _ROWS, strict=True):
                for axes, image in zip(axes_row, row, strict=False):
                    axes.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axes_row[0].set_ylabel(name, fontsize=8)
                for axes in axes_row:
                    axes.set(xticks=[], yticks=[])
                    axes.spines[:].set_visible(False)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
    return file.getvalue()
