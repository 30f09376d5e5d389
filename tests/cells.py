"""Cells and records to test with."""

from typing import Any

from ablation.cell import Cell, Component, LearningRate, Pretraining, Probe, Projection, Views
from ablation.record import Environment, Failure, Outcome, Record, Status

SGD = Probe(solver="sgd", epochs=100, batch_size=4096, learning_rate=1.6, momentum=0.9, weight_decay=0.0)


def pretraining(**changes: Any) -> Pretraining:
    given: dict[str, Any] = {
        "loss": Component(name="infonce"),
        "batch_size": 16,
        "steps": 12,
        "temperature": 0.1,
        "projection": Projection(hidden=16, out=16),
        "optimizer": Component(name="sgd", parameters={"momentum": 0.9, "nesterov": False, "weight_decay": 1e-5}),
        "learning_rate": LearningRate(peak=0.1, warmup_steps=2, schedule="cosine"),
        "views": Views(crop_scale=(0.2, 1.0), flip=False, jitter=0.5, grayscale=0.0, blur=0.0),
    }
    return Pretraining(**{**given, **changes})


def cell(seed: int = 0, **changes: Any) -> Cell:
    """A small digits cell; keyword arguments change its pretraining."""
    return Cell(
        dataset=Component(name="digits"),
        encoder=Component(name="resnet8", parameters={"width": 4}),
        seed=seed,
        pretraining=pretraining(**changes),
    )


ENVIRONMENT = Environment(
    package="0.1.0",
    commit="0" * 40,
    dirty=False,
    python="3.11.7",
    torch="2.14.1",
    numpy="2.4.6",
    host="host",
    platform="Linux",
    processor="cpu",
    threads=1,
    device="cpu",
    device_name="cpu",
)


def record(of: Cell, status: Status = Status.DONE, accuracy: float = 0.5, **changes: Any) -> Record:
    """A record as a trial would have written it."""
    outcome = Outcome(
        metrics={"linear_top1": accuracy, "linear_top5": min(1.0, accuracy + 0.3), "knn_top1": accuracy},
        selection={"l2": 1e-3, "validation_top1": accuracy},
        samples=of.pretraining.steps * of.pretraining.batch_size if of.pretraining else 0,
        steps=of.pretraining.steps if of.pretraining else 0,
        features=64,
        weights_hash="a" * 64,
        first_batch_hash="b" * 64 if of.pretraining else None,
        history_hash="c" * 64,
    )
    failure = Failure(kind="ValueError", message="went wrong", step=3, traceback="Traceback ...")
    given: dict[str, Any] = {
        "id": of.id,
        "pretraining_key": of.pretraining_key,
        "status": status,
        "cell": of,
        "outcome": outcome if status is Status.DONE else None,
        "failure": None if status is Status.DONE else failure,
        "data_checksum": "d" * 64,
        "timings": {"pretraining": 1.0, "evaluation": 0.5},
        "peak_memory_bytes": 10**8,
        "attempts": 1,
        "finished": "2026-01-01T00:00:00+00:00",
        "environment": ENVIRONMENT,
    }
    return Record(**{**given, **changes})
