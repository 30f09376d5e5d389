"""Histories: what enters the hash, what an old one still means, and the summary of the diagnostics."""

import json
from hashlib import sha256

import pytest

from ablation.record import CurvePoint, Diagnostics, History, Outcome, TracePoint
from tests.cells import cell, record

OF_THE_FIRST_RELEASE = {
    "trace": [{"step": 1, "samples": 8, "loss": 2.5, "learning_rate": 0.1, "p_pos": 0.25, "seconds": 1.0}],
    "curve": [{"step": 1, "samples": 8, "knn_top1": 0.5}],
}


def diagnostics(**changes: float | None) -> Diagnostics:
    given = dict.fromkeys(Diagnostics.model_fields, 0.5) | changes
    return Diagnostics.model_validate({**given, "log10_xi": [-2, -1, 0, 1, 2]})


def point(step: int, found: Diagnostics | None) -> TracePoint:
    return TracePoint(step=step, samples=8, loss=2.5, learning_rate=0.1, p_pos=0.25, seconds=step, diagnostics=found)


def test_a_history_of_the_first_release_is_read_and_keeps_its_hash() -> None:
    history = History.model_validate(OF_THE_FIRST_RELEASE)
    trace = [{key: value for key, value in OF_THE_FIRST_RELEASE["trace"][0].items() if key != "seconds"}]
    first = json.dumps({"trace": trace, "curve": OF_THE_FIRST_RELEASE["curve"]}, sort_keys=True)
    assert history.fingerprint() == sha256(first.encode()).hexdigest()
    assert history.summary() == {}


def test_diagnostics_are_no_part_of_the_hash_but_of_what_resume_must_repeat() -> None:
    curve = [CurvePoint(step=1, samples=8, knn_top1=0.5)]
    plain, diagnosed = (History(trace=[point(1, found)], curve=curve) for found in (None, diagnostics()))
    assert plain.fingerprint() == diagnosed.fingerprint()
    assert plain.deterministic() != diagnosed.deterministic()


def test_a_record_of_the_first_release_is_read() -> None:
    data = record(cell()).model_dump(mode="json")
    del data["outcome"]["diagnostics"]
    assert Outcome.model_validate(data["outcome"]).diagnostics == {}


def test_the_summary_has_means_of_the_run_and_of_its_end() -> None:
    errors = [1.0, None, *[0.0] * 7, 3.0, 5.0]
    history = History(trace=[point(1, None), *(point(k, diagnostics(rounding_error=e)) for k, e in enumerate(errors))])
    summary = history.summary()
    assert summary["run.rounding_error"] == pytest.approx(9 / 10)
    assert summary["end.rounding_error"] == pytest.approx(8 / 3)  # of the last 3 of 11
    assert summary["run.xi_below_1e3"] == summary["end.xi_below_1e3"] == 0.5
    assert "run.log10_xi" not in summary


def test_a_summary_leaves_out_what_was_never_measured() -> None:
    assert "run.rounding_error" not in History(trace=[point(1, diagnostics(rounding_error=None))]).summary()
