"""Views/s of the batched views, and as ratios to what others make, on the same images and with the same recipe.

    python -m tests.benchmarks.bench_views [THREADS]         threads of all that is batched, by default 1

The rivals are torchvision's and lightly's per-image PIL transforms, each in a DataLoader with 2 workers, and kornia's
augmentation of batches; lightly and kornia where they are installed. Runs alternate, so that a busy machine slows all
alike; a ratio is of neighbouring runs. Shown: min/median/max of wall-clock time, and of the processor time of all
processes together, which says the same where the cores aren't shared, and is steadier where they are.
"""

import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from ablation.cell import Views
from ablation.environment import keep_freed_memory
from ablation.pretrain.views import ViewMaker

RUNS = 7
WORKERS = 2
VIEWS_A_RUN = 4096  # of a per-image pipeline
PASSES = 4  # over them, of a batched one

Epoch = Callable[[], None]


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

    def __init__(self, images: NDArray[np.uint8], transform: Callable[[Image.Image], Any]) -> None:
        self.images = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).squeeze()  # grey images have no last axis
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = Image.fromarray(self.images[index])
        return self.transform(image), self.transform(image)


def torchvision_transform(recipe: Recipe) -> Callable[[Image.Image], Any]:
    """SimCLR's augmentation, of torchvision's transforms."""
    views = recipe.views
    steps: list[Callable[..., Any]] = [transforms.RandomResizedCrop(recipe.size, scale=views.crop_scale)]
    if views.flip:
        steps.append(transforms.RandomHorizontalFlip())
    jitter = transforms.ColorJitter(*[0.8 * views.jitter] * 3, 0.2 * views.jitter)
    steps.append(transforms.RandomApply([jitter], p=0.8))
    if views.grayscale:
        steps.append(transforms.RandomGrayscale(views.grayscale))
    if views.blur:
        steps.append(transforms.RandomApply([transforms.GaussianBlur(3, (0.1, 2.0))], p=views.blur))
    steps += [transforms.ToTensor(), transforms.Normalize([0.5] * recipe.channels, [0.25] * recipe.channels)]
    composed: Callable[[Image.Image], Any] = transforms.Compose(steps)
    return composed


def lightly_transform(recipe: Recipe) -> Callable[[Image.Image], Any]:
    """One view of lightly's SimCLRTransform."""
    from lightly.transforms.simclr_transform import SimCLRViewTransform

    transform: Callable[[Image.Image], Any] = SimCLRViewTransform(
        input_size=recipe.size,
        cj_strength=recipe.views.jitter,
        min_scale=recipe.views.crop_scale[0],
        hf_prob=0.5 if recipe.views.flip else 0.0,
        random_gray_scale=recipe.views.grayscale,
        gaussian_blur=recipe.views.blur,
        normalize={"mean": [0.5] * recipe.channels, "std": [0.25] * recipe.channels},
    )
    return transform


def loader(images: NDArray[np.uint8], recipe: Recipe, transform: Callable[[Image.Image], Any]) -> DataLoader[Any]:
    """Batches of pairs, made by 2 workers that live on."""
    data = PairDataset(images, transform)
    return DataLoader(data, recipe.batch_size, shuffle=True, num_workers=WORKERS, persistent_workers=True)


def in_loader(images: NDArray[np.uint8], recipe: Recipe, transform: Callable[[Image.Image], Any]) -> Epoch:
    """An epoch of a per-image pipeline."""
    batches = loader(images, recipe, transform)

    def epoch() -> None:
        for one, other in batches:
            torch.cat((one, other))

    return epoch


def ours(images: NDArray[np.uint8], recipe: Recipe) -> Epoch:
    """`PASSES` epochs of the batched views."""
    mean, std = (0.5,) * recipe.channels, (0.25,) * recipe.channels
    maker = ViewMaker(recipe.views, recipe.size, recipe.channels, mean, std, 0)
    batches = torch.from_numpy(images).split(recipe.batch_size)  # type: ignore[no-untyped-call]

    def epochs() -> None:
        for step in range(PASSES * len(batches)):
            maker(batches[step % len(batches)], step)

    return epochs


def kornia_batches(images: NDArray[np.uint8], recipe: Recipe) -> Epoch:
    """An epoch of kornia's augmentation of whole batches, both views in one call."""
    from kornia import augmentation

    views, channels = recipe.views, recipe.channels
    colour = 0.8 * views.jitter
    augment = torch.nn.Sequential(
        augmentation.RandomResizedCrop((recipe.size,) * 2, views.crop_scale),
        augmentation.RandomHorizontalFlip(),
        augmentation.ColorJitter(colour, colour, colour, 0.2 * views.jitter, p=0.8),
        augmentation.RandomGrayscale(p=views.grayscale),
        augmentation.Normalize(torch.full((channels,), 0.5), torch.full((channels,), 0.25)),
    )
    batches = torch.from_numpy(images).split(recipe.batch_size)  # type: ignore[no-untyped-call]

    def epoch() -> None:
        for batch in batches:
            augment(batch.float().div(255).repeat(2, 1, 1, 1))

    return epoch


RIVALS: dict[str, Callable[[NDArray[np.uint8], Recipe], Epoch]] = {
    "torchvision": lambda images, recipe: in_loader(images, recipe, torchvision_transform(recipe)),
    "lightly": lambda images, recipe: in_loader(images, recipe, lightly_transform(recipe)),
    "kornia": kornia_batches,
}


def installed(library: str) -> bool:
    """Whether the rival is there; says so where it isn't."""
    found = importlib.util.find_spec(library) is not None
    if not found:
        print(f"SKIPPED: {library} is not installed", flush=True)
    return found


class Speed(NamedTuple):
    """Views made in a second."""

    wall: float  # by the clock
    processor: float  # of all processes' time together


def processor_seconds() -> float:
    """So far, of this process and of the workers that live."""
    this = psutil.Process()
    return sum(times.user + times.system for times in (p.cpu_times() for p in (this, *this.children(recursive=True))))


def speed(epoch: Epoch, views: int) -> Speed:
    """Of an epoch that makes `views`."""
    start, used = time.perf_counter(), processor_seconds()
    epoch()
    return Speed(views / (time.perf_counter() - start), views / (processor_seconds() - used))


def compare(recipe: Recipe, rival: str) -> list[tuple[Speed, Speed]]:
    """(the batched views' speed, the rival's), run after run."""
    shape = (VIEWS_A_RUN // 2, recipe.channels, recipe.size, recipe.size)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    batched, other = ours(images, recipe), RIVALS[rival](images, recipe)
    for warm_up in (batched, other):
        warm_up()
    return [(speed(batched, PASSES * VIEWS_A_RUN), speed(other, VIEWS_A_RUN)) for _ in range(RUNS)]


def main() -> None:
    """Prints a line per recipe and rival."""
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    keep_freed_memory()
    print(f"{torch.get_num_threads()} thread(s) against {WORKERS} workers; min/median/max of {RUNS} runs")
    cases = [(recipe, "torchvision") for recipe in RECIPES]
    cases[1:1] = [(RECIPES[0], rival) for rival in ("lightly", "kornia") if installed(rival)]
    for recipe, rival in cases:
        pairs = compare(recipe, rival)
        by_clock = sorted(one.wall / other.wall for one, other in pairs)
        by_processor = sorted(one.processor / other.processor for one, other in pairs)
        print(
            f"{recipe.title}, {recipe.batch_size} x {recipe.channels} x {recipe.size} x {recipe.size}: "
            f"{median(one.processor for one, _ in pairs):,.0f} views per processor second, "
            f"{rival}'s {median(other.processor for _, other in pairs):,.0f}; "
            f"{by_processor[0]:.1f}/{median(by_processor):.1f}/{by_processor[-1]:.1f} times its, "
            f"by the clock {by_clock[0]:.1f}/{median(by_clock):.1f}/{by_clock[-1]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
