"""Linear evaluation by SGD with momentum, the form that most papers report (arXiv:2002.05709, arXiv:2107.01152).

The classifier begins at 0 and sees the frozen features as they are. Its learning rate falls to 0 along a cosine, update
by update; weight decay leaves the bias alone. Nothing is chosen: it is trained once without the validation split, for
that split's accuracy, and once with it, for the test split's.

Legend of shapes: N rows, D features, K classes.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from ablation.cell import LearningRate, Probe
from ablation.evaluate.features import Labelled
from ablation.evaluate.linear import LinearEvaluation, top_k_accuracy
from ablation.pretrain.optim import learning_rate_at
from ablation.pretrain.order import SampleOrder


def sgd_evaluation(
    train: Labelled, validation: Labelled, test: Labelled, classes: int, probe: Probe, seed: int
) -> LinearEvaluation:
    """Trains on train, for the validation accuracy, then on train + validation, and reads test once.

    Raises:
        FloatingPointError: the classifier's scores are not finite; the learning rate is far too high.
    """
    validation_top1 = top_k_accuracy(_scores(fit(train, classes, probe, seed), validation), validation.labels, 1)
    both = train.joined(validation)
    scores = _scores(fit(both, classes, probe, seed), test)
    batch, steps = schedule(probe, len(both.labels))
    return LinearEvaluation(
        top1=top_k_accuracy(scores, test.labels, 1),
        top5=top_k_accuracy(scores, test.labels, 5),
        selection={"validation_top1": validation_top1, "probe_batch": float(batch), "probe_steps": float(steps)},
    )


def schedule(probe: Probe, rows: int) -> tuple[int, int]:
    """Rows of a batch, which are all `rows` where there are fewer than asked for; and updates, rounded up."""
    batch = min(probe.batch_size, rows)
    return batch, -(-probe.epochs * rows // batch)


def fit(data: Labelled, classes: int, probe: Probe, seed: int) -> tuple[Tensor, Tensor]:
    """Weights (K, D) and biases (K,), in the features' dtype; what an epoch's batches leave over begins the next."""
    features, labels = data
    batch, steps = schedule(probe, len(labels))
    order = SampleOrder(seed, len(labels), batch, "probe order")
    weights = features.new_zeros(classes, features.shape[1]).requires_grad_()
    biases = features.new_zeros(classes).requires_grad_()
    groups = [{"params": [weights], "weight_decay": probe.weight_decay}, {"params": [biases], "weight_decay": 0.0}]
    solver = torch.optim.SGD(groups, lr=0.0, momentum=probe.momentum)
    rate = LearningRate(peak=probe.learning_rate, warmup_steps=0, schedule="cosine")
    for step in range(steps):
        for group in solver.param_groups:
            group["lr"] = learning_rate_at(rate, step, steps)
        chosen = torch.from_numpy(order.batch(step)).to(labels.device)
        loss = F.cross_entropy(F.linear(features[chosen], weights, biases), labels[chosen])
        solver.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        solver.step()
    return weights.detach(), biases.detach()


def _scores(fitted: tuple[Tensor, Tensor], data: Labelled) -> Tensor:
    """(K, N)."""
    return F.linear(data.features, *fitted).T
