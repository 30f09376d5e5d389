"""The pretraining loop: batch -> views -> encoder -> projection head -> loss -> update, resumable at any step."""

import hashlib
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation import losses
from ablation.cell import Cell, Pretraining
from ablation.losses.diagnostics import p_positive
from ablation.pretrain.data import Images, shared
from ablation.pretrain.encoder import Encoder, build_encoder, build_head
from ablation.pretrain.optim import build_optimizer, learning_rate_at
from ablation.pretrain.order import SampleOrder
from ablation.pretrain.trained import Trained
from ablation.pretrain.views import ViewMaker
from ablation.record import CurvePoint, History, TracePoint

TRACE_POINTS = 200  # logged updates of a run
CURVE_POINTS = 10  # evaluations along a run


class DivergedError(ArithmeticError):
    """The loss stopped being finite; `step` is the first update with such a loss."""

    def __init__(self, step: int) -> None:
        super().__init__(f"the loss of update {step} is not finite")
        self.step = step


def spaced(steps: int, points: int) -> frozenset[int]:
    """At most `points` evenly spaced update counts in 1..`steps`, the last always among them."""
    return frozenset(math.ceil(steps * k / points) for k in range(1, points + 1))


class Training:
    """The whole state of one run. `advance` does one update; `state` and `restore` carry it over an interruption."""

    def __init__(self, cell: Cell, images: Images, device: torch.device, evaluate: Callable[[Encoder], float]) -> None:
        """`evaluate`: accuracy of the encoder on the validation split; must leave it as it was."""
        assert cell.pretraining is not None
        self.recipe: Pretraining = cell.pretraining
        self.device = device
        self.evaluate = evaluate
        recipe, seed = self.recipe, cell.seed
        channels, image_size = images.train_images.shape[1:3]
        encoder = build_encoder(cell.encoder, image_size=image_size, channels=channels, seed=seed)
        self.encoder = encoder.to(device).train()
        self.head = build_head(recipe.projection, features=encoder.features, seed=seed).to(device).train()
        self.loss = losses.build(recipe.loss).to(device)
        self.optimizer = build_optimizer(recipe.optimizer, (self.encoder, self.head, self.loss))
        self.images = shared(images.train_images).to(device)
        self.labels = shared(images.train_labels).to(device)
        self.order = SampleOrder(seed, len(self.images), recipe.batch_size)
        self.views = ViewMaker(recipe.views, image_size, channels, images.mean, images.std, seed)
        self.step = 0  # updates done
        self.seconds = 0.0  # of training, over all attempts
        self.history = History()
        self.first_batch_hash = ""
        self._logged = spaced(recipe.steps, TRACE_POINTS) | {1}
        self._evaluated = spaced(recipe.steps, CURVE_POINTS)
        self._diverged_at = torch.full((), recipe.steps + 1, device=device)

    @property
    def done(self) -> bool:
        """Whether the run has reached its last update."""
        return self.step >= self.recipe.steps

    @property
    def samples(self) -> int:
        """Images seen, each of them in two views."""
        return self.step * self.recipe.batch_size

    def advance(self) -> None:
        """One update, its log entry and its evaluation where they are due.

        Raises:
            DivergedError: at a logged update, when any loss since the last one was not finite.
        """
        start = time.perf_counter()
        indices = torch.from_numpy(self.order.batch(self.step)).to(self.device)
        views = self.views(self.images[indices], self.step)
        if self.step == 0:
            self.first_batch_hash = hashlib.sha256(views.cpu().contiguous().numpy().tobytes()).hexdigest()
        z, loss = self._update(views, self.labels[indices])
        self.step += 1
        self._diverged_at = torch.where(loss.isfinite(), self._diverged_at, self._diverged_at.clamp(max=self.step))
        self.seconds += time.perf_counter() - start
        if self.step in self._logged:
            self._log(z.detach(), loss.item())
        if self.step in self._evaluated:
            accuracy = self.evaluate(self.encoder)
            self.history.curve.append(CurvePoint(step=self.step, samples=self.samples, knn_top1=accuracy))

    def _update(self, views: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        z = self.head(self.encoder(views))
        if self.loss.unit_rows:
            z = F.normalize(z, dim=1)
        seen = {"labels": labels} if self.loss.sees_labels else {}
        loss: Tensor = self.loss(z, self.recipe.temperature, **seen)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return z, loss.detach()

    def _log(self, z: Tensor, loss: float) -> None:
        if (step := int(self._diverged_at)) <= self.recipe.steps:
            raise DivergedError(step)
        self.history.trace.append(
            TracePoint(
                step=self.step,
                samples=self.samples,
                loss=loss,
                learning_rate=learning_rate_at(self.recipe.learning_rate, self.step - 1, self.recipe.steps),
                p_pos=p_positive(F.normalize(z, dim=1) if not self.loss.unit_rows else z, self.recipe.temperature),
                seconds=self.seconds,
            )
        )

    def _rate(self) -> float:
        return learning_rate_at(self.recipe.learning_rate, self.step, self.recipe.steps)

    def state(self) -> dict[str, Any]:
        """All that `restore` needs to go on to the bit as if nothing had happened."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "first_batch_hash": self.first_batch_hash,
            "history": self.history.model_dump_json(),
            "encoder": self.encoder.state_dict(),
            "head": self.head.state_dict(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def finish(self) -> Trained:
        """The trained encoder, after the last update.

        Raises:
            DivergedError: the last update left weights that are not finite.
        """
        if not all(tensor.isfinite().all() for tensor in self.encoder.state_dict().values()):
            raise DivergedError(self.step)
        return Trained(
            self.encoder, self.head, self.history, self.step, self.samples, self.seconds, self.first_batch_hash
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to what `state` returned, in this or another process."""
        for name in ("encoder", "head", "loss", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        self.step, self.seconds = state["step"], state["seconds"]
        self.first_batch_hash = state["first_batch_hash"]
        self.history = History.model_validate_json(state["history"])
