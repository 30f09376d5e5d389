"""The images of each batch, on the device that trains."""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from ablation import catalog
from ablation.pretrain.data import Images, shared
from ablation.pretrain.order import Indices, SampleOrder
from ablation.pretrain.stored import Pixels, Stored


class Batches:
    """Batches of images (B, C, S, S) uint8 and labels (B,), by an order of the images; one or several at a time.

    The dataset lies on the device, or in the memory that all trials of the node share; stored images are read from
    their file, the next batches while these train. A GPU takes a small file whole.
    """

    def __init__(self, images: Images, order: SampleOrder, device: torch.device) -> None:
        self.order = order
        self._device = device
        self._labels = shared(images.train_labels).to(device)
        self._stored: Stored | None = None
        pixels = images.train_images
        if isinstance(pixels, Stored):
            if device.type == "cpu" or pixels.nbytes > catalog.RESIDENT:
                self._stored = pixels
                self._reader = ThreadPoolExecutor(1, "next batches")
                self._ahead: tuple[range, Future[Pixels]] | None = None
                return
            pixels = np.asarray(pixels)
        self._images = shared(pixels).to(device)

    def __call__(self, steps: range) -> tuple[Tensor, Tensor]:
        """The batches of the updates `steps`, counted from 0: images (K, B, C, S, S) and labels (K, B)."""
        indices = self._indices(steps)
        chosen = torch.from_numpy(indices).to(self._device)
        if self._stored is None:
            return self._images[chosen], self._labels[chosen]
        return torch.from_numpy(self._read(steps, indices)).to(self._device), self._labels[chosen]

    def _indices(self, steps: range) -> Indices:
        return np.stack([self.order.batch(step) for step in steps])

    def _read(self, steps: range, indices: Indices) -> Pixels:
        assert self._stored is not None
        waiting, self._ahead = self._ahead, None
        pixels = waiting[1].result() if waiting and waiting[0] == steps else self._stored[indices]
        following = range(steps.stop, steps.stop + len(steps))
        self._ahead = following, self._reader.submit(self._stored.__getitem__, self._indices(following))
        return pixels
