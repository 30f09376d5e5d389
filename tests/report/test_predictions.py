"""Arms of the rounding question: compared within one panel, judged against predictions, and only behind the premise."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from scipy.special import stdtr

from ablation import plan as plans
from ablation.plan import Plan
from ablation.record import Diagnostics, History, Record, TracePoint
from ablation.report import predictions
from ablation.report.build import Report, build
from ablation.report.document import markdown
from ablation.report.predictions import CAUSES, PREDICTED, ArmResult, arm_of, contradicts, gate, groups, matrix
from ablation.report.sections import Beside, document
from tests.cells import pretraining, record

SWEEP = Path(__file__).parents[2] / "sweeps" / "floating-point.yaml"
OTHERS = {"textbook fp32": 0.6, "flatnce": 0.7, "rescaled": 0.6, "exact fp32": 0.6}


@cache
def planned() -> Plan:
    return plans.read(SWEEP)


def report_of(accuracy: Callable[[str], float], share: float | None = 0.4) -> Report:
    """Every arm at its accuracy, a little different from seed to seed; `share` of anchors has xi < 1e-3."""
    plan = planned()
    records: dict[str, Record] = {}
    for one in plan.cells:
        noise = crc32(f"{one.settings['loss']} {one.cell.seed}".encode()) % 7 - 3
        spread = 0.002 * (one.cell.seed - 1) + 0.0001 * noise
        records[one.cell.id] = record(one.cell, accuracy=accuracy(str(one.settings["loss"])) + spread)
    given = dict.fromkeys(Diagnostics.model_fields, 0.5) | {"log10_xi": [0.0] * 5, "xi_below_1e3": share}
    found = None if share is None else Diagnostics.model_validate(given)
    point = TracePoint(step=1, samples=4, loss=1, learning_rate=0.1, p_pos=0.9, seconds=1, diagnostics=found)
    return build(plan, records, lambda _: History(trace=[point]))


def sgd(report: Report) -> Sequence[ArmResult]:
    (found,) = (group for group in groups(report) if ("optimizer", "SGD") in group[0].panel.variant)
    return found


def test_arms_with_labels_of_their_own_share_a_panel() -> None:
    report = report_of(lambda loss: OTHERS.get(loss, 0.6))
    assert report.grid.axes == ("optimizer",)
    (note,) = (note for note in report.notes if "learning_rate" in note)
    assert note.startswith("learning_rate.base follows optimizer: 0.0125 with SGD, 0.15 with LARS, 0.001 with Adam, ")
    assert report.responses == []  # one value each is no response
    assert len(report.grid.panels) == 4
    assert [result.loss for result in sgd(report)] == [
        "textbook fp32", "exact fp32", "rescaled", "eps .01", "flatnce", "textbook fp16", "textbook fp16 scaled",
        "textbook bf16", "textbook fp64", "all in fp64",
    ]  # fmt: skip
    assert {result.arm for result in sgd(report)} == set(PREDICTED)


def test_every_arm_has_a_prediction_for_every_cause() -> None:
    assert all(len(signs) == len(CAUSES) and set(signs) <= set("+-0") for signs in PREDICTED.values())


@pytest.mark.parametrize(
    ("changes", "arm"),
    [
        ({}, "exact"),
        ({"loss_dtype": "float16"}, None),
        ({"precision": "bfloat16"}, None),
        ({"loss": {"name": "vicreg"}}, None),
        ({"loss": {"name": "dcl"}}, "weight 1"),
        ({"loss": {"name": "infonce_textbook"}}, "textbook float32"),
        ({"loss": {"name": "infonce_textbook"}, "loss_dtype": "float16", "gradient_scaling": True},
         "textbook float16, scaled"),
        ({"loss": {"name": "infonce_textbook"}, "loss_dtype": "float64"}, "textbook float64"),
        ({"loss": {"name": "infonce_textbook"}, "loss_dtype": "float64", "precision": "float64"}, "all in float64"),
        ({"loss": {"name": "infonce_textbook"}, "loss_dtype": "float16", "precision": "bfloat16"}, None),
    ],
)  # fmt: skip
def test_a_cell_is_the_arm_that_its_fields_make_it(changes: dict[str, object], arm: str | None) -> None:
    assert arm_of(pretraining(**changes)) == arm


def test_what_is_seen_is_a_sign_only_where_a_test_resolves_it() -> None:
    seen = {result.loss: result.seen for result in sgd(report_of(lambda loss: OTHERS.get(loss, 0.5)))}
    assert seen["flatnce"] == "+"
    assert seen["textbook fp16"] == "-"
    assert seen["exact fp32"] == seen["textbook fp32"] == "?"


def test_a_cause_is_contradicted_by_what_moved_otherwise() -> None:
    by_weight = sgd(report_of(lambda loss: OTHERS.get(loss, 0.6)))
    flat = next(result for result in by_weight if result.loss == "flatnce")
    assert [contradicts(flat, cause) for cause in CAUSES] == [False, False, False, True]
    by_step = {**OTHERS, "rescaled": 0.7}
    text = gate(sgd(report_of(lambda loss: by_step.get(loss, 0.6))))
    assert "Contradicted as the only cause: rounding, anchor weight, underflow; not contradicted: step size." in text


def test_nothing_is_read_from_the_matrix_before_the_premise() -> None:
    text = gate(sgd(report_of(lambda loss: OTHERS.get(loss, 0.6), share=0.02)))
    assert "regime not reached. 2.0 % of textbook fp32's anchors" in text
    assert "ontradicted" not in text
    assert "was not logged" in gate(sgd(report_of(lambda loss: OTHERS.get(loss, 0.6), share=None)))
    assert "no gap to explain" in gate(sgd(report_of(lambda _: 0.6)))


def test_the_page_has_the_matrix_behind_the_premise_and_only_for_such_a_sweep() -> None:
    from ablation.report.figures import pictures
    from tests.report.synthetic import plan_of

    report = report_of(lambda loss: OTHERS.get(loss, 0.6))
    page = document(report, pictures(report), Beside())
    assert [section.id for section in page.sections][:2] == ["answer", "predictions"]
    assert [sheet.name for sheet in page.sheets()][:2] == ["prediction_matrix", "predictions"]
    first = markdown(page).split("## Prediction matrix")[0]
    assert first.count("**What holds InfoNCE back, Fashion-MNIST, optimizer ") == 4
    table = predictions.table(report, groups(report))
    assert len(table.rows) == 40
    assert len({len(row) for row in table.rows} | {len(table.header)}) == 1
    assert groups(build(plan_of(), {})) == []


def test_the_matrix_sets_what_was_seen_beside_what_was_foreseen() -> None:
    found = groups(report_of(lambda loss: OTHERS.get(loss, 0.5)))
    table = matrix(found)
    assert table
    assert table.header == ["arm", *CAUSES, "SGD", "LARS", "Adam", "Adam eps 1e-16"]
    rows = {row[0].text: row[1:] for row in table.rows}
    assert [entry.text for entry in rows["textbook float16"][:4]] == ["\u2212", "0", "0", "\u2212"]
    assert rows["textbook float32"][4].text.startswith("60.2")  # a seed adds .2 points
    assert rows["weight 1"][4].text == "+9.98 \u00b1 0.03"  # 10 points, and the noise
    assert rows["weight 1"][4].bold
    assert rows["exact"][4].text.startswith("? ")
    assert matrix([*found, *found]) is None  # more columns than a page has room for


def test_a_sign_is_corrected_for_the_number_of_arms() -> None:
    found = sgd(report_of(lambda loss: OTHERS.get(loss, 0.5)))
    raw = {r.loss: 2 * stdtr(4, -abs(r.difference.mean) / (r.difference.sd / 5**0.5)) for r in found
           if r.difference and r.difference.sd}  # fmt: skip
    least = min(raw, key=lambda loss: raw[loss])
    assert next(r.p for r in found if r.loss == least) == pytest.approx(9 * raw[least])  # Holm's first of nine arms
    assert [r.p for r in found if r.arm == predictions.BASE] == [None]


def test_what_is_not_done_yet_is_not_explained() -> None:
    assert {gate(group) for group in groups(build(planned(), {}))} == {"textbook fp32 has no result yet."}
