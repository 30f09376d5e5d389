"""The pretraining loop: batch -> views -> encoder -> projection head -> loss -> update, resumable at any step."""

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ablation.cell import Cell, Pretraining
from ablation.losses.diagnostics import p_positive
from ablation.losses.kernel import Temperature
from ablation.pretrain.batches import Batches
from ablation.pretrain.curve import Curve
from ablation.pretrain.data import Images
from ablation.pretrain.diagnosis import diagnose
from ablation.pretrain.encoder import Encoder, build_encoder, build_head
from ablation.pretrain.execution import PLAIN, Execution
from ablation.pretrain.forward import Forward
from ablation.pretrain.objective import Objective
from ablation.pretrain.optim import build_optimizer, learning_rate_at
from ablation.pretrain.order import SampleOrder
from ablation.pretrain.trained import Trained
from ablation.pretrain.views import ViewMaker
from ablation.record import Diagnostics, History, TracePoint

TRACE_POINTS = 200  # logged updates of a run
CURVE_POINTS = 10  # evenly spaced evaluations along a run
CURVE_HALVINGS = 8  # further evaluations of a logarithmic curve: after 1/2, 1/4, ..., 1/256 of the run
IMAGES_AT_ONCE = 128  # of which views are made in one go, over several updates where batches are smaller
FIRST_SCALE = 2.0**15  # of gradient scaling: the largest that float16 holds
DIAGNOSED_POINTS = 50  # logged updates with diagnostics, at most
DIAGNOSED_EVERY = 40  # or so many updates apart, since diagnosing a batch costs up to one update


class DivergedError(ArithmeticError):
    """Loss or gradient stopped being finite; `step` is the first update where one was not."""

    def __init__(self, step: int) -> None:
        super().__init__(f"loss or gradient of update {step} is not finite")
        self.step = step


def spaced(steps: int, points: int) -> frozenset[int]:
    """At most `points` evenly spaced update counts in 1..`steps`, the last always among them."""
    return frozenset(math.ceil(steps * k / points) for k in range(1, points + 1))


def evaluations(run: Pretraining) -> frozenset[int]:
    """The update counts after which a run is evaluated.

    At equal samples a batch 2^k times as large ends after 1/2^k of the updates. A logarithmic curve of the smaller
    batch has a point there, to the update, so that both can be compared at equal steps.
    """
    halvings = CURVE_HALVINGS if run.learning_curve == "log" else 0
    early = {math.ceil(run.steps / 2**k) for k in range(1, halvings + 1)}
    return spaced(run.steps, CURVE_POINTS) | early


def _diagnosed(steps: int, logged: Sequence[int]) -> frozenset[int]:
    """Which of the logged updates get diagnostics: the first, the last, and evenly many between."""
    points = min(DIAGNOSED_POINTS, math.ceil(steps / DIAGNOSED_EVERY), len(logged))
    return frozenset({1} | {logged[position - 1] for position in spaced(len(logged), points)})


class _Update(NamedTuple):
    """One update, as it was before the weights changed."""

    unit: Tensor  # (2B, d), rows of unit length
    temperature: Temperature
    loss: Tensor
    finite: Tensor  # bool: loss and gradient are
    diagnostics: Diagnostics | None  # where they were due


class Training:
    """The whole state of one run. `advance` does one update; `state` and `restore` carry it over an interruption."""

    def __init__(
        self,
        cell: Cell,
        images: Images,
        device: torch.device,
        evaluate: Callable[[Encoder], float],
        execution: Execution = PLAIN,
    ) -> None:
        """`evaluate`: accuracy of the encoder on the validation split; must leave it as it was."""
        assert cell.pretraining is not None
        self.recipe: Pretraining = cell.pretraining
        self.device = device
        recipe, seed = self.recipe, cell.seed
        channels, image_size = images.train_images.shape[1:3]
        encoder = build_encoder(cell.encoder, image_size=image_size, channels=channels, seed=seed)
        head = build_head(recipe.projection, features=encoder.features, seed=seed)
        self.dtype = torch.float64 if recipe.precision == "float64" else torch.float32  # of the weights
        self.encoder = encoder.to(device, self.dtype).train()
        self.head = head.to(device, self.dtype).train()
        self.objective = Objective(recipe, seed).to(device)
        self.forward = Forward(
            self.encoder,
            self.head,
            self.objective,
            recipe,
            execution,
            image_shape=(channels, image_size, image_size),
            device=device,
        )
        self.compiled = self.forward.compiled  # at any time of the run
        # not beside a compiled run: nothing else may use a GPU while a CUDA graph is recorded
        self._curve = Curve(evaluate, beside=device.type != "cpu" and not self.compiled)
        self.optimizer = build_optimizer(recipe.optimizer, (self.encoder, self.head), self.objective.parameters())
        self.scaler = torch.amp.GradScaler(device.type, FIRST_SCALE, enabled=recipe.gradient_scaling)
        self.batches = Batches(images, SampleOrder(seed, len(images.train_images), recipe.batch_size), device)
        self.views = ViewMaker(recipe.views, image_size, channels, images.mean, images.std, seed)
        self._ahead: deque[tuple[Tensor, Tensor]] = deque()  # views and labels of the next updates, as far as made
        self.step = 0  # updates done
        self.seconds = 0.0  # of training, over all attempts
        self.history = History()
        self.first_batch_hash = ""
        self._logged = spaced(recipe.steps, TRACE_POINTS) | {1}
        self._diagnosed = _diagnosed(recipe.steps, sorted(self._logged))
        self._evaluated = evaluations(recipe)
        self._diverged_at = torch.full((), recipe.steps + 1, device=device)

    @property
    def done(self) -> bool:
        """Whether the run has reached its last update."""
        return self.step >= self.recipe.steps

    @property
    def micro_batch(self) -> int | Literal["all"]:
        """Images whose activations are kept at a time."""
        return self.forward.micro_batch or "all"

    @property
    def samples(self) -> int:
        """Images seen, each of them in two views."""
        return self.step * self.recipe.batch_size

    def advance(self) -> None:
        """One update, its log entry and its evaluation where they are due.

        Raises:
            DivergedError: at a logged update, when any loss or gradient since the last one was not finite.
        """
        start = time.perf_counter()
        views, labels = self._next_batch()
        if self.step == 0:
            self.first_batch_hash = hashlib.sha256(views.cpu().contiguous().numpy().tobytes()).hexdigest()
        update = self._update(views, labels)
        self.step += 1
        self._diverged_at = torch.where(update.finite, self._diverged_at, self._diverged_at.clamp(max=self.step))
        self.seconds += time.perf_counter() - start
        if self.step in self._logged:
            self._log(update)
        if self.step in self._evaluated:
            self._curve.measure(self.encoder, self.step, self.samples)
            self.history.curve.extend(self._curve.collect(wait=False))

    def _next_batch(self) -> tuple[Tensor, Tensor]:
        """Views (2B, C, S, S) and labels (B,) of this update; where none are left, those of the next few are made."""
        if not self._ahead:
            last = min(self.recipe.steps, self.step + max(1, IMAGES_AT_ONCE // self.recipe.batch_size))
            images, labels = self.batches(range(self.step, last))
            views = self.views(images, self.step).chunk(len(images))
            self._ahead.extend(zip(views, labels, strict=True))
        return self._ahead.popleft()

    def _update(self, views: Tensor, labels: Tensor) -> "_Update":
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        temperature = self.objective.temperature()
        due = self.step + 1 in self._diagnosed
        nudge = self._zeros() if due or self.forward.takes_nudge else None
        z, loss = self.forward(views.to(self.dtype), labels, nudge, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        diagnostics = None
        if due and loss.isfinite():
            assert nudge is not None
            assert nudge.grad is not None
            diagnostics = diagnose(self.objective, z, nudge.grad.double() / self.scaler.get_scale(), labels, self.step)
        finite = loss.isfinite() & self._gradient_is_finite()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        unit = self.objective.unit(z.detach())
        self.objective.temperature.adapt(unit)
        return _Update(unit, temperature, loss.detach(), finite, diagnostics)

    def _gradient_is_finite(self) -> Tensor:
        """Whether the gradient is, by the encoder's first weights, which all of it flows into.

        A gradient scaler looks at all of it, and skips the update where it is not.
        """
        if self.scaler.is_enabled():
            return torch.ones((), dtype=torch.bool, device=self.device)
        first = next(self.encoder.parameters()).grad
        assert first is not None
        return first.sum().isfinite()

    def _zeros(self) -> Tensor:
        """A nudge of the rows: see `Forward`."""
        shape = (2 * self.recipe.batch_size, self.recipe.projection.out)
        return torch.zeros(shape, dtype=self.dtype, device=self.device, requires_grad=True)

    def _log(self, update: "_Update") -> None:
        if (step := int(self._diverged_at)) <= self.recipe.steps:
            raise DivergedError(step)
        self.history.trace.append(
            TracePoint(
                step=self.step,
                samples=self.samples,
                loss=update.loss.item(),
                learning_rate=learning_rate_at(self.recipe.learning_rate, self.step - 1, self.recipe.steps),
                p_pos=p_positive(update.unit, update.temperature),
                seconds=self.seconds,
                diagnostics=update.diagnostics,
            )
        )

    def _rate(self) -> float:
        return learning_rate_at(self.recipe.learning_rate, self.step, self.recipe.steps)

    def state(self) -> dict[str, Any]:
        """All that `restore` needs to go on to the bit as if nothing had happened."""
        self.history.curve.extend(self._curve.collect(wait=True))
        return {
            "step": self.step,
            "seconds": self.seconds,
            "first_batch_hash": self.first_batch_hash,
            "compiled": self.compiled,
            "history": self.history.model_dump_json(),
            "encoder": self.encoder.state_dict(),
            "head": self.head.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def finish(self) -> Trained:
        """The trained encoder, after the last update.

        Raises:
            DivergedError: the last update left weights that are not finite.
        """
        if not all(tensor.isfinite().all() for tensor in self.encoder.state_dict().values()):
            raise DivergedError(self.step)
        self.history.curve.extend(self._curve.collect(wait=True))
        return Trained(
            self.encoder.float(),
            self.head.float(),
            self.history,
            self.step,
            self.samples,
            self.seconds,
            self.first_batch_hash,
            self.compiled,
            self.micro_batch,
        )

    def close(self) -> None:
        """After an error: ends what runs beside, and keeps what it has found."""
        self.history.curve.extend(self._curve.close())

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to what `state` returned, in this or another process."""
        for name in ("encoder", "head", "objective", "optimizer", "scaler"):
            getattr(self, name).load_state_dict(state.get(name, {}))  # a part without state may be missing
        self.step, self.seconds = state["step"], state["seconds"]
        self.compiled = self.compiled or state.get("compiled", False)
        self._ahead.clear()
        self.first_batch_hash = state["first_batch_hash"]
        self.history = History.model_validate_json(state["history"])
