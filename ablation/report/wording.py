"""How numbers are written: percent, accuracy points, p-values, counts."""

from collections.abc import Iterable

from ablation.report.stats import Estimate

METRICS = {  # as sentences and axes name them
    "linear_top1": "Linear top-1 accuracy",
    "linear_top5": "Linear top-5 accuracy",
    "knn_top1": "Nearest-neighbour top-1 accuracy",
}
DIAGNOSTICS = {  # those that the figure draws first, as its axes name them
    "p_pos": "p_pos",
    "xi_below_1e3": "Share of anchors with xi < 1e-3",
    "rounding_error": "Rounding error of the gradient",
    "ess": "ESS of the negatives / their number",
    "mi_closeness": "MI bound / log(2B \u2212 1)",
    "gradient_norm": "Gradient norm at z",
    "alignment": "Alignment",
    "uniformity": "Uniformity",
    "effective_rank": "Effective rank",
}
MORE_DIAGNOSTICS = {  # that only the table has
    "xi_below_1e7": "Share of anchors with xi < 1e-7",
    "log10_xi_mean": "Mean log10 of xi",
    "mi_bound": "MI bound (nats)",
    "temperature": "Temperature",
}
MINUS, PLUS_MINUS, DASH = "\u2212", "\u00b1", "\u2013"


def decimals(test_images: int) -> int:
    """Decimals of an accuracy in percent: no finer than the step of one test image needs."""
    return 1 if test_images < 5000 else 2


def percent(value: float, places: int) -> str:
    """A share in [0, 1] as percent, without the sign."""
    return f"{100 * value:.{places}f}"


def points(value: float, places: int, *, sign: bool = True) -> str:
    """A difference of accuracies in accuracy points (percent of all test images), with a true minus sign."""
    text = f"{100 * value:+.{places}f}" if sign else f"{100 * value:.{places}f}"
    if not text.strip("+-0."):
        return text.lstrip("+-")  # a zero has no sign
    return text.replace("-", MINUS)


def interval(estimate: Estimate, places: int) -> str:
    """The ends of a t-interval in accuracy points."""
    if estimate.low is None or estimate.high is None:
        return DASH
    return f"{points(estimate.low, places)} to {points(estimate.high, places)}"


def p_value(p: float | None, *, relation: bool = False) -> str:
    """Such as ``0.034`` or ``< 0.001``; with `relation`, ``= 0.034``."""
    if p is None:
        return DASH
    if p < 0.001:
        return "< 0.001"
    text = f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
    return f"= {text}" if relation else text


def count(number: int, noun: str) -> str:
    """Such as ``1 seed`` or ``1,000 seeds``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listing(items: Iterable[object]) -> str:
    """Such as ``4, 8 and 16``."""
    texts = [str(item) for item in items]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
