"""Views/s of the batched views, and as ratios to torchvision's per-image PIL transforms in a DataLoader with 2 workers.

    python tests/benchmarks/bench_views.py [THREADS]         threads of the batched views, by default 1

Runs alternate, so that a busy machine slows both alike; a ratio is of neighbouring runs. Shown: min/median/max.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from ablation.cell import Views
from ablation.pretrain.views import ViewMaker

RUNS = 7
WORKERS = 2
VIEWS_A_RUN = 2048


@dataclass(frozen=True)
class Recipe:
    """What to measure, on random images."""

    title: str
    batch_size: int
    channels: int
    size: int
    views: Views


CIFAR = Views(crop_scale=(0.08, 1.0), flip=True, jitter=0.5, grayscale=0.2, blur=0.0)
RECIPES = (
    Recipe("SimCLR's CIFAR recipe", 256, 3, 32, CIFAR),
    Recipe("the same, with blur", 256, 3, 32, CIFAR.model_copy(update={"blur": 0.5})),
    Recipe("Fashion-MNIST", 256, 1, 28, Views(crop_scale=(0.2, 1.0), flip=True, jitter=0.5, grayscale=0.0, blur=0.0)),
    Recipe("Fashion-MNIST", 8, 1, 28, Views(crop_scale=(0.2, 1.0), flip=True, jitter=0.5, grayscale=0.0, blur=0.0)),
    Recipe("digits", 8, 1, 8, Views(crop_scale=(0.2, 1.0), flip=False, jitter=0.5, grayscale=0.0, blur=0.0)),
)


class PairDataset(Dataset[tuple[Tensor, Tensor]]):
    """Two views of each image, as a per-image pipeline makes them."""

    def __init__(self, images: NDArray[np.uint8], recipe: Recipe) -> None:
        views, channels = recipe.views, recipe.channels
        steps = [transforms.RandomResizedCrop(recipe.size, scale=views.crop_scale)]
        if views.flip:
            steps.append(transforms.RandomHorizontalFlip())
        jitter = transforms.ColorJitter(*[0.8 * views.jitter] * 3, 0.2 * views.jitter)
        steps.append(transforms.RandomApply([jitter], p=0.8))
        if views.grayscale:
            steps.append(transforms.RandomGrayscale(views.grayscale))
        if views.blur:
            steps.append(transforms.RandomApply([transforms.GaussianBlur(3, (0.1, 2.0))], p=views.blur))
        steps += [transforms.ToTensor(), transforms.Normalize([0.5] * channels, [0.25] * channels)]
        self.transform: Callable[[Image.Image], Tensor] = transforms.Compose(steps)
        self.images = images.transpose(0, 2, 3, 1).squeeze(-1) if channels == 1 else images.transpose(0, 2, 3, 1)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = Image.fromarray(np.ascontiguousarray(self.images[index]))
        return self.transform(image), self.transform(image)


def compare(recipe: Recipe) -> list[tuple[float, float]]:
    """(views/s batched, views/s of torchvision), run after run."""
    shape = (VIEWS_A_RUN // 2, recipe.channels, recipe.size, recipe.size)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    loader = DataLoader(
        PairDataset(images, recipe), recipe.batch_size, shuffle=True, num_workers=WORKERS, persistent_workers=True
    )
    mean, std = (0.5,) * recipe.channels, (0.25,) * recipe.channels
    maker = ViewMaker(recipe.views, recipe.size, recipe.channels, mean, std, 0)
    tensors = torch.from_numpy(images)

    def batched() -> None:
        for step, first in enumerate(range(0, len(tensors), recipe.batch_size)):
            maker(tensors[first : first + recipe.batch_size], step)

    def per_image() -> None:
        for one, other in loader:
            torch.cat((one, other))

    def rate(epoch: Callable[[], None]) -> float:
        start = time.perf_counter()
        epoch()
        return VIEWS_A_RUN / (time.perf_counter() - start)

    for warm_up in (batched, per_image):
        warm_up()
    return [(rate(batched), rate(per_image)) for _ in range(RUNS)]


def main() -> None:
    """Prints a line per recipe."""
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print(f"{torch.get_num_threads()} thread(s) against {WORKERS} workers; min/median/max of {RUNS} runs")
    for recipe in RECIPES:
        pairs = compare(recipe)
        ours, ratios = [ours for ours, _ in pairs], [ours / theirs for ours, theirs in pairs]
        print(
            f"{recipe.title}, {recipe.batch_size} x {recipe.channels} x {recipe.size} x {recipe.size}: "
            f"{min(ours):,.0f}/{median(ours):,.0f}/{max(ours):,.0f} views/s, "
            f"{2e6 * recipe.batch_size / median(ours):,.0f} us a batch, "
            f"{min(ratios):.1f}/{median(ratios):.1f}/{max(ratios):.1f} times torchvision's"
        )


if __name__ == "__main__":
    main()
