"""Which images make up each batch."""

import numpy as np
from numpy.typing import NDArray

from ablation.pretrain.random import stream

Indices = NDArray[np.int64]


class SampleOrder:
    """Batches cut one after another from an endless row of epochs, each a fresh permutation of all images.

    What an epoch leaves over begins the first batch of the next. An image of that remainder may come early in the next
    permutation too; it would then stand twice in one batch and be its own negative, so it changes places with a later
    image of that permutation. Every epoch thus shows every image exactly once, and no batch shows any twice.
    """

    def __init__(self, seed: int, images: int, batch_size: int, name: str = "order") -> None:
        """`name`: of the stream that the permutations are drawn from."""
        if not 1 <= batch_size <= images:
            raise ValueError(f"batches of {batch_size} distinct images can't be drawn from {images}")
        self._seed, self._images, self._batch_size, self._name = seed, images, batch_size, name
        self._epoch = 0
        self._order = self._permutation(0)  # of self._epoch
        self._next: Indices | None = None  # of the epoch after it, once needed

    def batch(self, step: int) -> Indices:
        """The (batch_size,) distinct indices of update `step`, counted from 0: a function of the arguments alone.

        Going forward is cheap; going back to an earlier epoch replays from the first.
        """
        epoch, first = divmod(step * self._batch_size, self._images)
        if epoch < self._epoch:
            self._epoch, self._order, self._next = 0, self._permutation(0), None
        while self._epoch < epoch:
            self._epoch, self._order, self._next = self._epoch + 1, self._following(), None
        batch = self._order[first : first + self._batch_size]
        if missing := self._batch_size - len(batch):
            self._next = self._following()
            return np.concatenate((batch, self._next[:missing]))
        return batch.copy()

    def _following(self) -> Indices:
        """The order of the epoch after the current one."""
        if self._next is not None:
            return self._next
        order = self._permutation(self._epoch + 1)
        remainder = (self._epoch + 1) * self._images % self._batch_size
        if remainder:
            head = self._batch_size - remainder
            carried = np.zeros(self._images, dtype=bool)
            carried[self._order[-remainder:]] = True
            twice = np.flatnonzero(carried[order[:head]])
            later = head + np.flatnonzero(~carried[order[head:]])[: len(twice)]
            order[twice], order[later] = order[later], order[twice]
        return order

    def _permutation(self, epoch: int) -> Indices:
        return stream(self._seed, self._name, epoch).permutation(self._images)
