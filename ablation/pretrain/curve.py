"""The learning curve: what the encoder is worth along a run, measured beside the training where that gains time."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy

import torch

from ablation.pretrain.encoder import Encoder
from ablation.record import CurvePoint

MOST_WAITING = 2  # evaluations: each holds a copy of the encoder


class Curve:
    """Evaluates the encoder at once, or a copy of it in a thread.

    On an accelerator small batches leave time between kernels, in which those of the evaluation run. On a CPU all cores
    are at work anyway, and nothing would be gained.
    """

    def __init__(self, evaluate: Callable[[Encoder], float], *, beside: bool) -> None:
        """`evaluate`: accuracy of an encoder in float32 on the validation split; must leave it as it was."""
        self._evaluate = evaluate
        self._pool = ThreadPoolExecutor(1, "curve") if beside else None
        self._running: deque[Future[CurvePoint]] = deque()
        self._points: list[CurvePoint] = []

    def measure(self, encoder: Encoder, step: int, samples: int) -> None:
        """Adds a point for the encoder as it is now, in any precision."""
        if self._pool is None:
            self._points.append(self._point(encoder, step, samples))
        else:
            while len(self._running) >= MOST_WAITING:
                self._points.append(self._running.popleft().result())
            self._running.append(self._pool.submit(self._point, deepcopy(encoder), step, samples))

    def _point(self, encoder: Encoder, step: int, samples: int) -> CurvePoint:
        single = encoder if next(encoder.parameters()).dtype is torch.float32 else deepcopy(encoder).float()
        return CurvePoint(step=step, samples=samples, knn_top1=self._evaluate(single))

    def collect(self, *, wait: bool) -> list[CurvePoint]:
        """The points that came about since the last call, in order: with `wait` all that were asked for.

        Raises:
            Exception: what an evaluation raised; points before it come with the next call.
        """
        while self._running and (wait or self._running[0].done()):
            self._points.append(self._running.popleft().result())
        found, self._points = self._points, []
        return found

    def close(self) -> list[CurvePoint]:
        """Ends the thread, and gives the points up to the first that is missing."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        with suppress(Exception, CancelledError):
            return self.collect(wait=True)
        found, self._points = self._points, []
        return found
