"""From records to the report's numbers: penalties, interactions, families, holes, further axes."""

from dataclasses import replace

import pytest

from ablation.plan import ReportOptions
from ablation.record import Status
from ablation.report import build, stats
from ablation.report.build import Verdict
from tests.report.synthetic import by_id, plan_of, planned_cell, record_of, records_of

ACCURACIES = {  # seeds 0, 1, 2
    ("flatnce", 128): (0.95, 0.95, 0.96),
    ("flatnce", 8): (0.94, 0.93, 0.93),
    ("infonce", 128): (0.96, 0.95, 0.94),
    ("infonce", 8): (0.90, 0.92, 0.91),
}


def accuracy(loss: str, batch_size: int, seed: int) -> float:
    return ACCURACIES[loss, batch_size][seed]


def test_penalty_and_interaction_by_hand() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=3, report={"comparisons": [("flatnce", "infonce")]})
    report = build(plan, records_of(plan, accuracy))

    means = {effect.losses: effect.estimate and effect.estimate.mean for effect in report.penalties}
    assert means == {("infonce",): pytest.approx(0.04), ("flatnce",): pytest.approx(0.02)}

    (interaction,) = report.interactions  # penalties .01 .02 .03 minus .06 .03 .03
    assert interaction.estimate is not None
    assert interaction.estimate.mean == pytest.approx(-0.02)
    assert interaction.estimate.sd == pytest.approx(0.0264575, abs=1e-7)
    assert interaction.paired.p == pytest.approx(0.320634, abs=1e-6)  # 1 - t / sqrt(t^2 + 2), t = 1.309307
    assert interaction.paired.means == pytest.approx((0.02, 0.04))
    assert interaction.p_holm == interaction.paired.p  # a family of one
    assert not interaction.resolved


def test_differences_pair_by_seed_and_need_both_losses() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=3, report={"comparisons": [("flatnce", "infonce")]})
    records = records_of(
        plan, lambda loss, batch, seed: None if (loss, seed) == ("infonce", 1) else accuracy(loss, batch, seed)
    )
    small, large = build(plan, records).differences
    assert small.estimate is not None
    assert (small.batch_size, large.batch_size) == (8, 128)
    assert (small.planned, small.estimate.n) == (3, 2)
    assert small.estimate.mean == pytest.approx((0.04 + 0.02) / 2)  # seeds 0 and 2 only


def test_the_families_are_comparisons_by_batches_by_datasets() -> None:
    plan = plan_of(losses=("infonce", "flatnce", "dcl"), batch_sizes=(8, 32, 128), datasets=("digits", "cifar10"))
    report = build(plan, records_of(plan, lambda _loss, batch, seed: 0.9 + batch / 10_000 + seed / 1000))
    assert {effect.family for effect in report.interactions} == {2 * 2 * 2}
    assert {effect.family for effect in report.penalties} == {3 * 2 * 2}
    assert {effect.family for effect in report.differences} == {2 * 3 * 2}
    assert len(report.interactions) == 8


def test_a_test_that_can_not_be_made_yet_weighs_on_the_others() -> None:
    plan = plan_of(seeds=3, batch_sizes=(8, 32, 128))
    known = {8: (0.90, 0.93, 0.91), 128: (0.95, 0.96, 0.95)}

    def partial(loss: str, batch_size: int, seed: int) -> float | None:
        return known[batch_size][seed] + (0.01 * seed if loss == "flatnce" else 0) if batch_size in known else None

    small, large = (
        effect for effect in build(plan, records_of(plan, partial)).penalties if effect.losses == ("infonce",)
    )
    assert small.paired.p is not None
    assert large.paired.p is None
    assert small.p_holm is not None
    assert small.p_holm >= 2 * small.paired.p


def test_a_declared_reference_batch_is_used() -> None:
    plan = plan_of(report={"reference_batch": 32})
    report = build(plan, {})
    assert set(report.references.values()) == {32}
    assert {effect.batch_size for effect in report.penalties} == {8, 128}


def test_a_reference_batch_that_is_not_there_is_said() -> None:
    report = build(plan_of(report={"reference_batch": 64}), {})
    assert report.penalties == []
    assert any("reference batch 64 is not among" in note for note in report.notes)


def test_comparisons_default_to_every_loss_against_the_first() -> None:
    assert build(plan_of(losses=("infonce", "flatnce", "dcl")), {}).comparisons == [
        ("flatnce", "infonce"),
        ("dcl", "infonce"),
    ]


def test_a_comparison_with_an_unknown_loss_is_said() -> None:
    report = build(plan_of(report={"comparisons": [("flatnce", "infonce"), ("flatnce", "nobody")]}), {})
    assert report.comparisons == [("flatnce", "infonce")]
    assert any("flatnce with nobody is left out" in note for note in report.notes)


def test_losses_are_named_by_title_or_by_the_sweeps_label() -> None:
    titles = build(plan_of(losses=("infonce", "cold")), {}).grid.loss_titles
    assert titles == {"infonce": "SimCLR (InfoNCE)", "cold": "cold"}


def test_no_two_losses_share_a_name() -> None:
    titles = build(plan_of(losses=("infonce", "SimCLR (InfoNCE)")), {}).grid.loss_titles
    assert titles == {"infonce": "infonce", "SimCLR (InfoNCE)": "SimCLR (InfoNCE)"}


def test_further_axes_are_never_averaged_over() -> None:
    plan = plan_of(seeds=2, temperature=(0.1, 0.5))
    by_temperature = by_id(
        record_of(planned.cell, 0.5 + float(planned.settings["temperature"])) for planned in plan.cells
    )
    report = build(plan, by_temperature)
    assert [panel.title for panel in report.grid.panels] == [
        "Digits (8 x 8), temperature 0.1",
        "Digits (8 x 8), temperature 0.5",
    ]
    means = {
        (summary.panel.variant, summary.estimate.mean)
        for summary in report.accuracy
        if summary.loss and summary.estimate
    }
    assert means == {((("temperature", 0.1),), 0.6), ((("temperature", 0.5),), 1.0)}


def test_an_axis_that_labels_of_losses_say_is_no_axis_of_its_own() -> None:
    def axes(*cells: tuple[str, float]) -> tuple[str, ...]:
        plan = plan_of(losses=("infonce",))
        planned = [planned_cell(loss, 8, 0, temperature=temperature) for loss, temperature in cells]
        return build(plan.model_copy(update={"cells": planned}), {}).grid.axes

    assert axes(("cold", 0.05), ("warm", 0.5), ("infonce", 0.1), ("flatnce", 0.1), ("dcl", 0.1)) == ()
    assert axes(("cold", 0.05), ("cold", 0.5), ("infonce", 0.1)) == ("temperature",)  # the label says two things
    assert axes(("flatnce", 0.05), ("infonce", 0.1), ("dcl", 0.1)) == ("temperature",)  # a plain name says none


def test_no_label_hides_another_probe() -> None:
    plan = plan_of(losses=("infonce",))
    planned = [planned_cell("by SGD", 8, 0, probe="solver=sgd"), planned_cell("infonce", 8, 0, probe="default")]
    grid = build(plan.model_copy(update={"cells": planned}), {}).grid
    assert grid.axes == ("probe",)
    assert [panel.title.split(", ")[1] for panel in grid.panels] == ["probe solver=sgd", "probe default"]


def test_records_of_cells_no_longer_planned_are_left_out_and_counted() -> None:
    wide, narrow = plan_of(seeds=3), plan_of(seeds=2)
    report = build(narrow, records_of(wide, lambda _loss, _batch, seed: (0.9, 0.9, 0.1)[seed]))
    assert {summary.estimate and summary.estimate.mean for summary in report.accuracy if summary.loss} == {0.9}
    assert report.grid.unplanned == 3 * 2 + 1  # a seed's cells and its random-init run
    assert any(note.startswith("7 of the records") for note in report.notes)


def test_a_failed_run_is_an_outcome_not_a_number() -> None:
    plan = plan_of(seeds=2, batch_sizes=(8,))
    cells = [planned.cell for planned in plan.cells]
    report = build(plan, by_id([record_of(cells[0], 0.8), record_of(cells[1], status=Status.DIVERGED)]))
    summary = report.accuracy[0]
    assert (summary.planned, dict(summary.statuses)) == (2, {"done": 1, "diverged": 1})
    assert summary.estimate is not None
    assert (summary.estimate.mean, summary.estimate.half_width) == (0.8, None)
    assert not summary.complete


def test_the_random_encoder_has_a_summary_of_its_own() -> None:
    plan = plan_of(seeds=3)
    report = build(plan, records_of(plan, lambda *_: None, baseline=0.7))
    (baseline,) = (summary for summary in report.accuracy if summary.loss is None)
    assert baseline.scores == {0: 0.7, 1: pytest.approx(0.704), 2: pytest.approx(0.708)}


def test_power_is_told_within_the_family() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=3, report={"comparisons": [("flatnce", "infonce")]})
    (alone,) = build(plan, records_of(plan, accuracy)).interactions
    # effect .02 / .0264575 = .756 sd: 16 pairs; three pairs resolve 3.26 sd
    assert alone.pairs_needed == 16
    assert alone.resolvable == pytest.approx(3.26 * 0.0264575, rel=0.01)

    one_of_six = replace(alone, family=6)
    assert one_of_six.pairs_needed == stats.pairs_needed(0.02 / 0.0264575, 0.05 / 6)
    assert one_of_six.resolvable == pytest.approx(stats.resolvable(3, 0.05 / 6) * 0.0264575, rel=1e-3)


def test_verdicts_of_a_difference_against_the_margin() -> None:
    differences = {  # batch size -> flatnce - infonce of seeds 0..4; three tests in the family
        8: (0.05, 0.051, 0.049, 0.05, 0.052),
        32: (0.001, -0.001, 0.002, 0.0, 0.001),
        64: (0.0, 0.0, 0.0, 0.0, 0.0),
        128: (0.03, -0.02, 0.04, -0.03, 0.0),
    }
    plan = plan_of(batch_sizes=(8, 32, 64, 128), report={"equivalence_margin": 0.01})
    records = records_of(plan, lambda loss, batch, seed: 0.9 + (differences[batch][seed] if loss == "flatnce" else 0))
    report = build(plan, records)
    assert [effect.verdict for effect in report.differences] == [
        Verdict.HIGHER,
        Verdict.EQUIVALENT,
        Verdict.EQUIVALENT,  # no seed differs at all
        Verdict.UNRESOLVED,
    ]
    assert [effect.family for effect in report.differences] == [4] * 4
    noisy = report.differences[-1]
    assert noisy.estimate is not None
    assert noisy.estimate.sd is not None
    assert noisy.pairs_for_margin == stats.pairs_needed(0.01 / noisy.estimate.sd, 0.05 / 4)
    unasked = build(plan.model_copy(update={"report": ReportOptions()}), records)
    assert [effect.verdict for effect in unasked.differences[1:]] == [Verdict.UNRESOLVED] * 3
    assert unasked.trends[0].plateau is None
    assert unasked.differences[-1].pairs_for_margin is None


def test_the_declared_metric_is_the_one_that_is_tested() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=3, report={"metric": "knn_top1"})
    report = build(plan, records_of(plan, accuracy))  # the synthetic kNN accuracy is .9 of the linear one
    assert (report.metric, report.second_metric) == ("knn_top1", "linear_top1")
    assert report.interactions[0].estimate is not None
    assert report.interactions[0].estimate.mean == pytest.approx(-0.02 * 0.9)


def test_trends_and_crossovers_of_a_panel() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=3, report={"equivalence_margin": 0.03})
    report = build(plan, records_of(plan, accuracy))
    infonce, flatnce = report.trends
    assert infonce.slope is not None
    assert infonce.slope.mean == pytest.approx(0.01)  # a penalty of .04 over four doublings
    assert flatnce.plateau is not None
    assert (flatnce.plateau.best, flatnce.plateau.batch) == (128, 8)
    (crossover,) = report.crossovers
    assert crossover.losses == ("flatnce", "infonce")
    assert (crossover.shared, crossover.crossings) == (2, [])  # .02333 ahead at 8 and .00333 at 128
