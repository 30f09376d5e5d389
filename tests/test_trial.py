"""One cell from data to record: resume at any moment, every status with its reason, nothing left to chance."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ablation import trial
from ablation.cell import Cell, Component, Evaluation, LearningRate, Probe
from ablation.ledger import Ledger
from ablation.pretrain.data import Images, load
from ablation.pretrain.execution import Execution
from ablation.pretrain.loop import Training
from ablation.record import Record, Status
from ablation.trial import Trial, commit_crash
from tests.cells import cell


@pytest.fixture(scope="module")
def images() -> Images:
    return load(Component(name="digits"), Path(), download=False)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "sweep")
    made.create()
    return made


def run(of: Cell, images: Images, ledger: Ledger, **how: Any) -> Record | None:
    return Trial(of, images, ledger, device=torch.device("cpu"), **how).run()


def finished(of: Cell, images: Images, ledger: Ledger, **how: Any) -> Record:
    record = run(of, images, ledger, **how)
    assert record is not None
    return record


def test_a_record_says_what_was_found_and_where(images: Images, ledger: Ledger) -> None:
    record = finished(cell(), images, ledger)
    assert ledger.get(cell().id) == record
    assert record.status is Status.DONE
    assert record.outcome is not None
    assert set(record.outcome.metrics) == {"linear_top1", "linear_top5", "knn_top1"}
    assert record.outcome.samples == 12 * 16
    assert record.outcome.steps == 12
    assert record.data_checksum == images.checksum
    assert record.environment.torch == torch.__version__
    assert record.timings["pretraining"] > 0
    assert record.timings["evaluation"] > 0
    assert record.peak_memory_bytes is not None
    history = ledger.history(record.id)
    assert history is not None
    assert history.trace[-1].step == 12


def test_the_baseline_is_the_encoder_as_initialised(images: Images, ledger: Ledger) -> None:
    record = finished(cell().baseline(), images, ledger)
    assert record.outcome is not None
    assert record.outcome.steps == 0
    assert record.outcome.first_batch_hash is None
    again = finished(cell(batch_size=64).baseline(), images, ledger)
    assert again.deterministic() == record.deterministic()


def test_a_stopped_cell_goes_on_where_it_was(images: Images, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = finished(cell(), images, Ledger(ledger.folder / "whole"))
    monkeypatch.setattr(trial, "PROGRESS_INTERVAL", 0.0)  # look around at every step
    seen: list[int] = []
    for stop_at in (1, 4, 5, 11):
        steps: list[int] = []

        def stop(steps: list[int] = steps, stop_at: int = stop_at) -> bool:
            return bool(steps) and steps[-1] >= stop_at - 1

        outcome = run(cell(), images, ledger, stop=stop, progress=lambda p, steps=steps: steps.append(p.step))
        assert outcome is None
        assert ledger.get(cell().id) is None
        seen += steps
    record = finished(cell(), images, ledger)
    assert len(seen) == len(set(seen))  # no step was done twice
    assert record.attempts == 5
    assert record.deterministic() == whole.deterministic()


def test_a_cell_stopped_in_its_evaluation_trains_no_step_again(
    images: Images, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finished(cell(), images, Ledger(ledger.folder / "whole"))

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trial, "evaluate", killed)
        with pytest.raises(KeyboardInterrupt):
            run(cell(), images, ledger)
    monkeypatch.setattr(Training, "advance", killed)
    record = finished(cell(), images, ledger)
    assert record.attempts == 2
    assert record.deterministic() == whole.deterministic()


def test_another_probe_trains_no_step_again(images: Images, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe(solver="sgd", epochs=20, batch_size=256, learning_rate=0.4, momentum=0.9, weight_decay=0.0)
    probed = cell().model_copy(update={"evaluation": Evaluation(probe=probe)})
    usual = finished(cell(), images, ledger)
    alone = finished(probed, images, Ledger(ledger.folder / "alone"))
    monkeypatch.setattr(Training, "advance", lambda _: pytest.fail("trained again"))
    record = finished(probed, images, ledger)
    assert record.deterministic() == alone.deterministic()
    assert record.outcome is not None
    assert usual.outcome is not None
    assert record.outcome.selection.keys() == {"validation_top1", "probe_batch", "probe_steps"}
    assert (record.outcome.selection["probe_batch"], record.outcome.selection["probe_steps"]) == (256, 113)
    assert record.outcome.weights_hash == usual.outcome.weights_hash
    assert record.outcome.metrics["knn_top1"] == usual.outcome.metrics["knn_top1"]
    assert ledger.history(record.id) == ledger.history(usual.id)


def test_a_probe_that_diverges_is_a_status(images: Images, ledger: Ledger) -> None:
    probe = Probe(solver="sgd", epochs=20, batch_size=256, learning_rate=1e6, momentum=0.9, weight_decay=1e6)
    record = finished(cell().model_copy(update={"evaluation": Evaluation(probe=probe)}), images, ledger)
    assert record.status is Status.DIVERGED
    assert record.failure is not None
    assert "linear classifier" in record.failure.message


def test_a_damaged_encoder_is_put_away_and_trained_again(images: Images, ledger: Ledger) -> None:
    first = finished(cell(), images, ledger)
    (ledger.folder / "records" / f"{first.id}.json").unlink()
    path = ledger.encoder(first.pretraining_key)
    content = path.read_bytes()
    for damage in (b"", content[:-100], content[:-8] + b"\x01" * 8, b"garbage"):
        path.write_bytes(damage)
        assert finished(cell(), images, ledger).deterministic() == first.deterministic()
    assert len(list((ledger.folder / "quarantine").glob("*.safetensors"))) == 4


def test_divergence_is_a_status_with_its_step(images: Images, ledger: Ledger) -> None:
    wild = cell(steps=60, learning_rate=LearningRate(peak=1e30, warmup_steps=0, schedule="constant"))
    record = finished(wild, images, ledger)
    assert record.status is Status.DIVERGED
    assert record.failure is not None
    assert f"update {record.failure.step} is not finite" in record.failure.message


def test_the_time_limit_is_a_status_and_keeps_the_checkpoint(images: Images, ledger: Ledger) -> None:
    record = finished(cell(steps=100_000), images, ledger, time_limit=0.5)
    assert record.status is Status.TIMEOUT
    assert record.failure is not None
    assert record.failure.step is not None
    assert list(ledger.work(record.pretraining_key).glob("*/checkpoint.pt"))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), Status.OOM),
        (MemoryError(), Status.OOM),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), Status.OOM),
        (ValueError("a bug"), Status.FAILED),
    ],
)
def test_whatever_goes_wrong_has_a_status_and_a_reason(
    images: Images, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, error: Exception, status: Status
) -> None:
    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Training, "advance", broken)
    record = finished(cell(), images, ledger)
    assert record.status is status
    assert record.failure is not None
    assert record.failure.kind == type(error).__name__
    assert "broken" in record.failure.traceback


def test_the_test_split_does_not_reach_the_training(images: Images, ledger: Ledger) -> None:
    other = replace(images, test_images=np.array(images.test_images[::-1]))
    one, two = finished(cell(), images, ledger), finished(cell(), other, Ledger(ledger.folder / "other"))
    assert one.outcome is not None
    assert two.outcome is not None
    assert one.outcome.weights_hash == two.outcome.weights_hash
    assert one.outcome.metrics != two.outcome.metrics


def test_a_crash_that_no_worker_could_report_becomes_a_record(ledger: Ledger) -> None:
    record = commit_crash(cell(), ledger, "the worker died")
    assert ledger.get(cell().id) == record
    assert record.status is Status.FAILED


def test_a_run_in_this_process_leaves_no_global_state(images: Images, ledger: Ledger) -> None:
    before = torch.random.get_rng_state(), torch.get_default_dtype(), torch.is_grad_enabled()
    start = time.monotonic()
    json.dumps(finished(cell(), images, ledger).deterministic())
    after = torch.random.get_rng_state(), torch.get_default_dtype(), torch.is_grad_enabled()
    assert before[0].equal(after[0])
    assert before[1:] == after[1:]
    assert time.monotonic() - start < 60


def used(record: Record) -> tuple[Any, Any]:
    return record.environment.compiled, record.environment.micro_batch


def test_a_record_says_how_its_encoder_was_trained_also_where_another_cell_or_attempt_did(
    images: Images, ledger: Ledger
) -> None:
    probe = Probe(solver="sgd", epochs=1, batch_size=256, learning_rate=0.4, momentum=0.9, weight_decay=0.0)
    of = cell(norm_batch=4)
    probed = of.model_copy(update={"evaluation": Evaluation(probe=probe)})
    assert used(finished(of, images, ledger, execution=Execution(micro_batch=8))) == (False, 8)
    assert used(finished(probed, images, ledger)) == (False, 8)
    assert used(finished(of.baseline(), images, ledger)) == (None, None)


def test_a_run_that_was_compiled_in_part_says_so(images: Images) -> None:
    work = Training(cell(), images, torch.device("cpu"), lambda _: 0.5)
    state = {**work.state(), "compiled": True}
    work.restore(state)
    assert work.compiled
    assert work.state()["compiled"]
    del state["compiled"]  # as an earlier version wrote it
    later = Training(cell(), images, torch.device("cpu"), lambda _: 0.5)
    later.restore(state)
    assert not later.compiled
