"""What histories, validation scores and times come to: learning curves, diagnostics, responses, costs, published."""

import numpy as np
import pytest

from ablation.record import CurvePoint, History, TracePoint
from ablation.report import build, costs, curves
from ablation.report.figures import pictures, style
from ablation.report.published import series
from tests.report.synthetic import by_id, diagnostics_of, plan_of, record_of, records_of


def trace(values: list[float]) -> list[TracePoint]:
    return [
        TracePoint(step=i, samples=i, loss=1.0, learning_rate=0.1, p_pos=value, seconds=1.0)
        for i, value in enumerate(values, 1)
    ]


def test_curves_are_means_over_seeds_and_equal_budgets_interpolate() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 32), seeds=2)
    at = {planned.cell.id: (int(planned.settings["batch_size"]), planned.cell.seed) for planned in plan.cells}

    def history(cell_id: str) -> History:
        batch, seed = at[cell_id]
        steps = (10, 20, 80) if batch == 8 else (5, 10, 20)
        scores = {8: (0.5, 0.6, 0.9), 32: (0.7, 0.8, 0.95)}[batch]
        curve = [
            CurvePoint(step=s, samples=s * batch, knn_top1=k + seed / 50) for s, k in zip(steps, scores, strict=True)
        ]
        return History(trace=[], curve=curve)

    report = build(plan, records_of(plan, lambda *_: 0.9), history)
    small, large = report.paths.curves
    assert [(stop.step, stop.samples) for stop in small.stops] == [(10, 80), (20, 160), (80, 640)]
    assert small.stops[0].estimate.mean == pytest.approx(0.51)
    assert small.at("step", 50) == {0: pytest.approx(0.75), 1: pytest.approx(0.77)}
    assert small.at("step", 9) == {}
    assert (large.first("samples"), large.last("samples")) == (160, 640)

    (equal,) = report.paths.equal_budgets
    assert (equal.samples, equal.steps, equal.remark) == (640, 20, "")
    assert equal.at_samples.estimate is not None
    assert equal.at_steps.estimate is not None
    assert equal.at_samples.estimate.mean == pytest.approx(0.05)
    assert equal.at_steps.estimate.mean == pytest.approx(0.95 - 0.6)
    assert equal.at_steps.estimate.n == 2


def test_a_curve_that_begins_too_late_says_so() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 32), seeds=1)
    batches = {planned.cell.id: int(planned.settings["batch_size"]) for planned in plan.cells}

    def history(cell_id: str) -> History:
        steps = {8: (100, 400), 32: (25, 90)}[batches[cell_id]]
        return History(curve=[CurvePoint(step=s, samples=s * batches[cell_id], knn_top1=0.5) for s in steps])

    (equal,) = build(plan, records_of(plan, lambda *_: 0.9), history).paths.equal_budgets
    assert equal.steps is None
    assert equal.remark == "batch 8 is first evaluated at step 100, later than 90"
    assert equal.samples == 2880  # 90 x 32, before the 3,200 of batch 8


def test_diagnostics_are_means_over_the_last_tenth() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=2)
    seeds = {planned.cell.id: planned.cell.seed for planned in plan.cells}
    report = build(
        plan,
        records_of(plan, lambda *_: 0.9),
        lambda i: History(trace=trace([0.0] * 18 + [0.2 + seeds[i] / 10, 0.4 + seeds[i] / 10])),
    )
    (found,) = report.paths.diagnostics
    assert (found.name, found.estimate.n) == ("p_pos", 2)
    assert found.estimate.mean == pytest.approx(0.35)  # .3 and .4
    assert build(plan, records_of(plan, lambda *_: 0.9)).paths.diagnostics == []


def test_blocks_of_diagnostics_are_read_where_they_are_and_nulls_left_out() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=1)
    points = trace([0.5] * 10)
    points[3] = points[3].model_copy(update={"diagnostics": diagnostics_of(0.1, 1e-5)})
    points[6] = points[6].model_copy(update={"diagnostics": diagnostics_of(0.2, None)})
    report = build(plan, records_of(plan, lambda *_: 0.9), lambda _: History(trace=points))
    found = {d.name: d.estimate.mean for d in report.paths.diagnostics}
    assert found["xi_below_1e3"] == pytest.approx(0.2)  # the last of two
    assert found["rounding_error"] == pytest.approx(1e-5)  # the only one
    assert "log10_xi" not in found  # quantiles
    draw = pictures(report)[-1].draw
    assert draw
    with style.drawing():
        assert len(draw().axes) == 10  # p_pos, eight known ones beside it, and an empty place


def test_a_response_is_chosen_on_validation_and_flagged_at_the_edge() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 32), seeds=1, temperature=(0.1, 0.2, 0.5))
    best = {8: 0.2, 32: 0.5}
    records = []
    for planned in plan.cells:
        batch, value = int(planned.settings["batch_size"]), float(planned.settings["temperature"])
        record = record_of(planned.cell, 0.9 - value)  # the test split would choose .1
        assert record.outcome
        selection = {"validation_top1": 0.9 - abs(value - best[batch])}
        records.append(
            record.model_copy(update={"outcome": record.outcome.model_copy(update={"selection": selection})})
        )
    small, large = build(plan, by_id(records)).responses
    assert small.winner is not None
    assert large.winner is not None
    assert (small.axis, small.winner.value, small.at_edge) == ("temperature", 0.2, False)
    assert (large.winner.value, large.at_edge) == (0.5, True)
    assert small.panel.variant == ()


def test_a_response_without_results_has_no_winner() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8,), seeds=1, temperature=(0.1, 0.2))
    (found,) = build(plan, {}).responses
    assert (found.winner, found.at_edge) == (None, False)


def test_the_frontier_is_what_nothing_beats() -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 16, 32, 64), seeds=1)
    table = {8: (40.0, 0.95), 16: (20.0, 0.94), 32: (30.0, 0.93), 64: (10.0, 0.90)}  # seconds, accuracy
    records = []
    for planned in plan.cells:
        seconds, accuracy = table[int(planned.settings["batch_size"])]
        records.append(record_of(planned.cell, accuracy).model_copy(update={"timings": {"pretraining": seconds}}))
    report = build(plan, by_id(records))
    assert [cost.on_frontier for cost in report.costs] == [True, True, False, True]
    assert [cost.batch_size for cost in costs.frontier(report.costs)] == [64, 16, 8]
    assert report.costs[0].samples_per_second.mean == pytest.approx(64_000 / 40)


def test_published_numbers_by_their_source() -> None:
    found = series(["cifar10"], ["dcl"], "linear_top1")
    (row,) = [s for s in found if "raminnakhli" in s.source]
    assert row.points == ((32, 84.6), (64, 85.57), (128, 85.63), (256, 85.36))
    assert row.recipe == "resnet50, 100 epochs, temperature 0.1, none rule"
    assert series(["digits"], ["infonce"], "linear_top1") == []


def test_the_overlay_is_off_until_asked_for() -> None:
    quiet = plan_of(datasets=("cifar10",), seeds=1)
    assert build(quiet, {}).published == []
    asked = build(plan_of(datasets=("cifar10",), seeds=1, report={"published": True}), {})
    assert {s.dataset for s in asked.published} == {"cifar10"}
    assert {s.loss for s in asked.published} == {"infonce"}  # flatnce has no published row


def test_what_is_published_lies_on_the_axis_at_the_batch_sizes_of_the_sweep() -> None:
    plan = plan_of(losses=("infonce", "dcl"), batch_sizes=(32, 128), datasets=("cifar10",), report={"published": True})
    built = build(plan, records_of(plan, lambda *_: 0.62))
    ((view,),) = curves.views(built)
    drawn = [(overlay.style, overlay.points) for overlay in view.overlays]
    assert (1, ((32, 84.6), (64, 85.57), (128, 85.63))) in drawn  # 256 is beyond the axis
    values = [value for _, points in drawn for _, value in points]
    low, high = view.limits
    assert low < 62
    assert max(values) < high < 100
    with style.drawing():
        figure = next(picture.draw() for picture in pictures(built) if picture.name == "batch_size" and picture.draw)
    ends = [np.asarray(line.get_ydata())[0] for line in figure.axes[0].lines if line.get_alpha() == 0.35]
    assert 84.6 in ends
    assert "published accuracies of other encoders and budgets" in pictures(built)[0].caption
