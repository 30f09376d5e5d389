"""Figure 1: its numbers, its layout of labels, and that it is drawn the same every time."""

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from ablation.plan import Plan
from ablation.record import Status
from ablation.report import build, curves
from ablation.report import draw as write_figures
from ablation.report.figures import batch_size, pictures, style
from tests.report.synthetic import by_id, history_of, plan_of, record_of, records_of


def steady(loss: str, batch_size: int, seed: int) -> float:
    return 0.9 + batch_size / 4000 + seed / 500 + (0.01 if loss == "flatnce" else 0)


def test_a_curve_has_a_point_for_every_planned_batch_size() -> None:
    plan = plan_of(seeds=2)
    cells = {(str(p.settings["loss"]), p.settings["batch_size"], p.cell.seed): p.cell for p in plan.cells}
    records = by_id(
        [
            record_of(cells["infonce", 8, 0], 0.90),
            record_of(cells["infonce", 8, 1], 0.92),
            record_of(cells["infonce", 32, 0], 0.93),
            record_of(cells["infonce", 32, 1], status=Status.OOM),
        ]
    )
    ((view,),) = curves.views(build(plan, records))
    eight, thirty_two, hole = view.curves[0].points
    assert (*eight.seeds, eight.mean) == pytest.approx((90.0, 92.0, 91.0))
    assert eight.half_width == pytest.approx(12.7062)  # t(1, .975) x 1.41421 / sqrt 2
    assert (eight.complete, eight.lost) == (True, 0)
    assert (thirty_two.mean, thirty_two.half_width, thirty_two.complete, thirty_two.lost) == (93.0, None, False, 1)
    assert (hole.batch_size, hole.seeds, hole.mean) == (128, (), None)


def test_losses_are_shifted_apart_around_the_batch_size() -> None:
    ((view,),) = curves.views(build(plan_of(losses=("infonce", "flatnce", "dcl")), {}))
    at_eight = [curve.points[0].x for curve in view.curves]
    assert at_eight == sorted(set(at_eight))
    assert sum(at_eight) / 3 == pytest.approx(3.0)  # log2 8
    assert max(at_eight) - min(at_eight) < 0.5


def test_a_far_level_does_not_squash_the_data_and_is_told() -> None:
    plan = plan_of()
    ((view,),) = curves.views(build(plan, records_of(plan, steady, baseline=0.88)))
    low, high = view.limits
    assert low > 80
    assert high < 102.1
    assert [level.label for level in view.levels] == ["random encoder"]
    assert view.remark == "below the axis: chance 10 %"


def test_a_near_level_is_taken_in() -> None:
    low, high = curves.limits([90, 94], [], [88, 10])
    assert 80 < low < 88
    assert high > 94


def test_a_huge_interval_is_cut() -> None:
    low, high = curves.limits([90, 92], [(70, 112)], [])
    assert low == pytest.approx(89 - 0.24)
    assert high == pytest.approx(93 + 0.24)


def test_two_variants_make_two_rows_that_share_an_axis() -> None:
    plan = plan_of(seeds=2, datasets=("digits", "cifar10"), temperature=(0.1, 0.5))
    rows = curves.views(build(plan, records_of(plan, steady)))
    assert [[view.title for view in row] for row in rows] == [
        ["Digits (8 x 8), temperature 0.1", "CIFAR-10, temperature 0.1"],
        ["Digits (8 x 8), temperature 0.5", "CIFAR-10, temperature 0.5"],
    ]
    assert rows[0][0].limits == rows[1][0].limits


def test_more_than_four_variants_are_not_drawn() -> None:
    assert curves.views(build(plan_of(temperature=(0.1, 0.2, 0.3, 0.4, 0.5)), {})) == []


def test_the_description_is_made_of_the_data() -> None:
    plan = plan_of(seeds=1)
    text = curves.describe(curves.views(build(plan, records_of(plan, steady, baseline=None))), "Accuracy")
    assert "Digits (8 x 8): SimCLR (InfoNCE) 90.2 at batch 8 and 93.2 at batch 128" in text
    assert "FlatCLR (FlatNCE) 91.2 at batch 8 and 94.2 at batch 128" in text
    assert "below the axis: chance 10 %" in text


def test_the_description_of_nothing_says_so() -> None:
    assert "no finished runs yet" in curves.describe(curves.views(build(plan_of(), {})), "Accuracy")


def drawn(plan: Plan, suffixes: Sequence[str]) -> dict[str, bytes]:
    """File name -> bytes of every figure of this plan, all runs done."""
    found = {}
    with style.drawing():
        for picture in pictures(build(plan, records_of(plan, steady), history_of)):
            assert picture.draw, picture.missing
            figure = picture.draw()
            for suffix in suffixes:
                file = io.BytesIO()
                figure.savefig(file, format=suffix, metadata=style.NO_DATE[suffix])
                found[f"{picture.name}.{suffix}"] = file.getvalue()
    return found


def test_every_figure_is_the_same_to_the_byte() -> None:
    plan = plan_of(batch_sizes=(8, 128), seeds=2, temperature=(0.1, 0.5))
    first = drawn(plan, ["svg"])
    assert len(first) == 7
    assert drawn(plan, ["svg"]) == first
    assert b"<dc:date>" not in b"".join(first.values())


def test_every_format_is_the_same_to_the_byte(tmp_path: Path) -> None:
    plan = plan_of(losses=("infonce",), batch_sizes=(8, 128), seeds=2)
    first, *_ = pictures(build(plan, records_of(plan, steady)))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        assert write_figures([first], tmp_path / folder).keys() == {"batch_size"}
    for suffix in ("svg", "pdf", "png"):
        one, other = (tmp_path / folder / f"batch_size.{suffix}" for folder in ("a", "b"))
        assert one.read_bytes() == other.read_bytes(), suffix


def test_figures_of_an_earlier_report_go(tmp_path: Path) -> None:
    (tmp_path / "response_temperature.svg").write_text("old")
    assert write_figures([], tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_labels_are_plain_text_in_any_script() -> None:
    plan = plan_of(losses=(r"$\frac{$", "\u65e5\u672c", "a_b^c"), batch_sizes=(8, 128), seeds=1, temperature=(0.1, 0.5))
    assert len(drawn(plan, ["svg"])) == 7


def test_direct_labels_never_overlap() -> None:
    plan = plan_of(losses=("infonce", "flatnce", "dcl", "flatnce_log", "infonce_textbook"), seeds=1)
    views = curves.views(build(plan, records_of(plan, lambda *_: 0.9, baseline=0.9)))
    with style.drawing():
        figure = batch_size.draw(views, "Accuracy")
    (axes,) = figure.axes
    boxes = [
        Text.get_window_extent(text)  # without the leader line
        for text in axes.texts
        if text.get_text() in {"random encoder", *(curve.label for curve in views[0][0].curves)}
    ]
    assert len(boxes) == 6
    boxes.sort(key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def test_labels_stand_where_their_curves_end_on_a_logarithmic_axis() -> None:
    axes = Figure().subplots()
    axes.set(xlim=(0, 1), ylim=(1e-6, 1e-2), yscale="log")
    label = style.label(axes, "middle", 1.0, 1e-4, "#000000")
    assert label.xyann[1] == pytest.approx(0.5)


@given(st.lists(st.floats(-500, 500), max_size=12), st.floats(0.5, 50))
def test_spread_keeps_order_and_distance(positions: list[float], gap: float) -> None:
    moved = style.spread(positions, gap)
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    settled = [moved[index] for index in order]
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(settled))
    assert sum(moved) == pytest.approx(sum(positions), abs=1e-6)  # pushed apart around their middle


def test_spread_leaves_alone_what_is_apart_and_centres_what_is_not() -> None:
    assert style.spread([30.0, 0.0], 10) == [30.0, 0.0]
    assert style.spread([5.0, 5.0, 100.0], 10) == [0.0, 10.0, 100.0]
